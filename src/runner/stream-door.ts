import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { streamKeyBytes } from './launch-messages.ts';

/** A connection that has not sent its key after this time is closed. */
const introductionMs = 10_000;
/** The system limits the path of a socket to this. */
const pathBytesMax = 107;
/** Name of the socket in its folder. */
const socketName = 's';
/** `mkdtemp` appends this many characters to the name of a folder. */
const randomCharacters = 6;

/**
 * The socket to which the streams of started processes connect. It is in a folder that only the service's user may enter, and each stream
 * sends a key that is used once.
 */
export class StreamDoor {
  readonly #folder: string;
  readonly #expected = new Map<string, (stream: Socket) => void>();
  #opened: { server: Server; address: string } | undefined;
  #opening: Promise<string> | undefined;

  /** The socket gets a folder in `folder`, or in the system's temporary one where the path would be too long. */
  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Opens the door at first, and again when its folder was removed, as cleaners of temporary folders do. */
  async address(): Promise<string> {
    if (this.#opened !== undefined && existsSync(this.#opened.address)) return this.#opened.address;
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined;
    });
    return this.#opening;
  }

  /** Calls `take` with the stream that sends this key. */
  expect(key: string, take: (stream: Socket) => void): void {
    this.#expected.set(key, take);
  }

  forget(key: string): void {
    this.#expected.delete(key);
  }

  async close(): Promise<void> {
    await this.#opening?.catch(() => undefined);
    const opened = this.#opened;
    if (opened === undefined) return;
    opened.server.close();
    await rm(dirname(opened.address), { recursive: true, force: true });
  }

  async #open(): Promise<string> {
    this.#opened?.server.close();
    this.#opened = undefined;
    const prefix = join(this.#folder, 'streams-');
    const path = join(prefix + 'x'.repeat(randomCharacters), socketName);
    const fits = Buffer.byteLength(path) <= pathBytesMax;
    const address = join(await mkdtemp(fits ? prefix : join(tmpdir(), 'millrace-')), socketName);
    const server = createServer((socket) => this.#onConnection(socket));
    server.listen(address);
    await once(server, 'listening');
    this.#opened = { server, address };
    return address;
  }

  #onConnection(socket: Socket): void {
    // The process may end at any moment; how it ended says more than EPIPE or ECONNRESET.
    socket.on('error', () => undefined);
    const timer = setTimeout(() => socket.destroy(), introductionMs);
    const read = (): void => {
      const key: Buffer | null = socket.read(streamKeyBytes);
      if (key === null) return;
      clearTimeout(timer);
      socket.off('readable', read);
      const take = this.#expected.get(key.toString('latin1'));
      this.#expected.delete(key.toString('latin1'));
      if (take === undefined) socket.destroy();
      else take(socket);
    };
    socket.on('readable', read);
    socket.once('close', () => clearTimeout(timer));
  }
}
