import { sql } from 'kysely';
import type { RemoveOfOwner } from '#identity/retention-pruner.ts';
import { isNotHeld } from '#identity/retention-store.ts';
import { must } from '#lib/assert.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { FileChunkTable, FileTable } from '#storage/tables/file-tables.ts';

export type FileRow = FileTable;

const columns = [
  'id',
  'owner_id',
  'folder',
  'path',
  'content_type',
  'size',
  'sha256',
  'complete',
  'expires_at_ms',
  'created_at_ms',
  'updated_at_ms',
  'content_in',
] as const;

/** Names a file as its owner does. */
export interface FilePlace {
  ownerId: string;
  folder: string;
  path: string;
}

export async function insertFile(tx: Tx, row: FileRow): Promise<void> {
  await tx.insertInto('files').values(row).execute();
}

export async function insertChunk(tx: Tx, chunk: FileChunkTable): Promise<void> {
  await tx.insertInto('file_chunks').values(chunk).execute();
}

/** Records progress of an upload; false when the upload no longer exists. */
export async function growUpload(
  tx: Tx,
  upload: { id: string; size: number; expiresAtMs: number; nowMs: number },
): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('files')
    .set({ size: upload.size, expires_at_ms: upload.expiresAtMs, updated_at_ms: upload.nowMs })
    .where('id', '=', upload.id)
    .where('complete', '=', 0)
    // One that is overdue may be half removed.
    .where('expires_at_ms', '>', upload.nowMs)
    .executeTakeFirst();
  return Number(numUpdatedRows) === 1;
}

/** Makes an upload the file at its path; false when the upload no longer exists. The path must be free. */
export async function completeUpload(
  tx: Tx,
  upload: { id: string; size: number; sha256: string; expiresAtMs: number | null; nowMs: number },
): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('files')
    .set({
      size: upload.size,
      sha256: upload.sha256,
      complete: 1,
      expires_at_ms: upload.expiresAtMs,
      updated_at_ms: upload.nowMs,
    })
    .where('id', '=', upload.id)
    .where('complete', '=', 0)
    // One that is overdue may be half removed.
    .where('expires_at_ms', '>', upload.nowMs)
    .executeTakeFirst();
  return Number(numUpdatedRows) === 1;
}

/** Takes the file from its path; its rows go at `expiresAtMs`. False when there was none. */
export async function retireFile(tx: Tx, place: FilePlace, expiresAtMs: number): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('files')
    .set({ complete: 0, expires_at_ms: expiresAtMs })
    .where('owner_id', '=', place.ownerId)
    .where('folder', '=', place.folder)
    .where('path', '=', place.path)
    .where('complete', '=', 1)
    .executeTakeFirst();
  return Number(numUpdatedRows) > 0;
}

/** Lets an upload that will not be finished go at once. */
export async function dropUpload(tx: Tx, id: string, nowMs: number): Promise<void> {
  await tx
    .updateTable('files')
    .set({ expires_at_ms: nowMs })
    .where('id', '=', id)
    .where('complete', '=', 0)
    .execute();
}

export function findFile(db: Db, place: FilePlace): Promise<FileRow | undefined> {
  return db
    .selectFrom('files')
    .select(columns)
    .where('owner_id', '=', place.ownerId)
    .where('folder', '=', place.folder)
    .where('path', '=', place.path)
    .where('complete', '=', 1)
    .executeTakeFirst();
}

export function findFileById(db: Db, id: string): Promise<FileRow | undefined> {
  return db.selectFrom('files').select(columns).where('id', '=', id).executeTakeFirst();
}

/** Complete files of a folder whose path begins with `prefix`, by path, from behind `after`. */
export function listFiles(
  db: Db,
  wanted: { ownerId: string; folder: string; prefix: string; after: string; nowMs: number; limit: number },
): Promise<FileRow[]> {
  // Both dialects count characters, not UTF-16 units.
  const prefixLength = [...wanted.prefix].length;
  let query = db
    .selectFrom('files')
    .select(columns)
    .where('owner_id', '=', wanted.ownerId)
    .where('folder', '=', wanted.folder)
    .where('complete', '=', 1)
    .where('path', '>', wanted.after)
    .where((eb) => eb.or([eb('expires_at_ms', 'is', null), eb('expires_at_ms', '>', wanted.nowMs)]));
  if (prefixLength > 0) {
    query = query.where(
      sql<boolean>`substr(path, 1, cast(${prefixLength} as integer)) = cast(${wanted.prefix} as text)`,
    );
  }
  return query.orderBy('path').limit(wanted.limit).execute();
}

