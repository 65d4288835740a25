import { toError } from './errors.ts';
import type { Logger } from './logger.ts';

export interface PeriodicTaskOptions {
  everyMs: number;
  /** The pause after a round is the duration of the round times this factor, and at least `everyMs`. */
  restFactor?: number;
  /** The pause after a round that failed, if that is shorter. */
  retryMs?: number;
  /** One round. What it rejects with is logged; the next round comes all the same. */
  work: () => unknown;
  logger: Logger;
  /** The event that a failed round is logged as, and what else that line says. */
  failure: string;
  about?: Readonly<Record<string, string>>;
  /** A clock that never steps, for tests to turn. */
  nowMs?: () => number;
}

/**
 * Work that is done again and again: one round at a time, a failure never ends it, and the same failure is logged once
 * until a round succeeds. Its timer keeps no process alive.
 */
export class PeriodicTask {
  readonly #options: PeriodicTaskOptions;
  readonly #nowMs: () => number;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> | undefined;
  #isStopped = false;
  #loggedFailure: string | undefined;

  constructor(options: PeriodicTaskOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? (() => performance.now());
  }

  /** The first round begins immediately, or after `everyMs`. */
  start({ atOnce = false } = {}): void {
    if (atOnce) this.#begin();
    else this.#beginAfter(this.#options.everyMs);
  }

  /** For rounds that work off much: to be asked between two parts of it. */
  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** Resolves when the round that is under way is over. */
  async idle(): Promise<void> {
    await this.#round;
  }

  /** No further round begins; a round under way is awaited. May be called twice. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#round;
  }

  #beginAfter(ms: number): void {
    if (this.#isStopped) return;
    this.#timer = setTimeout(() => this.#begin(), ms);
    this.#timer.unref();
  }

  #begin(): void {
    const begunMs = this.#nowMs();
    this.#round = this.#work().then((succeeded) => {
      this.#round = undefined;
      const pauseMs = this.#pauseMs(this.#nowMs() - begunMs);
      this.#beginAfter(succeeded ? pauseMs : Math.min(pauseMs, this.#options.retryMs ?? pauseMs));
    });
  }

  /** Without rest, rounds begin at multiples of `everyMs`. */
  #pauseMs(tookMs: number): number {
    const { everyMs, restFactor } = this.#options;
    return restFactor === undefined ? everyMs - (tookMs % everyMs) : Math.max(everyMs, restFactor * tookMs);
  }

  /** False: the round has failed. */
  async #work(): Promise<boolean> {
    const { work, logger, failure, about } = this.#options;
    try {
      await work();
      this.#loggedFailure = undefined;
      return true;
    } catch (error) {
      const { message } = toError(error);
      if (message !== this.#loggedFailure) logger.warn({ ...about, error: message }, failure);
      this.#loggedFailure = message;
      return false;
    }
  }
}
