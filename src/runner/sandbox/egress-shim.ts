import type { ConnectionOptions, TLSSocket } from 'node:tls';
import { MuxSession } from '#lib/mux.ts';
import { EgressConnection, type SocketInternals } from './egress-connection.ts';
import { createLookups } from './egress-lookup.ts';

/**
 * Makes the network of Node.js work in a child process that has none: connections are channels over one inherited descriptor to the parent,
 * which decides about them. It is a convenience and no boundary: code that bypasses it finds sockets denied by the permission model, and
 * on the descriptor only what the parent grants.
 *
 * Not available: UDP, `dns.resolve*`, listening, unix sockets, the `onread` and `lookup` options of sockets (the parent resolves the
 * requested name).
 */

// The modules themselves and not the bindings of a bundler, because they are changed below.
const net = process.getBuiltinModule('node:net');
const tls = process.getBuiltinModule('node:tls');
const nodeModule = process.getBuiltinModule('node:module');

type ConnectArguments = [Record<string, unknown>, (() => void) | null];
type NormalizeArgs = (args: unknown[]) => ConnectArguments;

const normalizeArgs = (net as unknown as { _normalizeArgs: NormalizeArgs })._normalizeArgs;
const onMux = new WeakSet<object>();
let session: MuxSession | undefined;

/**
 * Called once per process, before any user code. `fd` is a stream socket whose other end has `attachEgressRelay`. `callNow` returns the ID of
 * the call whose code runs.
 */
export function installEgressShim(fd: number, callNow: () => number | undefined): void {
  if (session !== undefined) throw new Error('assertion failed: the egress shim is installed already');
  const socket = new net.Socket({ fd, readable: true, writable: true });
  const openSession = new MuxSession(socket, { ids: 'odd' });
  session = openSession;
  const liveness = new Liveness(socket);
  patchConnect(openSession, liveness, callNow);
  patchTlsConnect();
  createLookups(openSession, () => liveness.begin());
  nodeModule.syncBuiltinESMExports();
}

/** Trusts the certificates of `pem` (any number) in addition to those of Node.js, in every client of this process. */
export function trustExtraCa(pem: string): void {
  const certificates = pem.match(/-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g) ?? [];
  tls.setDefaultCACertificates([...tls.getCACertificates('default'), ...certificates]);
}

/** Keeps the process alive exactly while the inherited socket is used, as a socket of Node's own does. */
class Liveness {
  #socket: { ref(): unknown; unref(): unknown };
  #users = 0;

  constructor(socket: { ref(): unknown; unref(): unknown }) {
    this.#socket = socket;
    socket.unref();
  }

  /** Returns the function that ends the use. It may be called twice. */
  begin(): () => void {
    this.#users += 1;
    if (this.#users === 1) this.#socket.ref();
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      this.#users -= 1;
      if (this.#users === 0) this.#socket.unref();
    };
  }
}

function patchConnect(openSession: MuxSession, liveness: Liveness, callNow: () => number | undefined): void {
  const prototype = net.Socket.prototype as unknown as {
    connect: (this: SocketInternals, ...args: unknown[]) => SocketInternals;
    _destroy: SocketInternals['_destroy'];
    write: SocketInternals['write'];
  };
  const nativeConnect = prototype.connect;
  prototype.connect = function connect(...args) {
    const [options, callback] = Array.isArray(args[0]) ? (args[0] as ConnectArguments) : normalizeArgs(args);
    // The native function throws the right error for missing arguments.
    if (options.port === undefined && options.path == null) return nativeConnect.apply(this, args);
    const port = options.path == null ? readPort(options.port) : 0;
    if (typeof callback === 'function') this.once('connect', callback);
    const host = typeof options.host === 'string' && options.host !== '' ? options.host : 'localhost';
    if (this.write !== prototype.write) this.write = prototype.write;
    this._undestroy();
    this._peername = undefined;
    this._host = host;
    this.connecting = true;
    this._unrefTimer();
    const refusal = refusalOf(this, options);
    if (refusal !== undefined) {
      process.nextTick(() => this.destroy(refusal));
      return this;
    }
    onMux.add(this);
    // When the same socket connects again, it must not wrap the methods of its first connection.
    this._destroy = prototype._destroy;
    new EgressConnection(openSession, this, { host, port, call: callNow() }, () => liveness.begin());
    return this;
  };
}

function readPort(port: unknown): number {
  const value = typeof port === 'string' && port.trim() !== '' ? Number(port) : port;
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 65_535) return value;
  const message = `Port should be >= 0 and < 65536. Received ${String(port)}.`;
  throw Object.assign(new RangeError(message), { code: 'ERR_SOCKET_BAD_PORT' });
}

function refusalOf(socket: SocketInternals, options: Record<string, unknown>): Error | undefined {
  if (options.path != null)
    return denied(`connect EACCES ${String(options.path)}: unix sockets are not available here`);
  if (socket._handle != null) return denied('connect EACCES: only sockets without a handle can connect here');
  return undefined;
}

function denied(message: string): Error {
  return Object.assign(new Error(message), { code: 'EACCES', syscall: 'connect' });
}

function patchTlsConnect(): void {
  const nativeConnect = tls.connect as (options: ConnectionOptions, callback?: () => void) => TLSSocket;
  const patched = (...args: unknown[]): TLSSocket => {
    const { options, callback } = readTlsArguments(args);
    if (options.socket !== undefined && options.socket !== null) {
      const secure = nativeConnect(options, callback);
      if (onMux.has(options.socket)) startOnConnected(secure, options.socket as unknown as SocketInternals);
      return secure;
    }
    const { host, port, path, allowHalfOpen } = options as ConnectionOptions & { allowHalfOpen?: boolean };
    const plain = net.connect({ host, port, path, allowHalfOpen } as never);
    const secure = nativeConnect({ ...options, socket: plain }, callback);
    if (options.timeout !== undefined && options.timeout > 0) secure.setTimeout(options.timeout);
    plain.once('connect', () => {
      (secure as unknown as SocketInternals)._peername = (plain as SocketInternals)._peername;
    });
    secure.once('close', () => plain.destroy());
    // The TLS socket has no handle that could hold the event loop.
    Object.assign(secure, {
      ref: () => {
        plain.ref();
        return secure;
      },
      unref: () => {
        plain.unref();
        return secure;
      },
    });
    return secure;
  };
  (tls as { connect: unknown }).connect = patched;
}

function readTlsArguments(args: unknown[]): {
  options: ConnectionOptions;
  callback: (() => void) | undefined;
} {
  const [first, callback] = normalizeArgs(args);
  const more = [args[1], args[2]].find((value) => typeof value === 'object' && value !== null) ?? {};
  return { options: { ...first, ...more }, callback: callback ?? undefined };
}

/**
 * Emits 'connect' for a socket that is connected already. TLSSocket assumes that a socket without a handle is still connecting and would wait
 * forever. Protocols that upgrade a connection to TLS (mail, databases) pass a connected one.
 */
function startOnConnected(secure: TLSSocket, plain: SocketInternals): void {
  if (plain.connecting) return;
  process.nextTick(() => {
    const state = secure as unknown as SocketInternals;
    if (secure.destroyed || !state.connecting) return;
    state.connecting = false;
    state._peername = plain._peername;
    secure.emit('connect');
  });
}
