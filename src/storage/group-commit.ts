import { AsyncLocalStorage } from 'node:async_hooks';
import { assert } from '#lib/assert.ts';
import { Deferred } from '#lib/deferred.ts';
import { toError, UnavailableError } from '#lib/errors.ts';
import type { Tx } from './database.ts';
import { batchMax, type QueuedWrite, type QueueRefusal, WriteQueue } from './write-queue.ts';

/**
 * A kind of write that can be done for many callers at once, in a bounded number of statements. `run` gets the items
 * in the order they were submitted and returns one result for each, in that order.
 */
export interface BatchWrite<Item, Result> {
  readonly name: string;
  /** About how much an item is to send and to store, where that may be much; it bounds batches and the queue. */
  bytes?(item: Item): number;
  /** The owner whose share of the queue an item counts to; undefined, or absent: the instance. */
  ownerOf?(item: Item): string | undefined;
  /** True: its items record how admitted work ended, so none is refused because its owner has much waiting. */
  readonly endsWork?: boolean;
  run(tx: Tx, items: readonly Item[]): Promise<readonly Result[]>;
}

/** A write that waits for its batch, and can be cancelled until then. */
export interface PlacedWrite<Result> {
  /** Never settles after the write was cancelled. */
  readonly done: Promise<Result>;
  /** True: the write had not begun, and will not be done. False: it is under way or done. */
  cancelWrite(): boolean;
}

/** Urgent ones go with the next batch, others after `lazyFlushMs` at the latest. */
interface Pending extends QueuedWrite {
  write: BatchWrite<unknown, unknown>;
  item: unknown;
  answer: Deferred<unknown>;
}

/** How long a lazy write waits for a batch of others to go with. */
const lazyFlushMs = 5;
/** When a batch takes longer than this to fail, the store does not answer: the writes queued behind it are refused immediately. */
const slowFailureMs = 2_000;
/** What a share of the queue reports to. */
export interface WriteShares {
  refused(ownerId: string, resource: 'writes', reason: string): void;
}

/**
 * Writes that arrive together share one transaction and one fsync. One batch is under way at a time; what arrives
 * meanwhile forms the next one, so batches grow with load and a single write does not wait. Order: items of one owner and kind
 * commit in the order they were submitted; owners take turns, and while several write each has a part of a batch only. A batch that fails for a reason of one item is run again item by item,
 * so a bad item never takes others with it.
 */
export class GroupCommit {
  readonly #transaction: <T>(work: (tx: Tx) => Promise<T>) => Promise<T>;
  readonly #queue = new WriteQueue<Pending>();
  #lazyFlush: NodeJS.Timeout | undefined;
  #flushing: Promise<void> | undefined;
  /** A batch serves many submitters, so it runs in the context of none. */
  readonly #inOwnContext = AsyncLocalStorage.snapshot();
  #healthy = true;
  #commits = 0;
  #items = 0;
  readonly #slowFailureMs: number;
  readonly #shares: WriteShares | undefined;

  constructor(
    transaction: <T>(work: (tx: Tx) => Promise<T>) => Promise<T>,
    options: { shares?: WriteShares | undefined; slowFailureMs?: number } = {},
  ) {
    this.#transaction = transaction;
    this.#shares = options.shares;
    this.#slowFailureMs = options.slowFailureMs ?? slowFailureMs;
  }

  submit<Item, Result>(write: BatchWrite<Item, Result>, item: Item): Promise<Result> {
    return this.place(write, item).done;
  }

  /**
   * Like `submit`, for a write that no caller waits for: it goes with the next batch of others, at the latest after some
   * milliseconds. Under load that saves every second commit.
   */
  submitLazily<Item, Result>(write: BatchWrite<Item, Result>, item: Item): Promise<Result> {
    return this.place(write, item, { isUrgent: false }).done;
  }

