import { escapeHtml } from './escape-html.ts';

const script =
  /(?<c>\/\/.*|\/\*[\s\S]*?\*\/)|(?<s>'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`)|(?<k>\b(?:async|await|break|case|catch|class|const|continue|default|else|export|extends|false|finally|for|from|function|if|import|in|instanceof|interface|let|new|null|of|return|static|switch|this|throw|true|try|type|typeof|undefined|while|yield)\b)|(?<n>\b\d[\d_.]*\b)/g;
const json =
  /(?<k>"(?:\\.|[^"\\\n])*"(?=\s*:)|\b(?:true|false|null)\b)|(?<s>"(?:\\.|[^"\\\n])*")|(?<n>-?\b\d[\d.]*\b)/g;
const shell =
  /(?<c>(?<![^\s])#.*)|(?<s>'[^']*'|"(?:\\.|[^"\\])*")|(?<k>\$\w+|\$\{[^}]*\}|(?<=^|\n)(?:export|cat|curl|node|npm|npx|millrace|sudo|cp|mkdir|openssl|psql|pg_dump|git)\b)/g;

const grammars: Readonly<Record<string, RegExp>> = { js: script, ts: script, mjs: script, json, sh: shell };

/**
 * Code as HTML, with `<span class="c">` around comments, `s` strings, `k` words of the language, `n` numbers. It need not
 * understand the code: what it takes for something else has another colour, and nothing worse.
 */
export function highlightCode(code: string, language: string): string {
  const grammar = grammars[language];
  if (grammar === undefined) return escapeHtml(code);
  let html = '';
  let at = 0;
  for (const match of code.matchAll(grammar)) {
    const kind = Object.entries(match.groups ?? {}).find(([, text]) => text !== undefined)?.[0];
    html += escapeHtml(code.slice(at, match.index));
    html += `<span class="${kind}">${escapeHtml(match[0])}</span>`;
    at = match.index + match[0].length;
  }
  return html + escapeHtml(code.slice(at));
}
