import type { IncomingHttpHeaders } from 'node:http';
import { CallerError } from './errors.ts';
import { FairQueue } from './fair-queue.ts';

/** One caller has this part of the time in which bodies are read. */
const partOfTime = 1 / 10;
/** So many bytes of large bodies of one caller are read in a second: 0.5 MB of text takes 5 ms. What takes longer is counted afterwards. */
const bytesPerSecond = 10 * 1024 * 1024;
/** The largest bodies are imports. Other callers do not wait for as long as their size would make it. */
const turnMsMax = 1_000;
/** Large bodies of one caller that wait. */
const waitingMax = 500;
/** Callers whose next turn is delayed; with more than that none is. */
const owingMax = 1_000;
const busySeconds = 5;

export interface BodyTurnsOptions {
  /** Bodies from this size on take turns. */
  largeBytes: number;
  /** Callers whose turn it is at the same time: with four they have, together, four tenths of the time. */
  callersAtOnce: number;
  /** The time of the day. */
  nowMs?: () => number;
}

interface Body {
  caller: string;
  /** 0: they are not known before the body was read. */
  bytes: number;
  /** True when its sender has gone. */
  isGone: () => boolean;
}

/**
 * When the large bodies of callers are read. A hundred clients that send half a megabyte each as often as they are refused would otherwise have
 * half of the time of the loop that answers all others. What waits is not read, so it takes no memory. A turn has a length by the size of the
 * body and does not wait for its end, so that slow senders keep no turn of others.
 */
export class BodyTurns {
  readonly #queue: FairQueue;
  readonly #waiting = new Map<string, number>();
  /** By how many milliseconds the next turn of a caller is delayed. */
  readonly #owed = new Map<string, number>();
  readonly #largeBytes: number;
  readonly #nowMs: () => number;

  constructor({ largeBytes, callersAtOnce, nowMs = Date.now }: BodyTurnsOptions) {
    this.#queue = new FairQueue(callersAtOnce);
    this.#largeBytes = largeBytes;
    this.#nowMs = nowMs;
  }

  /** The bytes of the body of a request if it is a large one; 0: they are not known; undefined: it is none. */
  bytesOf({ headers }: { headers: IncomingHttpHeaders }): number | undefined {
    if (headers['transfer-encoding'] !== undefined) return 0;
    const bytes = Number(headers['content-length'] ?? 0);
    return bytes >= this.#largeBytes ? bytes : undefined;
  }

  /** Resolves when a body may be read. Throws CallerError `bodies_busy` (429) when too many of its caller wait. */
  async begin({ caller, bytes, isGone }: Body): Promise<void> {
    // Most bodies that do not say their size are small, and must not wait for the large ones of others.
    if (bytes === 0 && !this.#owed.has(caller)) return;
    const waiting = this.#waiting.get(caller) ?? 0;
    if (waiting >= waitingMax)
      throw new CallerError(
        'bodies_busy',
        `${waitingMax} large bodies wait to be read already; send fewer at a time`,
        {
          limit: waitingMax,
          retry_after: busySeconds,
          reset_at: Math.floor(this.#nowMs() / 1000) + busySeconds,
        },
      );
    this.#waiting.set(caller, waiting + 1);
    const { promise, resolve } = Promise.withResolvers<void>();
    void this.#queue.run(caller, async () => {
      const owed = this.#owed.get(caller) ?? 0;
      this.#owed.delete(caller);
      await pass(owed);
      resolve();
      this.#leave(caller);
      if (!isGone()) await pass(turnMs(bytes));
    });
    return promise;
  }

  /**
   * Counts a body that was read in so many milliseconds. `given`: the bytes that its turn was for, 0 for none. What took longer than its turn is owed by
   * its caller: a list of a hundred thousand small objects takes ten times as long as a text of the same size.
   */
  wasRead({ caller, given, bytes, ms }: { caller: string; given: number; bytes: number; ms: number }): void {
    if (bytes < this.#largeBytes) return;
    const owed = Math.max(ms / partOfTime, turnMs(bytes)) - turnMs(given);
    if (owed <= 0) return;
    if (this.#owed.size >= owingMax) this.#owed.clear();
    this.#owed.set(caller, (this.#owed.get(caller) ?? 0) + owed);
  }

  #leave(caller: string): void {
    const left = (this.#waiting.get(caller) ?? 1) - 1;
    if (left === 0) this.#waiting.delete(caller);
    else this.#waiting.set(caller, left);
  }
}

function turnMs(bytes: number): number {
  return (bytes / bytesPerSecond) * 1000;
}

async function pass(ms: number): Promise<void> {
  if (ms === 0) return;
  await new Promise<void>((resolve) => setTimeout(resolve, Math.min(turnMsMax, ms)).unref());
}
