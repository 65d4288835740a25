import type { IncomingHttpHeaders } from 'node:http';

/** What a caller may ask of an endpoint, with a header or query parameter of this name and the value 1. */
export type RequestControl =
  /** Nothing of the run is kept. */
  | 'x-pd-nostore'
  /** The request is recorded, and does not run. */
  | 'x-pd-notrigger'
  /** The body is set aside in a file; in a query it is called `pipedream_upload_body`. */
  | 'x-pd-upload-body';

const queryNames: Record<RequestControl, string[]> = {
  'x-pd-nostore': ['x-pd-nostore'],
  'x-pd-notrigger': ['x-pd-notrigger'],
  'x-pd-upload-body': ['x-pd-upload-body', 'pipedream_upload_body'],
};

/** True when the caller set the control. Queries are only parsed when they contain one of the names. */
export function isControlled(
  request: { headers: IncomingHttpHeaders; queryString: string },
  control: RequestControl,
): boolean {
  if (request.headers[control] === '1') return true;
  const { queryString } = request;
  if (queryString === '') return false;
  return queryNames[control].some(
    (name) => queryString.includes(name) && new URLSearchParams(queryString).get(name) === '1',
  );
}
