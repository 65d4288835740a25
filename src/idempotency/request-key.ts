import { createHash, type Hash } from 'node:crypto';
import { CallerError } from '#lib/errors.ts';

/** The `Idempotency-Key` of a request, ready to be stored with what the request becomes. */
export interface RequestKey {
  id: string;
  ownerId: string;
  /** The source or workflow that takes the request; at the API its caller. */
  subjectId: string;
  requestDigest: string;
}

const wellFormed = /^[\x21-\x7e]{1,255}$/;

/**
 * Id of the key in the header of a request to `address`: the key of the endpoint or, with a space in it, the id of the
 * caller of the API. Undefined without the header. Throws
 * CallerError `invalid_parameter`.
 */
export function readKeyId(address: string, header: string | string[] | undefined): string | undefined {
  if (header === undefined) return undefined;
  const key = String(header);
  if (!wellFormed.test(key)) {
    throw new CallerError(
      'invalid_parameter',
      `Idempotency-Key: ${key.length} characters${key.length > 255 ? '' : ', some of them not visible ASCII'}, expected 1 to 255 visible ASCII characters`,
      { parameter: 'Idempotency-Key' },
    );
  }
  // No address has a line break.
  return createHash('sha256').update(`${address}\n${key}`).digest('base64url');
}

/** Digest of what makes two requests the same; the caller adds the bytes of the body. */
export function beginDigest(request: { method: string; path: string; queryString: string }): Hash {
  const { method, path, queryString } = request;
  return createHash('sha256').update(`${JSON.stringify([method, path, queryString])}\n`);
}
