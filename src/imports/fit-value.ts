import { isRecord } from '#components/validate-props.ts';

/**
 * A value of a prop in the type that its component expects: the hosted service gave code the value as it was stored, and texts of numbers
 * (`'200'`), numbers for texts and single values for lists are stored there. Undefined: it cannot be one of that type.
 *
 * `expected`: what the check of props says, such as `expected an integer`. `path`: where in the value it is said of, such as `[1]`.
 */
export function fitValue(
  value: unknown,
  { expected, path = '' }: { expected: string; path?: string },
): unknown {
  const [, type = ''] =
    /^expected (a string|an integer|a number|true or false|an array)\b/.exec(expected) ?? [];
  const convert = conversions.get(type);
  if (convert === undefined) return undefined;
  const [, index] = /^\[(\d+)\]$/.exec(path) ?? [];
  if (index === undefined) return path === '' ? inChoice(value, convert) : undefined;
  return inChoice(value, (list) => {
    const item = Array.isArray(list) ? inChoice(list[Number(index)], convert) : undefined;
    return item === undefined ? undefined : (list as unknown[]).with(Number(index), item);
  });
}

/** Answers undefined for a value that would be another one in that type. */
type Convert = (value: unknown) => unknown;

const conversions: ReadonlyMap<string, Convert> = new Map<string, Convert>([
  ['a string', (value) => (isPlain(value) && typeof value !== 'string' ? String(value) : undefined)],
  ['an integer', (value) => numberOf(value, Number.isSafeInteger)],
  ['a number', (value) => numberOf(value, Number.isFinite)],
  ['true or false', (value) => (value === 'true' ? true : value === 'false' ? false : undefined)],
  ['an array', (value) => (isPlain(value) ? (value === '' ? [] : [value]) : undefined)],
]);

function isPlain(value: unknown): boolean {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
}

function numberOf(value: unknown, isOne: (number: number) => boolean): number | undefined {
  if (typeof value !== 'string' || value.trim() === '') return undefined;
  const number = Number(value);
  return isOne(number) ? number : undefined;
}

/** The value, or the one beside a label (`{ __lv: { label, value } }`), which stays. */
function inChoice(value: unknown, convert: Convert): unknown {
  if (!isRecord(value) || !isRecord(value.__lv)) return convert(value);
  const converted = convert(value.__lv.value);
  return converted === undefined ? undefined : { __lv: { ...value.__lv, value: converted } };
}
