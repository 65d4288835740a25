import type { CompiledQuery } from 'kysely';
import type { Db, Tx } from './database.ts';
import type { Dialect } from './dialect.ts';
import type { GroupCommit } from './group-commit.ts';
import type { NamedRows, NamedStatements } from './named-statements.ts';

export type { Db, Tx } from './database.ts';

/**
 * The one durable store. Promises:
 * - when `transaction` or a group-committed write resolves, what it wrote is on disk (fsynced) and visible to `read`;
 * - when it rejects, nothing of it is; `UnavailableError` means the store itself was the reason (disk full, server gone).
 *   Only with the code `outcome_unknown` it may be stored all the same: the store was lost in the middle of the commit;
 * - statements are the same on both dialects; where they cannot be, the difference is a question of the dialect.
 */
export interface Store extends Dialect {
  /** For reading outside a transaction: never blocked by a write. */
  readonly read: Db;
  transaction<T>(work: (tx: Tx) => Promise<T>): Promise<T>;
  /** For hot paths: writes that arrive together share one transaction and one fsync. */
  readonly writes: GroupCommit;
  /**
   * Executes a statement of the transaction whose result the caller does not need, together with the next one: at the latest it
   * is done, or has failed the transaction, when that commits. For hot paths, where each wait for the store counts.
   */
  defer(tx: Tx, query: CompiledQuery): Promise<void>;
  /** The rows of several statements of the transaction, by name, for hot paths: waited for once, where the dialect can. */
  ask<R extends Record<string, object>>(tx: Tx, statements: NamedStatements<R>): Promise<NamedRows<R>>;
  /** Tells other processes on this store, when the transaction commits; a no-op where there are none. */
  notify(tx: Tx, channel: NotifyChannel, payload: string): Promise<void>;
  onNotify(listener: (channel: NotifyChannel, payload: string) => void): void;
  /** Gives unused pages back to the file system, a bounded number per call; PostgreSQL does that itself. */
  reclaimSpace(): Promise<void>;
  /**
   * Resolves when the store takes writes, proven by a commit of a moment ago, if need be one made for this question.
   * Rejects with the reason.
   */
  checkWritable(): Promise<void>;
  /** Transactions that were not committed, for whatever reason, since the store was opened: what is noted in one may not be stored. */
  failedTransactions(): number;
  close(): Promise<void>;
}

export type NotifyChannel =
  | 'millrace_access'
  | 'millrace_events'
  | 'millrace_jobs'
  | 'millrace_replies'
  | 'millrace_variables';
