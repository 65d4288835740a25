import type { Store, Tx } from './store.ts';

/** A store that takes longer for a batch stands still; waiting longer would not help it. */
const pauseMsMax = 1_000;

/**
 * The batches of long removals that no caller waits for: one at a time in this process, each followed by a pause as long as it
 * took. Transactions of an embedded store wait for each other in the order of their requests: with nine removals side by side each write
 * of another owner waited for nine batches.
 */
export class RemovalTurns {
  readonly #store: Pick<Store, 'transaction'>;
  #last: Promise<void> = Promise.resolve();

  constructor(store: Pick<Store, 'transaction'>) {
    this.#store = store;
  }

  /** A transaction, when those that were asked for before it have ended. Rejects as `transaction` does, and when `signal` aborts. */
  async transaction<T>(signal: AbortSignal, work: (tx: Tx) => Promise<T>): Promise<T> {
    const turn = Promise.withResolvers<void>();
    const before = this.#last;
    this.#last = turn.promise;
    await before;
    const begunMs = performance.now();
    try {
      signal.throwIfAborted();
      return await this.#store.transaction(work);
    } finally {
      const tookMs = performance.now() - begunMs;
      // The process may end meanwhile: what is in line then continues after the next start.
      setTimeout(turn.resolve, Math.min(tookMs, pauseMsMax)).unref();
    }
  }
}
