const line =
  /^[ \t]*(?:export[ \t]+)?([\w.-]+)[ \t]*=[ \t]*("[^"]*"|'[^']*'|`[^`]*`|[^\r\n]*)(?:[ \t]*(?:#[^\r\n]*)?)$/gm;

/** The variables of a .env file, as Node.js reads them; lines that set nothing are left out, and the last of two lines of a name counts. */
export function readEnvText(text: string): Map<string, string> {
  const variables = new Map<string, string>();
  for (const [, name = '', raw = ''] of text.replaceAll('\r\n', '\n').matchAll(line))
    variables.set(name, textOf(raw));
  return variables;
}

function textOf(raw: string): string {
  const quote = raw[0];
  if ((quote === '"' || quote === "'" || quote === '`') && raw.length > 1 && raw.endsWith(quote)) {
    const inner = raw.slice(1, -1);
    // Only double quotes have line breaks that are written as \n.
    if (!inner.includes(quote)) return quote === '"' ? inner.replaceAll('\\n', '\n') : inner;
  }
  return raw.replace(/#.*$/, '').trim();
}
