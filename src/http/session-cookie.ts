import type { FastifyReply, FastifyRequest } from 'fastify';
import { CallerError } from '#lib/errors.ts';

const cookieName = 'millrace_session';
/** Only there does the browser send it: endpoints, whose requests user code reads, never get it. */
const cookiePath = '/v1';
/** A page of another origin cannot send a header of its own choice without being asked about it first, and is refused then. */
const csrfHeader = 'x-millrace-csrf';
/** A Cookie header is looked through up to here. */
const cookieHeaderMax = 16_384;
const safeMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);

type CookieRequest = Pick<FastifyRequest, 'headers' | 'method' | 'url' | 'host' | 'protocol'>;

/**
 * What the cookie of a session holds, where it counts: below /v1, with the header `x-millrace-csrf`, from a page of this
 * service. Undefined: there is none, or the header is missing. Throws CallerError `foreign_origin`.
 */
export function sessionTokenOf(request: CookieRequest, publicUrl: string): string | undefined {
  if (!request.url.startsWith(`${cookiePath}/`) || request.headers[csrfHeader] === undefined)
    return undefined;
  const token = cookieOf(request.headers.cookie);
  if (token !== undefined) requireOwnOrigin(request, publicUrl);
  return token;
}

/** Requests that change something say where they come from, as browsers do of themselves. Throws CallerError `foreign_origin`. */
function requireOwnOrigin(request: CookieRequest, publicUrl: string): void {
  const { origin } = request.headers;
  if (origin === undefined) {
    const site = request.headers['sec-fetch-site'];
    if (
      safeMethods.has(request.method) ? site === undefined || site === 'same-origin' : site === 'same-origin'
    )
      return;
  } else if (isOwnOrigin(origin, request, publicUrl)) return;
  throw new CallerError(
    'foreign_origin',
    `a session is used by the pages of this service only, and the header Origin (${origin === undefined ? 'missing' : JSON.stringify(origin.slice(0, 200))}) does not name this service; programs send an API key: Authorization: Bearer <API key>`,
  );
}

/** For what begins a session: as `requireOwnOrigin`, and the header too. Throws CallerError `foreign_origin` and `missing_parameter`. */
export function requireOwnPage(request: CookieRequest, publicUrl: string): void {
  requireOwnOrigin(request, publicUrl);
  if (request.headers[csrfHeader] !== undefined) return;
  throw new CallerError('missing_parameter', `the header ${csrfHeader} is missing`, {
    parameter: csrfHeader,
  });
}

function isOwnOrigin(origin: string, { host }: CookieRequest, publicUrl: string): boolean {
  if (!URL.canParse(origin)) return false;
  const from = new URL(origin);
  if (from.protocol !== 'http:' && from.protocol !== 'https:') return false;
  // The scheme that a proxy was asked with is not known unless it is trusted; the host is, or the proxy passes it on.
  return from.host === host.toLowerCase() || (publicUrl !== '' && from.origin === new URL(publicUrl).origin);
}

export function setSessionCookie(
  request: CookieRequest,
  reply: FastifyReply,
  { token, maxAgeSeconds, publicUrl }: { token: string; maxAgeSeconds: number; publicUrl: string },
): void {
  const isHttps = publicUrl.startsWith('https:') || request.protocol === 'https';
  reply.header(
    'set-cookie',
    `${cookieName}=${token}; Path=${cookiePath}; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Strict${isHttps ? '; Secure' : ''}`,
  );
}

export function clearSessionCookie(reply: FastifyReply): void {
  reply.header('set-cookie', `${cookieName}=; Path=${cookiePath}; Max-Age=0; HttpOnly; SameSite=Strict`);
}

function cookieOf(header: string | undefined): string | undefined {
  if (header === undefined || header.length > cookieHeaderMax) return undefined;
  for (const pair of header.split(';')) {
    const [name, value] = pair.trim().split('=', 2);
    if (name === cookieName && value !== undefined && value !== '') return value;
  }
  return undefined;
}
