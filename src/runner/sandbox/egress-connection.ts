import { AsyncLocalStorage } from 'node:async_hooks';
import type { Socket } from 'node:net';
import { constants } from 'node:os';
import type { ChannelHandler, MuxChannel, MuxFault, MuxSession } from '#lib/mux.ts';

/**
 * Undocumented parts of net.Socket that are used or replaced on an instance here. They have not changed for ten years, and the tests of the
 * shim fail when they do.
 */
export interface SocketInternals extends Socket {
  connecting: boolean;
  _handle: unknown;
  _host: string | null;
  _peername: unknown;
  _undestroy(): void;
  _unrefTimer(): void;
  _writeGeneric(
    writev: boolean,
    data: unknown,
    encoding: BufferEncoding,
    done: (error?: Error | null) => void,
  ): void;
}

type WriteDone = (error?: Error | null) => void;
type WritevChunk = { chunk: string | Uint8Array; encoding: BufferEncoding };

/** Larger lists of chunks are sent one by one instead of being copied together. */
const joinedBytesMax = 65_536;

/** Connects an unchanged net.Socket to a channel: it has no handle, and the methods that would use one are replaced. */
export class EgressConnection implements ChannelHandler {
  readonly #socket: SocketInternals;
  readonly #host: string;
  readonly #port: number;
  readonly #channel: MuxChannel;
  readonly #keepAlive: () => () => void;
  /**
   * Events from outside are emitted in the context of the code that connected or last wrote, as with a handle of Node's own. So an unhandled
   * error belongs to the call that caused it.
   */
  #inContext = AsyncLocalStorage.snapshot();
  #letGo: (() => void) | undefined;
  #over = false;
  #open = false;
  #waitingWrite: (() => void) | undefined;
  #heldCost = 0;
  #bytesRead = 0;
  #bytesWritten = 0;

  constructor(
    session: MuxSession,
    socket: SocketInternals,
    target: { host: string; port: number; call: number | undefined },
    keepAlive: () => () => void,
  ) {
    this.#socket = socket;
    this.#host = target.host;
    this.#port = target.port;
    this.#keepAlive = keepAlive;
    this.#letGo = keepAlive();
    this.#adopt();
    this.#channel = session.open(target, this);
  }

  opened(answer: unknown): void {
    this.#inContext(() => this.#opened(answer));
  }

  data(chunk: Buffer, cost: number): void {
    this.#inContext(() => this.#data(chunk, cost));
  }

  end(): void {
    this.#inContext(() => this.#end());
  }

  closed(fault: MuxFault | undefined): void {
    this.#inContext(() => this.#closed(fault));
  }

  #opened(answer: unknown): void {
    const socket = this.#socket;
    const peer = readPeer(answer);
    socket.connecting = false;
    socket._peername = peer;
    this.#open = true;
    socket._unrefTimer();
    const write = this.#waitingWrite;
    this.#waitingWrite = undefined;
    write?.();
    if (peer.address !== this.#host) {
      socket.emit('lookup', null, peer.address, peer.family === 'IPv6' ? 6 : 4, this.#host);
    }
    socket.emit('connect');
    socket.emit('ready');
    if (socket.readable && !socket.isPaused()) socket.read(0);
  }

  #data(chunk: Buffer, cost: number): void {
    this.#bytesRead += chunk.length;
    this.#socket._unrefTimer();
    if (this.#socket.push(chunk)) this.#channel.release(cost);
    else this.#heldCost += cost;
  }

