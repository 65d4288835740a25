import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { endSolitude } from './claim-store.ts';
import type { LeasedJob } from './job-store.ts';

/** Times of suspects, in milliseconds. */
export interface SolitudeTimes {
  /** Maximum wait for running jobs. A job that has run for so long is not one that takes a node down as soon as it begins. */
  provenMs: number;
  /** How long suspects run alone at a time. */
  aloneMs: number;
  /** How long other jobs have before suspects run alone again. */
  betweenMs: number;
}
const defaultTimes: Readonly<SolitudeTimes> = { provenMs: 10_000, aloneMs: 10_000, betweenMs: 10_000 };
/** The pause before another try to write that a suspect no longer runs alone. */
const againMs = 1_000;

/**
 * Runs suspects (jobs that were lost with their nodes twice) one at a time and alone, so that the job at fault is known if this node
 * dies too. No other job begins until they have ended, or their time is over.
 */
export class Solitude {
  readonly #store: Store;
  readonly #logger: Logger;
  readonly #times: Readonly<SolitudeTimes>;
  readonly #claim: () => Promise<LeasedJob | undefined>;
  readonly #begin: (job: LeasedJob) => Promise<void>;
  readonly #onOver: () => void;
  readonly #stop = new AbortController();
  /** Resolves when other jobs may begin. Undefined: they may begin now. */
  #over: Promise<void> | undefined;
  #suspect: LeasedJob | undefined;
  /** Suspects do not run alone before this time (performance.now). */
  #notBeforeMs = 0;

  constructor(options: {
    store: Store;
    logger: Logger;
    times?: Readonly<SolitudeTimes> | undefined;
    /** Returns the next suspect that this node may run. */
    claim: () => Promise<LeasedJob | undefined>;
    /** Runs it; resolves when it has ended. */
    begin: (job: LeasedJob) => Promise<void>;
    /** Called when other jobs may start. Those that arrived meanwhile wait in the store. */
    onOver: () => void;
  }) {
    this.#store = options.store;
    this.#logger = options.logger;
    this.#times = options.times ?? defaultTimes;
    this.#claim = options.claim;
    this.#begin = options.begin;
    this.#onOver = options.onOver;
  }

  /** True: no other job begins. */
  get isUnderWay(): boolean {
    return this.#over !== undefined;
  }

  /** Resolves when this job may begin; undefined: now. */
  mayBegin(job: LeasedJob): Promise<void> | undefined {
    return this.#suspect === job ? undefined : this.#over;
  }

  /** Runs waiting suspects, unless it is the time of other jobs. Waits for `running` jobs first, up to a limit. */
  async run(running: Iterable<Promise<void>>): Promise<void> {
    if (performance.now() < this.#notBeforeMs) return;
    const { provenMs, aloneMs, betweenMs } = this.#times;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#over = promise;
    try {
      await Promise.race([Promise.allSettled([...running]), this.#pause(provenMs)]);
      const untilMs = performance.now() + aloneMs;
      while (performance.now() < untilMs && !this.#isStopped) {
        const job = await this.#claim();
        if (job === undefined) break;
        this.#logger.warn({ job: job.id, kind: job.kind, lane: job.lane }, 'job.isolated');
        this.#suspect = job;
        const done = this.#begin(job).then(() => true);
        const hasEnded = await Promise.race([done, this.#pause(untilMs - performance.now())]);
        if (hasEnded !== true) await this.#endFor(job);
      }
      this.#notBeforeMs = performance.now() + betweenMs;
    } finally {
      this.#suspect = undefined;
      this.#over = undefined;
      resolve();
      this.#onOver();
    }
  }

  /** No further suspect begins. */
  stop(): void {
    this.#stop.abort();
  }

  get #isStopped(): boolean {
    return this.#stop.signal.aborted;
  }

  /** The job continues beside others. They begin when this is on disk, so that it is not blamed for them. */
  async #endFor(job: LeasedJob): Promise<void> {
    while (!this.#isStopped) {
      try {
        return await this.#store.transaction((tx) => endSolitude(tx, job));
      } catch (error) {
        this.#logger.warn({ job: job.id, error: toError(error).message }, 'job.isolation-not-ended');
        await this.#pause(againMs);
      }
    }
  }

  /** Resolves with undefined after the time, or earlier at a stop. */
  async #pause(ms: number): Promise<undefined> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, Math.max(0, ms));
    const stop = () => resolve();
    this.#stop.signal.addEventListener('abort', stop, { once: true });
    await promise;
    clearTimeout(timer);
    this.#stop.signal.removeEventListener('abort', stop);
    return undefined;
  }
}
