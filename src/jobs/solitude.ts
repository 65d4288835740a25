import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { endSolitude } from './claim-store.ts';
import type { LeasedJob } from './job-store.ts';

/** Times of suspects, in milliseconds. */
export interface SolitudeTimes {
  /** What runs for so long already is not what takes a node down as soon as it begins: it is not waited for longer. */
  provenMs: number;
  /** They are alone for so long at a time. */
  aloneMs: number;
  /** And everything else has so long before they are alone again. */
  betweenMs: number;
}
const defaultTimes: Readonly<SolitudeTimes> = { provenMs: 10_000, aloneMs: 10_000, betweenMs: 10_000 };
/** The pause before another try to write that a suspect is not alone any more. */
const againMs = 1_000;

/**
 * Runs suspects (jobs that were lost with their nodes twice) one at a time and alone: if this node dies too, it is known of
 * which. Nothing else begins until they have ended, or have had their time.
 */
export class Solitude {
  readonly #store: Store;
  readonly #logger: Logger;
  readonly #times: Readonly<SolitudeTimes>;
  readonly #claim: () => Promise<LeasedJob | undefined>;
  readonly #begin: (job: LeasedJob) => Promise<void>;
  readonly #onOver: () => void;
  readonly #stop = new AbortController();
  /** Resolves when others may begin; undefined: they may now. */
  #over: Promise<void> | undefined;
  #suspect: LeasedJob | undefined;
  /** The others get time before suspects are alone again (performance.now). */
  #notBeforeMs = 0;

  constructor(options: {
    store: Store;
    logger: Logger;
    times?: Readonly<SolitudeTimes> | undefined;
    /** The next suspect that this node may run. */
    claim: () => Promise<LeasedJob | undefined>;
    /** Runs it; resolves when it has ended. */
    begin: (job: LeasedJob) => Promise<void>;
    /** Others may begin again: what came meanwhile waits in the store. */
    onOver: () => void;
  }) {
    this.#store = options.store;
    this.#logger = options.logger;
    this.#times = options.times ?? defaultTimes;
    this.#claim = options.claim;
    this.#begin = options.begin;
    this.#onOver = options.onOver;
  }

  /** While it is true, nothing else begins. */
  get isUnderWay(): boolean {
    return this.#over !== undefined;
  }

  /** Resolves when this job may begin; undefined: now. */
  mayBegin(job: LeasedJob): Promise<void> | undefined {
    return this.#suspect === job ? undefined : this.#over;
  }

  /** Suspects wait: they run, unless others have their time now. What `running` already runs is waited for, or has run for long without harm. */
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

  /** The job goes on among others. They begin when that is on disk, so that it is not blamed for them. */
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

  /** Resolves with undefined; earlier when it stops. */
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
