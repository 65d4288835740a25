import type { FastifyRequest } from 'fastify';

/** The cookies of a request by name; of two with one name, the later one. */
export function cookiesOf({ headers }: Pick<FastifyRequest, 'headers'>): ReadonlyMap<string, string> {
  const cookies = new Map<string, string>();
  for (const pair of (headers.cookie ?? '').split(';')) {
    const at = pair.indexOf('=');
    if (at > 0) cookies.set(pair.slice(0, at).trim(), pair.slice(at + 1).trim());
  }
  return cookies;
}
