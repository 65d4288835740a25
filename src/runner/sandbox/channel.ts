import { writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { FrameParser, type OnFrame, toSandboxFrameBytesMax, toSandboxTypes } from '#runner/protocol.ts';
import { exitProcess, nextTick } from './primordials.ts';

const rpcDescriptor = 3;

/**
 * The process's end of descriptor 3. Frames of one turn leave in one write. `postNow` does not wait for the end of the turn, so that a reply is
 * sent even if the code after it never yields.
 */
export class Channel {
  readonly #socket = new Socket({ fd: rpcDescriptor, readable: true, writable: true });
  #waiting: Buffer[] = [];
  #scheduled = false;
  readonly #flush = (): void => this.flush();

  /** Must be called before user code is loaded, because it uses the methods of the socket as they are now. */
  start(onFrame: OnFrame): void {
    const parser = new FrameParser(toSandboxTypes, toSandboxFrameBytesMax, onFrame);
    this.#socket.on('data', (chunk: Buffer) => parser.push(chunk));
    this.#socket.on('error', () => exitProcess(1));
    // The service has ended, so there is nothing left to do.
    this.#socket.on('close', () => exitProcess(0));
  }

  post(frame: Buffer): void {
    this.#waiting.push(frame);
    if (this.#scheduled) return;
    this.#scheduled = true;
    nextTick(this.#flush);
  }

  postNow(frame: Buffer): void {
    this.#waiting.push(frame);
    this.flush();
  }

  flush(): void {
    this.#scheduled = false;
    if (this.#waiting.length === 0) return;
    const frames = this.#waiting;
    this.#waiting = [];
    const bytes = frames.length === 1 ? frames[0] : Buffer.concat(frames);
    if (bytes === undefined) return;
    let at = 0;
    // The descriptor usually takes all frames in one write, and a plain write is several times cheaper than the stream's.
    if (this.#socket.writableLength === 0) {
      try {
        while (at < bytes.length) at += writeSync(rpcDescriptor, bytes, at);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return;
      }
    }
    if (at < bytes.length) this.#socket.write(at === 0 ? bytes : bytes.subarray(at));
  }
}
