import fs from 'node:fs';
import { basename } from 'node:path';
import { bytesText } from '#lib/units.ts';
import { shortened } from './shortened.ts';

/** Value of a prop of type `http_request`, as the form of a request stores it. Lists may also be plain objects. */
interface RequestConfig {
  method?: unknown;
  url?: unknown;
  /** `[{ name, value, disabled? }]`; `params` and `body.fields` likewise. */
  headers?: unknown;
  params?: unknown;
  /**
   * `{ contentType, mode: 'raw' | 'fields' | 'file', raw, fields, file }`, or the text itself. `file`, and the value of a multipart
   * field with `type: 'file'`, is the path of a file.
   */
  body?: unknown;
  /** `{ type: 'none' | 'basic' | 'bearer', username, password, token }` */
  auth?: unknown;
  /** `arraybuffer`: `data` of the response is a Buffer, whatever the type of its content. */
  responseType?: unknown;
}

/** What `execute` replaces in the configuration. */
type RequestOptions = Pick<RequestConfig, 'responseType'>;

/** A response in the form of axios. `config` and `request` are not enumerable, so that an exported response lacks them. */
export interface HttpResponse {
  status: number;
  statusText: string;
  headers: Record<string, string | string[]>;
  data: unknown;
}

type Loose = Record<string, unknown>;

const responseBytesMax = 64 * 1024 * 1024;
/** Files of a request are read into memory. */
const fileBytesMax = 64 * 1024 * 1024;
const methodsWithoutBody = new Set(['GET', 'HEAD']);
const textTypes = /^text\/|[/+](?:json|xml|yaml|x-yaml|javascript|x-www-form-urlencoded|graphql|x-ndjson)$/;
const isJson = /^application\/json$|\+json$/;

/**
 * `this.<prop>` of type `http_request`: the configuration, and `execute()`, which makes the request. It resolves to a response for any status
 * from 200 to 299. It rejects as axios does: `Request failed with status code 404` with `response` and `code` (ERR_BAD_REQUEST, from 500 on
 * ERR_BAD_RESPONSE), or the reason of a missing response with its code (such as ECONNREFUSED). `defaults` is the default of the prop; fields
 * of `value` replace its fields.
 */
export function makeHttpRequest(
  name: string,
  defaults: unknown,
  value: unknown,
): Loose & { execute(options?: RequestOptions): Promise<HttpResponse> } {
  const config: Loose = { ...asObject(defaults), ...asObject(value) };
  return {
    ...config,
    execute: (options) => execute(name, { ...config, ...options } as RequestConfig),
  };
}

async function execute(where: string, config: RequestConfig): Promise<HttpResponse> {
  const method = textOf(config.method || 'GET').toUpperCase();
  const url = urlOf(where, config);
  const headers = new Headers();
  for (const [name, value] of pairs(where, 'headers', config.headers)) headers.append(name, textOf(value));
  authorize(where, asObject(config.auth), headers);
  // fetch refuses a body with these methods, and a form keeps its body when the user changes the method.
  const body = methodsWithoutBody.has(method) ? undefined : await bodyOf(where, config.body, headers);
  const sent = { method, url: url.href };
  const shown = { ...config, ...sent };
  let response: Response;
  let bytes: Buffer;
  try {
    response = await fetch(url, { method, headers, ...(body === undefined ? {} : { body }) });
    bytes = await readBody(response);
  } catch (error) {
    throw hidden(noAnswer(error), { config: shown, request: sent });
  }
  const answer: HttpResponse = hidden(
    {
      status: response.status,
      statusText: response.statusText,
      headers: headersOf(response),
      data:
        config.responseType === 'arraybuffer'
          ? bytes
          : dataOf(bytes, response.headers.get('content-type') ?? ''),
    },
    { config: shown, request: sent },
  );
  if (response.ok) return answer;
  const error = new Error(`Request failed with status code ${response.status}`);
  throw hidden(
    Object.assign(error, {
      name: 'AxiosError',
      code: response.status < 500 ? 'ERR_BAD_REQUEST' : 'ERR_BAD_RESPONSE',
      status: response.status,
      response: answer,
    }),
    { config: shown, request: sent, isAxiosError: true },
  );
}

