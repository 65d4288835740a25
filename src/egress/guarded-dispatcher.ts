import { isIP, type Socket } from 'node:net';
import {
  connect as connectTls,
  createSecureContext,
  getCACertificates,
  type SecureContext,
  type TLSSocket,
} from 'node:tls';
import { Agent, type buildConnector } from 'undici';
import type { AddressPolicy } from './address-policy.ts';
import { type DialOptions, dialVetted } from './dial-vetted.ts';
import { EgressError, type LookupAll } from './resolve-address.ts';

export interface GuardedDispatcherOptions {
  policy: AddressPolicy;
  /** PEM text of authorities that are trusted in addition to the bundled ones. */
  extraCa?: string;
  /** Resolving and connecting, and then the TLS handshake, each. Default 10 seconds. */
  connectTimeoutMs?: number;
  /** From the request to the head of the answer. Default 30 seconds. */
  headersTimeoutMs?: number;
  /** Longest silence within the body. Default 30 seconds. */
  bodyTimeoutMs?: number;
  /** Simultaneous connections to one origin; more requests wait. Default 64; null: as many as there are requests. */
  connectionsPerOrigin?: number | null;
  lookup?: LookupAll;
}

const connectionsPerOriginDefault = 64;
/** An idle connection is kept for this long. A server may ask for less, not for more: otherwise thousands of connections would gather. */
const keepAliveMs = 4_000;

/**
 * The only way in which the platform itself makes requests: every connection is resolved once, vetted, dialled by the
 * vetted address and vetted again. TLS is verified for the name in the URL, against the authorities that Node.js
 * brings (not those of the machine) and `extraCa`. A class of its own, so that no other dispatcher fits in its place.
 */
export class GuardedDispatcher extends Agent {
  /** Makes the type nominal. */
  readonly #guarded = true;

  constructor(options: GuardedDispatcherOptions) {
    super({
      connect: guardedConnector(options),
      connections:
        options.connectionsPerOrigin === undefined
          ? connectionsPerOriginDefault
          : options.connectionsPerOrigin,
      headersTimeout: options.headersTimeoutMs ?? 30_000,
      bodyTimeout: options.bodyTimeoutMs ?? 30_000,
      keepAliveTimeout: keepAliveMs,
      keepAliveMaxTimeout: keepAliveMs,
      // One connection carries one request at a time; HTTP/2 would need its own bounds.
      pipelining: 1,
      allowH2: false,
    });
  }

  static is(value: object): value is GuardedDispatcher {
    return #guarded in value;
  }
}

export function createGuardedDispatcher(options: GuardedDispatcherOptions): GuardedDispatcher {
  return new GuardedDispatcher(options);
}

function guardedConnector(options: GuardedDispatcherOptions): buildConnector.connector {
  const { policy, lookup, connectTimeoutMs = 10_000 } = options;
  const dialOptions: DialOptions = { policy, connectTimeoutMs, ...(lookup === undefined ? {} : { lookup }) };
  let secureContext: SecureContext | undefined;
  const connect = async (target: buildConnector.Options): Promise<Socket | TLSSocket> => {
    const hostname = target.hostname.replace(/^\[|\]$/g, '');
    const secure = target.protocol === 'https:';
    const port = target.port === '' ? (secure ? 443 : 80) : Number(target.port);
    const socket = await dialVetted(hostname, port, dialOptions);
    if (!secure) return socket;
    // Made once: parsing all the bundled certificates takes milliseconds.
    secureContext ??= createSecureContext({ ca: trustedAuthorities(options.extraCa) });
    return startTls(socket, { hostname, secureContext, timeoutMs: connectTimeoutMs });
  };
  return (target, callback) => {
    connect(target).then(
      (socket) => callback(null, socket),
      (error: Error) => callback(error, null),
    );
  };
}

function trustedAuthorities(extraCa: string | undefined): string[] {
  return extraCa === undefined ? getCACertificates('bundled') : [...getCACertificates('bundled'), extraCa];
}

function startTls(
  socket: Socket,
  options: { hostname: string; secureContext: SecureContext; timeoutMs: number },
): Promise<TLSSocket> {
  const { hostname, secureContext, timeoutMs } = options;
  return new Promise((resolve, reject) => {
    const secure = connectTls({
      socket,
      secureContext,
      // Identity is checked against `host` when there is no server name, as for addresses.
      host: hostname,
      ...(isIP(hostname) === 0 ? { servername: hostname } : {}),
      ALPNProtocols: ['http/1.1'],
      rejectUnauthorized: true,
    });
    const timer = setTimeout(() => {
      secure.destroy(
        new EgressError('ETIMEDOUT', `TLS handshake with ${hostname} took longer than ${timeoutMs} ms`),
      );
    }, timeoutMs);
    const onError = (error: Error): void => {
      clearTimeout(timer);
      socket.destroy();
      reject(error);
    };
    secure.once('error', onError);
    secure.once('secureConnect', () => {
      clearTimeout(timer);
      secure.off('error', onError);
      resolve(secure);
    });
  });
}
