import type { SelectQueryBuilder } from 'kysely';
import { sql } from 'kysely';
import type { Tx } from './database.ts';

/**
 * The differences between the two databases that code outside `storage` asks about, as properties; the name is only for display and for keys of
 * caches. The clock of leases and the lock of the data folder are chosen by the URL of the database (`assemble-platform.ts`, `admin/`), the
 * engines are in `sqlite-store.ts` (one file, one writing connection, no other process to notify) and `postgres-store.ts` (a pool of connections,
 * notices by LISTEN and NOTIFY). ARCHITECTURE, "One store", compares them.
 */
export interface Dialect {
  readonly name: 'sqlite' | 'postgres';
  /**
   * Several nodes may have the store open. What a process has cached may then be out of date. Nodes coordinate by leases, which are rows of the
   * store, and the clock of the database decides when one ends.
   */
  readonly isShared: boolean;
  /** Only one transaction writes at a time. What it has read cannot change before it commits. */
  readonly hasOneWriter: boolean;
  readonly hasLateralJoins: boolean;
  /** The parameter at a position, from 1, in the text of a statement; with `type`, of that type where the text alone does not say. */
  parameter(position: number, type?: string): string;
  /** Locks the selected rows until the end of the transaction, where rows have locks. */
  lockRows<DB, TB extends keyof DB, O>(
    query: SelectQueryBuilder<DB, TB, O>,
    options?: { skipLocked?: boolean },
  ): SelectQueryBuilder<DB, TB, O>;
  /** Keeps the selected rows from being removed before the end of the transaction; other changes of them are free. */
  keepRows<DB, TB extends keyof DB, O>(query: SelectQueryBuilder<DB, TB, O>): SelectQueryBuilder<DB, TB, O>;
  /** Transactions that take the same turn run one after another, on all nodes. */
  takeTurn(tx: Tx, turn: Turn): Promise<void>;
}

/** What transactions take turns at, with the key of the advisory lock. */
const turns = { migrate: 7_119_264, claimJobs: 7_119_265, firstStart: 7_119_266, signIn: 7_119_267 } as const;

export type Turn = keyof typeof turns;

export const sqlite: Dialect = {
  name: 'sqlite',
  isShared: false,
  hasOneWriter: true,
  hasLateralJoins: false,
  parameter: () => '?',
  lockRows: (query) => query,
  keepRows: (query) => query,
  takeTurn: async () => {},
};

export const postgres: Dialect = {
  name: 'postgres',
  isShared: true,
  hasOneWriter: false,
  hasLateralJoins: true,
  parameter: (position, type) => (type === undefined ? `$${position}` : `cast($${position} as ${type})`),
  lockRows: (query, { skipLocked = false } = {}) =>
    skipLocked ? query.forUpdate().skipLocked() : query.forUpdate(),
  keepRows: (query) => query.forKeyShare(),
  takeTurn: async (tx, turn) => {
    await sql`select pg_advisory_xact_lock(${turns[turn]})`.execute(tx);
  },
};
