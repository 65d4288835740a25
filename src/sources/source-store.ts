import { type ExpressionBuilder, type SqlBool, sql } from 'kysely';
import { insertSourceAccounts, replaceSourceAccounts } from '#accounts/account-grant-store.ts';
import { removeEmitter } from '#events/delete-events.ts';
import { deleteFlowOf } from '#flow-control/flow-queue-store.ts';
import type { HealthState } from '#health/health.ts';
import { hasHealth } from '#health/health-store.ts';
import { forgetOutcomes } from '#health/outcome-store.ts';
import { removeKeysOf } from '#idempotency/idempotency-key-store.ts';
import { sharedLane } from '#jobs/shared-lane.ts';
import { deleteTicksOf, deleteTimersOf, insertTimers } from '#schedule/timer-store.ts';
import type { Dialect } from '#storage/dialect.ts';
import { insertRows, type RowInsert } from '#storage/insert-rows.ts';
import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { SourceAccountTable, SourceTable, TimerTable } from '#storage/tables/source-tables.ts';
import type { Tables } from '#storage/tables.ts';
import { deleteApphooks, insertApphooks } from './apphook-store.ts';

const sourceColumns = [
  'id',
  'owner_id',
  'user_id',
  'component_id',
  'name',
  'name_slug',
  'configured_props',
  'sealed_props',
  'dynamic_props',
  'apphooks',
  'state',
  'endpoint_key',
  'concurrency',
  'flow_control',
  'isolated',
  'revision',
  'change_id',
  'change_node',
  'before_change',
  'created_at_ms',
  'updated_at_ms',
] as const;

export async function findSource(db: Db, id: string): Promise<SourceTable | undefined> {
  return db.selectFrom('sources').select(sourceColumns).where('id', '=', id).executeTakeFirst();
}

/** Many sources, by id. */
export async function findSources(db: Db, ids: readonly string[]): Promise<Map<string, SourceTable>> {
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom('sources')
    .select(sourceColumns)
    .where('id', 'in', [...ids])
    .execute();
  return new Map(rows.map((row) => [row.id, row]));
}

/** A source as it is listed, without what it was given. */
export interface ListedSource extends Pick<SourceTable, 'id' | 'created_at_ms'> {
  /** Size of its props. */
  bytes: number;
}

/**
 * Sources of an owner, newest first; those still being created are not shown. `words`: only those that have it in their
 * name, name slug or id, whatever its case (of ASCII); `health`: only those whose health is in this state.
 */
export async function pageOfSources(
  db: Db,
  ownerId: string,
  page: PageRequest,
  { words = '', health }: { words?: string; health?: { state: HealthState; nowMs: number } } = {},
): Promise<Page<ListedSource>> {
  let query = db
    .selectFrom('sources')
    .select(['id', 'created_at_ms'])
    .select(
      sql<number>`octet_length(configured_props) + coalesce(octet_length(dynamic_props), 0)`.as('bytes'),
    )
    .where('owner_id', '=', ownerId)
    .where('state', '!=', 'deploying');
  if (health !== undefined) query = query.where(hasHealth('source', health.state, health.nowMs));
  if (words === '') return pageOf(query, page);
  const pattern = `%${words.toLowerCase().replaceAll(/[\\%_]/g, '\\$&')}%`;
  const has = (column: 'name' | 'name_slug' | 'id') =>
    sql<SqlBool>`lower(${sql.ref(column)}) like ${pattern} escape '\\'`;
  return pageOf(
    query.where((where) => where.or([has('name'), has('name_slug'), has('id')])),
    page,
  );
}

export async function findSourceByEndpoint(db: Db, endpointKey: string): Promise<SourceTable | undefined> {
  return db
    .selectFrom('sources')
    .select(sourceColumns)
    .where('endpoint_key', '=', endpointKey)
    .executeTakeFirst();
}

/** Owner, state, concurrency and flow control of a source; undefined when there is no such source. */
export async function sourceState(
  db: Db,
  id: string,
): Promise<Pick<SourceTable, 'owner_id' | 'state' | 'concurrency' | 'flow_control'> | undefined> {
  return db
    .selectFrom('sources')
    .select(['owner_id', 'state', 'concurrency', 'flow_control'])
    .where('id', '=', id)
    .executeTakeFirst();
}

/** The flow control of those of these sources that have one. */
export async function flowControlsOf(db: Db, ids: readonly string[]): Promise<Map<string, string>> {
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom('sources')
    .select(['id', 'flow_control'])
    .where('id', 'in', [...new Set(ids)])
    .where('flow_control', 'is not', null)
    .execute();
  return new Map(rows.flatMap(({ id, flow_control }) => (flow_control === null ? [] : [[id, flow_control]])));
}

