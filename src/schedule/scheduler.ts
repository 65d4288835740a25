import type { Logger } from '#lib/logger.ts';
import { Wakeable } from '#lib/wakeable.ts';
import type { StoreTime } from '#storage/store-time.ts';
import { fireDueTimers, type TimerOptions } from './fire-due-timers.ts';
import { restartTimers, stepBackMs } from './restart-timers.ts';
import { readTimerTimes } from './timer-store.ts';

/** The longest sleep: another process may have added an earlier timer. */
const sleepMaxMs = 1_000;
/** The next look when the timers that are due are locked: another node fires them at this moment. */
const lockedPauseMs = 50;

export interface SchedulerOptions extends TimerOptions {
  time: StoreTime;
  logger: Logger;
  /** While it is true no timer fires here; asked at each pass. Ticks that no other node fires meanwhile are late. */
  isPaused?: () => boolean;
}

/**
 * Turns time into runs. One transaction per pass locks the due timers, and writes their next times, the jobs and runs that they start, and the
 * ledger. So each tick fires once, also when a process dies. `next_at_ms` in the store is the only truth.
 *
 * Ticks that were missed while nothing ran become one late run.
 *
 * From a tick to running code: a target turns it into a job. For a source that is a job `run_source` (`source-ticks.ts`), which the worker pool
 * gives to `SourceRuns.run` (`sources/run-source.ts`), which calls the code in a sandboxed process. For a workflow it is a run with a job
 * `run_workflow` (`workflows/runs/workflow-ticks.ts`), which `WorkflowRuns` does (`workflows/runs/run-workflow.ts`) with
 * `RunEngine.advance` (`workflows/runs/advance-run.ts`).
 *
 * What is due is decided by the time of the store, not by the clock of this node: nodes whose clocks differ agree on it.
 */
export class Scheduler {
  readonly #firing: TimerOptions;
  readonly #time: StoreTime;
  readonly #isPaused: () => boolean;
  readonly #logger: Logger;
  readonly #wakeable: Wakeable;
  #stopped = false;
  /** Unknown at first: the clock may have stepped back while nothing ran, too. */
  #lastSeenMs = Number.POSITIVE_INFINITY;

  constructor(options: SchedulerOptions) {
    this.#firing = { store: options.store, targets: options.targets, mayRun: options.mayRun };
    this.#time = options.time;
    this.#isPaused = options.isPaused ?? (() => false);
    this.#logger = options.logger;
    this.#wakeable = new Wakeable({
      look: () => this.#fire(),
      pollMs: sleepMaxMs,
      logger: options.logger,
      failure: 'schedule.fire-failed',
    });
  }

  start(): void {
    this.poke();
  }

  /** A timer was added, changed, or may be due. */
  poke(): void {
    this.#wakeable.poke();
  }

  stop(): Promise<void> {
    this.#stopped = true;
    return this.#wakeable.stop();
  }

  /** Fires what is due, and answers in how many milliseconds something may be due again. */
  async #fire(): Promise<number> {
    while (!this.#stopped && !this.#isPaused()) {
      const { nowMs, nextMs } = await readTimerTimes(this.#firing.store.read, this.#time);
      if (nowMs < this.#lastSeenMs - stepBackMs) {
        await this.#restartTimers();
        this.#lastSeenMs = nowMs;
        continue;
      }
      this.#lastSeenMs = nowMs;
      if (nextMs === undefined) break;
      if (nextMs > nowMs) return nextMs - nowMs;
      const { timers } = await fireDueTimers(this.#firing, nowMs);
      if (timers === 0) return lockedPauseMs;
    }
    return sleepMaxMs;
  }

  async #restartTimers(): Promise<void> {
    const timers = await restartTimers(this.#firing.store, this.#time);
    if (timers > 0) this.#logger.warn({ timers }, 'schedule.clock-stepped-back');
  }
}
