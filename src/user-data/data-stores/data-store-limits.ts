import { CallerError } from '#lib/errors.ts';
import { bytesText, countText } from '#lib/units.ts';

export const storesPerOwnerMax = 100;
/** In all stores of an owner. */
export const entriesPerOwnerMax = 100_000;
/** Maximum length of a key in UTF-16 units: even at three bytes each it fits an index of PostgreSQL. */
const keyCharactersMax = 512;
/** Maximum size of a value as JSON text: 1 MB. This is less than the 1,048,576 bytes of one answer to user code, so that it fits with its key. */
export const valueBytesMax = 1_000_000;
/** The longest an entry may be asked to live; longer than that is for ever. */
const ttlSecondsMax = 100 * 365 * 86_400;

/** A key as it is stored. Throws CallerError `invalid_parameter`. */
export function checkKey(key: unknown, parameter = 'key'): string {
  const problem =
    typeof key !== 'string' || key === ''
      ? 'expected text that is not empty'
      : key.length > keyCharactersMax
        ? `is ${key.length} characters long, ${keyCharactersMax} are the most`
        : key.includes('\0')
          ? 'must not contain the character U+0000'
          : !key.isWellFormed()
            ? 'is not well-formed Unicode'
            : undefined;
  if (problem === undefined) return key as string;
  throw new CallerError('invalid_parameter', `${parameter}: ${problem}`, { parameter });
}

/** JSON text as it is stored. Throws CallerError `invalid_parameter`. */
export function checkValue(json: string, parameter = 'value'): string {
  const bytes = Buffer.byteLength(json);
  if (bytes > valueBytesMax) {
    const problem = `found ${countText(bytes)} bytes of JSON, expected at most ${bytesText(valueBytesMax)}`;
    throw new CallerError('invalid_parameter', `${parameter}: ${problem}`, { parameter });
  }
  try {
    JSON.parse(json);
  } catch {
    throw new CallerError('invalid_parameter', `${parameter}: is not JSON`, { parameter });
  }
  return json;
}

/** When an entry with this ttl ends, epoch ms; null: never. Throws CallerError `invalid_parameter`. */
export function expiryOf(ttl: unknown, nowMs: number, parameter = 'ttl'): number | null {
  if (ttl === undefined || ttl === null) return null;
  if (typeof ttl !== 'number' || !(ttl > 0 && ttl <= ttlSecondsMax)) {
    throw new CallerError(
      'invalid_parameter',
      `${parameter}: expected seconds above 0, at most ${ttlSecondsMax}, or null for no end`,
      { parameter },
    );
  }
  return Math.ceil(nowMs + ttl * 1000);
}
