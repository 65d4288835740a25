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

/** Numbers from 1.8e308 on have an exponent of three digits, or so many digits. Strings are found too. */
const maybeTooLarge = /\d[eE]\+?\d{3}|(?<!\d)\d{309}/;

/** The error for a number that would be read as infinite, and stored as null. */
export function numberTooLarge(json: string): CallerError | undefined {
  if (!maybeTooLarge.test(json)) return undefined;
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