function urlOf(where: string, config: RequestConfig): URL {
  const text = textOf(config.url).trim();
  if (text === '') throw new Error(`${where}: the request has no url`);
  if (!URL.canParse(text))
    throw new Error(
      `${where}: ${JSON.stringify(shortened(text, 200))} is not a url, expected one such as https://example.com/orders`,
    );
  const url = new URL(text);
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    throw new Error(`${where}: found a url that begins with ${url.protocol}, expected http: or https:`);
  for (const [name, value] of pairs(where, 'params', config.params))
    url.searchParams.append(name, textOf(value));
  return url;
}

function authorize(where: string, auth: Loose, headers: Headers): void {
  const { username, password, token } = auth;
  // Exported workflows have `integrated_auth` where a form offered accounts: what is filled in counts.
  const type =
    auth.type === undefined || auth.type === null || auth.type === 'integrated_auth'
      ? isFilled(token)
        ? 'bearer'
        : isFilled(username)
          ? 'basic'
          : 'none'
      : auth.type;
  if (type === 'none' || type === '') return;
  if (type === 'bearer') headers.set('authorization', `Bearer ${textOf(token)}`);
  else if (type === 'basic') {
    const credentials = Buffer.from(`${textOf(username)}:${textOf(password)}`).toString('base64');
    headers.set('authorization', `Basic ${credentials}`);
  } else {
    throw new Error(
      `${where}: auth.type is none, basic or bearer, found ${JSON.stringify(shortened(textOf(type), 40))}`,
    );
  }
}

function isFilled(value: unknown): boolean {
  return value !== undefined && value !== null && value !== '';
}

type Body = string | FormData | URLSearchParams | Uint8Array<ArrayBuffer>;

/** Returns the body, and sets its type in `headers` where neither the component nor fetch does. */
async function bodyOf(where: string, given: unknown, headers: Headers): Promise<Body | undefined> {
  if (given === undefined || given === null || given === '') return undefined;
  if (typeof given !== 'object') return raw(given, undefined, headers);
  const { mode, raw: text, fields, file, contentType, type } = given as Loose;
  const named = [contentType, type].find((it): it is string => typeof it === 'string' && it.includes('/'));
  const wanted = typeof mode === 'string' ? mode : type === 'raw' || type === 'fields' ? type : undefined;
  if (wanted === 'file') return raw(await readFile(`${where}: body.file`, file), named, headers);
  const isRaw = wanted === undefined ? text !== undefined && text !== '' : wanted === 'raw';
  if (isRaw) return text === undefined || text === '' ? undefined : raw(text, named, headers);
  const entries = pairs(where, 'body.fields', fields);
  if (entries.length === 0) return undefined;
  const kind = named ?? headers.get('content-type') ?? 'application/json';
  if (kind.startsWith('multipart/form-data')) {
    // fetch sets the type together with the boundary that it chose.
    headers.delete('content-type');
    const form = new FormData();
    const files = namesOfFiles(fields);
    for (const [name, value] of entries) {
      if (!files.has(name)) form.append(name, textOf(value));
      else {
        const content = await readFile(`${where}: body.fields.${name}`, value);
        form.append(name, new Blob([content]), basename(textOf(value)));
      }
    }
    return form;
  }
  if (kind.startsWith('application/x-www-form-urlencoded'))
    return new URLSearchParams(entries.map(([name, value]): [string, string] => [name, textOf(value)]));
  setDefault(headers, kind);
  return JSON.stringify(Object.fromEntries(entries));
}

