import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { DataStoreTable } from '#storage/tables/workflow-tables.ts';
import { storesPerOwnerMax } from './data-store-limits.ts';
import {
  countDataStores,
  deleteDataStore,
  findDataStoreByName,
  insertDataStore,
  lockDataStores,
  resizeDataStore,
} from './data-store-store.ts';
import { deleteExpired, deleteSomeEntries, expiredEntries } from './entry-store.ts';

/** The store of an owner whose steps name none. */
const defaultStoreName = 'default';
/** Entries deleted in one transaction: the store's writer is never held for long. */
const batchRows = 500;

/** The owner of a new data store. `userId`: the user who made it; '' when the service did. */
export interface DataStoreOwner {
  ownerId: string;
  userId: string;
}

/** Throws CallerError `conflict` for a name the owner has already, and beyond the number of stores one may have. */
export async function createDataStore(
  store: Pick<Store, 'transaction'>,
  { ownerId, userId, name }: DataStoreOwner & { name: string },
  clock: Clock,
): Promise<DataStoreTable> {
  return store.transaction((tx) => addDataStore(tx, { ownerId, userId, name }, clock.now()));
}

/** The same in a transaction of the caller. */
export async function addDataStore(
  tx: Tx,
  { ownerId, userId, name }: DataStoreOwner & { name: string },
  nowMs: number,
): Promise<DataStoreTable> {
  const row = newRow({ ownerId, userId }, name, nowMs);
  if ((await countDataStores(tx, ownerId)) >= storesPerOwnerMax)
    throw new CallerError('conflict', `there are ${storesPerOwnerMax} data stores, and no more are possible`);
  if (!(await insertDataStore(tx, row)))
    throw new CallerError('conflict', `name: there is a data store ${JSON.stringify(name)} already`, {
      parameter: 'name',
    });
  return row;
}

/** The owner's store `default`, for props without a value: made when it is first used. */
export async function defaultDataStore(
  store: Pick<Store, 'read' | 'transaction'>,
  owner: DataStoreOwner,
  clock: Clock,
): Promise<DataStoreTable> {
  const find = (db: Db) => findDataStoreByName(db, owner.ownerId, defaultStoreName);
  const known = await find(store.read);
  if (known !== undefined) return known;
  return store.transaction(async (tx) => {
    const row = newRow(owner, defaultStoreName, clock.now());
    if (await insertDataStore(tx, row)) return row;
    // Another request made it meanwhile.
    return (await find(tx)) ?? row;
  });
}

function newRow({ ownerId, userId }: DataStoreOwner, name: string, nowMs: number): DataStoreTable {
  return {
    id: newId('ds'),
    owner_id: ownerId,
    user_id: userId,
    name,
    entries: 0,
    bytes: 0,
    created_at_ms: nowMs,
    updated_at_ms: nowMs,
  };
}

/** Deletes all entries, a batch at a time: what is written meanwhile may stay. */
export async function clearDataStore(
  store: Pick<Store, 'transaction' | 'lockRows'>,
  id: string,
  clock: Clock,
): Promise<void> {
  for (let deleted = batchRows; deleted >= batchRows; ) {
    deleted = await store.transaction((tx) => clearSome(store, tx, id, clock.now()));
  }
}

async function clearSome(store: Pick<Store, 'lockRows'>, tx: Tx, id: string, nowMs: number): Promise<number> {
  if ((await lockDataStores(store, tx, [id])).size === 0) return 0;
  const { entries, bytes } = await deleteSomeEntries(tx, id, batchRows);
  if (entries > 0) await resizeDataStore(tx, id, { entries: -entries, bytes: -bytes }, nowMs);
  return entries;
}

/** Removes a store with all its entries. Most of them are removed before, so that the last transaction is a short one. */
export async function removeDataStore(
  store: Pick<Store, 'transaction' | 'lockRows'>,
  id: string,
  clock: Clock,
): Promise<void> {
  await clearDataStore(store, id, clock);
  await store.transaction(async (tx) => {
    if ((await lockDataStores(store, tx, [id])).size === 0) return;
    for (let left = batchRows; left >= batchRows; ) {
      left = (await deleteSomeEntries(tx, id, batchRows)).entries;
    }
    await deleteDataStore(tx, id);
  });
}

/** Deletes entries whose time is over, at most `limit`; returns how many. Several processes may do it at once. */
export async function pruneEntries(
  store: Pick<Store, 'read' | 'transaction' | 'lockRows'>,
  nowMs: number,
  limit: number,
): Promise<number> {
  const expired = await expiredEntries(store.read, nowMs, limit);
  if (expired.size === 0) return 0;
  return store.transaction(async (tx) => {
    let pruned = 0;
    for (const [id, row] of await lockDataStores(store, tx, [...expired.keys()])) {
      const { entries, bytes } = await deleteExpired(tx, id, expired.get(id) ?? [], nowMs);
      pruned += entries;
      // No user changed the store, so it keeps the time of its last change.
      if (entries > 0) await resizeDataStore(tx, id, { entries: -entries, bytes: -bytes }, row.updated_at_ms);
    }
    return pruned;
  });
}
