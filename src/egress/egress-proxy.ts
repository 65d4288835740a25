import { connect, isIP, type Socket } from 'node:net';
import { readProxyUrl } from '#config/proxy-url.ts';
import { canonicalHost } from '#lib/canonical-host.ts';
import type { Clock } from '#lib/clock.ts';
import { toError } from '#lib/errors.ts';
import { type IpRange, parseIpAddress, parseIpRange, rangeContains, unwrapIpv4 } from '#lib/ip-address.ts';
import { EgressError } from './egress-error.ts';
import { ProxyHealth } from './proxy-health.ts';
import { type LookupAll, systemLookup } from './system-lookup.ts';

/** Longest head of an answer to CONNECT. */
const headBytesMax = 16 * 1024;
/** Addresses that the name of the proxy ever had, which stay closed to user code. */
const addressesMax = 256;
/** The proxy could not reach the address; another one of the same name may work. */
const unreachableStatuses = new Set([502, 503, 504]);
const authenticationRequired = 407;
/** A name that never exists (RFC 6761), so that no other host is asked for anything when the proxy is checked. */
const checkedAuthority = 'millrace-check.invalid:443';
const checkTimeoutMs = 10_000;
/** Within this time after a connection that it made, the proxy is not checked. */
const knownMs = 60_000;

/**
 * The HTTP proxy that all connections to the outside go through (MILLRACE_EGRESS_PROXY), each by CONNECT to an address that was vetted before:
 * the proxy resolves no name, so what the policy decides holds.
 */
export class EgressProxy {
  /** `host:port`, for messages; user and password are never in one. */
  readonly place: string;
  readonly health: ProxyHealth;
  readonly #host: string;
  readonly #port: number;
  readonly #authorization: string | undefined;
  readonly #exceptNames: string[] = [];
  readonly #exceptRanges: IpRange[] = [];
  readonly #lookup: LookupAll;
  /** Addresses that the last look-up found, in the order to try them. */
  #current: readonly string[] = [];
  readonly #addresses = new Set<string>();

