import type { LookupAddress } from 'node:dns';
import type { MuxFault, MuxSession } from '#lib/mux.ts';
import { errorNumber } from './egress-connection.ts';

const dns = process.getBuiltinModule('node:dns');
const net = process.getBuiltinModule('node:net');
const util = process.getBuiltinModule('node:util');

type LookupCallback = (error: Error | null, address?: string | LookupAddress[], family?: number) => void;
interface LookupRequest {
  family: number;
  all: boolean;
  order: string;
}

/** Replaces `dns.lookup` and `dns.promises.lookup` by requests to the parent. Literal addresses are answered here. */
export function createLookups(session: MuxSession, begin: () => () => void): void {
  const nativeLookup = dns.lookup as (...args: unknown[]) => unknown;
  const nativeLookupPromise = dns.promises.lookup as (...args: unknown[]) => Promise<unknown>;
  const hostCall = (hostname: string): Promise<LookupAddress[]> => askParent(session, hostname, begin());

  const lookup = (hostname: unknown, options: unknown, callback?: unknown): unknown => {
    const done = (typeof options === 'function' ? options : callback) as LookupCallback;
    // Literals need no resolver, and the native function throws the right errors for invalid arguments.
    if (typeof done !== 'function' || !isName(hostname)) {
      return typeof options === 'function'
        ? nativeLookup(hostname, options)
        : nativeLookup(hostname, options, callback);
    }
    const request = readOptions(typeof options === 'function' ? undefined : options);
    hostCall(hostname)
      .then((entries) => select(entries, request, hostname))
      .then(
        (entries) =>
          process.nextTick(() =>
            request.all ? done(null, entries) : done(null, entries[0]?.address, entries[0]?.family),
          ),
        (error: Error) => process.nextTick(done, error),
      );
    return {};
  };
  const lookupPromise = async (hostname: unknown, options?: unknown): Promise<unknown> => {
    if (!isName(hostname)) return nativeLookupPromise(hostname, options);
    const request = readOptions(options);
    const entries = select(await hostCall(hostname), request, hostname);
    return request.all ? entries : entries[0];
  };
  Object.defineProperty(lookup, util.promisify.custom, { value: lookupPromise });
  Object.assign(dns, { lookup });
  Object.assign(dns.promises, { lookup: lookupPromise });
}

function isName(hostname: unknown): hostname is string {
  return typeof hostname === 'string' && hostname !== '' && net.isIP(hostname) === 0;
}

function readOptions(options: unknown): LookupRequest {
  const given = typeof options === 'object' && options !== null ? (options as Record<string, unknown>) : {};
  const family = typeof options === 'number' ? options : given.family;
  const verbatim =
    given.verbatim === undefined ? dns.getDefaultResultOrder() : given.verbatim ? 'verbatim' : 'ipv4first';
  return {
    family: family === 'IPv4' ? 4 : family === 'IPv6' ? 6 : Number(family ?? 0),
    all: given.all === true,
    order: typeof given.order === 'string' ? given.order : verbatim,
  };
}

function select(entries: LookupAddress[], request: LookupRequest, hostname: string): LookupAddress[] {
  const fitting = entries.filter((entry) => request.family === 0 || entry.family === request.family);
  if (fitting.length === 0)
    throw lookupError({ code: 'ENOTFOUND', message: `getaddrinfo ENOTFOUND ${hostname}` }, hostname);
  if (request.order === 'verbatim') return fitting;
  const first = request.order === 'ipv4first' ? 4 : 6;
  return fitting.toSorted((a, b) => Number(b.family === first) - Number(a.family === first));
}

function askParent(session: MuxSession, hostname: string, end: () => void): Promise<LookupAddress[]> {
  return new Promise((resolve, reject) => {
    const channel = session.open(
      { lookup: hostname },
      {
        opened: (answer) => {
          resolve(readAddresses(answer));
          channel.end();
        },
        data: (_chunk, cost) => channel.release(cost),
        end: () => {},
        closed: (fault) => {
          end();
          if (fault !== undefined) reject(lookupError(fault, hostname));
        },
      },
    );
  });
}

function readAddresses(answer: unknown): LookupAddress[] {
  if (typeof answer !== 'object' || answer === null || !('addresses' in answer)) return [];
  const { addresses } = answer;
  if (!Array.isArray(addresses)) return [];
  return addresses.map((address) => ({ address: String(address), family: net.isIP(String(address)) }));
}

function lookupError(fault: MuxFault, hostname: string): Error {
  return Object.assign(new Error(fault.message), {
    code: fault.code,
    errno: errorNumber(fault.code),
    syscall: 'getaddrinfo',
    hostname,
  });
}
