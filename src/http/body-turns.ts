import type { FastifyRequest } from 'fastify';
import { CallerError } from '#lib/errors.ts';
import { FairQueue } from '#lib/fair-queue.ts';

/** Bodies from this size on take turns: reading the JSON of one keeps everything else waiting. */
const largeBytes = 64 * 1024;
/** So many bytes of large bodies of one caller are read in a second: 0.5 MB takes 5 ms, so one caller has a tenth of the time. */
const bytesPerSecond = 10 * 1024 * 1024;
/** Callers whose turn it is at the same time: together they have four tenths. */
const callersAtOnce = 4;
/** The largest bodies are imports. Other callers do not wait for as long as their size would make it. */
const turnMsMax = 1_000;
/** Large bodies of one caller that wait. */
const waitingMax = 500;
/** Callers whose next turn is delayed; with more than that none is. */
const owingMax = 1_000;
const busySeconds = 5;

interface Body {
  caller: string;
  /** 0: they are not known before the body was read; `count` follows. */
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
  readonly #queue = new FairQueue(callersAtOnce);
  readonly #waiting = new Map<string, number>();
  /** Bytes of callers that were read without a turn of their length. */
  readonly #owed = new Map<string, number>();
  readonly #nowMs: () => number;

  /** `nowMs`: the time of the day. */
  constructor(nowMs: () => number = Date.now) {
    this.#nowMs = nowMs;
  }

  /** Resolves when a body may be read. Throws CallerError `bodies_busy` (429) when too many of its caller wait. */
  async begin({ caller, bytes, isGone }: Body): Promise<void> {
    // Most bodies that do not say their size are small, and must not wait for the large ones of others.
    if (bytes === 0 && !this.#owed.has(caller)) return;
    const waiting = this.#waiting.get(caller) ?? 0;
    if (waiting >= waitingMax)
      throw new CallerError(
        'bodies_busy',
        `${waitingMax} large bodies of yours wait to be read; send fewer at a time`,
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
      await timeOf(owed);
      resolve();
      this.#leave(caller);
      if (!isGone()) await timeOf(bytes);
    });
    return promise;
  }

  /** Delays the next turn of a caller by what was read without one. */
  count(caller: string, bytes: number): void {
    if (bytes < largeBytes) return;
    if (this.#owed.size >= owingMax) this.#owed.clear();
    this.#owed.set(caller, (this.#owed.get(caller) ?? 0) + bytes);
  }

  #leave(caller: string): void {
    const left = (this.#waiting.get(caller) ?? 1) - 1;
    if (left === 0) this.#waiting.delete(caller);
    else this.#waiting.set(caller, left);
  }
}

/** Passes the part of a turn that so many bytes have. */
async function timeOf(bytes: number): Promise<void> {
  if (bytes === 0) return;
  const ms = Math.min(turnMsMax, (bytes / bytesPerSecond) * 1000);
  await new Promise<void>((resolve) => setTimeout(resolve, ms).unref());
}

/** The bytes of the body of a request if it is a large one; 0: they are not known; undefined: it is none. */
export function largeBodyBytes({ headers }: Pick<FastifyRequest, 'headers'>): number | undefined {
  if (headers['transfer-encoding'] !== undefined) return 0;
  const bytes = Number(headers['content-length'] ?? 0);
  return bytes >= largeBytes ? bytes : undefined;
}
