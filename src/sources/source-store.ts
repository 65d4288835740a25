import { removeEmitter } from '#events/delete-events.ts';
import { deleteLane } from '#jobs/job-store.ts';
import { insertRows, type RowInsert } from '#storage/insert-rows.ts';
import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { SourceTable } from '#storage/tables/source-tables.ts';

export const sourceColumns = [
  'id',
  'owner_id',
  'user_id',
  'component_id',
  'name',
  'name_slug',
  'configured_props',
  'dynamic_props',
  'state',
  'endpoint_key',
  'revision',
  'created_at_ms',
  'updated_at_ms',
] as const;

export async function findSource(db: Db, id: string): Promise<SourceTable | undefined> {
  return db.selectFrom('sources').select(sourceColumns).where('id', '=', id).executeTakeFirst();
}

/** Sources of an owner, newest first; those still being created are not shown. */
export async function pageOfSources(db: Db, ownerId: string, page: PageRequest): Promise<Page<SourceTable>> {
  const query = db
    .selectFrom('sources')
    .select(sourceColumns)
    .where('owner_id', '=', ownerId)
    .where('state', '!=', 'deploying');
  return pageOf(query, page);
}

export async function findSourceByEndpoint(db: Db, endpointKey: string): Promise<SourceTable | undefined> {
  return db
    .selectFrom('sources')
    .select(sourceColumns)
    .where('endpoint_key', '=', endpointKey)
    .executeTakeFirst();
}

export async function sourceRevision(db: Db, id: string): Promise<number | undefined> {
  const row = await db.selectFrom('sources').select('revision').where('id', '=', id).executeTakeFirst();
  return row?.revision;
}

export async function insertSource(tx: Tx, row: SourceTable): Promise<void> {
  await tx.insertInto('sources').values(row).execute();
  await tx
    .insertInto('component_dbs')
    .values({ source_id: row.id, owner_id: row.owner_id, db: '{}' })
    .execute();
}

/** Writes a new revision over `fromRevision`. False when another change came first. */
export async function updateSource(tx: Tx, row: SourceTable, fromRevision: number): Promise<boolean> {
  const { id: _id, owner_id: _owner, user_id: _user, created_at_ms: _created, ...changes } = row;
  const result = await tx
    .updateTable('sources')
    .set(changes)
    .where('id', '=', row.id)
    .where('revision', '=', fromRevision)
    .executeTakeFirst();
  return Number(result.numUpdatedRows) === 1;
}

/**
 * Removes a source, its timers, what waits for it, its state and its events (those beyond a first batch by a job).
 * In the order in which schedules and runs lock the same rows (timers, jobs, emitter, db), so that none waits for another.
 */
export async function deleteSource(
  store: Pick<Store, 'notify'>,
  tx: Tx,
  source: Pick<SourceTable, 'id' | 'owner_id'>,
  nowMs: number,
): Promise<void> {
  const { id } = source;
  await tx.deleteFrom('sources').where('id', '=', id).execute();
  await deleteLane(tx, id);
  await removeEmitter(store, tx, { id, ownerId: source.owner_id }, nowMs);
  await tx.deleteFrom('component_dbs').where('source_id', '=', id).execute();
  await tx.deleteFrom('ticks').where('source_id', '=', id).execute();
}

/** Sources whose creation a crash interrupted: `deploying` since before `beforeMs`. */
export async function unfinishedSources(db: Db, beforeMs: number): Promise<SourceTable[]> {
  return db
    .selectFrom('sources')
    .select(sourceColumns)
    .where('state', '=', 'deploying')
    .where('updated_at_ms', '<', beforeMs)
    .execute();
}

/** Slugs of the owner that start with `prefix`. */
export async function slugsLike(db: Db, ownerId: string, prefix: string): Promise<Set<string>> {
  const rows = await db
    .selectFrom('sources')
    .select('name_slug')
    .where('owner_id', '=', ownerId)
    .where('name_slug', '>=', prefix)
    .where('name_slug', '<', `${prefix}\u{10FFFF}`)
    .execute();
  return new Set(rows.map((row) => row.name_slug));
}

/** Component db of a source: JSON text by key. */
export async function readComponentDb(db: Db, sourceId: string): Promise<Record<string, string>> {
  const row = await db
    .selectFrom('component_dbs')
    .select('db')
    .where('source_id', '=', sourceId)
    .executeTakeFirst();
  return row === undefined ? {} : (JSON.parse(row.db) as Record<string, string>);
}

/**
 * Merges what runs set into their component dbs: read, merge and write under lock, key by key, so that two calls that
 * overlap (a run during `activate`) both keep what they wrote. Sets of a removed source are dropped.
 */
export async function mergeComponentDbs(
  store: Pick<Store, 'name' | 'defer'>,
  tx: Tx,
  sets: ReadonlyMap<string, Record<string, string>>,
): Promise<void> {
  if (sets.size === 0) return;
  let query = tx
    .selectFrom('component_dbs')
    .select(['source_id', 'owner_id', 'db'])
    .where('source_id', 'in', [...sets.keys()])
    .orderBy('source_id');
  if (store.name === 'postgres') query = query.forUpdate();
  const rows = await query.execute();
  const merged = rows.map((row) => ({
    ...row,
    db: JSON.stringify({ ...(JSON.parse(row.db) as Record<string, string>), ...sets.get(row.source_id) }),
  }));
  if (merged.length === 0) return;
  for (const query of insertRows(store.name, componentDbUpsert, merged)) await store.defer(tx, query);
}

const componentDbUpsert: RowInsert<'component_dbs'> = {
  table: 'component_dbs',
  columns: ['source_id', 'owner_id', 'db'],
  ending: 'on conflict (source_id) do update set db = excluded.db',
};
