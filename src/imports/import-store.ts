import type { Page, PageRequest } from '#storage/page.ts';
import { pageOf } from '#storage/page.ts';
import type { Db, Tx } from '#storage/store.ts';
import type { StoreTime } from '#storage/store-time.ts';
import type {
  ImportedKind,
  ImportedObjectTable,
  ImportItemTable,
  ImportState,
  ImportTable,
} from '#storage/tables/import-tables.ts';

/** Without what is sealed, which only the job reads, and without who undoes it. */
export type ImportRow = Omit<ImportTable, 'sealed' | 'undo_node'>;

const columns = [
  ...(['id', 'owner_id', 'user_id', 'key_id', 'project_id', 'format', 'state', 'activate'] as const),
  ...(['summary', 'workflows', 'error', 'created_at_ms', 'updated_at_ms'] as const),
] as const;

export async function insertImport(tx: Tx, row: ImportTable): Promise<void> {
  await tx.insertInto('imports').values(row).execute();
}

export async function findImport(db: Db, id: string): Promise<ImportRow | undefined> {
  if (id.includes('\0')) return undefined;
  return db.selectFrom('imports').select(columns).where('id', '=', id).executeTakeFirst();
}

export async function findSealedImport(db: Db, id: string): Promise<ImportTable | undefined> {
  return db.selectFrom('imports').selectAll().where('id', '=', id).executeTakeFirst();
}

export function pageOfImports(db: Db, ownerId: string, page: PageRequest): Promise<Page<ImportRow>> {
  return pageOf(db.selectFrom('imports').select(columns).where('owner_id', '=', ownerId), page);
}

/** False when the import is in none of the states `from`. */
export async function changeImport(
  tx: Tx,
  id: string,
  from: readonly ImportState[],
  changes: Partial<
    Pick<ImportTable, 'state' | 'sealed' | 'summary' | 'activate' | 'error' | 'updated_at_ms'>
  >,
): Promise<boolean> {
  const changed = await tx
    .updateTable('imports')
    .set(changes)
    .where('id', '=', id)
    .where('state', 'in', [...from])
    .returning('id')
    .executeTakeFirst();
  return changed !== undefined;
}

/** True: this node alone undoes the import until `endUndo`. False: a living node does, or the import is under way. */
export async function beginUndo(
  tx: Tx,
  id: string,
  { node, time }: { node: string; time: StoreTime },
): Promise<boolean> {
  const begun = await tx
    .updateTable('imports')
    .set({ undo_node: node })
    .where('id', '=', id)
    .where('state', 'not in', ['waiting', 'running'])
    .where(({ or, eb, not, exists }) =>
      or([
        eb('undo_node', 'is', null),
        eb('undo_node', '=', node),
        not(
          exists(
            eb
              .selectFrom('nodes')
              .select('nodes.id')
              .whereRef('nodes.id', '=', 'imports.undo_node')
              .where('nodes.expires_at_ms', '>', time()),
          ),
        ),
      ]),
    )
    .returning('id')
    .executeTakeFirst();
  return begun !== undefined;
}

export async function endUndo(tx: Tx, id: string, node: string): Promise<void> {
  await tx
    .updateTable('imports')
    .set({ undo_node: null })
    .where('id', '=', id)
    .where('undo_node', '=', node)
    .execute();
}

/** Removes all but the newest imports of an owner that have ended. What they made stays. */
export async function forgetOldImports(tx: Tx, ownerId: string, kept: number): Promise<void> {
  const old = await tx
    .selectFrom('imports')
    .select('id')
    .where('owner_id', '=', ownerId)
    .where('state', 'not in', ['asking', 'waiting', 'running'])
    .orderBy('created_at_ms', 'desc')
    .orderBy('id', 'desc')
    .limit(100)
    .offset(kept)
    .execute();
  const ids = old.map(({ id }) => id);
  if (ids.length > 0) await tx.deleteFrom('imports').where('id', 'in', ids).execute();
}

