import { isIP } from 'node:net';
import { canonicalHost } from '#lib/canonical-host.ts';
import type { AddressPolicy } from './address-policy.ts';
import { EgressError } from './egress-error.ts';
import { type LookupAll, systemLookup } from './system-lookup.ts';

export { EgressError, type LookupAll };

/** More addresses than this of one name are ignored; each costs a dial that may hang. */
const addressesMax = 16;

/** Where a connection may be dialled. */
export interface VettedTarget {
  /** Never empty. */
  addresses: string[];
  /** Differs from the requested one if the operator redirects the connection (MILLRACE_CONNECT_TO). */
  port: number;
}

/**
 * The addresses of `host` that `policy` allows: a caller that connects must use these and not resolve again, since a second
 * answer may differ from the vetted one. Where the operator redirects connections to `host` and `port`, the addresses of
 * the target, vetted in the same way. Throws `EgressError` with ENOTFOUND (or the resolver's code) when there is no address,
 * EACCES when there are only forbidden ones.
 */
export async function resolveAndVet(
  host: string,
  port: number,
  policy: AddressPolicy,
  options: { lookup?: LookupAll } = {},
): Promise<VettedTarget> {
  const hostname = canonicalHost(host);
  if (hostname === undefined) throw new EgressError('ENOTFOUND', `getaddrinfo ENOTFOUND ${printable(host)}`);
  const led = policy.connectTo.lead(hostname, port);
  const target = led ?? { host: hostname, port };
  const addresses = await findAddresses(target.host, options.lookup ?? lookupAll);
  const allowed: string[] = [];
  let reason = '';
  let hint = '';
  for (const address of addresses.slice(0, addressesMax)) {
    const verdict = policy.check(address, target.port);
    if (verdict.allowed) allowed.push(address);
    else {
      reason = verdict.reason;
      hint =
        verdict.closed === true
          ? ''
          : `. MILLRACE_EGRESS is "${policy.allow.join(',')}"; the operator can open more there (local, or a CIDR)`;
    }
  }
  if (allowed.length > 0) return { addresses: allowed, port: target.port };
  // For a name the reason says the kind of address only, so that internal addresses cannot be read off messages.
  throw new EgressError(
    'EACCES',
    `connect EACCES ${hostname}:${port} is not allowed${led === undefined ? '' : ' where MILLRACE_CONNECT_TO leads it'}: ${reason}${hint}`,
  );
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
    // Not an answer of the resolver: the look-up was refused.
    if (error instanceof EgressError) throw error;
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
