import { isObject } from './api.ts';
import { usageError } from './exit-codes.ts';

/** A request to an endpoint, as a trigger has it in its event. */
export interface RecordedRequest {
  method: string;
  path: string;
  query: Readonly<Record<string, string | readonly string[]>>;
  headers: Readonly<Record<string, string>>;
  body: string | undefined;
}

export interface EndpointAnswer {
  status: number;
  headers: Headers;
  body: Uint8Array;
}

const answerBytesMax = 10 * 1024 * 1024;
/** Headers of the first connection; fetch makes those of its own. */
const ofConnection =
  /^(?:host|connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|content-length|accept-encoding|expect|forwarded|x-forwarded-.*|x-amzn-.*|cf-.*)$/i;

/** A request from an event of an HTTP trigger, or from a file of them. `place`: where it stands, for messages. */
export function readRecorded(event: unknown, place: string): RecordedRequest {
  if (!isObject(event))
    throw usageError(`${place}: expected a request: { method, path, query, headers, body }`);
  const { body, bodyRaw } = event;
  const headers = Object.entries(isObject(event.headers) ? event.headers : {}).map(
    ([name, value]) => [name.toLowerCase(), String(value)] as const,
  );
  const method = String(event.method ?? (body === undefined ? 'GET' : 'POST')).toUpperCase();
  if (!/^[A-Z]{1,20}$/.test(method)) throw usageError(`${place}: method: found ${method}`);
  const path = String(event.path ?? '/');
  return {
    method,
    path: path.startsWith('/') ? path : `/${path}`,
    query: isObject(event.query) ? (event.query as RecordedRequest['query']) : {},
    headers: Object.fromEntries(headers.filter(([name]) => !ofConnection.test(name))),
    body:
      typeof bodyRaw === 'string' ? bodyRaw : textOf(body, Object.fromEntries(headers)['content-type'] ?? ''),
  };
}

function textOf(body: unknown, type: string): string | undefined {
  if (body === undefined || body === null || typeof body === 'string') return body ?? undefined;
  if (/^application\/x-www-form-urlencoded/i.test(type))
    return new URLSearchParams(body as Record<string, string>).toString();
  return JSON.stringify(body);
}

/** Sends it to one endpoint, and nowhere else: redirects are answers. */
export async function sendRecorded(
  base: string,
  request: RecordedRequest,
  options: { timeoutMs: number; signal: AbortSignal },
): Promise<EndpointAnswer> {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(request.query))
    for (const one of Array.isArray(value) ? value : [value]) query.append(name, String(one));
  const path = request.path === '/' ? '' : request.path;
  const url = `${base.replace(/\/$/, '')}${path}${query.size === 0 ? '' : `?${query}`}`;
  const hasBody = request.method !== 'GET' && request.method !== 'HEAD' && request.body !== undefined;
  const response = await fetch(url, {
    method: request.method,
    headers: request.headers,
    redirect: 'manual',
    signal: AbortSignal.any([options.signal, AbortSignal.timeout(options.timeoutMs)]),
    ...(hasBody ? { body: request.body ?? '' } : {}),
  });
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of response.body ?? []) {
    size += part.byteLength;
    if (size > answerBytesMax) throw new Error('the answer is larger than 10 MB');
    parts.push(part);
  }
  return { status: response.status, headers: response.headers, body: Buffer.concat(parts) };
}
