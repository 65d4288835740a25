import type { CompiledQuery } from 'kysely';
import { heldJobsQuery } from '#jobs/run-job-store.ts';
import type { Dialect } from '#storage/dialect.ts';
import { insertRows, type RowInsert } from '#storage/insert-rows.ts';
import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { RunState, RunTable } from '#storage/tables/workflow-tables.ts';

const runColumns = [
  'id',
  'owner_id',
  'workflow_id',
  'deployment_id',
  'state',
  'emitter_id',
  'source_type',
  'event',
  'trace_id',
  'token',
  'hops',
  'no_store',
  'replay_of',
  'wait_kind',
  'wait_until_ms',
  'position',
  'resumption',
  'failures',
  'error',
  'reason',
  'flow_warning',
  'created_at_ms',
  'started_at_ms',
  'ended_at_ms',
] as const satisfies readonly (keyof RunTable)[];

/** What a list of runs shows: everything but the event, which may be large. */
const runListColumns = runColumns.filter((column) => column !== 'event' && column !== 'resumption');

export type LatestRun = Pick<RunTable, 'id' | 'workflow_id' | 'state' | 'created_at_ms'>;

export type ListedRun = Omit<RunTable, 'event' | 'resumption'>;

const runInsert: RowInsert<'runs'> = { table: 'runs', columns: runColumns };

export async function insertRuns(
  store: Dialect & Pick<Store, 'defer'>,
  tx: Tx,
  rows: readonly RunTable[],
): Promise<void> {
  for (const query of insertRows(store, runInsert, rows)) await store.defer(tx, query);
}

export async function findRun(db: Db, id: string): Promise<RunTable | undefined> {
  return db.selectFrom('runs').select(runColumns).where('id', '=', id).executeTakeFirst();
}

/** The newest run of each of these workflows, by workflow; one without runs is not in it. */
export async function latestRuns(db: Db, workflowIds: readonly string[]): Promise<Map<string, LatestRun>> {
  if (workflowIds.length === 0) return new Map();
  const rows = await db
    .selectFrom('workflows')
    .innerJoin('runs', (join) =>
      join.on('runs.id', '=', (where) =>
        where
          .selectFrom('runs as newest')
          .select('newest.id')
          .whereRef('newest.workflow_id', '=', 'workflows.id')
          .orderBy('newest.created_at_ms', 'desc')
          .orderBy('newest.id', 'desc')
          .limit(1),
      ),
    )
    .select(['runs.id', 'runs.workflow_id', 'runs.state', 'runs.created_at_ms'])
    .where('workflows.id', 'in', [...workflowIds])
    .execute();
  return new Map(rows.map((run) => [run.workflow_id, run]));
}

/** Some runs of a workflow. */
export interface RunFilter {
  workflowId: string;
  /** Absent: in any state. */
  states?: readonly RunState[];
  /** Runs that were made from then on, and before; epoch ms. */
  sinceMs?: number;
  untilMs?: number;
  /** Runs that come after this one in the order of their ids, which is that of their making. */
  afterId?: string;
  /** False: runs of which no later run is a replay or restart. */
  isRepeated?: false;
}

/** Runs of a workflow, newest first. */
export async function pageOfRuns(db: Db, filter: RunFilter, page: PageRequest): Promise<Page<ListedRun>> {
  return pageOf(filteredRuns(db, filter).select(runListColumns), page) as Promise<Page<ListedRun>>;
}

/** Ids of runs, oldest first. */
export async function idsOfRuns(db: Db, filter: RunFilter, limit: number): Promise<string[]> {
  const rows = await filteredRuns(db, filter).select('id').orderBy('id').limit(limit).execute();
  return rows.map(({ id }) => id);
}

export async function countOfRuns(db: Db, filter: RunFilter): Promise<number> {
  const { count } = await filteredRuns(db, filter)
    .select(({ fn }) => fn.countAll().as('count'))
    .executeTakeFirstOrThrow();
  return Number(count);
}

