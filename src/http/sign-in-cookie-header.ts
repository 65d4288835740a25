import type { FastifyRequest } from 'fastify';
import type { SignInCookie } from '#single-sign-on/sign-in-cookie.ts';

/** Only there does the browser send it. */
const cookiePath = '/oidc';

/** The Set-Cookie header for the way to the provider of single sign-on and back; with an age of 0 it removes the cookie. */
export function signInCookieHeader(
  { protocol }: Pick<FastifyRequest, 'protocol'>,
  { name, value, maxAgeSeconds }: SignInCookie,
  { publicUrl }: { publicUrl: string },
): string {
  const isHttps = publicUrl.startsWith('https:') || protocol === 'https';
  // Lax: the provider sends the browser back by a link of its own.
  return `${name}=${value}; Path=${cookiePath}; Max-Age=${maxAgeSeconds}; HttpOnly; SameSite=Lax${isHttps ? '; Secure' : ''}`;
}
