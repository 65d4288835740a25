import { type ExpressionBuilder, sql } from 'kysely';
import type { Dialect } from '#storage/dialect.ts';
import { insertRows, type RowInsert } from '#storage/insert-rows.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { DataStoreEntryTable } from '#storage/tables/workflow-tables.ts';
import type { Tables } from '#storage/tables.ts';

type EntryWhere = ExpressionBuilder<Tables, 'data_store_entries'>;

/** An entry whose time is over is never seen, whether it is pruned yet or not. */
function isAlive(nowMs: number) {
  return (where: EntryWhere) =>
    where.or([where('expires_at_ms', 'is', null), where('expires_at_ms', '>', nowMs)]);
}

/** What an entry counts for: bytes of its key and of its value. */
const entryBytes = sql<number>`octet_length(key) + octet_length(value)`;

export async function readEntry(
  db: Db,
  storeId: string,
  key: string,
  nowMs: number,
): Promise<DataStoreEntryTable | undefined> {
  return db
    .selectFrom('data_store_entries')
    .select(['store_id', 'key', 'owner_id', 'value', 'expires_at_ms', 'created_at_ms', 'updated_at_ms'])
    .where('store_id', '=', storeId)
    .where('key', '=', key)
    .where(isAlive(nowMs))
    .executeTakeFirst();
}

export async function hasEntry(db: Db, storeId: string, key: string, nowMs: number): Promise<boolean> {
  const row = await db
    .selectFrom('data_store_entries')
    .select('key')
    .where('store_id', '=', storeId)
    .where('key', '=', key)
    .where(isAlive(nowMs))
    .executeTakeFirst();
  return row !== undefined;
}

/** An entry in a list: its value only where that is short. */
export interface EntryInList {
  key: string;
  /** JSON text; null where it has more than `valueBytesMax` bytes. */
  value: string | null;
  bytes: number;
  expires_at_ms: number | null;
  created_at_ms: number;
  updated_at_ms: number;
}

/** Entries after (or before) a key, in the order of keys. */
export async function listEntries(
  db: Db,
  storeId: string,
  page: { after?: string; before?: string; limit: number; nowMs: number; valueBytesMax: number },
): Promise<EntryInList[]> {
  const value = sql<
    string | null
  >`case when octet_length(value) <= ${sql.lit(page.valueBytesMax)} then value end`;
  let query = db
    .selectFrom('data_store_entries')
    .select(['key', 'expires_at_ms', 'created_at_ms', 'updated_at_ms'])
    .select([value.as('value'), sql<number>`octet_length(value)`.as('bytes')])
    .where('store_id', '=', storeId)
    .where(isAlive(page.nowMs));
  if (page.after !== undefined) query = query.where('key', '>', page.after);
  if (page.before !== undefined) query = query.where('key', '<', page.before);
  const isBackwards = page.before !== undefined;
  const rows = await query
    .orderBy('key', isBackwards ? 'desc' : 'asc')
    .limit(page.limit)
    .execute();
  const entries = rows.map((row) => ({ ...row, bytes: Number(row.bytes) }));
  return isBackwards ? entries.reverse() : entries;
}

export async function readValues(
  db: Db,
  storeId: string,
  keys: readonly string[],
): Promise<Map<string, string>> {
  if (keys.length === 0) return new Map();
  const rows = await db
    .selectFrom('data_store_entries')
    .select(['key', 'value'])
    .where('store_id', '=', storeId)
    .where('key', 'in', [...keys])
    .execute();
  return new Map(rows.map((row) => [row.key, row.value]));
}

export async function countEntries(db: Db, storeId: string, nowMs: number): Promise<number> {
  const row = await db
    .selectFrom('data_store_entries')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('store_id', '=', storeId)
    .where(isAlive(nowMs))
    .executeTakeFirst();
  return Number(row?.count ?? 0);
}

/** An entry without its value. */
export interface EntryHead {
  store_id: string;
  key: string;
  bytes: number;
  expires_at_ms: number | null;
  created_at_ms: number;
}

