import { type Dispatcher, request } from 'undici';
import { bytesText } from '#lib/units.ts';
import type { GuardedDispatcher } from './guarded-dispatcher.ts';
import { EgressError } from './resolve-address.ts';

export interface GuardedFetchOptions {
  dispatcher: GuardedDispatcher;
  method?: string;
  /** Field names in any case. */
  headers?: Record<string, string>;
  body?: string | Uint8Array;
  /** Redirects followed, each vetted like a first request. 0 returns the redirect itself. Default 5. */
  maxRedirects?: number;
  /** Largest body, in bytes as they come (nothing is decompressed). Default 10 MiB. */
  maxBytes?: number;
  /** What happens to a larger body: the request fails (default), or the body ends there and `truncated` is set. */
  onOverflow?: 'error' | 'truncate';
  /** For everything together, redirects and body included. Default 60 seconds. */
  timeoutMs?: number;
  signal?: AbortSignal;
  /** Gets the body of a response with status 200 piece by piece, each after the one before was taken; `body` is empty then. */
  receive?: (chunk: Buffer) => void | Promise<void>;
}

export interface GuardedResponse {
  status: number;
  /** Lower-case field names; a field that came several times is joined by ", ". */
  headers: Record<string, string>;
  /** Where the answer came from, after redirects. */
  url: string;
  body: Buffer;
  truncated: boolean;
}

const redirectStatuses = new Set([301, 302, 303, 307, 308]);
/** Written for one origin; the next one has no business with them. */
const originHeaders = new Set(['authorization', 'cookie', 'proxy-authorization']);
const bodyHeaders = new Set(['content-type', 'content-length', 'content-encoding', 'content-language']);
/** The connection decides about these; `host` would also change whose certificate is expected. */
const connectionHeaders = new Set([
  'host',
  'connection',
  'keep-alive',
  'transfer-encoding',
  'upgrade',
  'te',
  'trailer',
]);

interface Hop {
  url: URL;
  method: string;
  headers: Record<string, string>;
  body: string | Uint8Array | undefined;
}

/**
 * One request of the platform itself. Resolves with any status. Rejects with an error whose `code` says why:
 * - `ERR_INVALID_URL` (no URL, not http(s), or with credentials in it);
 * - `EACCES`, `ENOTFOUND`, `EAI_AGAIN`, `ECONNREFUSED`, `ETIMEDOUT`, `ERR_TLS_…` and others from connecting;
 * - `ERR_UNSAFE_REDIRECT` (https to http), `ERR_TOO_MANY_REDIRECTS`, `ERR_BODY_TOO_LARGE`;
 * - or with the reason of `signal`.
 */
export async function guardedFetch(url: string, options: GuardedFetchOptions): Promise<GuardedResponse> {
  const { maxRedirects = 5, timeoutMs = 60_000 } = options;
  const timeout = AbortSignal.timeout(timeoutMs);
  const signal = options.signal === undefined ? timeout : AbortSignal.any([timeout, options.signal]);
  let hop: Hop = {
    url: parseTarget(url),
    method: (options.method ?? 'GET').toUpperCase(),
    headers: requestHeaders(options.headers ?? {}),
    body: options.body,
  };
  try {
    for (let followed = 0; ; followed += 1) {
      const response = await send(hop, options.dispatcher, signal);
      const location = joined(response.headers.location);
      if (!redirectStatuses.has(response.statusCode) || location === undefined || maxRedirects === 0) {
        return await readResponse(hop.url, response, options);
      }
      response.body.on('error', () => {}).destroy();
      if (followed === maxRedirects) {
        throw new EgressError('ERR_TOO_MANY_REDIRECTS', `${url} redirects more than ${maxRedirects} times`);
      }
      hop = nextHop(hop, response.statusCode, location);
    }
  } catch (error) {
    if (!timeout.aborted || options.signal?.aborted === true) throw error;
    throw new EgressError('ETIMEDOUT', `${url} did not answer within ${timeoutMs} ms`, { cause: error });
  }
}

/** The one reading of a URL that the platform is about to call; throws `EgressError` with ERR_INVALID_URL. */
export function parseTarget(text: string, base?: URL): URL {
  const url = URL.parse(text, base);
  if (url === null)
    throw new EgressError('ERR_INVALID_URL', `${JSON.stringify(text.slice(0, 200))} is not a URL`);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new EgressError('ERR_INVALID_URL', `expected a URL with http: or https:, found ${url.protocol}`);
  }
  if (url.username !== '' || url.password !== '') {
    throw new EgressError(
      'ERR_INVALID_URL',
      `the URL of ${url.host} has a user name or password in it; use a header instead`,
    );
  }
  return url;
}

function requestHeaders(given: Record<string, string>): Record<string, string> {
  const headers: Record<string, string> = { 'accept-encoding': 'identity' };
  for (const [name, value] of Object.entries(given)) {
    if (!connectionHeaders.has(name.toLowerCase())) headers[name.toLowerCase()] = value;
  }
  return headers;
}

async function send(
  hop: Hop,
  dispatcher: GuardedDispatcher,
  signal: AbortSignal,
): Promise<Dispatcher.ResponseData> {
  return request(hop.url, {
    dispatcher,
    // undici narrows this to the methods it knows, but sends any token.
    method: hop.method as Dispatcher.HttpMethod,
    headers: hop.headers,
    body: hop.body ?? null,
    signal,
  });
}

/** Which request follows from a redirect, as browsers decide it, and stricter about secrets. */
function nextHop(hop: Hop, status: number, location: string): Hop {
  const url = parseTarget(location, hop.url);
  if (hop.url.protocol === 'https:' && url.protocol === 'http:') {
    throw new EgressError(
      'ERR_UNSAFE_REDIRECT',
      `${hop.url.origin} redirects to the unencrypted ${url.origin}`,
    );
  }
  const asGet =
    (status === 303 && hop.method !== 'HEAD') ||
    ((status === 301 || status === 302) && hop.method === 'POST');
  const dropped = (name: string): boolean =>
    (asGet && bodyHeaders.has(name)) || (url.origin !== hop.url.origin && originHeaders.has(name));
  return {
    url,
    method: asGet ? 'GET' : hop.method,
    headers: Object.fromEntries(Object.entries(hop.headers).filter(([name]) => !dropped(name))),
    body: asGet ? undefined : hop.body,
  };
}

async function readResponse(
  url: URL,
  response: Dispatcher.ResponseData,
  options: GuardedFetchOptions,
): Promise<GuardedResponse> {
  const { maxBytes = 10 * 1024 * 1024, onOverflow = 'error' } = options;
  const receive = response.statusCode === 200 ? options.receive : undefined;
  const chunks: Buffer[] = [];
  let bytes = 0;
  let truncated = false;
  for await (const chunk of response.body as AsyncIterable<Buffer>) {
    const room = maxBytes - bytes;
    if (chunk.length > room) {
      if (onOverflow === 'error') {
        throw new EgressError(
          'ERR_BODY_TOO_LARGE',
          `the answer of ${url.host} is larger than ${bytesText(maxBytes)}`,
        );
      }
      chunks.push(chunk.subarray(0, room));
      truncated = true;
      break;
    }
    bytes += chunk.length;
    if (receive === undefined) chunks.push(chunk);
    else await receive(chunk);
  }
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(response.headers)) headers[name] = joined(value) ?? '';
  return { status: response.statusCode, headers, url: url.href, body: Buffer.concat(chunks), truncated };
}

function joined(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value.join(', ') : value;
}
