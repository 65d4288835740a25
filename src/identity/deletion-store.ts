import { CallerError } from '#lib/errors.ts';
import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db, Tx } from '#storage/store.ts';
import type { DeletionTable } from '#storage/tables/deletion-tables.ts';

export async function insertDeletion(tx: Tx, row: DeletionTable): Promise<void> {
  await tx.insertInto('deletions').values(row).execute();
}

export function findDeletion(db: Db, id: string): Promise<DeletionTable | undefined> {
  return db.selectFrom('deletions').selectAll().where('id', '=', id).executeTakeFirst();
}

/** Newest first. */
export function pageOfDeletions(db: Db, page: PageRequest): Promise<Page<DeletionTable>> {
  return pageOf(db.selectFrom('deletions').selectAll(), page);
}

export async function changeDeletion(
  tx: Tx,
  id: string,
  changes: Partial<Pick<DeletionTable, 'state' | 'ended_at_ms' | 'name'>>,
): Promise<void> {
  await tx.updateTable('deletions').set(changes).where('id', '=', id).execute();
}

export async function addRemovedRows(tx: Tx, id: string, rows: number): Promise<void> {
  await tx
    .updateTable('deletions')
    .set((set) => ({ removed_rows: set('removed_rows', '+', rows) }))
    .where('id', '=', id)
    .execute();
}

/** True for a workspace or user that was deleted, from the moment at which the deletion was accepted. */
export async function isDeleted(db: Db, ownerId: string): Promise<boolean> {
  const query = db.selectFrom('deletions').select('id').where('subject_id', '=', ownerId);
  return (await query.executeTakeFirst()) !== undefined;
}

/**
 * Called in transactions that make what runs by itself: a request or an import that began before the deletion makes nothing after it.
 * Throws CallerError `not_found`.
 */
export async function refuseDeleted(tx: Tx, ownerId: string): Promise<void> {
  if (!(await isDeleted(tx, ownerId))) return;
  const what = ownerId.startsWith('o_') ? 'workspace' : 'user';
  throw new CallerError('not_found', `${what} ${JSON.stringify(ownerId)} was deleted`, { id: ownerId });
}

/** Removes the row of a workspace, and with it members, projects, OAuth clients and access tokens. */
export async function deleteWorkspaceRow(tx: Tx, id: string): Promise<void> {
  await tx.deleteFrom('workspaces').where('id', '=', id).execute();
}

/** Removes rows of users, and with them API keys, sessions, identities and memberships. */
export async function deleteUserRows(tx: Tx, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await tx
    .deleteFrom('users')
    .where('id', 'in', [...ids])
    .execute();
}

/** Service accounts of a workspace, removed ones too. */
export async function serviceUsersOf(db: Db, workspaceId: string): Promise<string[]> {
  const rows = await db.selectFrom('users').select('id').where('workspace_id', '=', workspaceId).execute();
  return rows.map(({ id }) => id);
}
