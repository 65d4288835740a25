/**
 * A URL with placeholders, taken apart before any value is in it: a value can then never move the border between host
 * and path. Three forms: `https://host/path`, `https://{{field}}/path` (or `{{field}}.example.com`, `host:{{port}}`), and
 * `{{base}}/path`, where the field is the base URL of a server of the account's own.
 */
export type UrlTemplate =
  | { form: 'absolute'; scheme: 'https://' | 'http://'; host: string; port: string | undefined; rest: string }
  | { form: 'base'; field: string; rest: string };

const name = '[A-Za-z_][A-Za-z0-9_]*';

/** One placeholder, its field as the first group. */
export const placeholder = new RegExp(`\\{\\{(${name})\\}\\}`, 'g');

/** The fields that a template uses, each once, in order. */
export function templateFields(template: string): string[] {
  return [...new Set([...template.matchAll(placeholder)].map((match) => match[1] ?? ''))];
}

/** Undefined: it is not a URL template. */
export function splitUrlTemplate(template: string): UrlTemplate | undefined {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there.
  if (/[\u0000-\u0020\u007f\\#]/.test(template)) return undefined;
  const absolute = /^(https?:\/\/)([^/?]+)(.*)$/.exec(template);
  if (absolute !== null) {
    const [, scheme = '', authority = '', rest = ''] = absolute;
    const parts = /^(\[[0-9A-Fa-f:.]+\]|[^:@[\]]+)(?::(\d{1,5}|\{\{[^{}]+\}\}))?$/.exec(authority);
    if (parts?.[1] === undefined) return undefined;
    return { form: 'absolute', scheme: scheme as 'https://', host: parts[1], port: parts[2], rest };
  }
  const base = new RegExp(`^\\{\\{(${name})\\}\\}((?:[/?].*)?)$`).exec(template);
  if (base?.[1] === undefined) return undefined;
  return { form: 'base', field: base[1], rest: base[2] ?? '' };
}

/** The field that is the whole host, as in `https://{{host}}/`; undefined when the host is more than that. */
export function wholeHostField(host: string): string | undefined {
  return new RegExp(`^\\{\\{(${name})\\}\\}$`).exec(host)?.[1];
}

/** True when the domain that decides the owner of a host is literal: `{{shop}}.myshopify.com`, but not `api.{{site}}`. */
export function endsInLiteralDomain(host: string): boolean {
  if (!host.includes('{{')) return true;
  return /\}\}\.(?:[A-Za-z0-9-]+\.)+[A-Za-z0-9-]+$/.test(host);
}

/** Plain http is for servers on the same machine. */
export function isLoopbackHost(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || /^127(\.\d{1,3}){3}$/.test(host);
}