/** The content of a file of the step. */
async function readFile(what: string, path: unknown): Promise<Buffer<ArrayBuffer>> {
  if (typeof path !== 'string' || path === '')
    throw new Error(
      `${what}: expected the path of a file, found ${shortened(textOf(path), 40) || 'nothing'}`,
    );
  const found = await fs.promises.stat(path).catch((error: NodeJS.ErrnoException) => {
    throw new Error(`${what}: cannot read ${path}: ${error.code ?? error.message}`, { cause: error });
  });
  if (!found.isFile()) throw new Error(`${what}: ${path} is not a file`);
  if (found.size > fileBytesMax)
    throw new Error(`${what}: ${path} has ${found.size} bytes, expected at most ${bytesText(fileBytesMax)}`);
  return Buffer.from(await fs.promises.readFile(path));
}

/** The fields whose values are paths of files. */
function namesOfFiles(fields: unknown): Set<string> {
  if (!Array.isArray(fields)) return new Set();
  return new Set(
    fields
      .map(asObject)
      .filter(({ type }) => type === 'file')
      .map(({ name, key }) => textOf(name ?? key).trim()),
  );
}

function raw(text: unknown, contentType: string | undefined, headers: Headers): Body {
  if (ArrayBuffer.isView(text)) {
    setDefault(headers, contentType ?? 'application/octet-stream');
    return new Uint8Array(text.buffer as ArrayBuffer, text.byteOffset, text.byteLength);
  }
  setDefault(
    headers,
    contentType ?? (typeof text === 'object' ? 'application/json' : 'text/plain;charset=UTF-8'),
  );
  return textOf(text);
}

function setDefault(headers: Headers, contentType: string): void {
  if (!headers.has('content-type')) headers.set('content-type', contentType);
}

/** Names and values of a list, without disabled entries and those without a name. */
function pairs(where: string, what: string, list: unknown): [name: string, value: unknown][] {
  if (list === undefined || list === null || list === '') return [];
  if (typeof list !== 'object')
    throw new Error(`${where}: ${what} is a list of names and values, found ${typeof list}`);
  if (!Array.isArray(list)) return Object.entries(list);
  return list.flatMap((item: unknown): [string, unknown][] => {
    const { name, key, value, disabled } = asObject(item);
    const shown = textOf(name ?? key).trim();
    return shown === '' || disabled === true ? [] : [[shown, value]];
  });
}

async function readBody(response: Response): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of response.body ?? []) {
    size += piece.length;
    if (size > responseBytesMax)
      throw Object.assign(new Error(`the response is larger than ${bytesText(responseBytesMax)}`), {
        code: 'ERR_BAD_RESPONSE',
      });
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

/** Returns JSON as its value, text as text, anything else as a Buffer. Invalid JSON is text, as with axios. */
function dataOf(bytes: Buffer, contentType: string): unknown {
  const type = (contentType.split(';')[0] ?? '').trim().toLowerCase();
  if (type !== '' && !textTypes.test(type)) return bytes;
  const text = decode(bytes, /charset\s*=\s*"?([^";\s]+)/i.exec(contentType)?.[1]);
  if (!isJson.test(type) || text === '') return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function decode(bytes: Buffer, charset = 'utf-8'): string {
  try {
    return new TextDecoder(charset).decode(bytes);
  } catch {
    return bytes.toString('utf8');
  }
}

function headersOf(response: Response): Record<string, string | string[]> {
  const headers: Record<string, string | string[]> = Object.fromEntries(response.headers);
  const cookies = response.headers.getSetCookie();
  if (cookies.length > 0) headers['set-cookie'] = cookies;
  return headers;
}

/** Replaces `fetch failed` with the message of its cause. */
function noAnswer(thrown: unknown): Error {
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  const cause = error.cause instanceof Error ? error.cause : error;
  const { code } = cause as { code?: unknown };
  return Object.assign(new Error(cause.message || error.message, { cause: error }), {
    name: 'AxiosError',
    code: typeof code === 'string' ? code : 'ERR_NETWORK',
  });
}

/** Adds properties that JSON leaves out, because they hold credentials. */
function hidden<T extends object>(target: T, properties: Loose): T {
  for (const [key, value] of Object.entries(properties))
    Object.defineProperty(target, key, { value, writable: true, configurable: true });
  return target;
}

export function asObject(value: unknown): Loose {
  return typeof value === 'object' && value !== null ? (value as Loose) : {};
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}
