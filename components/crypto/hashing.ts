import { badInput } from '../action.ts';

export const algorithms = ['sha256', 'sha384', 'sha512', 'sha3-256', 'sha1', 'md5'];
export const encodings = ['hex', 'base64', 'base64url'] as const;

export const algorithmProp = {
  type: 'string',
  label: 'Algorithm',
  description: 'Hash function; `sha1` and `md5` are for services that ask for them',
  optional: true,
  default: 'sha256',
  options: algorithms,
};

export const encodingProp = {
  type: 'string',
  label: 'Encoding',
  description: 'How the result is written',
  optional: true,
  default: 'hex',
  options: [...encodings],
};

export function algorithmOf(value: string = 'sha256'): string {
  if (!algorithms.includes(value)) throw badInput('algorithm', value, `one of ${algorithms.join(', ')}`);
  return value;
}

export function encodingOf(value: string = 'hex'): (typeof encodings)[number] {
  const known = encodings.find((one) => one === value);
  if (known === undefined) throw badInput('encoding', value, `one of ${encodings.join(', ')}`);
  return known;
}
