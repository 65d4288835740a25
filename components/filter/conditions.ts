import { isDeepStrictEqual } from 'node:util';
import { ConfigurationError, shown } from '../configuration-error.ts';

/** What conditions compare. */
interface Compared {
  initialValue: unknown;
  secondValue: unknown;
  caseSensitive: boolean;
}

interface Condition {
  label: string;
  isMet(compared: Compared): boolean;
}

type TextTest = (text: string, part: string) => boolean;
type NumberTest = (first: number, second: number) => boolean;

/** Every condition by its value in `condition`. */
export const conditions = {
  CONTAINS: textCondition('contains', (text, part) => text.includes(part)),
  NOT_CONTAINS: textCondition('does not contain', (text, part) => !text.includes(part)),
  TEXT_EQUALS: textCondition('equals', (text, other) => text === other, { takesEmpty: true }),
  TEXT_NOT_EQUALS: textCondition('does not equal', (text, other) => text !== other, { takesEmpty: true }),
  STARTS_WITH: textCondition('starts with', (text, part) => text.startsWith(part)),
  NOT_STARTS_WITH: textCondition('does not start with', (text, part) => !text.startsWith(part)),
  ENDS_WITH: textCondition('ends with', (text, part) => text.endsWith(part)),
  NOT_ENDS_WITH: textCondition('does not end with', (text, part) => !text.endsWith(part)),
  IS_BLANK: { label: 'Text: is blank', isMet: ({ initialValue }) => isBlank(initialValue) },
  NOT_BLANK: { label: 'Text: is not blank', isMet: ({ initialValue }) => !isBlank(initialValue) },
  EQUALS: numberCondition('=', (first, second) => first === second),
  NOT_EQUALS: numberCondition('≠', (first, second) => first !== second),
  GREATER_THAN: numberCondition('>', (first, second) => first > second),
  GREATER_THAN_EQUALS: numberCondition('≥', (first, second) => first >= second),
  LESS_THAN: numberCondition('<', (first, second) => first < second),
  LESS_THAN_EQUALS: numberCondition('≤', (first, second) => first <= second),
  TRUE: { label: 'Boolean: is true', isMet: ({ initialValue }) => isTrue(initialValue) },
  FALSE: { label: 'Boolean: is false', isMet: ({ initialValue }) => !isTrue(initialValue) },
  BOOLEAN_EQUALS: {
    label: 'Boolean: equals',
    isMet: ({ initialValue, secondValue }) => isTrue(initialValue) === isTrue(secondValue),
  },
  EXISTS: { label: 'Exists (is not undefined)', isMet: ({ initialValue }) => initialValue !== undefined },
  NOT_EXISTS: { label: 'Does not exist', isMet: ({ initialValue }) => initialValue === undefined },
  IS_NULL: { label: 'Is null or undefined', isMet: ({ initialValue }) => isNothing(initialValue) },
  NOT_NULL: { label: 'Is not null or undefined', isMet: ({ initialValue }) => !isNothing(initialValue) },
  IS_STRING: typeCondition('text', 'string', true),
  NOT_STRING: typeCondition('text', 'string', false),
  IS_NUMBER: typeCondition('a number', 'number', true),
  NOT_NUMBER: typeCondition('a number', 'number', false),
  IS_BOOLEAN: typeCondition('a boolean', 'boolean', true),
  NOT_BOOLEAN: typeCondition('a boolean', 'boolean', false),
  IN_ARRAY: { label: 'Array: contains the value', isMet: isInArray },
  NOT_IN_ARRAY: { label: 'Array: does not contain the value', isMet: (compared) => !isInArray(compared) },
  KEY_EXISTS: { label: 'Object: has the key', isMet: hasKey },
  KEY_NOT_EXISTS: { label: 'Object: does not have the key', isMet: (compared) => !hasKey(compared) },
} as const satisfies Record<string, Condition>;

