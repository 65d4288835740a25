import type { Clock } from '#lib/clock.ts';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { fireDueTimers, type TimerParts, timersPerPass } from './fire-due-timers.ts';
import { restartTimers } from './restart-timers.ts';
import { earliestTimerMs } from './timer-store.ts';

/** The longest sleep: another process may have added an earlier timer. */
const sleepMaxMs = 1_000;
/** A step back of the clock by more than this makes timers start anew. */
const stepBackMs = 2_000;

/**
 * Turns time into runs. In one transaction per pass: the due timers are locked, their next times written, what they set
 * going inserted and the ledger kept, so a tick fires once whatever dies. `next_at_ms` in the store is the only truth.
 *
 * Ticks that were missed while nothing ran become one late run.
 */
export class Scheduler {
  readonly #parts: TimerParts;
  readonly #clock: Clock;
  readonly #logger: Logger;
  #timer: NodeJS.Timeout | undefined;
  #firing: Promise<void> | undefined;
  #again = false;
  #stopped = false;
  /** Unknown at first: the clock may have stepped back while nothing ran, too. */
  #lastSeenMs = Number.POSITIVE_INFINITY;

  constructor(options: TimerParts & { clock: Clock; logger: Logger }) {
    this.#parts = { store: options.store, targets: options.targets, mayRun: options.mayRun };
    this.#clock = options.clock;
    this.#logger = options.logger;
  }

  start(): void {
    this.poke();
  }

  /** A timer was added, changed, or may be due. */
  poke(): void {
    if (this.#stopped) return;
    if (this.#firing !== undefined) {
      this.#again = true;
      return;
    }
    clearTimeout(this.#timer);
    this.#firing = this.#fire().finally(() => {
      this.#firing = undefined;
      if (this.#again) {
        this.#again = false;
        this.poke();
      }
    });
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#firing;
  }

  async #fire(): Promise<void> {
    let sleepMs = sleepMaxMs;
    try {
      await this.#watchClock();
      for (;;) {
        const { timers } = await fireDueTimers(this.#parts, this.#clock.now());
        if (timers < timersPerPass || this.#stopped) break;
      }
      const next = await earliestTimerMs(this.#parts.store.read);
      if (next !== undefined) sleepMs = Math.min(sleepMaxMs, Math.max(0, next - this.#clock.now()));
    } catch (error) {
      this.#logger.warn({ error: toError(error).message }, 'schedule.fire-failed');
    }
    if (!this.#stopped) this.#timer = setTimeout(() => this.poke(), sleepMs);
  }

  async #watchClock(): Promise<void> {
    const nowMs = this.#clock.now();
    if (nowMs < this.#lastSeenMs - stepBackMs) {
      const timers = await restartTimers(this.#parts.store, nowMs, nowMs + stepBackMs);
      if (timers > 0) this.#logger.warn({ timers }, 'schedule.clock-stepped-back');
    }
    this.#lastSeenMs = nowMs;
  }
}
