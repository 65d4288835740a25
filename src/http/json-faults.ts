import { CallerError } from '#lib/errors.ts';
import { hasMoreMembersThan } from '#lib/json-depth.ts';

/** Members of all objects of a body together. A body of the largest size with three times as many kept the service from all else for a second. */
const bodyMembersMax = 100_000;

/** The error for a body with too many members to be parsed in a short time. */
export function tooManyMembers(json: string): CallerError | undefined {
  if (!hasMoreMembersThan(json, bodyMembersMax)) return undefined;
  return new CallerError(
    'invalid_json',
    `the objects of the body have more than ${bodyMembersMax} members together, expected at most as many: send fewer at a time, or as text`,
  );
}

/** Why a body that was refused could not be read: it is no JSON, or it has a key that would change what its objects inherit. */
export function unreadableBody(json: string): CallerError {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return new CallerError('invalid_json', 'the body is not well-formed JSON');
  }
  const found = nameOfFirst(value, (name, item) => name === '__proto__' || changesPrototype(name, item));
  if (found === undefined) return new CallerError('invalid_json', 'the body is not well-formed JSON');
  const key = found === '__proto__' ? found : 'constructor.prototype';
  return new CallerError(
    'invalid_json',
    `${key}: found this key in the body, expected another name: it is refused, because it would change what objects inherit`,
    { parameter: key },
  );
}

function changesPrototype(name: string | number, value: unknown): boolean {
  return (
    name === 'constructor' && typeof value === 'object' && value !== null && Object.hasOwn(value, 'prototype')
  );
}

/**
 * The name (or index) of a value within this one that matches; '' when it is the value itself. A loop over what was parsed: a function that
 * JSON.parse calls for each value takes three times as long.
 */
function nameOfFirst(
  root: unknown,
  matches: (name: string | number, value: unknown) => boolean,
): string | undefined {
  if (matches('', root)) return '';
  const holders: object[] = [];
  const keep = (value: unknown): void => {
    if (typeof value === 'object' && value !== null) holders.push(value);
  };
  keep(root);
  for (let holder = holders.pop(); holder !== undefined; holder = holders.pop()) {
    if (Array.isArray(holder)) {
      for (let index = 0; index < holder.length; index += 1) {
        if (matches(index, holder[index])) return String(index);
        keep(holder[index]);
      }
      continue;
    }
    for (const name in holder) {
      const value = (holder as Record<string, unknown>)[name];
      if (matches(name, value)) return name;
      keep(value);
    }
  }
  return undefined;
}

/** Numbers from 1.8e308 on have an exponent of three digits, or as many digits as that. */
const largeExponent = /[eE]\+?\d{3}/;
const longDigits = 309;

/** The error for a number in the text, whose value is given, that was read as infinite and would be stored as null. */
export function numberTooLarge(json: string, value: unknown): CallerError | undefined {
  if (!largeExponent.test(json) && !hasLongDigits(json)) return undefined;
  const found = nameOfFirst(value, (_name, item) => typeof item === 'number' && !Number.isFinite(item));
  if (found === undefined) return undefined;
  const parameter = found === '' ? 'body' : found;
  return new CallerError(
    'invalid_parameter',
    `${parameter}: found a number above 1.8e308, expected one that a double can hold; send it as text`,
    { parameter },
  );
}

/** True when so many digits follow each other. One of them is at a multiple of that, so that few characters are looked at. */
function hasLongDigits(json: string): boolean {
  const isDigit = (at: number) => {
    const code = json.charCodeAt(at);
    return code >= 0x30 && code <= 0x39;
  };
  for (let at = longDigits - 1; at < json.length; at += longDigits) {
    if (!isDigit(at)) continue;
    let first = at;
    let end = at + 1;
    while (isDigit(first - 1)) first -= 1;
    while (end - first < longDigits && isDigit(end)) end += 1;
    if (end - first >= longDigits) return true;
  }
  return false;
}
