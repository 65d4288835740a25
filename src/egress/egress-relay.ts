import { isIP, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type ChannelHandler, type MuxChannel, type MuxFault, MuxSession } from '#lib/mux.ts';
import type { AddressPolicy } from './address-policy.ts';
import { dialPeer } from './dial-vetted.ts';
import type { EgressDoor } from './egress-door.ts';
import { type LookupAll, lookupAll, resolveAndVet } from './resolve-address.ts';

export interface EgressRelayOptions {
  policy: AddressPolicy;
  /** Restricts the hosts that may be reached by name; without a port the name is only looked up. */
  permits?: (host: string, port: number | undefined) => boolean;
  /** Simultaneous connections (and name look-ups) of one child; more are refused with EMFILE. Default 64. */
  maxConnections?: number;
  /** What all children of an owner have together. */
  share?: ConnectionShare;
  /** A connection without a byte either way for this long is closed with ETIMEDOUT. Default five minutes. */
  idleTimeoutMs?: number;
  /** For resolving and connecting together. Default 10 seconds. */
  connectTimeoutMs?: number;
  /** A connection could not be made; `call` is the call that requested it, according to the child. */
  onRefused?: (call: number | undefined) => void;
  /** The child broke the protocol; the relay is closed already and the child should be killed. */
  onViolation?: (reason: string) => void;
  lookup?: LookupAll;
  /** Takes connections to the service itself. Default: they are denied like any other that the policy denies. */
  door?: EgressDoor;
}

export interface EgressRelay {
  /** Ends every connection of the child and the inherited socket. Harmless when called again. */
  close(): void;
  /** Connections and look-ups right now, with those that the child closed and whose last bytes are on their way. */
  readonly connections: number;
  /** Connections and look-ups that the child has open. */
  readonly channels: number;
  /** Bytes that the outside sent to the child, since the start. */
  readonly bytesIn: number;
  /** Bytes that the child sent to the outside, since the start. */
  readonly bytesOut: number;
}

/** Read from one outside connection and not yet taken by the child. */
const pendingBytesMax = 131_072;

/**
 * The way out for one child: takes its requests for connections, and resolves, vets and dials on its behalf. The
 * child is not trusted with anything: it names a host and a port, and gets bytes or an error.
 */
export function attachEgressRelay(socket: Duplex, options: EgressRelayOptions): EgressRelay {
  const relay = new Relay(options);
  const session = new MuxSession(socket, {
    ids: 'even',
    channelsMax: relay.connectionsMax,
    ...(options.onViolation === undefined ? {} : { onViolation: options.onViolation }),
    onOpen: (channel, request) => relay.start(channel, request),
    onClose: () => relay.destroyAll(),
  });
  return {
    close: () => session.close(),
    get connections() {
      return relay.live.size;
    },
    get channels() {
      return session.channels;
    },
    get bytesIn() {
      return relay.bytesIn;
    },
    get bytesOut() {
      return relay.bytesOut;
    },
  };
}

export interface ConnectionShare {
  /** Answers why one more connection may not be opened; `leave` follows for each that may. */
  take: () => string | undefined;
  leave: () => void;
  /** Does a look-up of a name when it is its turn, or rejects with an `EgressError`. */
  lookup: <T>(lookup: () => Promise<T>) => Promise<T>;
}

/** What the connections of one child share. */
class Relay {
  readonly options: EgressRelayOptions;
  readonly connectionsMax: number;
  /** Everything that holds a descriptor or a resolver here, also when its channel is closed already. */
  readonly live = new Set<{ destroy(): void }>();
  bytesIn = 0;
  bytesOut = 0;

  constructor(options: EgressRelayOptions) {
    this.options = options;
    this.connectionsMax = options.maxConnections ?? 64;
  }

  start(channel: MuxChannel, request: unknown): ChannelHandler {
    const { host, port, lookup, call } = readRequest(request);
    if (this.live.size >= this.connectionsMax) {
      channel.fail({
        code: 'EMFILE',
        message: `too many open connections, at most ${this.connectionsMax} are allowed`,
      });
    } else if (!this.#isPermitted(lookup ?? host, lookup === undefined ? port : undefined)) {
      channel.fail({ code: 'EACCES', message: `${lookup ?? host} is not one of the hosts for this process` });
    } else if (lookup !== undefined) {
      this.#answerLookup(channel, lookup);
    } else if (host !== undefined && port !== undefined) {
      const refused = this.options.share?.take();
      if (refused === undefined) return new RelayedConnection(channel, { host, port, call }, this);
      channel.fail({ code: 'EMFILE', message: refused });
    } else {
      channel.fail({ code: 'EINVAL', message: 'expected a host and a port' });
    }
    return { data: () => {}, end: () => {}, closed: () => {} };
  }

  #isPermitted(host: string | undefined, port: number | undefined): boolean {
    const { permits } = this.options;
    return permits === undefined || host === undefined || permits(host, port);
  }

  /**
   * Resolves a name. The look-up takes the slot of a connection until the resolver answers, because a look-up cannot be cancelled.
   */
  lookup: LookupAll = async (hostname) => {
    const slot = { destroy: () => {} };
    this.live.add(slot);
    try {
      const { lookup = lookupAll, share } = this.options;
      const ask = () => lookup(hostname, this);
      return await (share === undefined ? ask() : share.lookup(ask));
    } finally {
      this.live.delete(slot);
    }
  };

  destroyAll(): void {
    for (const entry of [...this.live]) entry.destroy();
  }

  /** `dns.lookup` of the child: the vetted addresses of a name, without connecting. */
  #answerLookup(channel: MuxChannel, name: string): void {
    resolveAndVet(name, 0, this.options.policy, { lookup: this.lookup }).then(
      ({ addresses }) => {
        channel.accept({ addresses });
        channel.end();
      },
      (error: unknown) => channel.fail(faultOf(error)),
    );
  }
}

