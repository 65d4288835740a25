import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import { PeriodicTask } from '#lib/periodic-task.ts';
import type { Store, Tx } from '#storage/store.ts';
import { type RetainedKind, retainedKinds, retentionsToApply } from './retention-store.ts';

const dayMs = 86_400_000;
/** Rows are kept for days, so an hour more does not matter. */
const intervalMs = 3_600_000;
/** Maximum of rows that are removed in one transaction, so that other writes wait for milliseconds only. */
const batchRows = 200;

/** Removes at most `limit` rows of an owner that ended, or were written, before a time. Resolves with their number. */
export type RemoveOfOwner = (
  tx: Tx,
  of: { ownerId: string; beforeMs: number; limit: number },
) => Promise<number>;

/**
 * Removes what workspaces keep for fewer (or more) days than the instance. A legal hold is looked at again before each batch, so
 * that one which begins while a round is under way is respected. Several nodes may do the same work: what is gone is gone.
 */
export class RetentionPruner {
  readonly #store: Pick<Store, 'transaction' | 'read' | 'reclaimSpace'>;
  readonly #clock: Clock;
  readonly #removals: Readonly<Record<RetainedKind, readonly RemoveOfOwner[]>>;
  readonly #task: PeriodicTask;

  constructor(options: {
    store: Pick<Store, 'transaction' | 'read' | 'reclaimSpace'>;
    clock: Clock;
    logger: Logger;
    removals: Readonly<Record<RetainedKind, readonly RemoveOfOwner[]>>;
  }) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#removals = options.removals;
    this.#task = new PeriodicTask({
      everyMs: intervalMs,
      work: () => this.prune(),
      logger: options.logger,
      failure: 'retention.prune-failed',
    });
  }

  start(): void {
    this.#task.start({ atOnce: true });
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }

  /** Removes all that is too old; exported for tests, which do not wait for the interval. */
  async prune(): Promise<void> {
    for (const { workspace_id: ownerId } of await retentionsToApply(this.#store.read))
      for (const kind of retainedKinds)
        for (const remove of this.#removals[kind])
          for (let isMore = true; isMore && !this.#task.isStopped; )
            isMore = await this.#removeBatch(ownerId, kind, remove);
  }

  /** True when there may be more to remove. */
  async #removeBatch(ownerId: string, kind: RetainedKind, remove: RemoveOfOwner): Promise<boolean> {
    const removed = await this.#store.transaction(async (tx) => {
      const now = (await retentionsToApply(tx)).find((one) => one.workspace_id === ownerId);
      const days = now?.[`${kind}_days`] ?? null;
      if (days === null) return 0;
      return remove(tx, { ownerId, beforeMs: this.#clock.now() - days * dayMs, limit: batchRows });
    });
    if (removed > 0) await this.#store.reclaimSpace();
    return removed >= batchRows;
  }
}
