import type { Socket } from 'node:net';
import { encodeFrame, type FrameType, frameStart } from './protocol.ts';

/** Payloads of this size are not copied into their frame, nor frames into one write. */
const largeBytes = 64 * 1024;

/** Sends frames to one process. Calls that start in the same turn of the event loop leave in one write. */
export class FrameWriter {
  readonly #socket: Socket;
  readonly #flush = (): void => this.#flushNow();
  #out: Uint8Array[] = [];
  #outBytes = 0;

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Bytes that were sent and that the process has not read. */
  get backlogBytes(): number {
    return this.#socket.writableLength;
  }

  /** `payloadBytes` is the length of all of `payload`. */
  send(
    type: FrameType,
    id: number,
    header: string,
    payload: (string | Uint8Array)[] = [],
    payloadBytes = 0,
  ): void {
    if (this.#out.length === 0) process.nextTick(this.#flush);
    if (payloadBytes < largeBytes) this.#add(encodeFrame(type, id, header, payload, payloadBytes));
    else {
      this.#add(frameStart({ type, callId: id, header, payloadBytes }));
      for (const part of payload) this.#add(typeof part === 'string' ? Buffer.from(part) : part);
    }
  }

  #add(bytes: Uint8Array): void {
    this.#out.push(bytes);
    this.#outBytes += bytes.length;
  }

  #flushNow(): void {
    const out = this.#out;
    const isLarge = this.#outBytes >= largeBytes;
    this.#out = [];
    this.#outBytes = 0;
    const [first] = out;
    if (first === undefined || !this.#socket.writable) return;
    if (!isLarge) {
      this.#socket.write(out.length === 1 ? first : Buffer.concat(out));
      return;
    }
    // Copies of megabytes kept the garbage collector busy for two fifths of the time of a flood of them.
    this.#socket.cork();
    for (const bytes of out) this.#socket.write(bytes);
    this.#socket.uncork();
  }
}
