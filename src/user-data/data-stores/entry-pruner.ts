import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import { PeriodicTask } from '#lib/periodic-task.ts';
import type { Store } from '#storage/store.ts';
import { pruneEntries } from './manage-data-stores.ts';

/** An expired entry is already invisible; pruning only frees its space. */
const intervalMs = 10_000;
/** In one transaction. */
const batchRows = 200;

/** Removes entries of data stores whose time is over, a few at a time. */
export class EntryPruner {
  readonly #store: Pick<Store, 'read' | 'transaction' | 'lockRows'>;
  readonly #clock: Clock;
  readonly #task: PeriodicTask;

  constructor(options: {
    store: Pick<Store, 'read' | 'transaction' | 'lockRows'>;
    clock: Clock;
    logger: Logger;
  }) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#task = new PeriodicTask({
      everyMs: intervalMs,
      work: () => this.prune(),
      logger: options.logger,
      failure: 'data-store.prune-failed',
    });
  }

  start(): void {
    this.#task.start();
  }

  /** All that there are; exported for tests, which do not wait for the interval. */
  async prune(): Promise<void> {
    for (let pruned = batchRows; pruned >= batchRows && !this.#task.isStopped; )
      pruned = await pruneEntries(this.#store, this.#clock.now(), batchRows);
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }
}