/** Imports of an owner that wait for answers. */
export async function countAskingImports(db: Db, ownerId: string): Promise<number> {
  const { count } = await db
    .selectFrom('imports')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('owner_id', '=', ownerId)
    .where('state', '=', 'asking')
    .executeTakeFirstOrThrow();
  return Number(count);
}

export async function insertItem(tx: Tx, row: ImportItemTable): Promise<void> {
  await tx.insertInto('import_items').values(row).execute();
}

/** In the order of the export, those from a position on. They are written in this order, each once, and never changed. */
export async function itemsOf(db: Db, importId: string, from = 0): Promise<ImportItemTable[]> {
  return db
    .selectFrom('import_items')
    .selectAll()
    .where('import_id', '=', importId)
    .where('position', '>=', from)
    .orderBy('position')
    .execute();
}

export async function countItems(db: Db, importIds: readonly string[]): Promise<Map<string, number>> {
  if (importIds.length === 0) return new Map();
  const rows = await db
    .selectFrom('import_items')
    .select(({ fn }) => ['import_id', fn.countAll<number>().as('count')])
    .where('import_id', 'in', [...importIds])
    .groupBy('import_id')
    .execute();
  return new Map(rows.map(({ import_id, count }) => [import_id, Number(count)]));
}

export type ImportScope = Pick<ImportedObjectTable, 'owner_id' | 'project_id'>;

export function findImported(
  db: Db,
  scope: ImportScope,
  kind: ImportedKind,
  oldId: string,
): Promise<ImportedObjectTable | undefined> {
  return importedOfKind(db, scope, kind).where('old_id', '=', oldId).executeTakeFirst();
}

export function listImported(db: Db, scope: ImportScope, kind: ImportedKind): Promise<ImportedObjectTable[]> {
  return importedOfKind(db, scope, kind).execute();
}

function importedOfKind(db: Db, { owner_id, project_id }: ImportScope, kind: ImportedKind) {
  return db
    .selectFrom('imported_objects')
    .selectAll()
    .where('owner_id', '=', owner_id)
    .where('project_id', '=', project_id)
    .where('kind', '=', kind);
}

/** What an import made, and no later one made again. */
export async function madeByImport(db: Db, importId: string): Promise<ImportedObjectTable[]> {
  return db
    .selectFrom('imported_objects')
    .selectAll()
    .where('import_id', '=', importId)
    .orderBy('old_id')
    .execute();
}

/**
 * Inserts an object, or replaces `before`. False when another import was faster: what is there is neither nothing nor `before`.
 */
export async function putImported(
  tx: Tx,
  row: ImportedObjectTable,
  before: ImportedObjectTable | undefined,
): Promise<boolean> {
  const { owner_id, project_id, kind, old_id, ...changes } = row;
  const written =
    before === undefined
      ? await tx
          .insertInto('imported_objects')
          .values(row)
          .onConflict((conflict) => conflict.doNothing())
          .returning('new_id')
          .executeTakeFirst()
      : await tx
          .updateTable('imported_objects')
          .set(changes)
          .where('owner_id', '=', owner_id)
          .where('project_id', '=', project_id)
          .where('kind', '=', kind)
          .where('old_id', '=', old_id)
          .where('new_id', '=', before.new_id)
          .where('mark', '=', before.mark)
          .returning('new_id')
          .executeTakeFirst();
  return written !== undefined;
}

/** False: it was not there. */
export async function deleteImported(
  tx: Tx,
  {
    owner_id,
    project_id,
    kind,
    old_id,
    new_id,
  }: Pick<ImportedObjectTable, 'owner_id' | 'project_id' | 'kind' | 'old_id' | 'new_id'>,
): Promise<boolean> {
  const { numDeletedRows } = await tx
    .deleteFrom('imported_objects')
    .where('owner_id', '=', owner_id)
    .where('project_id', '=', project_id)
    .where('kind', '=', kind)
    .where('old_id', '=', old_id)
    .where('new_id', '=', new_id)
    .executeTakeFirst();
  return Number(numDeletedRows) > 0;
}
