import { AsyncLocalStorage } from 'node:async_hooks';
import { toError } from './errors.ts';
import type { Logger } from './logger.ts';

export interface WakeableOptions {
  /** Does what is due, and answers in how many milliseconds to look again, unless something wakes it before. */
  look: () => Promise<number>;
  /** The longest sleep: the safety net for a wake-up that was lost. */
  pollMs: number;
  logger: Logger;
  /** The event that a failed look is logged as, and what else that line says. The next one follows after `pollMs`. */
  failure: string;
  about?: Readonly<Record<string, string>>;
  /** After a failure, what was poked during the look waits for the next one too. */
  restsAfterFailure?: boolean;
  /** Called when a look has ended and none follows immediately. */
  onRest?: () => void;
  /** A clock that never steps, for tests to turn. */
  nowMs?: () => number;
}

/**
 * Sleeps until something is due, or until it is poked. One look at a time: a poke that comes during a look has another
 * one follow, so nothing that was there before the poke is overlooked.
 */
export class Wakeable {
  readonly #options: WakeableOptions;
  readonly #nowMs: () => number;
  /** What pokes it is one of many that a look serves: a look has none of their contexts. */
  readonly #inOwnContext = AsyncLocalStorage.snapshot();
  #timer: NodeJS.Timeout | undefined;
  /** When the timer goes off. */
  #wakesAtMs = 0;
  #looking: Promise<void> | undefined;
  #isPoked = false;
  #isStopped = false;

  constructor(options: WakeableOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? (() => performance.now());
  }

  get isLooking(): boolean {
    return this.#looking !== undefined;
  }

  /** Something may be due now. */
  poke(): void {
    if (this.#isStopped) return;
    if (this.#looking !== undefined) {
      this.#isPoked = true;
      return;
    }
    clearTimeout(this.#timer);
    this.#looking = this.#inOwnContext(() => this.#look()).then(() => {
      this.#looking = undefined;
      if (this.#isPoked) {
        this.#isPoked = false;
        this.poke();
      }
      if (this.#looking === undefined) this.#options.onRest?.();
    });
  }

  /** Something is due in `ms`. Only ever earlier than planned: what waits again and again must not put off the rest. */
  wakeIn(ms: number): void {
    if (this.#nowMs() + ms < this.#wakesAtMs) this.#sleep(ms);
  }

  /** No further look begins; resolves when the one under way has ended. May be called twice. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#looking;
  }

  async #look(): Promise<void> {
    const { look, pollMs, logger, failure, about, restsAfterFailure } = this.#options;
    let sleepMs = pollMs;
    try {
      sleepMs = await look();
    } catch (error) {
      logger.warn({ ...about, error: toError(error).message }, failure);
      if (restsAfterFailure === true) this.#isPoked = false;
    }
    this.#sleep(sleepMs);
  }

  #sleep(ms: number): void {
    if (this.#isStopped) return;
    clearTimeout(this.#timer);
    const inMs = Math.min(Math.max(ms, 0), this.#options.pollMs);
    this.#wakesAtMs = this.#nowMs() + inMs;
    this.#timer = setTimeout(() => this.poke(), inMs);
  }
}
