import type { Logger } from '#lib/logger.ts';
import { PeriodicTask } from '#lib/periodic-task.ts';
import type { Store } from '#storage/store.ts';
import { readTimeMs, type StoreTime } from '#storage/store-time.ts';
import { ownersDueBetween } from './timer-store.ts';

/** A hundred processes start within half of this, one after another, and leave most of the machine to others. */
export const aheadMs = 30_000;
const lookEveryMs = 5_000;

/**
 * Says every few seconds whose timers are due soon. Timers of a hundred owners that are due together, as those of each full hour are, would
 * else have a hundred processes started at that moment, which took six seconds on two cores.
 *
 * Only a hint: a timer that it misses starts its process when it is due.
 */
export class DueSoon {
  readonly #task: PeriodicTask;

  constructor(options: {
    store: Pick<Store, 'read'>;
    time: StoreTime;
    /** The part of the runs that this node does, more than 0 and at most 1. */
    partOfRuns: () => number | Promise<number>;
    tell: (ownerIds: readonly string[], part: number) => void;
    logger: Logger;
    lookEveryMs?: number;
  }) {
    const { store, time, partOfRuns, tell, logger } = options;
    this.#task = new PeriodicTask({
      everyMs: options.lookEveryMs ?? lookEveryMs,
      work: async () => {
        const nowMs = await readTimeMs(store.read, time);
        const owners = await ownersDueBetween(store.read, nowMs, nowMs + aheadMs);
        tell(owners, owners.length === 0 ? 1 : await partOfRuns());
      },
      logger,
      failure: 'schedule.look-ahead-failed',
    });
  }

  start(): void {
    this.#task.start({ atOnce: true });
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }
}
