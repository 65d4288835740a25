import type { Db, Tx } from '#storage/store.ts';
import type { DataKey } from './vault.ts';

/** The data key that seals for this owner now. */
export async function findNewestDataKey(db: Db, ownerId: string): Promise<DataKey | undefined> {
  return asDataKey(
    await db
      .selectFrom('data_keys')
      .select(['owner_id', 'key_id', 'wrapped'])
      .where('owner_id', '=', ownerId)
      .orderBy('created_at_ms', 'desc')
      .orderBy('key_id', 'desc')
      .limit(1)
      .executeTakeFirst(),
  );
}

export async function findDataKey(db: Db, ownerId: string, keyId: string): Promise<DataKey | undefined> {
  return asDataKey(
    await db
      .selectFrom('data_keys')
      .select(['owner_id', 'key_id', 'wrapped'])
      .where('owner_id', '=', ownerId)
      .where('key_id', '=', keyId)
      .executeTakeFirst(),
  );
}

/** Any data key, to find out whether the master key fits; undefined when nothing was ever sealed. */
export async function findAnyDataKey(db: Db): Promise<DataKey | undefined> {
  return asDataKey(
    await db.selectFrom('data_keys').select(['owner_id', 'key_id', 'wrapped']).limit(1).executeTakeFirst(),
  );
}

export async function insertDataKey(tx: Tx, key: DataKey, nowMs: number): Promise<void> {
  await tx
    .insertInto('data_keys')
    .values({ owner_id: key.ownerId, key_id: key.keyId, wrapped: key.wrapped, created_at_ms: nowMs })
    .execute();
}

function asDataKey(
  row: { owner_id: string; key_id: string; wrapped: string } | undefined,
): DataKey | undefined {
  return row === undefined ? undefined : { ownerId: row.owner_id, keyId: row.key_id, wrapped: row.wrapped };
}
