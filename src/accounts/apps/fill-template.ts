import type { AppDefinition } from './app-definition.ts';
import { placeholder, splitUrlTemplate, wholeHostField } from './url-template.ts';

/** A template cannot be filled with these values. The message names the field, never its value. */
export class TemplateError extends Error {
  override name = 'TemplateError';
  readonly field: string | undefined;

  constructor(message: string, field?: string) {
    super(message);
    this.field = field;
  }
}

/** A host, port or base URL that is longer is none, and the looks at it take time that grows with the square of it. */
const addressCharactersMax = 2_000;

export type TemplateValues = Readonly<Record<string, unknown>>;

/**
 * Puts values into `{{field}}`.
 * - `url`: percent-encoded in path and query. A field in the place of the host, or of a part of it, accepts nothing but
 *   that: `https://` before a pasted value, the literal rest of the host and slashes behind it are dropped, anything more
 *   is refused. So no value leads to a host that the template does not mean.
 * - `text`: as it is; control characters are refused, so the result fits into one line of a header.
 * - `json`: as the inside of a JSON string.
 *
 * Throws TemplateError.
 */
export function fillTemplate(
  template: string,
  values: TemplateValues,
  mode: 'url' | 'text' | 'json',
): string {
  if (mode === 'url') return fillUrl(template, values);
  return replaceFields(template, (field) =>
    mode === 'json'
      ? JSON.stringify(textOf(values, field)).slice(1, -1)
      : withoutControls(textOf(values, field), field),
  );
}

/** The custom fields of an account by name, with their defaults. */
export function fieldsOf(
  app: Pick<AppDefinition, 'customFields'>,
  credentials: TemplateValues,
): Record<string, unknown> {
  const fields: Record<string, unknown> = {};
  for (const { name, default: fallback } of app.customFields) {
    const given = Object.hasOwn(credentials, name) ? credentials[name] : undefined;
    const value = isBlank(given) ? fallback : given;
    if (value !== undefined) fields[name] = value;
  }
  return fields;
}

/** What counts as not given. */
export function isBlank(value: unknown): boolean {
  return value === undefined || value === null || value === '';
}

function fillUrl(template: string, values: TemplateValues): string {
  const parts = splitUrlTemplate(template);
  if (parts === undefined) throw new TemplateError('this is not a URL template');
  const rest = fillRest(parts.rest, values);
  if (parts.form === 'base') return `${baseUrl(values, parts.field)}${rest}`;
  const host = fillHost(parts.host, values, parts.port === undefined);
  const port = parts.port === undefined ? '' : `:${fillPort(parts.port, values)}`;
  const filled = `${parts.scheme}${host}${port}${rest}`;
  const url = URL.parse(filled);
  // Odd spellings of an address, which a URL parser reads as another one, are refused here too.
  const bare = host.replace(/:\d+$/, '').toLowerCase();
  if (url === null || url.username !== '' || (url.hostname !== bare && !bare.startsWith('['))) {
    throw new TemplateError('the host that the fields of the account give is none');
  }
  return filled;
}

/** The base URL of a server of the account's own: its scheme, host and path. `https://` is put before a bare host. */
function baseUrl(values: TemplateValues, field: string): string {
  const text = addressText(values, field).trim();
  const absolute = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `https://${text}`;
  const url = URL.parse(absolute);
  const plain = !/[\s\\?#@]/.test(text) && withoutControls(text, field) !== '';
  if (!plain || url === null || !/^https?:$/.test(url.protocol) || url.username !== '') {
    throw new TemplateError(`${field}: expected the URL of a server, such as https://example.com`, field);
  }
  return `${url.origin}${url.pathname.replace(/\/+$/, '')}`;
}

function fillHost(host: string, values: TemplateValues, mayHavePort: boolean): string {
  const whole = wholeHostField(host);
  if (whole !== undefined) {
    const text = withoutUrlParts(addressText(values, whole));
    const port = mayHavePort ? '(:\\d{1,5})?' : '';
    if (new RegExp(`^(\\[[0-9A-Fa-f:.]+\\]|[A-Za-z0-9_-]+(\\.[A-Za-z0-9_-]+)*)${port}$`).test(text))
      return text;
    throw new TemplateError(`${whole}: expected the name of a host, such as example.com`, whole);
  }
  return replaceFields(host, (field, behind) => {
    let text = withoutUrlParts(addressText(values, field));
    if (behind !== '' && !behind.includes('{{') && text.toLowerCase().endsWith(behind.toLowerCase())) {
      text = text.slice(0, -behind.length);
    }
    if (/^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/.test(text)) return text;
    throw new TemplateError(`${field}: expected a part of the name of a host, such as example`, field);
  });
}

function fillPort(port: string, values: TemplateValues): string {
  const field = wholeHostField(port);
  if (field === undefined) return port;
  const text = addressText(values, field).trim();
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) return text;
  throw new TemplateError(`${field}: expected a port`, field);
}

function fillRest(rest: string, values: TemplateValues): string {
  const query = rest.indexOf('?');
  const [path, search] = query === -1 ? [rest, ''] : [rest.slice(0, query), rest.slice(query)];
  // A colon is allowed in a path, and a few providers (bot tokens) do not decode it.
  const filledPath = replaceFields(path, (field) => encoded(values, field).replaceAll('%3A', ':'));
  if (path.includes('{{') && filledPath.split('/').some((segment) => /^(\.|%2e){1,2}$/i.test(segment))) {
    throw new TemplateError('the fields of the account make a path with dots alone');
  }
  return filledPath + replaceFields(search, (field) => encoded(values, field));
}

function encoded(values: TemplateValues, field: string): string {
  return encodeURIComponent(filledText(values, field).toWellFormed());
}

/** `https://example.com/`, as users paste it, becomes example.com. */
function withoutUrlParts(text: string): string {
  return text
    .trim()
    .replace(/^https?:\/\//i, '')
    .replace(/\/+$/, '');
}

function filledText(values: TemplateValues, field: string): string {
  const text = textOf(values, field);
  if (text === '') throw new TemplateError(`${field}: has no value`, field);
  return text;
}

function addressText(values: TemplateValues, field: string): string {
  const text = filledText(values, field);
  if (text.length <= addressCharactersMax) return text;
  throw new TemplateError(`${field}: is too long for an address`, field);
}

function textOf(values: TemplateValues, field: string): string {
  const value = Object.hasOwn(values, field) ? values[field] : undefined;
  if (typeof value === 'string') return value;
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (isBlank(value)) throw new TemplateError(`${field}: has no value`, field);
  throw new TemplateError(`${field}: expected a text`, field);
}

function withoutControls(text: string, field: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there.
  if (!/[\u0000-\u001f\u007f]/.test(text)) return text;
  throw new TemplateError(`${field}: holds line breaks or other control characters`, field);
}

/** `behind`: the template after the placeholder. */
function replaceFields(template: string, put: (field: string, behind: string) => string): string {
  return template.replace(placeholder, (whole: string, field: string, offset: number) =>
    put(field, template.slice(offset + whole.length)),
  );
}
