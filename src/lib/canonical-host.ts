import { isIP } from 'node:net';

/**
 * The one reading of a host, by the WHATWG URL parser: lower case, IDNA, and every odd spelling of an IPv4 address as
 * four decimal numbers. Brackets are removed. Undefined when it is no host at all.
 */
export function canonicalHost(host: string): string | undefined {
  const bare = host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host;
  if (isIP(bare) !== 0) return bare;
  // These would make the parser see something beside a host.
  if (bare === '' || bare.length > 1_000 || /[\s/\\?#@:[\]]/.test(bare)) return undefined;
  const url = URL.parse(`http://${bare}/`);
  return url === null || url.hostname === '' ? undefined : url.hostname;
}