  /** `url`: http://user:password@host:port. `except`: names, their endings (`.example.com`), addresses and CIDRs that are dialled directly. */
  constructor(options: {
    url: string;
    except?: readonly string[];
    lookup?: LookupAll;
    clock?: Clock;
  }) {
    this.health = new ProxyHealth(options.clock);
    const { hostname, port, username, password } = readProxyUrl(options.url);
    this.#host = hostname.replace(/^\[|\]$/g, '');
    this.#port = port === '' ? 80 : Number(port);
    this.#lookup = options.lookup ?? systemLookup();
    if (isIP(this.#host) !== 0) this.#current = [this.#host];
    this.place = `${hostname}:${this.#port}`;
    const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
    this.#authorization =
      username === '' && password === ''
        ? undefined
        : `Basic ${Buffer.from(credentials, 'utf8').toString('base64')}`;
    for (const entry of options.except ?? []) {
      const range = parseIpRange(entry);
      if (range !== undefined) this.#exceptRanges.push(range);
      else {
        const [, dot = '', name = ''] = /^(\.?)(.*)$/.exec(entry) ?? [];
        this.#exceptNames.push(`${dot}${canonicalHost(name) ?? name.toLowerCase()}`);
      }
    }
  }

  /**
   * Where the proxy listens, which user code must not reach: it would connect to anything. Until its name was looked up that is the
   * name itself, with which a policy denies the port everywhere.
   */
  get places(): { address: string; port: number }[] {
    const known = this.#addresses.size === 0 ? [this.#host] : [...this.#addresses];
    return known.map((address) => ({ address, port: this.#port }));
  }

  /** True when connections to this host, at this address of it, are dialled directly. */
  passes(host: string, address: string): boolean {
    const name = canonicalHost(host)?.replace(/\.$/, '') ?? '';
    const isExcept = (entry: string): boolean =>
      entry.startsWith('.') ? name.endsWith(entry) : name === entry;
    if (this.#exceptNames.some(isExcept)) return true;
    const parsed = parseIpAddress(address);
    if (parsed === undefined) return false;
    const target = unwrapIpv4(parsed);
    return this.#exceptRanges.some((range) => rangeContains(range, target));
  }

  /** Looks the proxy up, so that what is denied to user code is its addresses and not its port everywhere. Rejects with the reason. */
  async resolve(): Promise<void> {
    if (isIP(this.#host) !== 0) return;
    this.#current = (await this.#lookup(this.#host)).map(({ address }) => address);
    for (const address of this.#current)
      if (this.#addresses.size < addressesMax) this.#addresses.add(address);
  }

  /**
   * A connection to the first of these addresses that the proxy reaches, without data listeners. `vet` throws for an address that is not to be
   * asked for: it is called when the name of the proxy was looked up again, since an address may turn out to be that of the proxy. Rejects
   * with what it throws, with an `EgressError`, which names the proxy where that is at fault, or with the reason of `signal`.
   */
  async connect(
    target: { addresses: readonly string[]; port: number },
    { signal, vet }: { signal: AbortSignal; vet: (address: string) => void },
  ): Promise<{ socket: Socket; address: string }> {
    for (const [index, address] of target.addresses.entries()) {
      const authority = `${isIP(address) === 6 ? `[${address}]` : address}:${target.port}`;
      const socket = await this.#dial(signal);
      try {
        vet(address);
        const status = await this.#ask(socket, authority, signal);
        if (status >= 200 && status < 300) return { socket, address };
        if (index + 1 === target.addresses.length || !unreachableStatuses.has(status))
          throw this.#refusal(status, authority);
        socket.destroy();
      } catch (error) {
        socket.destroy();
        throw error;
      }
    }
    throw new EgressError('ENOTFOUND', 'there is no address to connect to');
  }

  /**
   * Asks for a name that does not exist, unless the proxy made a connection a moment ago. Any answer but 407 shows that it works. Rejects with the
   * reason why it does not, or with that of `stop`, which is no failure of the proxy.
   */
  async check(stop: AbortSignal): Promise<void> {
    if (this.health.workedWithin(knownMs)) return;
    const signal = AbortSignal.any([stop, AbortSignal.timeout(checkTimeoutMs)]);
    try {
      const socket = await this.#dial(signal);
      try {
        const status = await this.#ask(socket, checkedAuthority, signal);
        if (status === authenticationRequired) throw this.#refusal(status, checkedAuthority);
      } finally {
        socket.destroy();
      }
    } catch (error) {
      stop.throwIfAborted();
      const reason = signal.aborted
        ? `the proxy ${this.place} did not answer in time`
        : toError(error).message;
      this.health.failed(reason);
      throw new Error(reason, { cause: error });
    }
  }

  async #dial(signal: AbortSignal): Promise<Socket> {
    await this.resolve().catch((error: unknown) => {
      // The addresses that it had a moment ago will do.
      if (this.#current.length === 0) throw this.#unreachable(error);
    });
    const entries = this.#current.map((address) => ({ address, family: isIP(address) }));
    const socket = connect({
      ...{ host: this.#host, port: this.#port, allowHalfOpen: true, noDelay: true },
      autoSelectFamily: true,
      lookup: (_name, _options, done) => done(null, entries),
    });
    return settled(socket, signal, (resolve, reject) => {
      const onConnect = (): void => resolve(socket);
      const onError = (error: Error): void => reject(this.#unreachable(error));
      socket.once('connect', onConnect).once('error', onError);
      return () => socket.off('connect', onConnect).off('error', onError);
    });
  }

  #unreachable(cause: unknown): EgressError {
    const code = String(Object(cause).code ?? 'ECONNREFUSED');
    const message = `the proxy ${this.place} cannot be reached: ${code}`;
    this.health.failed(message);
    return new EgressError(code, message, { cause });
  }

  /** Asks for the connection; the status of the answer. What follows its head stays in the socket. */
  #ask(socket: Socket, authority: string, signal: AbortSignal): Promise<number> {
    const lines = [`CONNECT ${authority} HTTP/1.1`, `Host: ${authority}`];
    if (this.#authorization !== undefined) lines.push(`Proxy-Authorization: ${this.#authorization}`);
    socket.write(`${lines.join('\r\n')}\r\n\r\n`, 'latin1');
    return settled(socket, signal, (resolve, reject) => {
      let head = Buffer.alloc(0);
      const onReadable = (): void => {
        for (let chunk = socket.read(); chunk !== null; chunk = socket.read()) {
          head = Buffer.concat([head, chunk as Buffer]);
          const end = head.indexOf('\r\n\r\n');
          if (end === -1 && head.length <= headBytesMax) continue;
          const status = end === -1 ? undefined : statusOf(head.toString('latin1', 0, end));
          const rest = head.subarray(end + 4);
          if (status !== undefined && rest.length > 0) socket.unshift(rest);
          if (status === undefined) reject(this.#noHttp());
          else {
            if (status !== authenticationRequired) this.health.worked();
            resolve(status);
          }
          return;
        }
      };
      const onEnd = (): void =>
        reject(
          new EgressError('ECONNRESET', `the proxy ${this.place} ended the connection without an answer`),
        );
      const onError = (error: Error): void =>
        reject(
          new EgressError(
            'ECONNRESET',
            `the proxy ${this.place} ended the connection: ${toError(error).message}`,
          ),
        );
      socket.on('readable', onReadable).once('end', onEnd).once('error', onError);
      return () => socket.off('readable', onReadable).off('end', onEnd).off('error', onError);
    });
  }

  #noHttp(): EgressError {
    const message = `the proxy ${this.place} does not speak HTTP`;
    this.health.failed(message);
    return new EgressError('EPROTO', message);
  }

  #refusal(status: number, authority: string): EgressError {
    const said = `the proxy ${this.place} answers CONNECT to ${authority} with ${status}`;
    if (status === authenticationRequired) {
      const message = `${said}: it expects the user and password of MILLRACE_EGRESS_PROXY`;
      this.health.failed(message);
      return new EgressError('EACCES', message);
    }
    if (status === 504) return new EgressError('ETIMEDOUT', said);
    return new EgressError(unreachableStatuses.has(status) ? 'EHOSTUNREACH' : 'EACCES', said);
  }
}

function statusOf(head: string): number | undefined {
  const status = /^HTTP\/1\.[01] (\d{3})(?: |\r\n|$)/.exec(head)?.[1];
  return status === undefined ? undefined : Number(status);
}

/** Resolves as `work` says, or rejects when `signal` aborts, and destroys the socket unless it resolves. */
function settled<T>(
  socket: Socket,
  signal: AbortSignal,
  work: (resolve: (value: T) => void, reject: (error: Error) => void) => () => unknown,
): Promise<T> {
  return new Promise((resolve, reject) => {
    let undo = (): unknown => undefined;
    const leave = (): void => {
      signal.removeEventListener('abort', onAbort);
      undo();
    };
    const fail = (error: Error): void => {
      leave();
      socket.on('error', () => {});
      socket.destroy();
      reject(error);
    };
    const onAbort = (): void => fail(toError(signal.reason));
    undo = work((value) => {
      leave();
      resolve(value);
    }, fail);
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
  });
}