/** Which of these entries there are, those whose time is over too. */
export async function readHeads(
  db: Db,
  keysByStore: ReadonlyMap<string, readonly string[]>,
): Promise<EntryHead[]> {
  const rows = await db
    .selectFrom('data_store_entries')
    .select(['store_id', 'key', 'expires_at_ms', 'created_at_ms'])
    .select(entryBytes.as('bytes'))
    .where((where) => anyOf(where, keysByStore))
    .execute();
  return rows.map((row) => ({ ...row, bytes: Number(row.bytes) }));
}

function anyOf(where: EntryWhere, keysByStore: ReadonlyMap<string, readonly string[]>) {
  return where.or(
    [...keysByStore].map(([storeId, keys]) =>
      where.and([where('store_id', '=', storeId), where('key', 'in', [...keys])]),
    ),
  );
}

const entryUpsert: RowInsert<'data_store_entries'> = {
  table: 'data_store_entries',
  columns: ['store_id', 'key', 'owner_id', 'value', 'expires_at_ms', 'created_at_ms', 'updated_at_ms'],
  ending: `on conflict (store_id, key) do update set value = excluded.value, expires_at_ms = excluded.expires_at_ms,
    created_at_ms = excluded.created_at_ms, updated_at_ms = excluded.updated_at_ms`,
};

export async function putEntries(
  store: Dialect & Pick<Store, 'defer'>,
  tx: Tx,
  rows: readonly DataStoreEntryTable[],
): Promise<void> {
  for (const query of insertRows(store, entryUpsert, rows)) await store.defer(tx, query);
}

export async function setExpiry(
  tx: Tx,
  entry: { storeId: string; key: string; expiresAtMs: number | null; nowMs: number },
): Promise<void> {
  await tx
    .updateTable('data_store_entries')
    .set({ expires_at_ms: entry.expiresAtMs, updated_at_ms: entry.nowMs })
    .where('store_id', '=', entry.storeId)
    .where('key', '=', entry.key)
    .execute();
}

export async function deleteEntries(
  tx: Tx,
  keysByStore: ReadonlyMap<string, readonly string[]>,
): Promise<void> {
  if (keysByStore.size === 0) return;
  await tx
    .deleteFrom('data_store_entries')
    .where((where) => anyOf(where, keysByStore))
    .execute();
}

/** Deletes entries of a store, at most `limit`, and answers what they counted for. */
export async function deleteSomeEntries(
  tx: Tx,
  storeId: string,
  limit: number,
): Promise<{ entries: number; bytes: number }> {
  const some = tx
    .selectFrom('data_store_entries')
    .select('key')
    .where('store_id', '=', storeId)
    .orderBy('key')
    .limit(limit);
  const deleted = await tx
    .deleteFrom('data_store_entries')
    .where('store_id', '=', storeId)
    .where('key', 'in', some)
    .returning(entryBytes.as('bytes'))
    .execute();
  return { entries: deleted.length, bytes: deleted.reduce((sum, { bytes }) => sum + Number(bytes), 0) };
}

/** Entries whose time is over, at most `limit`, by store. */
export async function expiredEntries(db: Db, nowMs: number, limit: number): Promise<Map<string, string[]>> {
  const rows = await db
    .selectFrom('data_store_entries')
    .select(['store_id', 'key'])
    .where('expires_at_ms', 'is not', null)
    .where('expires_at_ms', '<=', nowMs)
    .orderBy('expires_at_ms')
    .limit(limit)
    .execute();
  return new Map(
    [...Map.groupBy(rows, (row) => row.store_id)].map(([id, group]) => [id, group.map(({ key }) => key)]),
  );
}

/** Deletes those of these entries whose time is over still, and answers what they counted for. */
export async function deleteExpired(
  tx: Tx,
  storeId: string,
  keys: readonly string[],
  nowMs: number,
): Promise<{ entries: number; bytes: number }> {
  const deleted = await tx
    .deleteFrom('data_store_entries')
    .where('store_id', '=', storeId)
    .where('key', 'in', [...keys])
    .where('expires_at_ms', '<=', nowMs)
    .returning(entryBytes.as('bytes'))
    .execute();
  return { entries: deleted.length, bytes: deleted.reduce((sum, { bytes }) => sum + Number(bytes), 0) };
}
