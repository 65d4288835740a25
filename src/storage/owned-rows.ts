import { setTimeout as pause } from 'node:timers/promises';
import { type RawBuilder, type SqlBool, sql } from 'kysely';
import type { Db, Store, Tx } from './store.ts';
import type { Tables } from './tables.ts';

/** How the rows of an owner are found and removed in one table. */
export interface OwnedRows {
  readonly table: keyof Tables;
  /** Columns of an index that is walked where none finds the rows of an owner. */
  readonly key: readonly string[];
  /** Columns that say whose a row is; a row goes with each of these owners. */
  readonly owners: readonly string[];
  /** An index begins with each of `owners`. */
  readonly isIndexed: boolean;
  /** Maximum of rows removed in one transaction. */
  readonly batchRows: number;
  /** Only these rows. */
  readonly only?: RawBuilder<SqlBool>;
  /** Removes rows without an owner that belong to these, which have one column as their key. */
  readonly beside?: (tx: Tx, keys: readonly string[]) => Promise<void>;
}

/** Rows removed in one transaction, so that other writes wait for milliseconds only. */
const batchRowsDefault = 200;
/** A store that takes longer for a batch stands still; waiting longer would not help it. */
const pauseMsMax = 1_000;
/** Rows looked through at once where no index finds those of an owner: a read of a few milliseconds. */
const windowRows = 2_000;

/** Declares the rows of a table; `owners` is `owner_id` where nothing else is said. */
export function ownedRows<T extends keyof Tables>(
  table: T,
  {
    key,
    owners = ['owner_id' as keyof Tables[T] & string],
    isIndexed = false,
    batchRows = batchRowsDefault,
    ...others
  }: {
    key: readonly (keyof Tables[T] & string)[];
    owners?: readonly (keyof Tables[T] & string)[];
    isIndexed?: boolean;
    batchRows?: number;
  } & Pick<OwnedRows, 'only' | 'beside'>,
): OwnedRows {
  return { table, key, owners, isIndexed, batchRows, ...others };
}

/**
 * Removes all rows of these owners, a batch per transaction. Where no index finds them, the table is walked outside of transactions, a
 * window at a time. `onBatch` is done in the transaction of each batch. Throws when `signal` aborts, and can be called again.
 */
export async function removeOwnedRows(
  store: Pick<Store, 'transaction' | 'read' | 'reclaimSpace'>,
  rows: OwnedRows,
  {
    ownerIds,
    signal,
    onBatch,
  }: {
    ownerIds: readonly string[];
    signal: AbortSignal;
    onBatch: (tx: Tx, removed: number) => Promise<void>;
  },
): Promise<void> {
  const drain = async (window: Window | undefined): Promise<void> => {
    for (let removed = rows.batchRows; removed >= rows.batchRows; ) {
      signal.throwIfAborted();
      const begunMs = performance.now();
      removed = await store.transaction(async (tx) => {
        const count = await removeBatch(tx, rows, ownerIds, window);
        if (count > 0) await onBatch(tx, count);
        return count;
      });
      if (removed === 0) return;
      await store.reclaimSpace();
      // As long as the batch took, so that the store has half of the time for others, however slow it is.
      await pause(Math.min(performance.now() - begunMs, pauseMsMax), undefined, { signal });
    }
  };
  if (rows.isIndexed) return drain(undefined);
  for await (const window of windowsOf(store.read, rows)) {
    signal.throwIfAborted();
    if (await hasRows(store.read, rows, ownerIds, window)) await drain(window);
  }
}

/** True when a row of these owners is left in the table. */
export async function hasOwnedRows(db: Db, rows: OwnedRows, ownerIds: readonly string[]): Promise<boolean> {
  return hasRows(db, rows, ownerIds, undefined);
}

/** Rows whose key is after the first and not after the last; undefined: no bound. */
interface Window {
  after: readonly unknown[] | undefined;
  last: readonly unknown[] | undefined;
}

async function* windowsOf(db: Db, rows: OwnedRows): AsyncGenerator<Window> {
  for (let after: readonly unknown[] | undefined; ; ) {
    const { rows: found } = await sql<Record<string, unknown>>`
      select ${keyOf(rows)} from ${sql.table(rows.table)} where ${within({ after, last: undefined }, rows)}
      order by ${keyOf(rows)} limit 1 offset ${sql.lit(windowRows - 1)}`.execute(db);
    const end = found[0];
    const last = end === undefined ? undefined : rows.key.map((column) => end[column]);
    yield { after, last };
    if (last === undefined) return;
    after = last;
  }
}

async function hasRows(
  db: Db,
  rows: OwnedRows,
  ownerIds: readonly string[],
  window: Window | undefined,
): Promise<boolean> {
  const { rows: found } = await sql`
    select 1 from ${sql.table(rows.table)} where ${isOwned(rows, ownerIds, window)} limit 1`.execute(db);
  return found.length > 0;
}

async function removeBatch(
  tx: Tx,
  rows: OwnedRows,
  ownerIds: readonly string[],
  window: Window | undefined,
): Promise<number> {
  const { table, beside, batchRows } = rows;
  // Both statements have to find the same rows.
  const order = beside === undefined ? sql`` : sql` order by ${keyOf(rows)}`;
  const some = sql`
    select ${keyOf(rows)} from ${sql.table(table)}
    where ${isOwned(rows, ownerIds, window)}${order} limit ${sql.lit(batchRows)}`;
  if (beside !== undefined) {
    const { rows: found } = await some.execute(tx);
    const keys = (found as Record<string, string>[]).map((row) => row[rows.key[0] ?? ''] ?? '');
    if (keys.length === 0) return 0;
    await beside(tx, keys);
  }
  const { numDeletedRows } = await tx
    .deleteFrom(table)
    .where(sql<SqlBool>`(${keyOf(rows)}) in (${some})`)
    // A key that is not unique names rows of others too.
    .where(isOwned(rows, ownerIds, undefined))
    .executeTakeFirst();
  return Number(numDeletedRows);
}

function isOwned(
  { owners, only, ...rows }: OwnedRows,
  ownerIds: readonly string[],
  window: Window | undefined,
): RawBuilder<SqlBool> {
  const ids = sql.join(ownerIds.map((id) => sql`${id}`));
  const any = sql.join(
    owners.map((column) => sql`${sql.ref(column)} in (${ids})`),
    sql` or `,
  );
  const inWindow = window === undefined ? sql`` : sql` and ${within(window, rows)}`;
  return sql<SqlBool>`(${any})${only === undefined ? sql`` : sql` and ${only}`}${inWindow}`;
}

function within({ after, last }: Window, rows: Pick<OwnedRows, 'key'>): RawBuilder<SqlBool> {
  const values = (key: readonly unknown[]) => sql.join(key.map((value) => sql`${value}`));
  const bounds = [
    ...(after === undefined ? [] : [sql`(${keyOf(rows)}) > (${values(after)})`]),
    ...(last === undefined ? [] : [sql`(${keyOf(rows)}) <= (${values(last)})`]),
  ];
  return bounds.length === 0 ? sql<SqlBool>`1 = 1` : sql<SqlBool>`${sql.join(bounds, sql` and `)}`;
}

function keyOf({ key }: Pick<OwnedRows, 'key'>) {
  return sql.join(key.map((column) => sql.ref(column)));
}
