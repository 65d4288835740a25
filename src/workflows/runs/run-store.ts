import { type CompiledQuery, sql } from 'kysely';
import { heldJobsQuery } from '#jobs/run-job-store.ts';
import type { Dialect } from '#storage/dialect.ts';
import { insertRows, type RowInsert } from '#storage/insert-rows.ts';
import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type {
  RunResumeTable,
  RunSendTable,
  RunState,
  RunStepTable,
  RunTable,
} from '#storage/tables/workflow-tables.ts';
import type { EndedStep } from './run.ts';
import type { WaitPlace } from './run-link.ts';

export const runColumns = [
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
  'created_at_ms',
  'started_at_ms',
  'ended_at_ms',
] as const satisfies readonly (keyof RunTable)[];

/** What a list of runs shows: everything but the event, which may be large. */
export const runListColumns = runColumns.filter((column) => column !== 'event' && column !== 'resumption');
export type LatestRun = Pick<RunTable, 'id' | 'workflow_id' | 'state' | 'created_at_ms'>;

export type ListedRun = Omit<RunTable, 'event' | 'resumption'>;

const stepColumns = [
  'run_id',
  'owner_id',
  'workflow_id',
  'position',
  'iteration',
  'try',
  'step_id',
  'namespace',
  'state',
  'input',
  'exports',
  'logs',
  'error',
  'started_at_ms',
  'ended_at_ms',
] as const satisfies readonly (keyof RunStepTable)[];

const sendColumns = [
  'run_id',
  'number',
  'owner_id',
  'workflow_id',
  'kind',
  'payload',
  'state',
  'result',
  'created_at_ms',
  'ended_at_ms',
] as const satisfies readonly (keyof RunSendTable)[];

const runInsert: RowInsert<'runs'> = { table: 'runs', columns: runColumns };
const stepInsert: RowInsert<'run_steps'> = { table: 'run_steps', columns: stepColumns };
const sendInsert: RowInsert<'run_sends'> = { table: 'run_sends', columns: sendColumns };

type DeferStore = Dialect & Pick<Store, 'defer'>;

export async function insertRuns(store: DeferStore, tx: Tx, rows: readonly RunTable[]): Promise<void> {
  for (const query of insertRows(store, runInsert, rows)) await store.defer(tx, query);
}

export async function insertSteps(store: DeferStore, tx: Tx, rows: readonly RunStepTable[]): Promise<void> {
  for (const query of insertRows(store, stepInsert, rows)) await store.defer(tx, query);
}

export async function insertSends(store: DeferStore, tx: Tx, rows: readonly RunSendTable[]): Promise<void> {
  for (const query of insertRows(store, sendInsert, rows)) await store.defer(tx, query);
}

/** Marks the sends of a cancelled run as not sent. */
export async function dropSends(tx: Tx, runId: string, nowMs: number): Promise<void> {
  await tx
    .updateTable('run_sends')
    .set({ state: 'failed', result: JSON.stringify({ error: 'the run was cancelled' }), ended_at_ms: nowMs })
    .where('run_id', '=', runId)
    .where('state', '=', 'queued')
    .execute();
}

/** What ended runs emitted is an event now. */
export async function markEmitted(tx: Tx, runIds: readonly string[], nowMs: number): Promise<void> {
  await tx
    .updateTable('run_sends')
    .set({ state: 'sent', ended_at_ms: nowMs })
    .where('run_id', 'in', [...runIds])
    .where('kind', '=', 'emit')
    .where('state', '=', 'queued')
    .execute();
}

export async function findRun(db: Db, id: string): Promise<RunTable | undefined> {
  return db.selectFrom('runs').select(runColumns).where('id', '=', id).executeTakeFirst();
}

/** The recorded tries of the steps of a run, in the order of the definition. */
export async function stepsOfRun(db: Db, runId: string): Promise<RunStepTable[]> {
  return db
    .selectFrom('run_steps')
    .select(stepColumns)
    .where('run_id', '=', runId)
    .orderBy('position')
    .orderBy('iteration')
    .orderBy('try')
    .execute();
}

/** What a node needs of the recorded steps of a run to continue it. */
export async function endedStepsOf(db: Db, runId: string): Promise<EndedStep[]> {
  return db
    .selectFrom('run_steps')
    .select(['position', 'iteration', 'namespace', 'state', 'exports', 'error'])
    .where('run_id', '=', runId)
    .where('state', 'in', ['succeeded', 'caught'])
    .orderBy('position')
    .orderBy('iteration')
    .orderBy('try')
    .execute();
}

/** How much is recorded of the steps of a run. */
export async function recordedOf(db: Db, runId: string): Promise<{ records: number; bytes: number }> {
  const row = await db
    .selectFrom('run_steps')
    .select(({ fn }) => [
      fn.countAll().as('records'),
      sql<number | null>`sum(length(exports) + length(logs))`.as('bytes'),
    ])
    .where('run_id', '=', runId)
    .executeTakeFirstOrThrow();
  return { records: Number(row.records), bytes: Number(row.bytes ?? 0) };
}

