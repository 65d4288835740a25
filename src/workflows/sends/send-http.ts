import type { GuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import { guardedFetch } from '#egress/guarded-fetch.ts';
import { toError } from '#lib/errors.ts';
import { optionalText, requiredText, SendError, type SendOutcome, sendArgument } from './run-send.ts';

/** For everything together (component contract): a receiver that takes longer has not answered. */
const timeoutMsDefault = 5_000;
/** Maximum of the response body that is kept. */
const answerBytesMax = 1024;

const methods: readonly string[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

export interface HttpSender {
  dispatcher: GuardedDispatcher;
  version: string;
  timeoutMs?: number;
}

/**
 * `$.send.http`: `{ method, url, data, headers, params, auth: { username, password } }`. One request, no second one, no
 * redirects; 2xx is `sent`, any other answer `failed`, both with status and the first KB of the body.
 */
export async function sendHttp(
  sender: HttpSender,
  payload: string,
  signal: AbortSignal,
): Promise<SendOutcome> {
  const request = requestOf(sendArgument(payload), sender.version);
  const { timeoutMs = timeoutMsDefault } = sender;
  const startedMs = performance.now();
  const took = () => Math.round(performance.now() - startedMs);
  try {
    const answer = await guardedFetch(request.url, {
      ...request,
      dispatcher: sender.dispatcher,
      maxRedirects: 0,
      maxBytes: answerBytesMax,
      onOverflow: 'truncate',
      timeoutMs,
      signal,
    });
    const { status } = answer;
    const body = answer.body.toString('utf8').replaceAll('\0', '');
    const isTaken = status >= 200 && status < 300;
    return { state: isTaken ? 'sent' : 'failed', result: { status, body, duration_ms: took() } };
  } catch (error) {
    signal.throwIfAborted();
    const { message } = toError(error);
    const { code } = Object(error) as { code?: unknown };
    const text = typeof code === 'string' && !message.includes(code) ? `${code}: ${message}` : message;
    return { state: 'failed', result: { error: text.slice(0, 500), duration_ms: took() } };
  }
}

interface Request {
  url: string;
  method: string;
  headers: Record<string, string>;
  body?: string;
}

function requestOf(argument: Record<string, unknown>, version: string): Request {
  const method = requiredText(argument, 'method');
  if (!methods.includes(method))
    throw new SendError(`method: expected one of ${methods.join(', ')}, in upper case`);
  const headers: Record<string, string> = { 'user-agent': `Millrace/${version}` };
  for (const [name, value] of Object.entries(optionalObject(argument, 'headers') ?? {})) {
    if (value !== undefined && value !== null) headers[name.toLowerCase()] = plainText(value);
  }
  const auth = optionalObject(argument, 'auth');
  if (auth !== undefined) {
    const credentials = `${optionalText(auth, 'username') ?? ''}:${optionalText(auth, 'password') ?? ''}`;
    headers.authorization = `Basic ${Buffer.from(credentials).toString('base64')}`;
  }
  const { data } = argument;
  const isText = typeof data === 'string';
  if (data !== undefined && data !== null) {
    headers['content-type'] ??= isText ? 'text/plain; charset=utf-8' : 'application/json';
  }
  // What the body is long is known here, whatever the headers say.
  delete headers['content-length'];
  return {
    url: withParams(requiredText(argument, 'url'), optionalObject(argument, 'params') ?? {}),
    method,
    headers,
    ...(data === undefined || data === null ? {} : { body: isText ? data : JSON.stringify(data) }),
  };
}

function optionalObject(
  argument: Record<string, unknown>,
  name: string,
): Record<string, unknown> | undefined {
  const value = argument[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'object' || Array.isArray(value)) throw new SendError(`${name}: expected an object`);
  return value as Record<string, unknown>;
}

/** The URL with `params` behind what its query has; a list is a parameter that comes several times. */
function withParams(text: string, params: Record<string, unknown>): string {
  const url = URL.parse(text);
  if (url === null) throw new SendError(`url: ${JSON.stringify(text.slice(0, 200))} is not a URL`);
  for (const [name, value] of Object.entries(params)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item === undefined || item === null) continue;
      url.searchParams.append(name, typeof item === 'object' ? JSON.stringify(item) : String(item));
    }
  }
  return url.href;
}

/** Several values are joined; the text of an object may be anything. */
function plainText(value: unknown): string {
  if (Array.isArray(value)) return value.map(plainText).join(', ');
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}
