import type { Clock } from '#lib/clock.ts';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
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
  readonly #logger: Logger;
  readonly #keysPerOwnerMax: number;
  #timer: NodeJS.Timeout | undefined;
  #working: Promise<void> | undefined;
  #stopped = false;

  constructor(options: { store: Store; clock: Clock; logger: Logger; keysPerOwnerMax?: number }) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#keysPerOwnerMax = options.keysPerOwnerMax ?? keysPerOwnerMax;
  }

  start(): void {
    this.#roundAfter(intervalMs);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#working;
  }

  /** Removes all that is due; exported for tests, which do not wait for the interval. */
  async prune(): Promise<void> {
    const beforeMs = this.#clock.now() - keptMs;
    let removed = 0;
    for (let isMore = true; isMore && !this.#stopped; ) {
      const count = await this.#store.transaction((tx) => removeExpiredKeys(tx, beforeMs, batchKeys));
      removed += count;
      isMore = count === batchKeys;
    }
    for (const { ownerId, keys } of await ownersBeyond(this.#store.read, this.#keysPerOwnerMax)) {
      for (let left = keys - this.#keysPerOwnerMax; left > 0 && !this.#stopped; left -= batchKeys) {
        const limit = Math.min(left, batchKeys);
        await this.#store.transaction((tx) => removeOldestKeys(tx, ownerId, limit));
        removed += limit;
      }
    }
    if (removed > 0) await this.#store.reclaimSpace();
  }

  #roundAfter(ms: number): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(() => {
      const begun = performance.now();
      this.#working = this.prune()
        .catch((error: unknown) =>
          this.#logger.warn({ error: toError(error).message }, 'idempotency.prune-failed'),
        )
        .finally(() => {
          this.#working = undefined;
          this.#roundAfter(Math.max(intervalMs, restFactor * (performance.now() - begun)));
        });
    }, ms);
  }
}
