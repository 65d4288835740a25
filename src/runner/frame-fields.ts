/** Checks of the fields in frames from a process, which user code may have forged. */
import { isDeeperThan } from '#lib/json-depth.ts';
import { ProtocolError } from './protocol.ts';

/** A component exceeded a limit by writing frames itself, which bypasses the checks inside the process. */
export class CapPassedError extends Error {
  override name = 'CapPassedError';
}

/** More than the harness ever sends, so only forged metadata is longer. */
const metadataCharactersMax = 8192;
/**
 * Levels of a value. The harness cuts values at 1,000 levels, so only forged ones have more. To parse brackets alone takes fifty times as long
 * as other text of the same size; shorter texts cost too little to look at each character first.
 */
const depthMax = 2000;
const checkedForDepthFrom = 32 * 1024;
/** Latest time a Date can hold. */
const epochMsMax = 8.64e15;

/** Decodes only as many bytes as `charactersMax` characters can have: a character has at most three bytes of UTF-8 (four make two). */
export function shortText(bytes: Buffer, charactersMax: number): string {
  return bytes.toString('utf8', 0, Math.min(bytes.length, 3 * charactersMax)).slice(0, charactersMax);
}

/**
 * Returns the text when it is JSON. Code that stores or forwards these texts unparsed relies on that, and a component can write frames
 * itself. The limits above bound the cost, which is a few microseconds for ordinary events.
 */
export function jsonText(text: string): string {
  parsed(text);
  return text;
}

/** As above, for the JSON text of an object. */
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
  if (text.length >= checkedForDepthFrom && isDeeperThan(text, depthMax))
    throw new ProtocolError(`a value has more than ${depthMax} levels`);
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

/** Sets an own property. An assignment would change the prototype for the key `__proto__`. */
export function setOwn<T>(target: Record<string, T>, key: string, value: T): void {
  if (key === '__proto__')
    Object.defineProperty(target, key, { value, writable: true, configurable: true, enumerable: true });
  else target[key] = value;
}