/** True when the condition with this name is met. Throws a ConfigurationError for values that it cannot compare. */
export function isMet(name: string, compared: Compared): boolean {
  if (!Object.hasOwn(conditions, name))
    throw new ConfigurationError(
      `condition: found ${shown(name)}, expected one of ${Object.keys(conditions).join(', ')}`,
    );
  return conditions[name as keyof typeof conditions].isMet(compared);
}

function textCondition(
  label: string,
  compare: TextTest,
  { takesEmpty = false }: { takesEmpty?: boolean } = {},
): Condition {
  return {
    label: `Text: ${label}`,
    isMet: ({ initialValue, secondValue, caseSensitive }) => {
      const [text, other] = [textOf(initialValue), textOf(secondValue)];
      // An empty text is in every text: a value that is missing must not let everything pass.
      if (other === '' && !takesEmpty)
        throw new ConfigurationError('secondValue: found nothing, expected text to compare');
      return caseSensitive ? compare(text, other) : compare(text.toLowerCase(), other.toLowerCase());
    },
  };
}

function numberCondition(sign: string, compare: NumberTest): Condition {
  return {
    label: `Number: ${sign}`,
    isMet: ({ initialValue, secondValue }) =>
      compare(numberOf('initialValue', initialValue), numberOf('secondValue', secondValue)),
  };
}

function typeCondition(what: string, type: string, expected: boolean): Condition {
  return {
    label: `Type: is ${expected ? '' : 'not '}${what}`,
    isMet: ({ initialValue }) => (typeof initialValue === type) === expected,
  };
}

function textOf(value: unknown): string {
  if (isNothing(value)) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

function numberOf(name: string, value: unknown): number {
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  if (typeof number === 'number' && !Number.isNaN(number)) return number;
  throw new ConfigurationError(`${name}: found ${shown(value)}, expected a number`);
}

function isNothing(value: unknown): value is null | undefined {
  return value === undefined || value === null;
}

function isBlank(value: unknown): boolean {
  return textOf(value).trim() === '';
}

/** As JavaScript has it, and the text `false` is false: forms and query strings have nothing but text. */
function isTrue(value: unknown): boolean {
  return typeof value === 'string' ? !/^\s*(?:false)?\s*$/i.test(value) : Boolean(value);
}

/** Either value may be the list. */
function isInArray({ initialValue, secondValue }: Compared): boolean {
  const second = parsed(secondValue);
  if (Array.isArray(second)) return holds(second, initialValue);
  const first = parsed(initialValue);
  if (Array.isArray(first)) return holds(first, secondValue);
  throw new ConfigurationError(
    `secondValue: found ${shown(secondValue)}, expected an array, or JSON text of one`,
  );
}

/** Numbers and texts are the same where they read the same. */
function holds(list: readonly unknown[], value: unknown): boolean {
  const isScalar = (one: unknown) => typeof one !== 'object' && one !== undefined;
  return list.some((item) =>
    isScalar(item) && isScalar(value) ? String(item) === String(value) : isDeepStrictEqual(item, value),
  );
}

/** Either value may be the object, and the other is the key. A key whose value is null or undefined does not count. */
function hasKey({ initialValue, secondValue }: Compared): boolean {
  for (const [object, key] of [
    [parsed(initialValue), secondValue],
    [parsed(secondValue), initialValue],
  ]) {
    if (typeof object !== 'object' || object === null || (typeof key === 'object' && key !== null)) continue;
    const name = String(key ?? '');
    return Object.hasOwn(object, name) && !isNothing((object as Record<string, unknown>)[name]);
  }
  throw new ConfigurationError(
    `initialValue: found ${shown(initialValue)}, expected an object, with a key as secondValue`,
  );
}

/** The object or array that a JSON text holds; anything else as it is. */
function parsed(value: unknown): unknown {
  if (typeof value !== 'string' || !/^\s*[[{]/.test(value)) return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}
