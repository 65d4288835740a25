import type { Clock } from '#lib/clock.ts';
import { UnavailableError } from '#lib/errors.ts';
import type { Store } from '#storage/store.ts';
import { type LeasedJob, requeueJob } from './job-store.ts';
import type { Quarantine } from './quarantine.ts';
import { blamesMax, retryDelayMs, uncountedDelayMs } from './retry-schedule.ts';

/**
 * Attempts of jobs that failed, until that is stored: nothing of a failed attempt is, not even that it failed, while the
 * store is away.
 */
export class FailedAttempts {
  readonly #node: string;
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #quarantine: Pick<Quarantine, 'notify'>;
  readonly #waiting: { job: LeasedJob; error: Error }[] = [];

  constructor(options: {
    node: string;
    store: Store;
    clock: Clock;
    quarantine: Pick<Quarantine, 'notify'>;
  }) {
    this.#node = options.node;
    this.#store = options.store;
    this.#clock = options.clock;
    this.#quarantine = options.quarantine;
  }

  add(job: LeasedJob, error: Error): void {
    this.#waiting.push({ job, error });
  }

  /** Ids of their jobs. */
  ids(): Set<string> {
    return new Set(this.#waiting.map(({ job }) => job.id));
  }

  /** Puts the jobs back into the queue, or into quarantine. Two callers may run this simultaneously, so each takes its job out first. */
  async requeue(): Promise<void> {
    for (let failed = this.#waiting.shift(); failed !== undefined; failed = this.#waiting.shift()) {
      const { job, error } = failed;
      const nowMs = this.#clock.now();
      // An unavailable store is not the job's fault; any other error counts.
      const blamed = !(error instanceof UnavailableError);
      const blames = (job.blames ?? 0) + 1;
      const runAtMs =
        nowMs +
        (blamed ? retryDelayMs(blames, Math.random) : uncountedDelayMs(nowMs - job.createdAtMs, Math.random));
      const state = blamed && blames >= blamesMax ? 'quarantined' : 'queued';
      let held: boolean;
      try {
        held = await this.#store.transaction((tx) =>
          requeueJob(tx, this.#node, job, { state, runAtMs, nowMs, error: error.message, blamed }),
        );
      } catch (cause) {
        // Behind the others: one that cannot be stored must not keep them from it.
        this.#waiting.push(failed);
        throw cause;
      }
      if (held && state === 'quarantined')
        await this.#quarantine.notify({ job, rowId: `${job.id}~${nowMs}` });
    }
  }
}
