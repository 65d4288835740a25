import { posix } from 'node:path';
import { Marked, type Token, type Tokens } from 'marked';
import { escapeHtml, textOfHtml } from './escape-html.ts';
import { highlightCode } from './highlight-code.ts';

/** One heading of a page; its `id` is the anchor that GitHub gives it, too. */
export interface PageHeading {
  readonly depth: number;
  readonly id: string;
  readonly text: string;
}

export interface RenderedPage {
  /** Text of the first heading. */
  readonly title: string;
  readonly html: string;
  /** The headings of depth 2 and 3. */
  readonly headings: readonly PageHeading[];
  /** What the search looks through: the text below each heading down to depth 3, up to the next. */
  readonly sections: readonly { readonly id: string; readonly heading: string; readonly text: string }[];
}

/** The address that a file of the project has as a page of the manual, or undefined when it is none. */
export type AddressOf = (file: string) => string | undefined;

/**
 * Markdown (GitHub's) to HTML. Raw HTML in it is shown as text, but for comments, which are dropped; images are their
 * description. Links go to pages of the manual, to anchors, or to https URLs; any other target, such as a file of the
 * project that is no page, is named and not linked.
 */
export function renderPage(
  markdown: string,
  place: { /** From the root of the project. */ file: string; addressOf: AddressOf },
): RenderedPage {
  const anchors = new AnchorNames();
  const headings: PageHeading[] = [];
  const marked = new Marked({
    gfm: true,
    renderer: {
      html: ({ text }) => (/^\s*<!--[\s\S]*-->\s*$/.test(text) ? '' : escapeHtml(text)),
      text(token) {
        return 'tokens' in token && token.tokens !== undefined
          ? this.parser.parseInline(token.tokens)
          : escapeHtml(unescaped(token.text));
      },
      codespan: ({ text }) => `<code>${escapeHtml(text)}</code>`,
      image: ({ text }) => escapeHtml(text),
      code: ({ text, lang }) => codeBlock(text, lang ?? ''),
      heading({ tokens, depth }) {
        const inner = this.parser.parseInline(tokens);
        const text = textOfHtml(inner);
        const id = anchors.take(text);
        headings.push({ depth, id, text });
        if (depth === 1) return `<h1 id="${id}">${inner}</h1>\n`;
        return `<h${depth} id="${id}">${inner} <a class="anchor" href="#${id}" aria-label="Link to this part">#</a></h${depth}>\n`;
      },
      link({ href, tokens }) {
        return linkTo(href, this.parser.parseInline(tokens), place);
      },
      table({ header, rows }) {
        const inner = (item: Tokens.TableCell) => this.parser.parseInline(item.tokens);
        const names = header.map((item) => textOfHtml(inner(item)));
        const head = header.map((item) => `<th scope="col">${inner(item)}</th>`).join('');
        // Narrow screens show a row as a list, with the name of its column before each cell.
        const cell = (item: Tokens.TableCell, at: number) =>
          `<td data-name="${escapeHtml(names[at] ?? '')}">${inner(item)}</td>`;
        const body = rows
          .map((items) => `<tr${rowAnchor(names[0], items[0]?.text)}>${items.map(cell).join('')}</tr>`)
          .join('\n');
        return `<div class="wide"><table><thead><tr>${head}</tr></thead><tbody>\n${body}\n</tbody></table></div>\n`;
      },
    },
  });
  const sections: { id: string; heading: string; text: string }[] = [];
  let html = '';
  for (const token of marked.lexer(markdown) as Token[]) {
    const part = marked.parser([token]);
    html += part;
    const heading = token.type === 'heading' ? headings.at(-1) : undefined;
    if (heading !== undefined && heading.depth <= 3)
      sections.push({ id: heading.id, heading: heading.text, text: '' });
    else {
      const section = sections.at(-1);
      if (section !== undefined) section.text = `${section.text} ${textOfHtml(part)}`.trim();
    }
  }
  const title = headings.find(({ depth }) => depth === 1)?.text ?? place.file;
  return { title, html, headings: headings.filter(({ depth }) => depth === 2 || depth === 3), sections };
}

/** Each error, and each setting, can be linked to: `#code-…`. */
function rowAnchor(column = '', firstCell = ''): string {
  const code = /^`(\w+)`$/.exec(firstCell)?.[1];
  return code === undefined || !['code', 'variable'].includes(column)
    ? ''
    : ` id="code-${code.toLowerCase()}"`;
}

/** Marked leaves character references in texts as they are written. */
function unescaped(text: string): string {
  return text
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&amp;', '&');
}

/** The info string has the language, and what is done with the block when the manual is tested: CONTRIBUTING.md. */
function codeBlock(text: string, info: string): string {
  const [language = '', ...rest] = info.split(' ');
  const file = rest.find((word) => word.startsWith('file='))?.slice('file='.length);
  const isOutput = rest.some((word) => /^output(?:-of=|$)/.test(word));
  const caption = file ?? (isOutput ? 'prints' : undefined);
  const head = caption === undefined ? '' : `<figcaption>${escapeHtml(caption)}</figcaption>`;
  const kind = isOutput ? 'code output' : 'code';
  return `<figure class="${kind}">${head}<pre tabindex="0"><code>${highlightCode(text, language)}</code></pre></figure>\n`;
}

function linkTo(
  href: string,
  inner: string,
  { file, addressOf }: { file: string; addressOf: AddressOf },
): string {
  if (href.startsWith('#')) return `<a href="${escapeHtml(href)}">${inner}</a>`;
  if (/^https:\/\//.test(href)) return `<a href="${escapeHtml(href)}" rel="noreferrer">${inner}</a>`;
  if (/^[a-z][a-z0-9+.-]*:|^\//i.test(href)) return inner;
  const [path = '', anchor] = href.split('#');
  const target = posix.join(posix.dirname(file), path);
  const address = addressOf(target);
  if (address === undefined) return `<span class="file" title="${escapeHtml(target)}">${inner}</span>`;
  return `<a href="${escapeHtml(anchor === undefined ? address : `${address}#${anchor}`)}">${inner}</a>`;
}

/** Anchors as GitHub names them, so that links with an anchor work there too. */
class AnchorNames {
  readonly #taken = new Map<string, number>();

  take(text: string): string {
    const name = text
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(/\s/g, '-');
    const count = this.#taken.get(name) ?? 0;
    this.#taken.set(name, count + 1);
    return count === 0 ? name : `${name}-${count}`;
  }
}
