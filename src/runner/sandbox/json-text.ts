import { bytesText } from '#lib/units.ts';
import { byteLength, jsonParse, jsonStringify } from './primordials.ts';

/** The JSON of a value is longer than the limit that applies to it. */
export class TooLargeError extends Error {
  override name = 'TooLargeError';
  readonly code = 'ERR_TOO_LARGE';
}

/** Deeper than this, cycles are looked for. */
const plainDepthMax = 64;
/** Deeper than this, a value is cut: the recursion must not overflow the stack. */
const depthMax = 1000;

/** Characters the value under inspection may still have. Module state, because the walk never yields. */
let charactersLeft = 0;

/**
 * JSON text of any value, by the documented conversions where JSON has none: BigInt → digits, Map → object,
 * Set → array, binary data → `{type: 'Buffer', base64}`, errors → `{name, message, …}`, a cycle → "[Circular]".
 * `undefined`, functions and symbols have no JSON: undefined is returned. Throws `TooLargeError`, before building
 * the text where it can.
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

/** A copy through JSON: what user code gets from the db must not alias what it set. */
export function fromJsonText(text: string): unknown {
  return jsonParse(text);
}

function spend(characters: number): void {
  charactersLeft -= characters;
  if (charactersLeft < 0) throw new TooLargeError('too large');
}

/** Whether JSON.stringify alone gives the right text: the common case, and much faster than a replacer. */
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
  // No prototype: a key `__proto__` must become a plain key.
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