/** The last recorded try of one step. */
export async function lastTryOf(
  db: Db,
  runId: string,
  { position, iteration }: Pick<WaitPlace, 'position' | 'iteration'>,
): Promise<RunStepTable | undefined> {
  return db
    .selectFrom('run_steps')
    .select(stepColumns)
    .where('run_id', '=', runId)
    .where('position', '=', position)
    .where('iteration', '=', iteration)
    .orderBy('try', 'desc')
    .limit(1)
    .executeTakeFirst();
}

/** Records of steps in maps that one answer shows: a map of 10,000 items has tens of thousands. */
const shownInMapsMax = 1_000;

/**
 * What an answer shows of the steps of a run: all that are in no map, and of those in maps the first 1,000, what did not succeed first. With
 * `iteration` those of this item alone, and of the maps in it. `left_out`: how many more there are.
 */
export async function shownStepsOf(
  db: Db,
  runId: string,
  iteration: string | undefined,
): Promise<{ steps: RunStepTable[]; left_out: number }> {
  const all = db.selectFrom('run_steps').where('run_id', '=', runId);
  const inMaps =
    iteration === undefined
      ? all.where('iteration', '!=', '')
      : all.where((where) =>
          where.or([where('iteration', '=', iteration), where('iteration', 'like', `${iteration}-%`)]),
        );
  const shown = await inMaps
    .select(stepColumns)
    .orderBy((order) => order.case().when('state', '=', 'succeeded').then(1).else(0).end())
    .orderBy('position')
    .orderBy('iteration')
    .orderBy('try')
    .limit(shownInMapsMax + 1)
    .execute();
  const rest =
    iteration === undefined ? await all.select(stepColumns).where('iteration', '=', '').execute() : [];
  const steps = [...rest, ...shown.slice(0, shownInMapsMax)].sort(inOrder);
  if (shown.length <= shownInMapsMax) return { steps, left_out: 0 };
  const { count } = await inMaps.select(({ fn }) => fn.countAll().as('count')).executeTakeFirstOrThrow();
  return { steps, left_out: Number(count) - shownInMapsMax };
}

/** By the definition, then by item, then by try. */
function inOrder(a: RunStepTable, b: RunStepTable): number {
  return a.position - b.position || byItem(a.iteration, b.iteration) || a.try - b.try;
}

function byItem(a: string, b: string): number {
  const [left, right] = [a.split('-').map(Number), b.split('-').map(Number)];
  for (const [index, number] of left.entries()) {
    const other = right[index];
    if (other === undefined) return 1;
    if (number !== other) return number - other;
  }
  return left.length - right.length;
}

export async function sendsOfRun(db: Db, runId: string): Promise<RunSendTable[]> {
  return db
    .selectFrom('run_sends')
    .select(sendColumns)
    .where('run_id', '=', runId)
    .orderBy('number')
    .execute();
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

/** Requests to resume or cancel that came while their step was still running, and that no run has yet. */
export async function waitingResumesOf(
  tx: Tx,
  runIds: readonly string[],
): Promise<Pick<RunResumeTable, 'run_id' | 'position' | 'iteration' | 'try' | 'kind' | 'request'>[]> {
  return tx
    .selectFrom('run_resumes')
    .select(['run_id', 'position', 'iteration', 'try', 'kind', 'request'])
    .where('run_id', 'in', [...runIds])
    .where('request', 'is not', null)
    .execute();
}

/** How the wait of a try was answered; undefined: it was not. */
export async function findResume(
  tx: Tx,
  runId: string,
  wait: WaitPlace,
): Promise<Pick<RunResumeTable, 'kind'> | undefined> {
  return tx
    .selectFrom('run_resumes')
    .select('kind')
    .where('run_id', '=', runId)
    .where('position', '=', wait.position)
    .where('iteration', '=', wait.iteration)
    .where('try', '=', wait.try)
    .executeTakeFirst();
}

/** With the run locked, after `findResume`. */
export async function insertResume(tx: Tx, row: RunResumeTable): Promise<void> {
  await tx.insertInto('run_resumes').values(row).execute();
}

/** The run has the request, or no longer needs it. Only the fact that the wait was answered, and how, remains. */
export function clearResumeQuery(tx: Tx, runId: string, wait: WaitPlace): CompiledQuery {
  return tx
    .updateTable('run_resumes')
    .set({ request: null })
    .where('run_id', '=', runId)
    .where('position', '=', wait.position)
    .where('iteration', '=', wait.iteration)
    .where('try', '=', wait.try)
    .compile();
}

/** The wait was not answered after all. */
export function deleteResumeQuery(tx: Tx, runId: string, wait: WaitPlace): CompiledQuery {
  return tx
    .deleteFrom('run_resumes')
    .where('run_id', '=', runId)
    .where('position', '=', wait.position)
    .where('iteration', '=', wait.iteration)
    .where('try', '=', wait.try)
    .compile();
}

/** The tries of one step of a run that have ended. */
export async function endedTriesOf(
  db: Db,
  runId: string,
  { position, iteration }: Pick<WaitPlace, 'position' | 'iteration'>,
): Promise<number[]> {
  const rows = await db
    .selectFrom('run_steps')
    .select('try')
    .where('run_id', '=', runId)
    .where('position', '=', position)
    .where('iteration', '=', iteration)
    .execute();
  return rows.map((row) => row.try);
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
