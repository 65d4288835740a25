import type { Kysely, SelectQueryBuilder, Transaction } from 'kysely';
import type { GroupCommit } from './group-commit.ts';
import type { Tables } from './tables.ts';

export type Db = Kysely<Tables>;
/** A transaction on the writing connection; store functions that write take it as their `db`. */
export type Tx = Transaction<Tables>;

/**
 * The one durable store. Promises:
 * - when `transaction` or a group-committed write resolves, what it wrote is on disk (fsynced) and visible to `read`;
 * - when it rejects, nothing of it is; `UnavailableError` means the store itself was the reason (disk full, server gone);
 * - statements are the same on both dialects; where they cannot be, the difference is a question on this interface.
 */
export interface Store {
  readonly name: 'sqlite' | 'postgres';
  /** For reading outside a transaction: never blocked by a write. */
  readonly read: Db;
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  /** For hot paths: writes that arrive together share one transaction and one fsync. */
  readonly writes: GroupCommit;
  /** Locks the selected rows until the end of the transaction, where the dialect has row locks. */
  lockRows<O>(
    query: SelectQueryBuilder<Tables, keyof Tables, O>,
    options?: { skipLocked?: boolean },
  ): SelectQueryBuilder<Tables, keyof Tables, O>;
  /** Tells other processes on this store, when the transaction commits; a no-op where there are none. */
  notify(tx: Tx, channel: NotifyChannel, payload: string): Promise<void>;
  onNotify(listener: (channel: NotifyChannel, payload: string) => void): void;
  /** Gives unused pages back to the file system, a bounded number per call; PostgreSQL does that itself. */
  reclaimSpace(): Promise<void>;
  close(): Promise<void>;
}

export type NotifyChannel = 'millrace_jobs' | 'millrace_events';
