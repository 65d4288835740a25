import { createHash } from 'node:crypto';

/** Colours and shapes of the dashboard (`dashboard/src/style/theme.css`). Nothing is loaded, and there are no scripts. */
const style = `
:root { color-scheme: light; --back: #f4f6f6; --card: #fff; --line: #d5dddd; --text: #182222; --muted: #526060; --accent: #0b6e6e; --on-accent: #fff; }
@media (prefers-color-scheme: dark) { :root { color-scheme: dark; --back: #0f1616; --card: #172020; --line: #2d3a3a; --text: #e6eeee; --muted: #a2b1b1; --accent: #5cc8c4; --on-accent: #06211f; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 1.5rem 1rem; font: 16px/1.5 system-ui, sans-serif; background: var(--back); color: var(--text); display: grid; place-items: center; min-height: 100vh; }
main { width: 100%; max-width: 32rem; padding: 1.75rem; background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.brand { display: flex; align-items: center; gap: .6rem; margin: 0 0 1.25rem; font-weight: 700; }
h1 { font-size: 1.4rem; line-height: 1.25; margin: 0 0 .5rem; overflow-wrap: anywhere; }
p { margin: .5rem 0; overflow-wrap: anywhere; }
code { font: .9em ui-monospace, monospace; }
.links { display: flex; flex-wrap: wrap; gap: .7rem; margin-top: 1.5rem; }
.button { padding: .5rem 1.1rem; border: 1px solid var(--line); border-radius: 8px; font-weight: 600; color: var(--text); text-decoration: none; }
.button.primary { background: var(--accent); border-color: var(--accent); color: var(--on-accent); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
`;

const logo =
  '<svg viewBox="0 0 32 32" width="28" height="28" aria-hidden="true"><rect width="32" height="32" rx="8" fill="#0b6e6e"/><path d="M6 12c3.500-4 6.500-4 10 0s6.500 4 10 0M6 21c3.500-4 6.500-4 10 0s6.500 4 10 0" fill="none" stroke="#fff" stroke-width="3" stroke-linecap="round"/></svg>';

/** The address may hold a token, so it is kept out of caches, search engines and referrers. */
export const messagePageHeaders = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': `default-src 'none'; style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'`,
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'x-robots-tag': 'noindex',
  vary: 'accept',
};

export interface MessagePage {
  title: string;
  text: string;
  /** Shown as code below the text. */
  detail?: string;
  /** Paths of this service; the first is what most readers want. */
  links?: readonly { label: string; path: string }[];
}

/** A page that says one thing. All values are shown as text. */
export function messagePage({ title, text, detail, links = [] }: MessagePage): string {
  const anchors = links.map(
    ({ label, path }, at) =>
      `<a class="button${at === 0 ? ' primary' : ''}" href="${escaped(path)}">${escaped(label)}</a>`,
  );
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(title)} · Millrace</title>
<style>${style}</style>
</head>
<body>
<main>
<p class="brand">${logo} Millrace</p>
<h1>${escaped(title)}</h1>
<p>${escaped(text)}</p>
${detail === undefined ? '' : `<p><code>${escaped(detail)}</code></p>`}
${anchors.length === 0 ? '' : `<p class="links">${anchors.join('\n')}</p>`}
</main>
</body>
</html>
`;
}

/** Browsers name text/html; programs name JSON, or nothing in particular. */
export function prefersHtml(accept: string | undefined): boolean {
  return accept?.toLowerCase().includes('text/html') === true;
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Any text as it is shown, in content and in quoted attributes. */
function escaped(value: string): string {
  return value.replace(/[&<>"']/g, (character) => entities[character] ?? '');
}
