import { bytesText } from '#lib/units.ts';
import { byteLength, jsonParse, jsonStringify } from './primordials.ts';

/** The JSON of a value is longer than its limit. */
export class TooLargeError extends Error {
  override name = 'TooLargeError';
  readonly code = 'ERR_TOO_LARGE';
}

/** Beyond this depth, a value is checked for cycles. */
const plainDepthMax = 64;
/** Beyond this depth, a value is cut, so that the recursion does not overflow the stack. */
const depthMax = 1000;

/** Characters left for the value that is being converted. Module state, because the walk never yields. */
let charactersLeft = 0;

/**
 * JSON text of any value, with the documented conversions where JSON has no form: BigInt → digits, Map → object, Set → array, binary data →
 * `{type: 'Buffer', base64}`, errors → `{name, message, …}`, a cycle → "[Circular]". `undefined`, functions and symbols have no JSON, so
 * undefined is returned. Throws `TooLargeError`, before it builds the text where possible.
 */
export function toJsonText(value: unknown, bytesMax: number, what: string): string | undefined {
  charactersLeft = bytesMax;
  let text: string | undefined;
  try {
    const copied = isPlain(value, 0) ? value : convert(value, []);
    text = jsonStringify(copied);
  } catch (error) {
    if (error instanceof TooLargeError) throw tooLarge(what, bytesMax);
    throw error;
  }
  if (text === undefined) return undefined;
  if (text.length > bytesMax || (text.length * 3 > bytesMax && byteLength(text) > bytesMax)) {
    throw tooLarge(what, bytesMax);
  }
  return text;
}

function tooLarge(what: string, bytesMax: number): TooLargeError {
  return new TooLargeError(`${what} is larger than ${bytesText(bytesMax)} of JSON`);
}

/** Copies through JSON, because values that user code gets from the db must not alias those that it set. */
export function fromJsonText(text: string): unknown {
  return jsonParse(text);
}

function spend(characters: number): void {
  charactersLeft -= characters;
  if (charactersLeft < 0) throw new TooLargeError('too large');
}

/** True when JSON.stringify alone gives the right text: the common case, and much faster than a replacer. */
function isPlain(value: unknown, depth: number): boolean {
  switch (typeof value) {
    case 'string':
      spend(value.length);
      return true;
    case 'bigint':
      return false;
    case 'object':
      break;
    default:
      return true;
  }
  if (value === null || value instanceof Date) return true;
  if (depth > plainDepthMax) return false;
  if (Array.isArray(value)) {
    spend(value.length);
    for (let i = 0; i < value.length; i += 1) if (!isPlain(value[i], depth + 1)) return false;
    return true;
  }
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return false;
  if (value instanceof Map || value instanceof Set || value instanceof Error) return false;
  for (const key of Object.keys(value)) {
    spend(key.length + 3);
    if (!isPlain((value as Record<string, unknown>)[key], depth + 1)) return false;
  }
  return true;
}

function convert(value: unknown, ancestors: object[]): unknown {
  if (typeof value === 'bigint') return value.toString();
  if (typeof value === 'string') spend(value.length);
  if (typeof value !== 'object' || value === null) return value;
  if (ancestors.includes(value)) return '[Circular]';
  if (ancestors.length > depthMax) return '[Too deep]';
  if (ArrayBuffer.isView(value)) return binary(Buffer.from(value.buffer, value.byteOffset, value.byteLength));
  if (value instanceof ArrayBuffer) return binary(Buffer.from(value));
  ancestors.push(value);
  try {
    return convertObject(value, ancestors);
  } finally {
    ancestors.pop();
  }
}

function convertObject(value: object, ancestors: object[]): unknown {
  if (Array.isArray(value)) {
    spend(value.length);
    return value.map((item) => convert(item, ancestors) ?? null);
  }
  if (value instanceof Set) return [...value].map((item) => convert(item, ancestors) ?? null);
  if (value instanceof Map) {
    return convertEntries(
      [...value].map(([key, item]) => [String(key), item]),
      ancestors,
    );
  }
  const own = value as { toJSON?: (key: string) => unknown };
  if (typeof own.toJSON === 'function') return convert(own.toJSON(''), ancestors);
  const entries = Object.keys(value).map((key): [string, unknown] => [
    key,
    (value as Record<string, unknown>)[key],
  ]);
  if (value instanceof Error) {
    entries.unshift(['name', value.name], ['message', value.message]);
  }
  return convertEntries(entries, ancestors);
}

function convertEntries(entries: [string, unknown][], ancestors: object[]): object {
  // Without a prototype the key `__proto__` becomes an ordinary key.
  const out: Record<string, unknown> = Object.create(null);
  for (const [key, item] of entries) {
    spend(key.length + 3);
    out[key] = convert(item, ancestors);
  }
  return out;
}

function binary(bytes: Buffer): { type: 'Buffer'; base64: string } {
  spend(Math.ceil(bytes.length / 3) * 4);
  return { type: 'Buffer', base64: bytes.toString('base64') };
}
