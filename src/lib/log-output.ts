import { write, writeSync } from 'node:fs';

/** Characters that the disk or the reader has not taken yet; beyond that lines are dropped, not kept in memory. */
const waitingMax = 4 * 1024 * 1024;
/** One write takes at most this much. */
const chunkMax = 64 * 1024;
/** A pipe that is full is tried again after this long; at the exit of the process, this often. */
const retryMs = 50;
const retriesAtExit = 20;

/**
 * Lines on their way to a descriptor, in order, without ever holding up the process. What cannot be written is dropped:
 * a service whose log stands on a full disk, or has lost its reader, still works. (pino's own destination ends the
 * process at the first such line, or never lets it end.)
 */
export class LogOutput {
  readonly #descriptor: number;
  readonly #waiting: string[] = [];
  #waitingLength = 0;
  /** Being written. */
  #chunk: Buffer = Buffer.alloc(0);
  #writing = false;
  /** A thread has it, and finishes it also while the process exits. */
  #underWay = false;

  constructor(descriptor: number) {
    this.#descriptor = descriptor;
  }

  write(line: string): void {
    if (this.#waitingLength + line.length > waitingMax) return;
    this.#waiting.push(line);
    this.#waitingLength += line.length;
    if (!this.#writing) this.#writeNext();
  }

  /** For the exit of the process: writes what is left, as far as that works at once. */
  flushSync(): void {
    let retries = 0;
    if (this.#underWay) this.#chunk = Buffer.alloc(0);
    while (this.#takeChunk()) {
      try {
        this.#chunk = this.#chunk.subarray(writeSync(this.#descriptor, this.#chunk));
      } catch (error) {
        retries += 1;
        if (!isBusy(error) || retries > retriesAtExit) return;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, retryMs);
      }
    }
  }

  #writeNext(): void {
    this.#writing = this.#takeChunk();
    if (!this.#writing) return;
    this.#underWay = true;
    write(this.#descriptor, this.#chunk, (error, written) => {
      this.#underWay = false;
      if (isBusy(error)) {
        setTimeout(() => this.#writeNext(), retryMs);
        return;
      }
      this.#chunk = error === null ? this.#chunk.subarray(written) : Buffer.alloc(0);
      this.#writeNext();
    });
  }

  /** Makes `#chunk` the next that is to be written; false when there is none. */
  #takeChunk(): boolean {
    if (this.#chunk.length > 0) return true;
    let text = '';
    let lines = 0;
    for (const line of this.#waiting) {
      if (lines > 0 && text.length + line.length > chunkMax) break;
      text += line;
      lines += 1;
    }
    this.#waiting.splice(0, lines);
    this.#waitingLength -= text.length;
    this.#chunk = Buffer.from(text);
    return lines > 0;
  }
}

function isBusy(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return code === 'EAGAIN' || code === 'EBUSY';
}
