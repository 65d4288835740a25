import { badInput, ConfigurationError, textOf } from '../action.ts';

/** The bytes of Base64, also of the URL-safe kind, with or without `=` at the end. */
export function bytesOfBase64(prop: string, value: unknown): Buffer {
  const text = textOf(prop, value).replace(/\s/g, '');
  if (!/^[\w+/-]*={0,2}$/.test(text) || text.replace(/=+$/, '').length % 4 === 1)
    throw badInput(prop, value, 'Base64');
  return Buffer.from(text, 'base64');
}

/** The text of bytes in UTF-8. */
export function textOfBytes(prop: string, bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new ConfigurationError(`${prop}: found bytes that are not UTF-8, expected those of a text`);
  }
}
