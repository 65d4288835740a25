import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import { PeriodicTask } from '#lib/periodic-task.ts';
import type { Store } from '#storage/store.ts';
import { keptMs, ownersBeyond, removeExpiredKeys, removeOldestKeys } from './idempotency-key-store.ts';

/** The least time between two rounds. */
const intervalMs = 60_000;
/** The longer a round took, the later the next one begins. */
const restFactor = 10;
/** Keys removed in one transaction: the store's one writer is never held for long. */
const batchKeys = 500;
/** Keys kept of one owner; the oldest are removed first. */
const keysPerOwnerMax = 1_000_000;

/** Removes idempotency keys with their replies after 24 hours, and those that an owner has beyond the bound. */
export class IdempotencyKeyPruner {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #keysPerOwnerMax: number;
  readonly #task: PeriodicTask;

  constructor(options: { store: Store; clock: Clock; logger: Logger; keysPerOwnerMax?: number }) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#keysPerOwnerMax = options.keysPerOwnerMax ?? keysPerOwnerMax;
    this.#task = new PeriodicTask({
      everyMs: intervalMs,
      restFactor,
      work: () => this.prune(),
      logger: options.logger,
      failure: 'idempotency.prune-failed',
    });
  }

  start(): void {
    this.#task.start();
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }

  /** Removes all that is due; exported for tests, which do not wait for the interval. */
  async prune(): Promise<void> {
    const beforeMs = this.#clock.now() - keptMs;
    let removed = 0;
    for (let isMore = true; isMore && !this.#task.isStopped; ) {
      const count = await this.#store.transaction((tx) => removeExpiredKeys(tx, beforeMs, batchKeys));
      removed += count;
      isMore = count === batchKeys;
    }
    for (const { ownerId, keys } of await ownersBeyond(this.#store.read, this.#keysPerOwnerMax)) {
      for (let left = keys - this.#keysPerOwnerMax; left > 0 && !this.#task.isStopped; left -= batchKeys) {
        const limit = Math.min(left, batchKeys);
        await this.#store.transaction((tx) => removeOldestKeys(tx, ownerId, limit));
        removed += limit;
      }
    }
    if (removed > 0) await this.#store.reclaimSpace();
  }
}
