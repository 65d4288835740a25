/** What the form of a prop of type `http_request` shows. */
export interface RequestForm {
  method: string;
  url: string;
  params: readonly Pair[];
  headers: readonly Pair[];
  contentType: string;
  /** The raw text. Empty: no body. */
  body: string;
}

interface Pair {
  name: string;
  value: string;
}

const usualContentType = 'application/json';
const knownFields: ReadonlySet<string> = new Set(['method', 'url', 'params', 'headers', 'body', 'auth']);

/** The form of a value. Undefined: it holds something that the form cannot show without losing it. */
export function readRequest(value: unknown, defaults: unknown): RequestForm | undefined {
  if (value !== undefined && !isObject(value)) return undefined;
  const given = { ...(isObject(defaults) ? defaults : {}), ...value };
  const { method = 'GET', url = '', auth } = given;
  const params = readPairs(given.params);
  const headers = readPairs(given.headers);
  const body = readBody(given.body);
  const hasAuth = auth !== undefined && auth !== null && !(isObject(auth) && auth.type === 'none');
  if (typeof method !== 'string' || typeof url !== 'string' || hasAuth) return undefined;
  if (params === undefined || headers === undefined || body === undefined) return undefined;
  if (Object.keys(given).some((field) => !knownFields.has(field))) return undefined;
  return { method: method.toUpperCase(), url, params, headers, ...body };
}

/** The value of a form; what is as in the default is left out. Undefined: nothing was given. */
export function writeRequest(form: RequestForm, defaults: unknown): Record<string, unknown> | undefined {
  const { method, url, params, headers, contentType, body } = form;
  const before = readRequest(undefined, defaults);
  const value = {
    ...(method === (before?.method ?? 'GET') ? {} : { method }),
    ...(url === (before?.url ?? '') ? {} : { url }),
    ...(isSame(params, before?.params ?? []) ? {} : { params }),
    ...(isSame(headers, before?.headers ?? []) ? {} : { headers }),
    ...(body === (before?.body ?? '') && contentType === (before?.contentType ?? usualContentType)
      ? {}
      : { body: { contentType, mode: 'raw', raw: body } }),
  };
  return Object.keys(value).length === 0 ? undefined : value;
}

function readPairs(list: unknown): Pair[] | undefined {
  if (list === undefined || list === null) return [];
  if (!Array.isArray(list)) return undefined;
  const pairs = list.filter(
    (item): item is Pair =>
      isObject(item) && Object.keys(item).length === 2 && isLine(item.name) && isLine(item.value),
  );
  // One line is one pair, which ends its name at the first colon.
  return pairs.length === list.length && pairs.every(({ name }) => name !== '' && !name.includes(':'))
    ? pairs
    : undefined;
}

function readBody(body: unknown): Pick<RequestForm, 'contentType' | 'body'> | undefined {
  if (body === undefined || body === null) return { contentType: usualContentType, body: '' };
  if (!isObject(body)) return undefined;
  const { contentType, mode, raw, ...rest } = body;
  if (mode !== 'raw' || typeof contentType !== 'string' || typeof raw !== 'string') return undefined;
  return Object.keys(rest).length === 0 ? { contentType, body: raw } : undefined;
}

function isLine(value: unknown): boolean {
  return typeof value === 'string' && value === value.trim() && !value.includes('\n');
}

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
