/** What the API answered instead of what was asked for. `message` is a sentence for a person. */
export class ApiError extends Error {
  /** 0: no answer came at all. */
  readonly status: number;
  readonly code: string;
  readonly details: Readonly<Record<string, unknown>>;
  readonly requestId: string | null;

  constructor(
    message: string,
    options: { status: number; code: string; details?: Record<string, unknown>; requestId?: string | null },
  ) {
    super(message);
    this.name = 'ApiError';
    this.status = options.status;
    this.code = options.code;
    this.details = options.details ?? {};
    this.requestId = options.requestId ?? null;
  }
}

/** Told when a request found that nobody is signed in any more. */
let onSignedOut = (): void => {};

export function whenSignedOut(listener: () => void): void {
  onSignedOut = listener;
}

/** The cookie counts only with it: a page of another origin cannot send it. */
export const csrfHeaders = { 'x-millrace-csrf': '1' };

export interface RequestOptions {
  query?: Record<string, string | number | boolean | undefined>;
  body?: unknown;
  signal?: AbortSignal;
  headers?: Record<string, string>;
}

/** Path with query; parameters that are undefined or empty are left out. */
export function withQuery(path: string, query: RequestOptions['query'] = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== '') search.set(name, String(value));
  }
  return search.size === 0 ? path : `${path}?${search}`;
}

/**
 * One request to the public API, such as `api('GET', '/v1/users/me')`. Answers the parsed body, undefined where there is
 * none. Throws ApiError.
 */
export async function api<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
  const response = await send(method, path, options);
  const text = await response.text();
  if (text === '') return undefined as T;
  try {
    return JSON.parse(text) as T;
  } catch {
    throw new ApiError('The service gave an answer that is no JSON.', {
      status: response.status,
      code: 'no_json',
    });
  }
}

/** The same without reading the answer, for streams. Throws ApiError. */
export async function send(method: string, path: string, options: RequestOptions = {}): Promise<Response> {
  const { query, body, signal, headers } = options;
  let response: Response;
  try {
    response = await fetch(withQuery(path, query), {
      method,
      credentials: 'same-origin',
      redirect: 'error',
      headers: {
        ...csrfHeaders,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    });
  } catch (error) {
    if (signal?.aborted === true) throw error;
    throw new ApiError('The service does not answer. Is it running?', { status: 0, code: 'unreachable' });
  }
  if (response.ok) return response;
  const error = await errorOf(response);
  if (error.status === 401 && path !== '/v1/session') onSignedOut();
  throw error;
}

async function errorOf(response: Response): Promise<ApiError> {
  const requestId = response.headers.get('x-request-id');
  const told = (await response.json().catch(() => ({}))) as {
    error?: unknown;
    code?: unknown;
    details?: Record<string, unknown>;
  };
  const message = typeof told.error === 'string' ? told.error : `The service answered ${response.status}.`;
  const code = typeof told.code === 'string' ? told.code : 'unknown';
  return new ApiError(message, { status: response.status, code, details: told.details ?? {}, requestId });
}
