import { write, writeSync } from 'node:fs';
import { type Clock, systemClock } from './clock.ts';

/** Characters that the disk or the reader has not taken yet; beyond that lines are dropped, not kept in memory. */
const waitingMax = 4 * 1024 * 1024;
/** Once lines are dropped, lines are kept again when no more than this waits: one notice, not one for every other line. */
const waitingResume = waitingMax / 2;
/** One write takes at most this much. */
const chunkMax = 64 * 1024;
/** A pipe that is full is tried again so soon: a pipe holds 64 KB, so each ms here costs its reader. */
const retryMsMin = 1;
const retryMsMax = 5;
/** At the exit of the process a full pipe is tried so often, `retryMsMax` apart. */
const retriesAtExit = 200;

/** A line, or the notice about lines that were dropped. */
interface Entry {
  text: string;
  /** How many lines are gone with it. */
  lines: number;
}

/**
 * Lines on their way to a descriptor, in order, without ever holding up the process. What cannot be written is dropped:
 * a service whose log is on a full disk, or has lost its reader, still works. (pino's own destination ends the
 * process at the first such line, or never lets it end.) The dropped lines are replaced by one line with their number.
 */
export class LogOutput {
  readonly #descriptor: number;
  readonly #clock: Clock;
  readonly #format: (line: string) => string;
  readonly #waiting: Entry[] = [];
  #waitingLength = 0;
  /** Too much waited: lines are dropped until there is room again. */
  #full = false;
  /** Lines dropped since the last notice. */
  #dropped = 0;
  /** Being written: what is left of the entries. */
  #chunk: Buffer = Buffer.alloc(0);
  #entries: Entry[] = [];
  #writing = false;
  /** A thread has it, and finishes it also while the process exits. */
  #underWay = false;
  #retryMs = retryMsMin;

  /** `format` gets each line of JSON and answers what is written for it. */
  constructor(descriptor: number, options: { clock?: Clock; format?: (line: string) => string } = {}) {
    this.#descriptor = descriptor;
    this.#clock = options.clock ?? systemClock;
    this.#format = options.format ?? ((line) => line);
  }

  write(line: string): void {
    this.print(this.#format(line));
  }

  /** Text that needs no format, in order with the lines. */
  print(line: string): void {
    if (this.#waitingLength + line.length > waitingMax) this.#full = true;
    if (this.#full) {
      this.#dropped += 1;
    } else {
      // Reports the lines that the descriptor refused; the next write shows whether it takes lines again.
      this.#addNotice();
      this.#add({ text: line, lines: 1 });
    }
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
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, retryMsMax);
      }
    }
  }

  #add(entry: Entry): void {
    this.#waiting.push(entry);
    this.#waitingLength += entry.text.length;
  }

  #addNotice(): void {
    if (this.#dropped === 0) return;
    const time = new Date(this.#clock.now()).toISOString();
    const text = JSON.stringify({ level: 40, time, lines: this.#dropped, msg: 'log.dropped' });
    this.#add({ text: this.#format(`${text}\n`), lines: this.#dropped });
    this.#dropped = 0;
  }

  #writeNext(): void {
    this.#writing = this.#takeChunk();
    if (!this.#writing) return;
    this.#underWay = true;
    write(this.#descriptor, this.#chunk, (error, written) => {
      this.#underWay = false;
      if (isBusy(error)) {
        setTimeout(() => this.#writeNext(), this.#retryMs);
        this.#retryMs = Math.min(this.#retryMs * 2, retryMsMax);
        return;
      }
      this.#retryMs = retryMsMin;
      if (error === null) this.#chunk = this.#chunk.subarray(written);
      else this.#dropChunk();
      this.#writeNext();
    });
  }

  /** The descriptor refuses it. What of it was written before, whole lines from its beginning, is not lost. */
  #dropChunk(): void {
    let left = this.#chunk.length;
    for (let entry = this.#entries.pop(); entry !== undefined && left > 0; entry = this.#entries.pop()) {
      this.#dropped += entry.lines;
      left -= Buffer.byteLength(entry.text);
    }
    this.#chunk = Buffer.alloc(0);
  }

  /** Makes `#chunk` the next that is to be written; false when there is none. */
  #takeChunk(): boolean {
    if (this.#chunk.length > 0) return true;
    if (this.#full && this.#waitingLength <= waitingResume) {
      this.#full = false;
      this.#addNotice();
    }
    let text = '';
    let count = 0;
    for (const entry of this.#waiting) {
      if (count > 0 && text.length + entry.text.length > chunkMax) break;
      text += entry.text;
      count += 1;
    }
    this.#entries = this.#waiting.splice(0, count);
    this.#waitingLength -= text.length;
    this.#chunk = Buffer.from(text);
    return count > 0;
  }
}

function isBusy(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return code === 'EAGAIN' || code === 'EBUSY';
}
