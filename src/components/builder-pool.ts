import { UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { BundlerProcess } from './builder-process.ts';

/** A bundler waits this long for its next build before it ends. */
const idleMs = 10_000;

/** A bundler is replaced after this many builds, whatever it may have kept in memory by then. */
const buildsPerProcess = 200;

interface Slot {
  bundler: BundlerProcess;
  builds: number;
  idleTimer?: NodeJS.Timeout;
}

/** At most `concurrency` builds at a time, at most `waitingMax` in line; bundlers stay warm for a while. */
export class BuilderPool {
  readonly #options: { buildsFolder: string; concurrency: number; waitingMax: number; logger: Logger };
  readonly #idle: Slot[] = [];
  readonly #waiting: (() => void)[] = [];
  #busy = 0;

  constructor(options: { buildsFolder: string; concurrency: number; waitingMax: number; logger: Logger }) {
    this.#options = options;
  }

  /** Runs `work` with a bundler of its own. A bundler whose build failed for other reasons than the component is ended. */
  async use<T>(
    work: (bundler: BundlerProcess) => Promise<T>,
    isReusableAfter: (error: unknown) => boolean,
  ): Promise<T> {
    await this.#enter();
    try {
      const slot = await this.#take();
      let isReusable = false;
      try {
        const result = await work(slot.bundler);
        isReusable = true;
        return result;
      } catch (error) {
        isReusable = isReusableAfter(error);
        throw error;
      } finally {
        slot.builds += 1;
        if (isReusable && slot.builds < buildsPerProcess) this.#keep(slot);
        else await slot.bundler.stop();
      }
    } finally {
      this.#leave();
    }
  }

  async close(): Promise<void> {
    const slots = this.#idle.splice(0);
    for (const slot of slots) clearTimeout(slot.idleTimer);
    await Promise.all(slots.map((slot) => slot.bundler.stop()));
  }

  async #enter(): Promise<void> {
    if (this.#busy < this.#options.concurrency) {
      this.#busy += 1;
      return;
    }
    if (this.#waiting.length >= this.#options.waitingMax) {
      throw new UnavailableError(
        'builder_busy',
        'too many components wait to be built; try again in a moment',
      );
    }
    await new Promise<void>((enter) => this.#waiting.push(enter));
  }

  #leave(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#busy -= 1;
    else next();
  }

  async #take(): Promise<Slot> {
    for (;;) {
      const slot = this.#idle.pop();
      if (slot === undefined) break;
      clearTimeout(slot.idleTimer);
      if (!slot.bundler.hasEnded) return slot;
    }
    return {
      bundler: await BundlerProcess.start(this.#options.buildsFolder, this.#options.logger),
      builds: 0,
    };
  }

  #keep(slot: Slot): void {
    slot.idleTimer = setTimeout(() => {
      this.#idle.splice(this.#idle.indexOf(slot), 1);
      void slot.bundler.stop();
    }, idleMs).unref();
    this.#idle.push(slot);
  }
}