/** The lane of its runs: one after another over all nodes, or, where it gives that up, on any node. */
export function laneOfSource({ id, concurrency }: Pick<SourceTable, 'id' | 'concurrency'>): string {
  return concurrency === 1 ? id : sharedLane(id);
}

/** The ids among `ids` without a source, also because it was deleted. */
export async function goneSources(db: Db, ids: ReadonlySet<string>): Promise<Set<string>> {
  const rows = await db
    .selectFrom('sources')
    .select('id')
    .where('id', 'in', [...ids])
    .execute();
  return ids.difference(new Set(rows.map(({ id }) => id)));
}

export async function sourceRevision(db: Db, id: string): Promise<number | undefined> {
  const row = await db.selectFrom('sources').select('revision').where('id', '=', id).executeTakeFirst();
  return row?.revision;
}

export async function insertSource(
  tx: Tx,
  row: SourceTable,
  accounts: readonly SourceAccount[],
): Promise<void> {
  await tx.insertInto('sources').values(row).execute();
  await insertSourceAccounts(tx, row.id, accounts);
  await insertApphooks(tx, row);
  await ensureComponentDbs(tx, [{ id: row.id, ownerId: row.owner_id }]);
}

/** What a write of a source expects to find: no change under way since it was read, or this one. */
export type WriteGuard = { revision: number } | { changeId: string };

/**
 * Writes a source and its look-up rows, and replaces, where given, its accounts and its timers. Returns the revision it
 * has now, undefined when another change came first; `raise` makes it another one.
 */
export async function updateSource(
  tx: Tx,
  row: SourceTable,
  guard: WriteGuard,
  options: { raise: boolean; accounts?: readonly SourceAccount[]; timers?: readonly TimerTable[] },
): Promise<number | undefined> {
  const {
    id,
    owner_id: _owner,
    user_id: _user,
    created_at_ms: _created,
    revision: _revision,
    ...changes
  } = row;
  if (options.accounts !== undefined) await forgetOutcomesOfChange(tx, row);
  const query = tx
    .updateTable('sources')
    .set((set) => ({ ...changes, revision: set('revision', '+', options.raise ? 1 : 0) }))
    .where('id', '=', id);
  const written = await query
    .where((where) => isAsExpected(where, guard))
    .returning('revision')
    .executeTakeFirst();
  if (written === undefined) return undefined;
  await deleteApphooks(tx, id);
  await insertApphooks(tx, row);
  if (options.accounts !== undefined) {
    await replaceSourceAccounts(tx, id, options.accounts);
  }
  if (options.timers !== undefined) {
    await deleteTimersOf(tx, id);
    await insertTimers(tx, options.timers);
  }
  return written.revision;
}

/** What other code, or the same code with other props, came to says nothing about the source as it will be. */
async function forgetOutcomesOfChange(tx: Tx, row: SourceTable): Promise<void> {
  const columns = ['component_id', 'configured_props', 'sealed_props', 'dynamic_props'] as const;
  const changed = await tx
    .selectFrom('sources')
    .select('id')
    .where('id', '=', row.id)
    .where((differs) => differs.or(columns.map((column) => differs(column, 'is distinct from', row[column]))))
    .executeTakeFirst();
  if (changed !== undefined) await forgetOutcomes(tx, row.id);
}

function isAsExpected(where: ExpressionBuilder<Tables, 'sources'>, guard: WriteGuard) {
  return 'changeId' in guard
    ? where('change_id', '=', guard.changeId)
    : where.and([where('change_id', 'is', null), where('revision', '=', guard.revision)]);
}

/** Hands the change under way to another node (or to the same, for a new try). False when it is over, or another node has it. */
export async function takeOverChange(
  tx: Tx,
  change: { sourceId: string; from: string; to: string; node: string },
): Promise<boolean> {
  const result = await tx
    .updateTable('sources')
    .set({ change_id: change.to, change_node: change.node })
    .where('id', '=', change.sourceId)
    .where('change_id', '=', change.from)
    .executeTakeFirst();
  return Number(result.numUpdatedRows) === 1;
}

/** Idempotency keys removed with a source; no request finds what is left, which expires within a day. */
const keysRemovedMax = 10_000;

/**
 * Removes a source, its timers, what waits for it, its state and its events (those beyond a first batch by a job).
 * In the order in which schedules and runs lock the same rows (timers, jobs, emitter, db), so that none waits for another.
 * Returns false, with nothing removed, when another change came first.
 */
