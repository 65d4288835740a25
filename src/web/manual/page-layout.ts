import { escapeHtml } from './escape-html.ts';
import type { ManualEntry, ManualPart } from './manual-contents.ts';
import type { PageHeading } from './render-page.ts';

/** Addresses of the files that each page loads. */
export interface PageAssets {
  readonly style: string;
  readonly theme: string;
  readonly script: string;
  readonly icon: string;
  /** JSON that the script fetches when a reader searches. */
  readonly index: string;
}

export interface LaidOutPage {
  readonly title: string;
  readonly address: string;
  /** The page itself, rendered. */
  readonly html: string;
  readonly headings: readonly PageHeading[];
  readonly previous: ManualEntry | undefined;
  readonly next: ManualEntry | undefined;
}

/** A whole page of the manual: readable without its script, which brings search and copying. */
export function layOutPage(
  page: LaidOutPage,
  { parts, assets, version }: { parts: readonly ManualPart[]; assets: PageAssets; version: string },
): string {
  const { title, address, html, headings, previous, next } = page;
  const name = address === '/docs' ? 'Millrace manual' : `${title} · Millrace manual`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(name)}</title>
<link rel="icon" href="${assets.icon}" type="image/svg+xml">
<link rel="stylesheet" href="${assets.style}">
<script src="${assets.theme}"></script>
<script type="module" src="${assets.script}"></script>
</head>
<body data-index="${assets.index}">
<a class="skip" href="#main">Skip to the content</a>
<header class="top">
<a class="brand" href="/docs"><img src="${assets.icon}" width="26" height="26" alt="">Millrace <span>manual</span></a>
<search class="search" hidden>
<input type="search" id="search" placeholder="Search" aria-label="Search the manual" autocomplete="off" spellcheck="false" aria-controls="found">
<div id="found" class="found" hidden></div>
</search>
<nav class="elsewhere" aria-label="Elsewhere"><a class="to-contents" href="#contents">Contents</a><a href="/">Dashboard</a></nav>
</header>
<div class="frame">
<main id="main" tabindex="-1">
${onThisPage(headings, 'narrow')}<article>
${html}</article>
<nav class="around" aria-label="Previous and next page">${neighbour(previous, 'previous')}${neighbour(next, 'next')}</nav>
</main>
<nav id="contents" class="contents" aria-label="Contents">
${parts.map((part) => partOfContents(part, address)).join('\n')}
<ul><li><a href="/docs/api">Try operations in the browser</a></li></ul>
<p class="version">Millrace ${escapeHtml(version)}</p>
</nav>
<aside class="side-toc">${onThisPage(headings, 'broad')}</aside>
</div>
</body>
</html>
`;
}

function partOfContents({ name, pages }: ManualPart, address: string): string {
  return `<h2>${escapeHtml(name)}</h2>\n<ul>${pages.map((page) => item(page, address)).join('')}</ul>`;
}

function item(page: ManualEntry, address: string): string {
  const isHere = page.address === address;
  const isOpen = isHere || page.pages.some((below) => below.address === address);
  const below =
    isOpen && page.pages.length > 0 ? `<ul>${page.pages.map((one) => item(one, address)).join('')}</ul>` : '';
  return `<li><a href="${page.address}"${isHere ? ' aria-current="page"' : ''}>${escapeHtml(page.name)}</a>${below}</li>`;
}

/** Twice in a page, of which one is shown: beside the text where there is room, else folded above it. */
function onThisPage(headings: readonly PageHeading[], where: 'narrow' | 'broad'): string {
  if (headings.length < 2) return '';
  const list = `<ul>${headings
    .map(({ depth, id, text }) => `<li class="depth-${depth}"><a href="#${id}">${escapeHtml(text)}</a></li>`)
    .join('')}</ul>`;
  return where === 'broad'
    ? `<nav class="toc" aria-label="On this page"><h2>On this page</h2>${list}</nav>`
    : `<details class="toc-narrow"><summary>On this page</summary>${list}</details>\n`;
}

function neighbour(entry: ManualEntry | undefined, rel: 'previous' | 'next'): string {
  if (entry === undefined) return '<span></span>';
  const label = rel === 'previous' ? 'Previous' : 'Next';
  return `<a class="${rel}" rel="${rel === 'previous' ? 'prev' : 'next'}" href="${entry.address}"><span>${label}</span>${escapeHtml(entry.name)}</a>`;
}
