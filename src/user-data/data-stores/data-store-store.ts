import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { DataStoreTable } from '#storage/tables/workflow-tables.ts';

const dataStoreColumns = [
  'id',
  'owner_id',
  'user_id',
  'name',
  'entries',
  'bytes',
  'created_at_ms',
  'updated_at_ms',
] as const;

export async function findDataStore(db: Db, id: string): Promise<DataStoreTable | undefined> {
  // Ids come from props too, and PostgreSQL refuses a text with a NUL.
  if (id.includes('\0')) return undefined;
  return db.selectFrom('data_stores').select(dataStoreColumns).where('id', '=', id).executeTakeFirst();
}

export async function findDataStoreByName(
  db: Db,
  ownerId: string,
  name: string,
): Promise<DataStoreTable | undefined> {
  return db
    .selectFrom('data_stores')
    .select(dataStoreColumns)
    .where('owner_id', '=', ownerId)
    .where('name', '=', name)
    .executeTakeFirst();
}

/** False when the owner has a store of this name already. */
export async function insertDataStore(tx: Tx, row: DataStoreTable): Promise<boolean> {
  const inserted = await tx
    .insertInto('data_stores')
    .values(row)
    .onConflict((conflict) => conflict.columns(['owner_id', 'name']).doNothing())
    .returning('id')
    .executeTakeFirst();
  return inserted !== undefined;
}

export async function countDataStores(db: Db, ownerId: string): Promise<number> {
  const row = await db
    .selectFrom('data_stores')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('owner_id', '=', ownerId)
    .executeTakeFirst();
  return Number(row?.count ?? 0);
}

/** Newest first. */
export function pageOfDataStores(db: Db, ownerId: string, page: PageRequest): Promise<Page<DataStoreTable>> {
  return pageOf(db.selectFrom('data_stores').select(dataStoreColumns).where('owner_id', '=', ownerId), page);
}

/** The stores, locked until the end of the transaction where rows have locks; always in the order of their ids. */
export async function lockDataStores(
  store: Pick<Store, 'lockRows'>,
  tx: Tx,
  ids: readonly string[],
): Promise<Map<string, DataStoreTable>> {
  const rows = await store
    .lockRows(
      tx
        .selectFrom('data_stores')
        .select(dataStoreColumns)
        .where('id', 'in', [...ids])
        .orderBy('id'),
    )
    .execute();
  return new Map((rows as DataStoreTable[]).map((row) => [row.id, row]));
}

/** What is in all stores of each of these owners. */
export async function sizesOfOwners(
  db: Db,
  ownerIds: readonly string[],
): Promise<Map<string, { entries: number; bytes: number }>> {
  const rows = await db
    .selectFrom('data_stores')
    .select('owner_id')
    .select(({ fn }) => [fn.sum<number>('entries').as('entries'), fn.sum<number>('bytes').as('bytes')])
    .where('owner_id', 'in', [...ownerIds])
    .groupBy('owner_id')
    .execute();
  return new Map(
    rows.map((row) => [row.owner_id, { entries: Number(row.entries), bytes: Number(row.bytes) }]),
  );
}

/** Adds to what is counted in a store that is locked. */
export async function resizeDataStore(
  tx: Tx,
  id: string,
  by: { entries: number; bytes: number },
  nowMs: number,
): Promise<void> {
  await tx
    .updateTable('data_stores')
    .set((set) => ({
      entries: set('entries', '+', by.entries),
      bytes: set('bytes', '+', by.bytes),
      updated_at_ms: nowMs,
    }))
    .where('id', '=', id)
    .execute();
}

export async function deleteDataStore(tx: Tx, id: string): Promise<void> {
  await tx.deleteFrom('data_stores').where('id', '=', id).execute();
}