export async function deleteSource(
  store: Pick<Store, 'notify'>,
  tx: Tx,
  source: Pick<SourceTable, 'id' | 'owner_id'>,
  guard: WriteGuard,
  nowMs: number,
): Promise<boolean> {
  const { id } = source;
  const { numDeletedRows } = await tx
    .deleteFrom('sources')
    .where('id', '=', id)
    .where((where) => isAsExpected(where, guard))
    .executeTakeFirst();
  if (Number(numDeletedRows) === 0) return false;
  await deleteTimersOf(tx, id);
  await deleteFlowOf(tx, id);
  await removeEmitter(store, tx, { id, ownerId: source.owner_id }, nowMs);
  await deleteComponentDbs(tx, [id]);
  await deleteTicksOf(tx, id);
  await forgetOutcomes(tx, id);
  await removeKeysOf(tx, id, keysRemovedMax);
  return true;
}

/** Sources that are being created, changed or removed, or that a crash left so; at most `limit`. */
export async function sourcesUnderChange(db: Db, limit: number): Promise<SourceTable[]> {
  return db
    .selectFrom('sources')
    .select(sourceColumns)
    .where('change_id', 'is not', null)
    .orderBy('change_id')
    .limit(limit)
    .execute();
}

/** True while a node keeps its lease, so that the work that it has begun is still under way. */
export async function isNodeAlive(db: Db, node: string, nowMs: number): Promise<boolean> {
  const row = await db
    .selectFrom('nodes')
    .select('id')
    .where('id', '=', node)
    .where('expires_at_ms', '>', nowMs)
    .executeTakeFirst();
  return row !== undefined;
}

/** An account that a source uses, and whose it is. */
export type SourceAccount = Pick<SourceAccountTable, 'account_id' | 'owner_id'>;

/** Those that it may use: what a member put in of their own counts only while they are one. */
export async function accountsOf(db: Db, sourceId: string): Promise<SourceAccount[]> {
  return db
    .selectFrom('source_accounts')
    .innerJoin('sources', 'sources.id', 'source_accounts.source_id')
    .select(['source_accounts.account_id', 'source_accounts.owner_id'])
    .where('source_accounts.source_id', '=', sourceId)
    .where((where) =>
      where.or([
        where('source_accounts.owner_id', '=', where.ref('sources.owner_id')),
        where.exists(
          where
            .selectFrom('members')
            .select('members.user_id')
            .whereRef('members.user_id', '=', 'source_accounts.owner_id')
            .whereRef('members.workspace_id', '=', 'sources.owner_id'),
        ),
      ]),
    )
    .orderBy('source_accounts.account_id')
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

/** The rows in which sources, and steps of workflows, keep their `$.service.db`; existing ones stay as they are. */
export async function ensureComponentDbs(
  tx: Tx,
  keepers: readonly { id: string; ownerId: string }[],
): Promise<void> {
  await tx
    .insertInto('component_dbs')
    .values(keepers.map(({ id, ownerId }) => ({ source_id: id, owner_id: ownerId, db: '{}' })))
    .onConflict((conflict) => conflict.column('source_id').doNothing())
    .execute();
}

export async function deleteComponentDbs(tx: Tx, ids: readonly string[]): Promise<void> {
  for (let at = 0; at < ids.length; at += idsPerStatement)
    await tx
      .deleteFrom('component_dbs')
      .where('source_id', 'in', ids.slice(at, at + idsPerStatement))
      .execute();
}

const idsPerStatement = 500;

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
  store: Dialect & Pick<Store, 'defer'>,
  tx: Tx,
  sets: ReadonlyMap<string, Record<string, string>>,
): Promise<void> {
  if (sets.size === 0) return;
  const query = tx
    .selectFrom('component_dbs')
    .select(['source_id', 'owner_id', 'db'])
    .where('source_id', 'in', [...sets.keys()])
    .orderBy('source_id');
  const rows = await store.lockRows(query).execute();
  const merged = rows.map((row) => ({
    ...row,
    db: JSON.stringify({ ...(JSON.parse(row.db) as Record<string, string>), ...sets.get(row.source_id) }),
  }));
  if (merged.length === 0) return;
  for (const query of insertRows(store, componentDbUpsert, merged)) await store.defer(tx, query);
}

const componentDbUpsert: RowInsert<'component_dbs'> = {
  table: 'component_dbs',
  columns: ['source_id', 'owner_id', 'db'],
  ending: 'on conflict (source_id) do update set db = excluded.db',
};
