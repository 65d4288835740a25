import type { Socket } from 'node:net';
import { encodeFrame, type FrameType } from './protocol.ts';

/** Sends frames to one process. Calls that start in the same turn of the event loop leave in one write. */
export class FrameWriter {
  readonly #socket: Socket;
  readonly #flush = (): void => this.#flushNow();
  #out: Buffer[] = [];

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
    this.#out.push(encodeFrame(type, id, header, payload, payloadBytes));
    if (this.#out.length === 1) process.nextTick(this.#flush);
  }

  #flushNow(): void {
    const frames = this.#out;
    this.#out = [];
    const bytes = frames.length === 1 ? frames[0] : Buffer.concat(frames);
    if (bytes !== undefined && this.#socket.writable) this.#socket.write(bytes);
  }
}
