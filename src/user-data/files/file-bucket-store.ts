import { isNotHeld } from '#identity/retention-store.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { ContentPlace } from './file-content.ts';
import type { FileRow } from './file-store.ts';

/** What this instance marks the bucket with: the same for all of its nodes, made by the first. */
export async function claimOf(
  tx: Tx,
  { bucket, claim, nowMs }: { bucket: string; claim: string; nowMs: number },
): Promise<string> {
  await tx
    .insertInto('file_buckets')
    .values({ bucket, claim, created_at_ms: nowMs, swept_at_ms: nowMs })
    .onConflict((conflict) => conflict.column('bucket').doNothing())
    .execute();
  const row = await tx
    .selectFrom('file_buckets')
    .select('claim')
    .where('bucket', '=', bucket)
    .executeTakeFirstOrThrow();
  return row.claim;
}

/** True for the one node that looks through the bucket now, as no node did since `beforeMs`. */
export async function takeSweep(
  tx: Tx,
  { bucket, beforeMs, nowMs }: { bucket: string; beforeMs: number; nowMs: number },
): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('file_buckets')
    .set({ swept_at_ms: nowMs })
    .where('bucket', '=', bucket)
    .where('swept_at_ms', '<=', beforeMs)
    .executeTakeFirst();
  return Number(numUpdatedRows) === 1;
}

/** Those of the ids that are files of this instance, in whatever state. */
export async function existingFiles(db: Db, ids: readonly string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set();
  const rows = await db
    .selectFrom('files')
    .select('id')
    .where('id', 'in', [...ids])
    .execute();
  return new Set(rows.map(({ id }) => id));
}

/**
 * Takes an expired file from its readers for good, before its objects are removed; the row stays, so that a crash in between leaves no
 * object without one. Undefined: it is gone, or must stay.
 */
export async function beginRemoval(
  store: Pick<Store, 'lockRows'>,
  tx: Tx,
  file: { id: string; nowMs: number },
): Promise<Pick<FileRow, 'id' | 'owner_id' | 'size'> | undefined> {
  const found = await store
    .lockRows(
      tx
        .selectFrom('files')
        .select(['id', 'owner_id', 'size'])
        .where('id', '=', file.id)
        .where('expires_at_ms', '<=', file.nowMs)
        // The hold may have begun since it was found.
        .where(isNotHeld),
    )
    .executeTakeFirst();
  if (found === undefined) return undefined;
  await tx.updateTable('files').set({ complete: 0, expires_at_ms: 0 }).where('id', '=', file.id).execute();
  return { ...found, size: Number(found.size) };
}

/** Records how much of a file is left whose removal has begun; with nothing left its row goes. */
export async function shrinkRemoved(tx: Tx, id: string, size: number): Promise<void> {
  if (size > 0) await tx.updateTable('files').set({ size }).where('id', '=', id).execute();
  else await tx.deleteFrom('files').where('id', '=', id).where('complete', '=', 0).execute();
}

/** Files, and their bytes, whose content is in this place. */
export async function usageOfPlace(db: Db, place: ContentPlace): Promise<{ files: number; bytes: number }> {
  const row = await db
    .selectFrom('files')
    .select((eb) => [eb.fn.countAll<number>().as('files'), eb.fn.sum<number | null>('size').as('bytes')])
    .where('content_in', '=', place)
    .executeTakeFirstOrThrow();
  return { files: Number(row.files), bytes: Number(row.bytes ?? 0) };
}

/** True when there is a file whose content is in this place. */
export async function anyContentIn(db: Db, place: ContentPlace): Promise<boolean> {
  const row = await db
    .selectFrom('files')
    .select('id')
    .where('content_in', '=', place)
    .limit(1)
    .executeTakeFirst();
  return row !== undefined;
}

/** True when one of these owners has a file whose content is in this place. */
export async function hasContentIn(
  db: Db,
  place: ContentPlace,
  ownerIds: readonly string[],
): Promise<boolean> {
  const row = await db
    .selectFrom('files')
    .select('id')
    .where('owner_id', 'in', [...ownerIds])
    .where('content_in', '=', place)
    .limit(1)
    .executeTakeFirst();
  return row !== undefined;
}
