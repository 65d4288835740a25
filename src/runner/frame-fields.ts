/** Checks of what stands in frames from a process: everything there may have been written by user code. */
import { ProtocolError } from './protocol.ts';

/** A component passed a cap by writing frames itself, past the checks inside the process. */
export class CapPassedError extends Error {
  override name = 'CapPassedError';
}

/** Above what the harness sends; more can only be forged. */
const metadataCharactersMax = 8192;
/** Latest time a Date can hold. */
const epochMsMax = 8.64e15;

/** A character is at most three bytes of UTF-8 (four make two), so that only what may be kept is decoded. */
export function shortText(bytes: Buffer, charactersMax: number): string {
  return bytes.toString('utf8', 0, Math.min(bytes.length, 3 * charactersMax)).slice(0, charactersMax);
}

/**
 * Whoever stores or forwards these texts unparsed relies on their being JSON, and a component can write frames by
 * itself. Bounded by the caps above, and a few microseconds for ordinary events.
 */
export function jsonText(text: string): string {
  parsed(text);
  return text;
}

/** The same for a text that must be that of an object. */
export function jsonObjectText(text: string): string {
  jsonObject(text);
  return text;
}

export function jsonObject(text: string): Record<string, unknown> {
  const value = parsed(text);
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new ProtocolError('a value is no object of JSON');
  return value as Record<string, unknown>;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new ProtocolError('a value is no JSON');
  }
}

export function isIntegerIn(value: unknown, min: number, max: number): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max;
}

export function isShortText(value: unknown): value is string {
  return typeof value === 'string' && value.length <= metadataCharactersMax;
}

export function isEpochMs(value: unknown): value is number {
  return typeof value === 'number' && Math.abs(value) <= epochMsMax;
}

export function asObject(value: unknown): Record<string, unknown> {
  if (typeof value !== 'object' || value === null) throw new ProtocolError('expected an object in a header');
  return value as Record<string, unknown>;
}

export function asArray(value: unknown): unknown[] {
  if (!Array.isArray(value)) throw new ProtocolError('expected an array in a header');
  return value;
}

/** Assignment would change the prototype for the key `__proto__`. */
export function setOwn<T>(target: Record<string, T>, key: string, value: T): void {
  if (key === '__proto__')
    Object.defineProperty(target, key, { value, writable: true, configurable: true, enumerable: true });
  else target[key] = value;
}
