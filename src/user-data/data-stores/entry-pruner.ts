import type { Clock } from '#lib/clock.ts';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { pruneEntries } from './manage-data-stores.ts';

/** Nobody sees an expired entry; this only gives its room back. */
const intervalMs = 10_000;
/** In one transaction. */
const batchRows = 200;

/** Removes entries of data stores whose time is over, a few at a time. */
export class EntryPruner {
  readonly #store: Pick<Store, 'read' | 'transaction' | 'lockRows'>;
  readonly #clock: Clock;
  readonly #logger: Logger;
  #timer: NodeJS.Timeout | undefined;
  #working: Promise<void> | undefined;
  #stopped = false;

  constructor(options: {
    store: Pick<Store, 'read' | 'transaction' | 'lockRows'>;
    clock: Clock;
    logger: Logger;
  }) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#logger = options.logger;
  }

  start(): void {
    this.#timer = setInterval(() => {
      this.#working ??= this.prune().finally(() => {
        this.#working = undefined;
      });
    }, intervalMs);
  }

  /** All that there are; exported for tests, which do not wait for the interval. */
  async prune(): Promise<void> {
    try {
      for (let pruned = batchRows; pruned >= batchRows && !this.#stopped; ) {
        pruned = await pruneEntries(this.#store, this.#clock.now(), batchRows);
      }
    } catch (error) {
      this.#logger.warn({ error: toError(error).message }, 'data-stores.prune-failed');
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#timer);
    await this.#working;
  }
}
