import { isIP } from 'node:net';
import type { AddressPolicy } from './address-policy.ts';
import { type LookupAll, systemLookup } from './system-lookup.ts';

export type { LookupAll };

/** A connection that was not made, with a `code` as Node.js uses it: ENOTFOUND, EAI_AGAIN, EACCES, ETIMEDOUT, … */
export class EgressError extends Error {
  override name = 'EgressError';
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** More addresses than this of one name are ignored; each costs a dial that may hang. */
const addressesMax = 16;

/**
 * The addresses of `host` that `policy` allows, never empty: whoever dials must use these and not resolve again, since
 * a second answer may differ from the vetted one. Throws `EgressError` with ENOTFOUND (or the resolver's code) when there
 * is no address, EACCES when there are only forbidden ones.
 */
export async function resolveAndVet(
  host: string,
  port: number,
  policy: AddressPolicy,
  options: { lookup?: LookupAll } = {},
): Promise<string[]> {
  const hostname = canonicalHost(host);
  if (hostname === undefined) throw new EgressError('ENOTFOUND', `getaddrinfo ENOTFOUND ${printable(host)}`);
  const addresses = await findAddresses(hostname, options.lookup ?? lookupAll);
  const allowed: string[] = [];
  let reason = '';
  for (const address of addresses.slice(0, addressesMax)) {
    const verdict = policy.check(address, port);
    if (verdict.allowed) allowed.push(address);
    else reason = verdict.reason;
  }
  if (allowed.length > 0) return allowed;
  // For a name the reason says the kind of address only, so that internal addresses cannot be read off messages.
  throw new EgressError(
    'EACCES',
    `connect EACCES ${hostname}:${port} is not allowed: ${reason}. ` +
      `MILLRACE_EGRESS is "${policy.allow.join(',')}"; the operator can open more there (local, or a CIDR)`,
  );
}

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

async function findAddresses(hostname: string, lookup: LookupAll): Promise<string[]> {
  if (isIP(hostname) !== 0) return [hostname];
  const name = hostname.endsWith('.') ? hostname.slice(0, -1) : hostname;
  if (name === 'localhost' || name.endsWith('.localhost')) return ['127.0.0.1', '::1'];
  if (name === 'invalid' || name.endsWith('.invalid')) throw notFound(hostname, 'ENOTFOUND');
  try {
    const entries = await lookup(hostname);
    if (entries.length > 0) return entries.map((entry) => entry.address);
  } catch (error) {
    throw notFound(hostname, resolverCode(error), error);
  }
  throw notFound(hostname, 'ENOTFOUND');
}

function notFound(hostname: string, code: string, cause?: unknown): EgressError {
  const why = code === 'EAI_AGAIN' ? ': the name could not be looked up in time' : '';
  return new EgressError(code, `getaddrinfo ${code} ${hostname}${why}`, { cause });
}

function resolverCode(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined;
  return code === 'EAI_AGAIN' ? code : 'ENOTFOUND';
}

function printable(host: string): string {
  return JSON.stringify(host.slice(0, 100));
}

/** The names of the machine. */
export const lookupAll: LookupAll = systemLookup();
