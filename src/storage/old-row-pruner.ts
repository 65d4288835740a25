import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import { PeriodicTask } from '#lib/periodic-task.ts';
import type { Tx } from './database.ts';
import type { Store } from './store.ts';

const dayMs = 86_400_000;
/** Rows are kept for days or months, so an hour more does not matter. */
const intervalMs = 3_600_000;
/** Maximum of rows that are removed in one transaction. */
const batchRows = 200;

/** Removes at most `limit` rows that were written before this time. Resolves with their number. */
export type RemoveBefore = (tx: Tx, beforeMs: number, limit: number) => Promise<number>;

export interface OldRowPrunerOptions {
  store: Pick<Store, 'transaction'>;
  clock: Clock;
  logger: Logger;
  daysKept: number;
}

/** Removes rows that are older than a number of days, a few at a time. */
export class OldRowPruner {
  readonly #options: OldRowPrunerOptions;
  readonly #removals: readonly RemoveBefore[];
  readonly #task: PeriodicTask;

  /** `failure`: the event that a failed round is logged as. */
  constructor(options: OldRowPrunerOptions & { removals: readonly RemoveBefore[]; failure: string }) {
    const { removals, failure, logger } = options;
    this.#options = options;
    this.#removals = removals;
    this.#task = new PeriodicTask({ everyMs: intervalMs, work: () => this.prune(), logger, failure });
  }

  start(): void {
    // A service that never runs for an hour prunes too.
    this.#task.start({ atOnce: true });
  }

  /** Removes all old rows. Public for tests, which do not wait for the interval. */
  async prune(): Promise<void> {
    const { store, clock, daysKept } = this.#options;
    const beforeMs = clock.now() - daysKept * dayMs;
    for (const remove of this.#removals) {
      for (let removed = batchRows; removed >= batchRows && !this.#task.isStopped; )
        removed = await store.transaction((tx) => remove(tx, beforeMs, batchRows));
    }
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }
}