function filteredRuns(db: Db, { workflowId, states, sinceMs, untilMs, afterId, isRepeated }: RunFilter) {
  let query = db.selectFrom('runs').where('workflow_id', '=', workflowId);
  if (states !== undefined) query = query.where('state', 'in', [...states]);
  if (sinceMs !== undefined) query = query.where('created_at_ms', '>=', sinceMs);
  if (untilMs !== undefined) query = query.where('created_at_ms', '<', untilMs);
  if (afterId !== undefined) query = query.where('id', '>', afterId);
  if (isRepeated === false)
    query = query.where(({ not, exists, selectFrom }) =>
      not(exists(selectFrom('runs as later').select('later.id').whereRef('later.replay_of', '=', 'runs.id'))),
    );
  return query;
}

export function updateRunQuery(tx: Tx, id: string, set: Partial<RunTable>): CompiledQuery {
  return tx.updateTable('runs').set(set).where('id', '=', id).where('ended_at_ms', 'is', null).compile();
}

/**
 * Changes runs that have begun, many in one statement. That they have begun is written here too, with `nowMs`: the write
 * that says so (`markRunning`) may come behind this one in a batch, and then finds them over.
 */
export function updateBegunRunsQuery(
  tx: Tx,
  ids: readonly string[],
  change: Partial<RunTable>,
  nowMs: number,
): CompiledQuery {
  return tx
    .updateTable('runs')
    .set((set) => ({ ...change, started_at_ms: set.fn.coalesce('started_at_ms', set.val(nowMs)) }))
    .where('id', 'in', [...ids])
    .where('ended_at_ms', 'is', null)
    .compile();
}

/**
 * Marks runs that begin, or continue after a wait; what they waited for stays until the next record. Only runs whose jobs are
 * still held as they were: a node that was frozen since must not mark a run that waits again.
 */
export async function markRunning(
  store: Dialect,
  tx: Tx,
  begun: { node: string; jobs: readonly { id: string; attempts: number }[]; nowMs: number },
): Promise<void> {
  const { node, jobs, nowMs } = begun;
  // Locks the jobs, then the runs, as every change does.
  const { rows } = await tx.executeQuery(heldJobsQuery(store, tx, { node, ids: jobs.map(({ id }) => id) }));
  const held = new Map(rows.map(({ id, attempts }) => [id, attempts]));
  const ids = jobs.filter(({ id, attempts }) => held.get(id) === attempts).map(({ id }) => id);
  if (ids.length === 0) return;
  await tx
    .updateTable('runs')
    .set((set) => ({
      state: 'running',
      started_at_ms: set.fn.coalesce('started_at_ms', set.val(nowMs)),
    }))
    .where('id', 'in', ids)
    .where('state', 'in', ['queued', 'waiting'])
    .execute();
}

/** What is wrong with the keys of a run's event. */
export async function setFlowWarning(tx: Tx, runId: string, warning: string): Promise<void> {
  await tx.updateTable('runs').set({ flow_warning: warning }).where('id', '=', runId).execute();
}

/** The run, locked after its job: every change takes the two in this order. */
export async function lockRun(store: Dialect, tx: Tx, runId: string): Promise<RunTable | undefined> {
  const query = tx.selectFrom('runs').select(runColumns).where('id', '=', runId);
  return store.lockRows(query).executeTakeFirst();
}

/** Runs of one workflow that started with an event since `sinceMs`, but for some: what a throttle counts. */
export async function countStartedSince(
  db: Db,
  workflowId: string,
  sinceMs: number,
  except: readonly string[],
): Promise<number> {
  const row = await db
    .selectFrom('runs')
    .select((select) => select.fn.countAll<number>().as('count'))
    .where('workflow_id', '=', workflowId)
    .where('created_at_ms', '>=', sinceMs - 86_400_000)
    .where('started_at_ms', '>=', sinceMs)
    .where('source_type', 'in', ['COMPONENT', 'WORKFLOW'])
    .$if(except.length > 0, (query) => query.where('id', 'not in', [...except]))
    .executeTakeFirst();
  return Number(row?.count ?? 0);
}
