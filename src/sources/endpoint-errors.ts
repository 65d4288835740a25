import { CallerError } from '#lib/errors.ts';

/** The error for requests to an endpoint without a source or workflow, also when it was deleted. */
export function unknownEndpoint(): CallerError {
  return new CallerError('unknown_endpoint', 'there is no active endpoint at this URL');
}

/** The error for a caller whose request was accepted and then deleted with its source or workflow. */
export function endpointRemoved(kind: 'source' | 'workflow'): CallerError {
  return new CallerError(
    'endpoint_removed',
    `the ${kind} was deleted while the request waited for its reply; the request will not be run again`,
  );
}
