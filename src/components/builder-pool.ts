import { UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';

/** A process waits this long for its next use before it ends. */
const idleMs = 10_000;

/** A process is replaced after this many uses, whatever it may have kept in memory by then. */
const usesPerProcess = 200;

export interface WarmProcess {
  /** False once it ended, or when its last use left it in no state for another. */
  readonly isUsable: boolean;
  /** Kills it; answers when it is gone. */
  stop(): Promise<void>;
}

interface Slot<P> {
  process: P;
  uses: number;
  idleTimer?: NodeJS.Timeout;
}

/** A use waits in line for this long at most; a caller of the API would rather try again. */
const defaultWaitMaxMs = 5 * 60_000;

interface PoolOptions<P> {
  start: () => Promise<P>;
  concurrency: number;
  waitingMax: number;
  waitMaxMs?: number;
  /** The subject of the messages about the line: `components wait to be built`. */
  what: string;
  logger: Logger;
}

interface UseOptions {
  /** Says that the process is not to blame for an error. */
  isReusableAfter?: (error: unknown) => boolean;
  /** Leaves the line; `work` has to heed it by itself. */
  signal?: AbortSignal;
}

/**
 * At most `concurrency` uses at a time, at most `waitingMax` in line, each for `waitMaxMs` at most; processes stay warm
 * for a while. Waiting is logged, and an error about the line says how long it is.
 */
export class BuilderPool<P extends WarmProcess> {
  readonly #options: PoolOptions<P>;
  readonly #idle: Slot<P>[] = [];
  readonly #waiting: (() => void)[] = [];
  #busy = 0;

  constructor(options: PoolOptions<P>) {
    this.#options = options;
  }

  get counts(): { running: number; waiting: number } {
    return { running: this.#busy, waiting: this.#waiting.length };
  }

  /**
   * Runs `work` with a process of its own, in the order of the calls. After an error the process is ended, unless
   * `isReusableAfter` says otherwise. Rejects with `builder_busy` when the line is too long.
   */
  async use<T>(
    work: (process: P) => Promise<T>,
    { isReusableAfter = () => false, signal }: UseOptions = {},
  ): Promise<T> {
    await this.#enter(signal);
    try {
      const slot = await this.#take();
      let isReusable = false;
      try {
        const result = await work(slot.process);
        isReusable = true;
        return result;
      } catch (error) {
        isReusable = isReusableAfter(error);
        throw error;
      } finally {
        slot.uses += 1;
        if (isReusable && slot.process.isUsable && slot.uses < usesPerProcess) this.#keep(slot);
        else await slot.process.stop();
      }
    } finally {
      this.#leave();
    }
  }

  /** Ends the processes that nobody uses; call it when all uses have ended. */
  async close(): Promise<void> {
    const slots = this.#idle.splice(0);
    for (const slot of slots) clearTimeout(slot.idleTimer);
    await Promise.all(slots.map((slot) => slot.process.stop()));
  }

  async #enter(signal?: AbortSignal): Promise<void> {
    const { concurrency, waitingMax, waitMaxMs = defaultWaitMaxMs, what, logger } = this.#options;
    signal?.throwIfAborted();
    if (this.#busy < concurrency) {
      this.#busy += 1;
      return;
    }
    const waiting = this.#waiting.length;
    if (waiting >= waitingMax) {
      logger.warn({ what, running: this.#busy, waiting }, 'build.refused');
      throw new UnavailableError('builder_busy', `too many ${what} (${waiting}); try again in a moment`);
    }
    logger.info({ what, running: this.#busy, waiting: waiting + 1 }, 'build.queued');
    const { promise: turn, resolve: enter, reject } = Promise.withResolvers<void>();
    this.#waiting.push(enter);
    const leaveLine = (error: Error): void => {
      const place = this.#waiting.indexOf(enter);
      // It is its turn already.
      if (place === -1) return;
      this.#waiting.splice(place, 1);
      reject(error);
    };
    const timer = setTimeout(() => {
      const place = this.#waiting.indexOf(enter) + 1;
      const message = `${this.#waiting.length} ${what}, and this one was number ${place} after ${waitMaxMs / 1000} seconds; try again in a moment`;
      logger.warn({ what, running: this.#busy, waiting: this.#waiting.length, place }, 'build.refused');
      leaveLine(new UnavailableError('builder_busy', message));
    }, waitMaxMs);
    const abort = (): void => leaveLine(signal?.reason);
    signal?.addEventListener('abort', abort, { once: true });
    try {
      await turn;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    }
  }

  #leave(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#busy -= 1;
    else next();
  }

  async #take(): Promise<Slot<P>> {
    for (;;) {
      const slot = this.#idle.pop();
      if (slot === undefined) break;
      clearTimeout(slot.idleTimer);
      if (slot.process.isUsable) return slot;
    }
    return { process: await this.#options.start(), uses: 0 };
  }

  #keep(slot: Slot<P>): void {
    slot.idleTimer = setTimeout(() => {
      this.#idle.splice(this.#idle.indexOf(slot), 1);
      void slot.process.stop();
    }, idleMs).unref();
    this.#idle.push(slot);
  }
}