  #end(): void {
    this.#socket.push(null);
    this.#socket.read(0);
  }

  #closed(fault: MuxFault | undefined): void {
    this.#over = true;
    this.#letGo?.();
    if (fault !== undefined) this.#socket.destroy(this.#systemError(fault));
  }

  #adopt(): void {
    const socket = this.#socket;
    const prototypeDestroy = socket._destroy;
    Object.assign(socket, {
      _writeGeneric: (writev: boolean, data: unknown, encoding: BufferEncoding, done: WriteDone) =>
        this.#write(
          writev ? (data as WritevChunk[]) : [{ chunk: data as string | Uint8Array, encoding }],
          done,
        ),
      _read: () => {
        this.#channel.release(this.#heldCost);
        this.#heldCost = 0;
      },
      _final: (done: WriteDone) => this.#final(done),
      _destroy: (error: Error | null, done: WriteDone) => {
        this.#channel.reset();
        prototypeDestroy.call(socket, error, done);
      },
      resetAndDestroy: () => socket.destroy(),
      ref: () => {
        if (!this.#over) this.#letGo ??= this.#keepAlive();
        return socket;
      },
      // Clients call `unref` on idle connections, which then do not keep a finished program alive.
      unref: () => {
        this.#letGo?.();
        this.#letGo = undefined;
        return socket;
      },
    });
    Object.defineProperties(socket, {
      bytesRead: { configurable: true, get: () => this.#bytesRead },
      bytesWritten: { configurable: true, get: () => this.#bytesWritten },
      pending: { configurable: true, get: () => !this.#open },
    });
  }

  #write(chunks: readonly (WritevChunk | Uint8Array)[], done: WriteDone): void {
    this.#inContext = AsyncLocalStorage.snapshot();
    if (!this.#open) {
      this.#waitingWrite = () => this.#write(chunks, done);
      return;
    }
    this.#socket._unrefTimer();
    const buffers = chunks.map(toBuffer);
    const bytes = buffers.reduce((sum, buffer) => sum + buffer.length, 0);
    this.#bytesWritten += bytes;
    const parts = bytes <= joinedBytesMax && buffers.length > 1 ? [Buffer.concat(buffers, bytes)] : buffers;
    let left = parts.length;
    const onSent = (fault: MuxFault | undefined): void => {
      left -= 1;
      if (fault !== undefined) {
        // The first failure is reported for the whole list. `closed` reports it to the socket itself.
        if (left >= 0) done(this.#systemError(fault));
        left = -1;
      } else if (left === 0) {
        done();
      }
    };
    for (const part of parts) this.#channel.write(part, onSent);
  }

  #final(done: WriteDone): void {
    if (this.#socket.connecting) {
      this.#socket.once('connect', () => this.#final(done));
      return;
    }
    this.#channel.end();
    done();
  }

  /** The error that a socket of Node.js gives for the same failure. */
  #systemError(fault: MuxFault): Error {
    const resolving = fault.code === 'ENOTFOUND' || fault.code === 'EAI_AGAIN';
    return Object.assign(new Error(fault.message), {
      code: fault.code,
      errno: errorNumber(fault.code),
      ...(resolving
        ? { syscall: 'getaddrinfo', hostname: this.#host }
        : { syscall: this.#open ? 'read' : 'connect', address: this.#host, port: this.#port }),
    });
  }
}

export function errorNumber(code: string): number | undefined {
  if (code === 'ENOTFOUND') return -3008;
  if (code === 'EAI_AGAIN') return -3001;
  const known: Record<string, number> = constants.errno;
  const number = known[code];
  return number === undefined ? undefined : -number;
}

function toBuffer(item: WritevChunk | Uint8Array): Buffer {
  if (item instanceof Uint8Array) return Buffer.from(item.buffer, item.byteOffset, item.byteLength);
  if (typeof item.chunk === 'string') return Buffer.from(item.chunk, item.encoding);
  return toBuffer(item.chunk);
}

function readPeer(answer: unknown): { address?: string; port?: number; family?: string } {
  if (typeof answer !== 'object' || answer === null) return {};
  return {
    ...('address' in answer && typeof answer.address === 'string' ? { address: answer.address } : {}),
    ...('port' in answer && typeof answer.port === 'number' ? { port: answer.port } : {}),
    ...('family' in answer && typeof answer.family === 'string' ? { family: answer.family } : {}),
  };
}