function readRequest(request: unknown): { host?: string; port?: number; lookup?: string; call?: number } {
  if (typeof request !== 'object' || request === null) return {};
  return {
    ...('host' in request && typeof request.host === 'string' ? { host: request.host } : {}),
    ...('port' in request && typeof request.port === 'number' ? { port: request.port } : {}),
    ...('lookup' in request && typeof request.lookup === 'string' ? { lookup: request.lookup } : {}),
    ...('call' in request && typeof request.call === 'number' ? { call: request.call } : {}),
  };
}

/** What a connection of the child is joined with: a dialled socket, or the door's end of one. */
type Outside = Duplex & Partial<Pick<Socket, 'setTimeout'>>;

interface Target {
  host: string;
  port: number;
  call: number | undefined;
}

/** One connection of the child and the dialled socket, joined with back-pressure in both directions. */
class RelayedConnection implements ChannelHandler {
  #channel: MuxChannel;
  #relay: Relay;
  #socket: Outside | undefined;
  #giveUp = new AbortController();
  #pendingBytes = 0;

  constructor(channel: MuxChannel, target: Target, relay: Relay) {
    this.#channel = channel;
    this.#relay = relay;
    relay.live.add(this);
    void this.#start(target);
  }

  data(chunk: Buffer, cost: number): void {
    this.#relay.bytesOut += chunk.length;
    this.#socket?.write(chunk, () => this.#channel.release(cost));
  }

  end(): void {
    this.#socket?.end();
  }

  closed(): void {
    this.#giveUp.abort(new Error('the child closed the connection'));
    const socket = this.#socket;
    if (socket === undefined) {
      // A connection that gives up before it is established is no longer live.
      this.#leave();
      return;
    }
    if (socket.writableLength === 0) {
      this.#leave();
      socket.destroy();
      return;
    }
    // As a closed TCP socket does: what was written before still leaves. The window bounds how much that is, the idle
    // timeout how long it takes.
    socket.end(() => socket.destroy());
    socket.resume();
  }

  destroy(): void {
    this.#leave();
    this.#giveUp.abort(new Error('the relay is closed'));
    this.#socket?.destroy();
  }

  /** It is no longer live; further calls do nothing. */
  #leave(): void {
    if (this.#relay.live.delete(this)) this.#relay.options.share?.leave();
  }

  async #start({ host, port, call }: Target): Promise<void> {
    const { policy, door, onRefused, connectTimeoutMs = 10_000 } = this.#relay.options;
    try {
      if (door?.takes(host, port) === true) return this.#join(door.open(), peerOf(host, port));
      const { lookup } = this.#relay;
      const { socket, peer } = await dialPeer(host, port, {
        policy,
        connectTimeoutMs,
        lookup,
        signal: this.#giveUp.signal,
      });
      this.#join(socket, { ...peer, family: isIP(peer.address) === 6 ? 'IPv6' : 'IPv4' });
    } catch (error) {
      this.#leave();
      this.#channel.fail(faultOf(error));
      onRefused?.(call);
    }
  }

  #join(socket: Outside, peer: object): void {
    this.#socket = socket;
    socket.on('error', (error) => this.#channel.fail(faultOf(error)));
    socket.on('close', () => {
      this.#leave();
      // When both directions ended in order, what the child has not taken yet is still queued in the channel.
      if (!socket.readableEnded) this.#channel.reset();
    });
    if (this.#channel.closed) {
      socket.destroy();
      return;
    }
    const { idleTimeoutMs = 300_000 } = this.#relay.options;
    socket.setTimeout?.(idleTimeoutMs, () => {
      this.#channel.fail({
        code: 'ETIMEDOUT',
        message: `no data for ${idleTimeoutMs / 1000} s, connection closed`,
      });
      socket.destroy();
    });
    socket.on('end', () => this.#channel.end());
    this.#channel.accept(peer);
    socket.on('data', (chunk: Buffer) => this.#sendIn(socket, chunk));
  }

  #sendIn(socket: Outside, chunk: Buffer): void {
    this.#relay.bytesIn += chunk.length;
    this.#pendingBytes += chunk.length;
    if (this.#pendingBytes >= pendingBytesMax) socket.pause();
    this.#channel.write(chunk, () => {
      this.#pendingBytes -= chunk.length;
      if (this.#pendingBytes < pendingBytesMax) socket.resume();
    });
  }
}

/** Where the door is, as the child sees it: a name has no address there, so it gets one of this machine. */
function peerOf(host: string, port: number): object {
  const address = host.replace(/^\[|\]$/g, '');
  if (isIP(address) === 0) return { address: '127.0.0.1', port, family: 'IPv4' };
  return { address, port, family: isIP(address) === 4 ? 'IPv4' : 'IPv6' };
}

function faultOf(error: unknown): MuxFault {
  if (error instanceof Error) {
    return {
      code: 'code' in error && typeof error.code === 'string' ? error.code : 'ECONNRESET',
      message: error.message,
    };
  }
  return { code: 'ECONNRESET', message: 'the connection failed' };
}
