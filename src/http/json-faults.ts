import { CallerError } from '#lib/errors.ts';

/** Why a body that was refused could not be read: it is no JSON, or it has a key that would change what its objects inherit. */
export function unreadableBody(json: string): CallerError {
  let key: string | undefined;
  try {
    JSON.parse(json, (name, value: unknown) => {
      if (name === '__proto__') key = name;
      const isObject = typeof value === 'object' && value !== null;
      if (name === 'constructor' && isObject && Object.hasOwn(value, 'prototype'))
        key = 'constructor.prototype';
      return value;
    });
  } catch {
    return new CallerError('invalid_json', 'the body is not well-formed JSON');
  }
  if (key === undefined) return new CallerError('invalid_json', 'the body is not well-formed JSON');
  return new CallerError(
    'invalid_json',
    `${key}: found this key in the body, expected another name: it is refused, because it would change what objects inherit`,
    { parameter: key },
  );
}

/** Numbers from 1.8e308 on have an exponent of three digits, or as many digits as that. */
const largeExponent = /[eE]\+?\d{3}/;
const longDigits = 309;

/** The error for a number that would be read as infinite, and stored as null. */
export function numberTooLarge(json: string): CallerError | undefined {
  if (!largeExponent.test(json) && !hasLongDigits(json)) return undefined;
  let found: string | undefined;
  JSON.parse(json, (name, value: unknown) => {
    if (typeof value === 'number' && !Number.isFinite(value)) found ??= name;
    return value;
  });
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
