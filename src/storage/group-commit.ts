import { assert } from '#lib/assert.ts';
import { Deferred } from '#lib/deferred.ts';
import { toError, UnavailableError } from '#lib/errors.ts';
import type { Tx } from './database.ts';

/**
 * A kind of write that can be done for many callers at once, in a bounded number of statements. `run` gets the items
 * in the order they were submitted and answers one result for each, in that order.
 */
export interface BatchWrite<Item, Result> {
  readonly name: string;
  run(tx: Tx, items: readonly Item[]): Promise<readonly Result[]>;
}

interface Pending {
  write: BatchWrite<unknown, unknown>;
  item: unknown;
  answer: Deferred<unknown>;
}

/** Writes waiting at most; beyond that the store is too slow for what comes in, and callers are told at once. */
const pendingMax = 20_000;
/** Items in one transaction: enough to hide an fsync, few enough that nobody waits long behind it. */
const batchMax = 256;

/**
 * Writes that arrive together share one transaction and one fsync. One batch is under way at a time; what arrives
 * meanwhile forms the next one, so batches grow with load and a lone write waits for nobody. Order: items of one kind
 * commit in the order they were submitted. A batch that fails for a reason of one item is run again item by item,
 * so a bad item never takes others with it.
 */
export class GroupCommit {
  readonly #transaction: <T>(work: (tx: Tx) => Promise<T>) => Promise<T>;
  #pending: Pending[] = [];
  #flushing: Promise<void> | undefined;
  #commits = 0;
  #items = 0;

  constructor(transaction: <T>(work: (tx: Tx) => Promise<T>) => Promise<T>) {
    this.#transaction = transaction;
  }

  submit<Item, Result>(write: BatchWrite<Item, Result>, item: Item): Promise<Result> {
    if (this.#pending.length >= pendingMax) {
      return Promise.reject(
        new UnavailableError('overloaded', 'too many writes are waiting for the store; try again'),
      );
    }
    const answer = new Deferred<unknown>();
    this.#pending.push({ write: write as BatchWrite<unknown, unknown>, item, answer });
    this.#flushing ??= this.#flush();
    return answer.promise as Promise<Result>;
  }

  /** Transactions committed and items in them, for metrics. */
  counts(): { commits: number; items: number; pending: number } {
    return { commits: this.#commits, items: this.#items, pending: this.#pending.length };
  }

  /** Resolves when everything submitted so far has been answered. */
  async drain(): Promise<void> {
    while (this.#flushing !== undefined) await this.#flushing;
  }

  async #flush(): Promise<void> {
    while (this.#pending.length > 0) {
      // One turn of the loop: whatever else it brings shares the batch.
      await new Promise(setImmediate);
      const batch = this.#pending.splice(0, batchMax);
      try {
        await this.#commit(batch);
      } catch (error) {
        await this.#commitOneByOne(batch, error);
      }
    }
    this.#flushing = undefined;
  }

  async #commit(batch: readonly Pending[]): Promise<void> {
    const byWrite = Map.groupBy(batch, (pending) => pending.write);
    const answers = await this.#transaction(async (tx) => {
      const results: { pending: Pending; result: unknown }[] = [];
      for (const [write, group] of byWrite) {
        const groupResults = await write.run(
          tx,
          group.map((pending) => pending.item),
        );
        assert(groupResults.length === group.length, `${write.name} answers one result for each item`);
        group.forEach((pending, index) => {
          results.push({ pending, result: groupResults[index] });
        });
      }
      return results;
    });
    this.#commits += 1;
    this.#items += batch.length;
    for (const { pending, result } of answers) pending.answer.resolve(result);
  }

  async #commitOneByOne(batch: readonly Pending[], cause: unknown): Promise<void> {
    if (batch.length === 1 || cause instanceof UnavailableError) {
      for (const pending of batch) pending.answer.reject(toError(cause));
      return;
    }
    for (const pending of batch) {
      try {
        await this.#commit([pending]);
      } catch (itemError) {
        pending.answer.reject(toError(itemError));
      }
    }
  }
}