  /** Like `submit`, for a write that may turn out to be needless before its turn comes. */
  place<Item, Result>(
    write: BatchWrite<Item, Result>,
    item: Item,
    { isUrgent = true }: { isUrgent?: boolean } = {},
  ): PlacedWrite<Result> {
    const answer = new Deferred<unknown>();
    const pending: Pending = {
      write: write as BatchWrite<unknown, unknown>,
      item,
      ownerId: write.ownerOf?.(item),
      bytes: write.bytes?.(item) ?? 0,
      answer,
      state: 'waiting',
      isUrgent,
      endsWork: write.endsWork === true,
      number: 0,
    };
    const refusal = this.#queue.add(pending);
    if (refusal !== undefined) this.#refuse(pending, refusal);
    else if (isUrgent || this.#queue.length >= batchMax)
      this.#flushing ??= this.#inOwnContext(() => this.#flush());
    else this.#scheduleFlush();
    return {
      done: answer.promise as Promise<Result>,
      cancelWrite() {
        if (pending.state !== 'waiting') return false;
        pending.state = 'cancelled';
        return true;
      },
    };
  }

  /** False from a batch that failed as a whole until one that was committed: the store is away, or its disk is full. */
  get healthy(): boolean {
    return this.#healthy;
  }

  /** Transactions committed, items in them, and items that wait, for metrics. */
  counts(): { commits: number; items: number; pending: number } {
    return { commits: this.#commits, items: this.#items, pending: this.#queue.length };
  }

  /** Resolves when everything submitted so far has been answered. */
  async drain(): Promise<void> {
    while (this.#flushing !== undefined || this.#queue.length > 0) {
      this.#flushing ??= this.#flush();
      await this.#flushing;
    }
  }

  #refuse(pending: Pending, refusal: QueueRefusal): void {
    pending.state = 'taken';
    if (refusal === 'full') {
      pending.answer.reject(
        new UnavailableError('overloaded', 'too many writes are waiting for the store; try again'),
      );
      return;
    }
    const reason = 'too many writes of the same owner are waiting for the store; try again';
    pending.answer.reject(new UnavailableError('overloaded', reason));
    if (pending.ownerId !== undefined) this.#shares?.refused(pending.ownerId, 'writes', reason);
  }

  /** Writes what waits patiently when its time is over. */
  #scheduleFlush(): void {
    if (this.#flushing !== undefined) return;
    this.#lazyFlush ??= setTimeout(() => {
      this.#lazyFlush = undefined;
      this.#flushing ??= this.#flush();
    }, lazyFlushMs);
  }

  async #flush(): Promise<void> {
    clearTimeout(this.#lazyFlush);
    this.#lazyFlush = undefined;
    do {
      // Two turns of the loop: whatever else they bring shares the batch. With one, batches were a fifth smaller, and
      // a request cost 10 % more CPU at 16 in flight; a single write is not slower.
      await new Promise(setImmediate);
      await new Promise(setImmediate);
      const batch = this.#queue.takeBatch();
      if (batch.length === 0) continue;
      for (const pending of batch) pending.state = 'taken';
      const begun = performance.now();
      try {
        await this.#commit(batch);
      } catch (error) {
        this.#healthy = false;
        await this.#commitOneByOne(batch, error);
        if (error instanceof UnavailableError && performance.now() - begun > this.#slowFailureMs)
          this.#rejectWaiting(untried(error));
      }
    } while (this.#queue.urgent > 0 || this.#queue.length >= batchMax);
    this.#flushing = undefined;
    if (this.#queue.length > 0) this.#scheduleFlush();
  }

  #rejectWaiting(error: UnavailableError): void {
    for (const pending of this.#queue.takeAll()) {
      pending.state = 'taken';
      pending.answer.reject(error);
    }
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
    this.#healthy = true;
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

/** It may be unknown whether the failed batch was stored. The writes queued behind it were not. */
function untried(error: UnavailableError): UnavailableError {
  if (error.code !== 'outcome_unknown') return error;
  return new UnavailableError('store_unavailable', 'the database cannot be reached: nothing was stored', {
    cause: error,
  });
}
