import { CallerError } from '#lib/errors.ts';

/** What a caller of an endpoint is told that no source or workflow has, or has any more. */
export function unknownEndpoint(): CallerError {
  return new CallerError('unknown_endpoint', 'there is no active endpoint at this address');
}
