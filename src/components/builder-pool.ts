import { UnavailableError } from '#lib/errors.ts';

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

interface PoolOptions<P> {
  start: () => Promise<P>;
  concurrency: number;
  waitingMax: number;
  /** Of the message that too many are in line: `components wait to be built`. */
  what: string;
}

/** At most `concurrency` uses at a time, at most `waitingMax` in line; processes stay warm for a while. */
export class BuilderPool<P extends WarmProcess> {
  readonly #options: PoolOptions<P>;
  readonly #idle: Slot<P>[] = [];
  readonly #waiting: (() => void)[] = [];
  #busy = 0;

  constructor(options: PoolOptions<P>) {
    this.#options = options;
  }

  /**
   * Runs `work` with a process of its own, in the order of the calls. After an error the process is ended, unless
   * `isReusableAfter` says that it is not to blame.
   */
  async use<T>(
    work: (process: P) => Promise<T>,
    isReusableAfter: (error: unknown) => boolean = () => false,
  ): Promise<T> {
    await this.#enter();
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

  async #enter(): Promise<void> {
    const { concurrency, waitingMax, what } = this.#options;
    if (this.#busy < concurrency) {
      this.#busy += 1;
      return;
    }
    if (this.#waiting.length >= waitingMax)
      throw new UnavailableError('builder_busy', `too many ${what}; try again in a moment`);
    await new Promise<void>((enter) => this.#waiting.push(enter));
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
