import { Millrace, MillraceConnectionError } from '#sdk';

/** A step under test may run for twelve minutes, and its code be built before; Node's own limits of the service are shorter. */
const answerPatienceMs = 15 * 60_000;

/** Called when a request found that the session has ended. */
let onSignedOut = (): void => {};

export function whenSignedOut(listener: () => void): void {
  onSignedOut = listener;
}

/** The client of the service that serves these pages, for the user who is signed in: the browser sends the session cookie. */
export const client = new Millrace({
  url: window.location.origin,
  // The cookie counts only with it: a page of another origin cannot send it.
  headers: { 'x-millrace-csrf': '1' },
  timeoutMs: answerPatienceMs,
  // Queries retry reads themselves, and only the user repeats changes.
  retriesMax: 0,
  fetch: async (url, init) => {
    const response = await fetch(url, init);
    if (response.status === 401 && new URL(url).pathname !== '/v1/session') onSignedOut();
    return response;
  },
});

export interface RequestOptions {
  /** Parameters that are undefined or empty are left out. */
  query?: Readonly<Record<string, string | number | boolean | undefined>>;
  body?: unknown;
  signal?: AbortSignal;
}

/**
 * One request to the public API, such as `api('GET', '/v1/users/me')`. Returns the parsed body, undefined where there is
 * none. Throws MillraceError for what the service refused.
 */
export async function api<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
  const { query = {}, body, signal } = options;
  const given = Object.fromEntries(Object.entries(query).filter(([, value]) => value !== ''));
  try {
    return await client.request<T>(
      { method, path, query: given, ...(body === undefined ? {} : { body }) },
      signal === undefined ? {} : { signal },
    );
  } catch (error) {
    throw error instanceof MillraceConnectionError ? unanswered(error) : error;
  }
}

/** A message for the user; that of the client names the request. */
function unanswered({ method, path, cause }: MillraceConnectionError): MillraceConnectionError {
  return new MillraceConnectionError('The service does not answer. Is it running?', { method, path, cause });
}
