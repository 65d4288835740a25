import { connect, isIP, type Socket } from 'node:net';
import { type AddressPolicy, isLoopback } from './address-policy.ts';
import { EgressError, type LookupAll, resolveAndVet } from './resolve-address.ts';

export interface DialOptions {
  policy: AddressPolicy;
  /** Resolving and connecting together. */
  connectTimeoutMs: number;
  lookup?: LookupAll;
  signal?: AbortSignal;
}

/** One slow address must not use up the time of the others, yet far ones need more than Node's default of 250 ms. */
const attemptTimeoutMs = 3_000;

/** A connection, and what it was made to: the other end of the socket may be the operator's proxy. */
export interface Dialled {
  socket: Socket;
  peer: { address: string; port: number };
}

/** As `dialPeer`, for those who need to know no more than the socket. */
export async function dialVetted(host: string, port: number, options: DialOptions): Promise<Socket> {
  return (await dialPeer(host, port, options)).socket;
}

/**
 * Resolves once, vets every address and connects to the first allowed one that answers, elsewhere where the operator
 * leads the connection (MILLRACE_CONNECT_TO), and by the operator's proxy (MILLRACE_EGRESS_PROXY), which is asked for the vetted address. The
 * address of a socket that was connected directly is vetted again. The socket is half-open capable and has no data listeners yet. Rejects with an error whose
 * `code` is ENOTFOUND, EAI_AGAIN, EACCES, ETIMEDOUT or what connecting gave, or with the reason of `signal`.
 */
export async function dialPeer(host: string, port: number, options: DialOptions): Promise<Dialled> {
  if (!Number.isInteger(port) || port < 1 || port > 65_535) {
    throw new EgressError('EACCES', `connect EACCES ${host}:${port}: expected a port from 1 to 65535`);
  }
  const timeout = AbortSignal.timeout(options.connectTimeoutMs);
  const signal = options.signal === undefined ? timeout : AbortSignal.any([timeout, options.signal]);
  let waitsFor = '';
  try {
    const lookup = options.lookup === undefined ? {} : { lookup: options.lookup };
    const target = await untilAborted(resolveAndVet(host, port, options.policy, lookup), signal);
    const { proxy } = options.policy;
    const direct = target.addresses.filter(
      (address) => proxy === undefined || isLoopback(address) || proxy.passes(host, address),
    );
    if (proxy !== undefined && direct.length === 0) {
      const vet = (address: string): void =>
        requireAllowed({ host, address, port: target.port }, options.policy);
      waitsFor = `: the proxy ${proxy.place} did not answer in time`;
      const { socket, address } = await untilAborted(proxy.connect(target, { signal, vet }), signal);
      return { socket, peer: { address, port: target.port } };
    }
    const socket = await untilConnected(dial(direct, target.port), signal);
    const peer = { address: socket.remoteAddress ?? '', port: target.port };
    try {
      requireAllowed({ host, ...peer }, options.policy);
    } catch (error) {
      socket.destroy();
      throw error;
    }
    return { socket, peer };
  } catch (error) {
    if (!timeout.aborted || options.signal?.aborted === true) throw error;
    throw new EgressError('ETIMEDOUT', `connect ETIMEDOUT ${host}:${port}${waitsFor}`, { cause: error });
  }
}

function requireAllowed(
  { host, address, port }: { host: string; address: string; port: number },
  policy: AddressPolicy,
): void {
  const verdict = policy.check(address, port);
  if (!verdict.allowed)
    throw new EgressError('EACCES', `connect EACCES ${host}:${port} is not allowed: ${verdict.reason}`);
}

function dial(addresses: string[], port: number): Socket {
  const [first = ''] = addresses;
  if (addresses.length === 1) return connect({ host: first, port, allowHalfOpen: true, noDelay: true });
  return connect({
    // Node tries several addresses only for a name, so it gets one, and a lookup that knows nothing but the vetted ones.
    host: 'vetted.invalid',
    port,
    allowHalfOpen: true,
    noDelay: true,
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: attemptTimeoutMs,
    lookup: (_name, _options, done) => {
      const entries = addresses.map((address) => ({ address, family: isIP(address) }));
      done(null, entries);
    },
  });
}

function untilConnected(socket: Socket, signal: AbortSignal): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const settle = (): void => {
      signal.removeEventListener('abort', onAbort);
      socket.off('connect', onConnect);
      socket.off('error', onError);
    };
    const onConnect = (): void => {
      settle();
      resolve(socket);
    };
    const onError = (error: Error): void => {
      settle();
      reject(singleError(error));
    };
    const onAbort = (): void => {
      settle();
      socket.on('error', () => {});
      socket.destroy();
      reject(signal.reason);
    };
    socket.once('connect', onConnect);
    socket.once('error', onError);
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort);
  });
}

/** Several failed attempts come as one AggregateError; the first says enough. */
function singleError(error: Error): Error {
  const first: unknown = error instanceof AggregateError ? error.errors[0] : undefined;
  return first instanceof Error ? first : error;
}

async function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  let onAbort = (): void => {};
  const aborted = new Promise<never>((_resolve, reject) => {
    onAbort = () => reject(signal.reason);
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort);
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