export function readChunk(
  db: Db,
  fileId: string,
  number: number,
): Promise<Pick<FileChunkTable, 'bytes'> | undefined> {
  return db
    .selectFrom('file_chunks')
    .select('bytes')
    .where('file_id', '=', fileId)
    .where('number', '=', number)
    .executeTakeFirst();
}

/**
 * What an owner's files take, with those that are on their way in or out; `unfinished` counts these. With `upTo`, an upload: without
 * those that began after it.
 */
export async function usageOfOwner(
  db: Db,
  ownerId: string,
  upTo?: { id: string; createdAtMs: number },
): Promise<{ bytes: number; files: number; unfinished: number }> {
  const row = await db
    .selectFrom('files')
    .select((eb) => [
      eb.fn.coalesce(eb.fn.sum<number>('size'), sql<number>`0`).as('bytes'),
      eb.fn.countAll<number>().as('files'),
      eb.fn.coalesce(eb.fn.sum<number>('complete'), sql<number>`0`).as('finished'),
    ])
    .where('owner_id', '=', ownerId)
    .$if(upTo !== undefined, (query) =>
      query.where((eb) => {
        const { id, createdAtMs } = must(upTo, 'only then');
        const began = eb.or([
          eb('created_at_ms', '<', createdAtMs),
          eb.and([eb('created_at_ms', '=', createdAtMs), eb('id', '<=', id)]),
        ]);
        return eb.or([eb('complete', '=', 1), began]);
      }),
    )
    .executeTakeFirstOrThrow();
  const files = Number(row.files);
  return { bytes: Number(row.bytes), files, unfinished: files - Number(row.finished) };
}

/** Takes files of an owner that were last written before a time from their paths. Their rows go next, a little at a time. */
export const retireFilesBefore: RemoveOfOwner = async (tx, { ownerId, beforeMs, limit }) => {
  const { numUpdatedRows } = await tx
    .updateTable('files')
    .set({ complete: 0, expires_at_ms: beforeMs })
    .where('id', 'in', (from) =>
      from
        .selectFrom('files')
        .select('id')
        .where('owner_id', '=', ownerId)
        .where('complete', '=', 1)
        .where('updated_at_ms', '<', beforeMs)
        .limit(limit),
    )
    .executeTakeFirst();
  return Number(numUpdatedRows);
};

/** Files of one place of content whose rows are to be removed, the longest overdue first; none of a workspace under a legal hold. */
export async function expiredFiles(
  db: Db,
  { place, nowMs, limit }: { place: FileRow['content_in']; nowMs: number; limit: number },
): Promise<string[]> {
  const rows = await db
    .selectFrom('files')
    .select('id')
    .where('expires_at_ms', '<=', nowMs)
    .where('content_in', '=', place)
    .where(isNotHeld)
    .orderBy('expires_at_ms')
    .limit(limit)
    .execute();
  return rows.map(({ id }) => id);
}

/**
 * Removes up to `chunks` chunks of an expired file, and its row with the last of them. `more`: something is left. An
 * upload that continued in the meantime is left alone.
 */
export async function removeExpired(
  store: Pick<Store, 'lockRows'>,
  tx: Tx,
  file: { id: string; nowMs: number; chunks: number },
): Promise<{ more: boolean }> {
  const found = await store
    .lockRows(
      tx
        .selectFrom('files')
        .select('id')
        .where('id', '=', file.id)
        .where('expires_at_ms', '<=', file.nowMs)
        // The hold may have begun since it was found.
        .where(isNotHeld),
    )
    .executeTakeFirst();
  if (found === undefined) return { more: false };
  // It is gone for readers; an upload must not come back when half of its chunks are removed.
  await tx.updateTable('files').set({ complete: 0, expires_at_ms: 0 }).where('id', '=', file.id).execute();
  const { numDeletedRows } = await tx
    .deleteFrom('file_chunks')
    .where('file_id', '=', file.id)
    .where('number', 'in', (eb) =>
      eb
        .selectFrom('file_chunks')
        .select('number')
        .where('file_id', '=', file.id)
        .orderBy('number')
        .limit(file.chunks),
    )
    .executeTakeFirst();
  if (Number(numDeletedRows) === file.chunks) return { more: true };
  await tx.deleteFrom('files').where('id', '=', file.id).execute();
  return { more: false };
}
