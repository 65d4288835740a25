import type { Db, Tx } from '#storage/store.ts';
import type { KeyRotationTable, RotationKind } from '#storage/tables/account-tables.ts';

/** The row of the store about its master key, or about the last rotation of data keys. */
export async function findRotation(db: Db, kind: RotationKind): Promise<KeyRotationTable | undefined> {
  return db.selectFrom('key_rotations').selectAll().where('kind', '=', kind).executeTakeFirst();
}

/** Makes the row, or takes the place of the one there is. */
export async function putRotation(tx: Tx, row: KeyRotationTable): Promise<void> {
  await tx
    .insertInto('key_rotations')
    .values(row)
    .onConflict((conflict) => conflict.column('kind').doUpdateSet({ ...row }))
    .execute();
}

/** Writes that `keyId` is the master key of this store, unless the store knows of one. */
export async function insertMasterKeyId(tx: Tx, keyId: string, nowMs: number): Promise<void> {
  await tx
    .insertInto('key_rotations')
    .values({ kind: 'master', key_id: keyId, owner_id: null, started_at_ms: nowMs, finished_at_ms: nowMs })
    .onConflict((conflict) => conflict.column('kind').doNothing())
    .execute();
}

/**
 * True when the store has this master key and is not being moved to it from another. No rotation can then begin before
 * the transaction ends, because the row is locked (an update is the one lock that both dialects have).
 */
export async function holdMasterKey(tx: Tx, keyId: string): Promise<boolean> {
  const held = await tx
    .updateTable('key_rotations')
    .set((row) => ({ started_at_ms: row.ref('started_at_ms') }))
    .where('kind', '=', 'master')
    .where('key_id', '=', keyId)
    .where('finished_at_ms', 'is not', null)
    .executeTakeFirst();
  return Number(held.numUpdatedRows) === 1;
}

/** Keeps the others from changing the row until the transaction ends; it has to be there. */
export async function lockRotation(tx: Tx, kind: RotationKind): Promise<void> {
  await tx
    .updateTable('key_rotations')
    .set((row) => ({ started_at_ms: row.ref('started_at_ms') }))
    .where('kind', '=', kind)
    .execute();
}

export async function finishRotation(tx: Tx, kind: RotationKind, nowMs: number): Promise<void> {
  await tx.updateTable('key_rotations').set({ finished_at_ms: nowMs }).where('kind', '=', kind).execute();
}
