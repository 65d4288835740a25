import { sql } from 'kysely';
import type { Db, Tx } from '#storage/store.ts';
import { type DataKey, lostMark } from './vault.ts';

const keyColumns = ['owner_id', 'key_id', 'wrapped'] as const;

/** The data key that seals for this owner now; undefined when there is none, or none that can be opened. */
export async function findNewestDataKey(db: Db, ownerId: string): Promise<DatedDataKey | undefined> {
  const row = await db
    .selectFrom('data_keys')
    .select([...keyColumns, 'created_at_ms'])
    .where('owner_id', '=', ownerId)
    .where('wrapped', 'not like', `${lostMark}%`)
    .orderBy('created_at_ms', 'desc')
    .orderBy('key_id', 'desc')
    .limit(1)
    .executeTakeFirst();
  return row === undefined ? undefined : { ...asDataKey(row), createdAtMs: row.created_at_ms };
}

export type DatedDataKey = DataKey & { createdAtMs: number };

export async function findDataKey(db: Db, ownerId: string, keyId: string): Promise<DataKey | undefined> {
  const row = await db
    .selectFrom('data_keys')
    .select(keyColumns)
    .where('owner_id', '=', ownerId)
    .where('key_id', '=', keyId)
    .executeTakeFirst();
  return row === undefined ? undefined : asDataKey(row);
}

/** True when there is a data key, and so possibly a sealed text. */
export async function hasDataKeys(db: Db): Promise<boolean> {
  return (await db.selectFrom('data_keys').select('key_id').limit(1).executeTakeFirst()) !== undefined;
}

/** Ids of the master keys that data keys of this store are wrapped by: one, unless a rotation was interrupted. */
export async function masterKeyIdsInUse(db: Db): Promise<string[]> {
  const rows = await db
    .selectFrom('data_keys')
    .select(sql<string>`substr(wrapped, 1, 19)`.as('head'))
    .distinct()
    .orderBy('head')
    .execute();
  // `v1.` and 16 hexadecimal digits; what is damaged names none.
  return rows.flatMap(({ head }) => /^v1\.([0-9a-f]{16})$/.exec(head)?.[1] ?? []);
}

/** Data keys that are not wrapped by this master key, those marked as lost apart. */
export async function listWrappedByOthers(db: Db, masterKeyId: string, limit: number): Promise<DataKey[]> {
  const rows = await db
    .selectFrom('data_keys')
    .select(keyColumns)
    .where('wrapped', 'not like', `v1.${masterKeyId}.%`)
    .where('wrapped', 'not like', `${lostMark}%`)
    .orderBy('owner_id')
    .orderBy('key_id')
    .limit(limit)
    .execute();
  return rows.map(asDataKey);
}

/** Replaces the wrapping, if it still is `was`. */
export async function updateWrapped(
  tx: Tx,
  { ownerId, keyId, wrapped }: DataKey,
  was: string,
): Promise<boolean> {
  const result = await tx
    .updateTable('data_keys')
    .set({ wrapped })
    .where('owner_id', '=', ownerId)
    .where('key_id', '=', keyId)
    .where('wrapped', '=', was)
    .executeTakeFirst();
  return Number(result.numUpdatedRows) === 1;
}

export async function insertDataKey(tx: Tx, key: DataKey, nowMs: number): Promise<void> {
  await tx
    .insertInto('data_keys')
    .values({ owner_id: key.ownerId, key_id: key.keyId, wrapped: key.wrapped, created_at_ms: nowMs })
    .execute();
}

/** When the youngest data key was made; 0: there is none. */
export async function newestKeyTimeMs(db: Db): Promise<number> {
  const row = await db
    .selectFrom('data_keys')
    .select((select) => select.fn.max('created_at_ms').as('newest'))
    .executeTakeFirst();
  return Number(row?.newest ?? 0);
}

/** Owners that have data keys, by id, from behind `after`. */
export async function listKeyOwners(db: Db, after: string, limit: number): Promise<string[]> {
  const rows = await db
    .selectFrom('data_keys')
    .select('owner_id')
    .distinct()
    .where('owner_id', '>', after)
    .orderBy('owner_id')
    .limit(limit)
    .execute();
  return rows.map((row) => row.owner_id);
}

export interface KeyAge {
  keyId: string;
  createdAtMs: number;
  retiredAtMs: number | null;
}

/** The data keys of an owner, newest first. */
export async function listKeysOf(db: Db, ownerId: string): Promise<KeyAge[]> {
  const rows = await db
    .selectFrom('data_keys')
    .select(['key_id', 'created_at_ms', 'retired_at_ms'])
    .where('owner_id', '=', ownerId)
    .orderBy('created_at_ms', 'desc')
    .orderBy('key_id', 'desc')
    .execute();
  return rows.map((row) => ({
    keyId: row.key_id,
    createdAtMs: row.created_at_ms,
    retiredAtMs: row.retired_at_ms,
  }));
}

export async function setRetired(
  tx: Tx,
  key: { ownerId: string; keyId: string },
  atMs: number | null,
): Promise<void> {
  await tx
    .updateTable('data_keys')
    .set({ retired_at_ms: atMs })
    .where('owner_id', '=', key.ownerId)
    .where('key_id', '=', key.keyId)
    .execute();
}

export async function deleteDataKey(tx: Tx, key: { ownerId: string; keyId: string }): Promise<void> {
  await tx
    .deleteFrom('data_keys')
    .where('owner_id', '=', key.ownerId)
    .where('key_id', '=', key.keyId)
    .execute();
}

/** Counts of data keys by owner: all, retired, and those that no master key opens. */
export async function countDataKeys(
  db: Db,
  limit: number,
): Promise<{ ownerId: string; keys: number; retired: number; lost: number }[]> {
  const rows = await db
    .selectFrom('data_keys')
    .select((select) => [
      'owner_id',
      select.fn.countAll().as('keys'),
      select.fn.count('retired_at_ms').as('retired'),
      sql<number>`sum(case when wrapped like ${`${lostMark}%`} then 1 else 0 end)`.as('lost'),
    ])
    .groupBy('owner_id')
    .orderBy('owner_id')
    .limit(limit)
    .execute();
  return rows.map((row) => ({
    ownerId: row.owner_id,
    keys: Number(row.keys),
    retired: Number(row.retired),
    lost: Number(row.lost),
  }));
}

function asDataKey(row: { owner_id: string; key_id: string; wrapped: string }): DataKey {
  return { ownerId: row.owner_id, keyId: row.key_id, wrapped: row.wrapped };
}
