import { shortened } from './shortened.ts';

export interface CheckedReply {
  status: number;
  headers: Record<string, string | string[]>;
  body: Uint8Array;
}

/** The body or the headers of a reply are larger than allowed. */
export class ReplyTooLargeError extends TypeError {
  override name = 'TypeError';
  readonly code = 'reply_too_large';
  readonly details: { bytes: number; bytes_max: number };

  /** `bytes` is the length of the part that was read, for a stream that was not read to its end. */
  constructor(
    what: string,
    bytes: number,
    bytesMax: number,
    { part = 'body has', isWhole = true }: { part?: 'body has' | 'headers have'; isWhole?: boolean } = {},
  ) {
    const found = isWhole ? `${bytes}` : `more than ${bytesMax}`;
    super(`${what}: ${part} ${found} bytes, at most ${bytesMax} are allowed`);
    this.details = { bytes, bytes_max: bytesMax };
  }
}

const headerName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** biome-ignore lint/suspicious/noControlCharactersInRegex: these are the bytes a header value may not have */
const forbiddenInHeaderValue = /[\u0000-\u0008\u000a-\u001f\u007f\u0100-\uffff]/;
const headersMax = 100;
const headerBytesMax = 32 * 1024;

/**
 * Returns the argument of `http.respond` as status, headers and bytes. Throws a TypeError for the component that names the invalid part. The
 * status is a number or numeric string from 200 to 599 (lower ones announce another response, for which a client continues to wait); the body
 * is a string, a Buffer, any JSON value, or absent.
 */
export function checkReply(given: unknown, bytesMax: number, what = 'http.respond'): CheckedReply {
  if (typeof given !== 'object' || given === null) {
    throw new TypeError(`${what} expects an object with status, headers and body`);
  }
  const { status, headers, body } = given as Record<string, unknown>;
  const checkedHeaders = checkHeaders(headers, what);
  const bytes = bodyBytes(body, checkedHeaders, what);
  if (bytes.length > bytesMax) {
    throw new ReplyTooLargeError(what, bytes.length, bytesMax);
  }
  return { status: checkStatus(status, what), headers: checkedHeaders, body: bytes };
}

function checkStatus(status: unknown, what: string): number {
  if (status === undefined || status === null) return 200;
  const number = typeof status === 'string' && /^\d{3}$/.test(status.trim()) ? Number(status) : status;
  if (typeof number !== 'number' || !Number.isInteger(number) || number < 200 || number > 599) {
    throw new TypeError(
      `${what}: status must be an integer from 200 to 599, found ${shortened(String(status), 40)}`,
    );
  }
  return number;
}

function checkHeaders(headers: unknown, what: string): Record<string, string | string[]> {
  const checked: Record<string, string | string[]> = {};
  if (headers === undefined || headers === null) return checked;
  if (typeof headers !== 'object') throw new TypeError(`${what}: headers must be an object`);
  const entries =
    headers instanceof Headers || headers instanceof Map ? [...headers] : Object.entries(headers);
  if (entries.length > headersMax) throw new TypeError(`${what}: more than ${headersMax} headers`);
  let bytes = 0;
  for (const [name, value] of entries) {
    if (value === undefined || value === null) continue;
    if (typeof name !== 'string' || !headerName.test(name) || name === '__proto__') {
      throw new TypeError(`${what}: ${JSON.stringify(shortened(String(name), 60))} is not a header name`);
    }
    const values = (Array.isArray(value) ? value : [value]).map(String);
    for (const text of values) {
      // Values are Latin-1, so each character is one byte.
      bytes += name.length + text.length;
      if (forbiddenInHeaderValue.test(text)) {
        throw new TypeError(`${what}: the value of header ${name} has characters that are not allowed`);
      }
    }
    checked[name] = Array.isArray(value) ? values : (values[0] ?? '');
  }
  if (bytes > headerBytesMax)
    throw new ReplyTooLargeError(what, bytes, headerBytesMax, { part: 'headers have' });
  return checked;
}

/** Returns the bytes of a body. Sets its type in `headers` when it is known and the component did not. */
function bodyBytes(body: unknown, headers: Record<string, string | string[]>, what: string): Uint8Array {
  if (body === undefined || body === null || body === '') return new Uint8Array();
  if (ArrayBuffer.isView(body)) return new Uint8Array(body.buffer, body.byteOffset, body.byteLength);
  if (body instanceof ArrayBuffer) return new Uint8Array(body);
  if (typeof body !== 'object') {
    setDefaultType(headers, 'text/plain; charset=utf-8');
    return Buffer.from(String(body));
  }
  if (typeof (body as { pipe?: unknown }).pipe === 'function') {
    throw new TypeError(`${what}: a stream as body is not supported; read it into a Buffer first`);
  }
  setDefaultType(headers, 'application/json; charset=utf-8');
  return Buffer.from(JSON.stringify(body));
}

function setDefaultType(headers: Record<string, string | string[]>, type: string): void {
  if (!Object.keys(headers).some((name) => name.toLowerCase() === 'content-type'))
    headers['content-type'] = type;
}
