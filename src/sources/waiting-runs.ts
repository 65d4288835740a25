import { laneBacklog } from '#jobs/job-store.ts';
import { BacklogLimiter } from '#lib/backlog-limiter.ts';
import type { Clock } from '#lib/clock.ts';
import type { Db, Store } from '#storage/store.ts';

/**
 * Maximum runs of one source that wait in the store, and the size of their events. Without a limit, a sender that is faster than
 * the component could fill the disk.
 */
export const waitingMax = 100_000;
const waitingBytesMax = 256 * 1024 * 1024;

interface Count {
  jobs: number;
  bytes: number;
}

/** The waiting runs of each source (or workflow) that gets more requests than it can run. */
export class WaitingRuns {
  readonly #limiter: BacklogLimiter<number>;

  constructor(options: {
    store: Pick<Store, 'read'>;
    clock: Clock;
    limits?: Count;
    /** What waits, counted up to `limit`; default: the jobs of the lane. */
    count?: (db: Db, id: string, limit: number) => Promise<Count>;
  }) {
    const { store, clock, count: countJobs = laneBacklog } = options;
    const limits = options.limits ?? { jobs: waitingMax, bytes: waitingBytesMax };
    this.#limiter = new BacklogLimiter({
      bytesOf: (eventBytes) => eventBytes,
      countStored: async (id) => {
        const { jobs, bytes } = await countJobs(store.read, id, limits.jobs);
        return { count: jobs, bytes };
      },
      nothing: () => ({ count: 0, bytes: 0 }),
      hasRoom: ({ count, bytes }, eventBytes) => count < limits.jobs && bytes + eventBytes <= limits.bytes,
      nowMs: () => clock.now(),
    });
  }

  /** True when one more run, with an event of `bytes`, may wait for this source; it is then counted. */
  admit(sourceId: string, bytes: number): Promise<boolean> {
    return this.#limiter.admit(sourceId, bytes);
  }
}
