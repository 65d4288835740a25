import type { CompiledQuery } from 'kysely';
import { queued, running } from '#jobs/job-store.ts';
import { insertRows, type RowInsert } from '#storage/insert-rows.ts';
import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type {
  RunResumeTable,
  RunSendTable,
  RunStepTable,
  RunTable,
} from '#storage/tables/workflow-tables.ts';

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
export type ListedRun = Omit<RunTable, 'event' | 'resumption'>;

const stepColumns = [
  'run_id',
  'owner_id',
  'workflow_id',
  'position',
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

type DeferStore = Pick<Store, 'name' | 'defer'>;

export async function insertRuns(store: DeferStore, tx: Tx, rows: readonly RunTable[]): Promise<void> {
  for (const query of insertRows(store.name, runInsert, rows)) await store.defer(tx, query);
}

export async function insertSteps(store: DeferStore, tx: Tx, rows: readonly RunStepTable[]): Promise<void> {
  for (const query of insertRows(store.name, stepInsert, rows)) await store.defer(tx, query);
}

export async function insertSends(store: DeferStore, tx: Tx, rows: readonly RunSendTable[]): Promise<void> {
  for (const query of insertRows(store.name, sendInsert, rows)) await store.defer(tx, query);
}

/** What a cancelled run would have sent is not sent, and says so. */
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

/** The recorded tries of the steps of a run, in the order in which they ran. */
export async function stepsOfRun(db: Db, runId: string): Promise<RunStepTable[]> {
  return db
    .selectFrom('run_steps')
    .select(stepColumns)
    .where('run_id', '=', runId)
    .orderBy('position')
    .orderBy('try')
    .execute();
}

export async function sendsOfRun(db: Db, runId: string): Promise<RunSendTable[]> {
  return db
    .selectFrom('run_sends')
    .select(sendColumns)
    .where('run_id', '=', runId)
    .orderBy('number')
    .execute();
}

/** Runs of a workflow, newest first; only those in `state` where one is given. */
export async function pageOfRuns(
  db: Db,
  filter: { workflowId: string; state?: string },
  page: PageRequest,
): Promise<Page<ListedRun>> {
  let query = db.selectFrom('runs').select(runListColumns).where('workflow_id', '=', filter.workflowId);
  if (filter.state !== undefined) query = query.where('state', '=', filter.state);
  return pageOf(query, page) as Promise<Page<ListedRun>>;
}

/** Which of these jobs this node still holds: a run is recorded only by who holds its job. Locks them where there are locks. */
export function heldJobsQuery(
  store: Pick<Store, 'name'>,
  tx: Tx,
  { node, ids }: { node: string; ids: readonly string[] },
): CompiledQuery<{ id: string; attempts: number }> {
  let query = tx
    .selectFrom('jobs')
    .select(['id', 'attempts'])
    .where('id', 'in', [...ids])
    .where('state', '=', running)
    .where('lease_node', '=', node);
  if (store.name === 'postgres') query = query.orderBy('id').forUpdate();
  return query.compile();
}

/** Gives the job of a waiting run back to the queue, to be run again at `runAtMs`. Progress was made: it counts anew. */
export function parkJobQuery(tx: Tx, job: { id: string; runAtMs: number; nowMs: number }): CompiledQuery {
  return tx
    .updateTable('jobs')
    .set({
      state: 'queued',
      lease_node: null,
      attempts: 0,
      run_at_ms: job.runAtMs,
      error: null,
      updated_at_ms: job.nowMs,
    })
    .where('id', '=', job.id)
    .compile();
}

/** The attempts of a job count crashes without progress: a finished step is progress. */
export function resetAttemptsQuery(tx: Tx, ids: readonly string[]): CompiledQuery {
  return tx
    .updateTable('jobs')
    .set({ attempts: 1 })
    .where('id', 'in', [...ids])
    .compile();
}

export function updateRunQuery(tx: Tx, id: string, set: Partial<RunTable>): CompiledQuery {
  return tx.updateTable('runs').set(set).where('id', '=', id).where('ended_at_ms', 'is', null).compile();
}

/** What ends a run that nothing else is to be said about; many in one statement. */
export function endRunsQuery(tx: Tx, ids: readonly string[], set: Partial<RunTable>): CompiledQuery {
  return tx
    .updateTable('runs')
    .set(set)
    .where('id', 'in', [...ids])
    .where('ended_at_ms', 'is', null)
    .compile();
}

/** Runs that a throttle does not let in yet go back into the queue: they have not begun, whoever made them. */
export async function postponeRuns(
  tx: Tx,
  node: string,
  jobs: readonly { id: string; attempts: number; runAtMs: number }[],
  nowMs: number,
): Promise<void> {
  const held: string[] = [];
  // A throttle holds many at a time, until the same moment: a statement each would hold up everybody else.
  for (const group of Map.groupBy(jobs, ({ attempts, runAtMs }) => `${attempts} ${runAtMs}`).values()) {
    const [{ attempts, runAtMs } = { attempts: 0, runAtMs: 0 }] = group;
    const rows = await tx
      .updateTable('jobs')
      .set({
        state: 'queued',
        lease_node: null,
        attempts: attempts - 1,
        run_at_ms: runAtMs,
        error: 'waits for its throttle',
        updated_at_ms: nowMs,
      })
      .where(
        'id',
        'in',
        group.map(({ id }) => id),
      )
      .where('state', '=', running)
      .where('lease_node', '=', node)
      .where('attempts', '=', attempts)
      .returning('id')
      .execute();
    for (const { id } of rows) held.push(id);
  }
  if (held.length === 0) return;
  await tx
    .updateTable('runs')
    .set({ state: 'queued', started_at_ms: null })
    .where('id', 'in', held)
    .where('state', '=', 'running')
    .execute();
}

/**
 * Runs that begin, or begin again, after a wait; what they wait for stays until the next record. Only of jobs that are
 * still held as they were: a node that was frozen since must not say so of a run that waits again.
 */
export async function markRunning(
  store: Pick<Store, 'name'>,
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

/** Requests to resume or cancel that came while their step was still running. */
export async function resumesOf(
  tx: Tx,
  runIds: readonly string[],
): Promise<Pick<RunResumeTable, 'run_id' | 'position' | 'kind' | 'request'>[]> {
  return tx
    .selectFrom('run_resumes')
    .select(['run_id', 'position', 'kind', 'request'])
    .where('run_id', 'in', [...runIds])
    .execute();
}

/** False when there is an earlier request for this wait. */
export async function insertResume(tx: Tx, row: RunResumeTable): Promise<boolean> {
  const result = await tx
    .insertInto('run_resumes')
    .values(row)
    .onConflict((conflict) => conflict.columns(['run_id', 'position']).doNothing())
    .executeTakeFirst();
  return Number(result.numInsertedOrUpdatedRows ?? 0) === 1;
}

/** A request that a wait was answered with: the next wait of the same step needs one of its own. */
export function deleteResumeQuery(tx: Tx, runId: string, position: number): CompiledQuery {
  return tx.deleteFrom('run_resumes').where('run_id', '=', runId).where('position', '=', position).compile();
}

/** Locks the job of a run, where there are locks; undefined when the run has none (any more). */
export async function lockJobOf(
  store: Pick<Store, 'name'>,
  tx: Tx,
  runId: string,
): Promise<{ id: string; state: string } | undefined> {
  let query = tx.selectFrom('jobs').select(['id', 'state']).where('id', '=', runId);
  if (store.name === 'postgres') query = query.forUpdate();
  return query.executeTakeFirst();
}

/** The run, locked after its job: every change takes the two in this order. */
export async function lockRun(
  store: Pick<Store, 'name'>,
  tx: Tx,
  runId: string,
): Promise<RunTable | undefined> {
  let query = tx.selectFrom('runs').select(runColumns).where('id', '=', runId);
  if (store.name === 'postgres') query = query.forUpdate();
  return query.executeTakeFirst();
}

/** Has a queued job run now. */
export async function wakeJob(tx: Tx, runId: string, nowMs: number): Promise<void> {
  await tx
    .updateTable('jobs')
    .set({ run_at_ms: nowMs, updated_at_ms: nowMs })
    .where('id', '=', runId)
    .where('state', '=', queued)
    .execute();
}

/** Removes the job of a run that ends from outside, whoever holds it: its holder finds it gone at its next record. */
export async function deleteJobOf(tx: Tx, runId: string): Promise<void> {
  await tx.deleteFrom('jobs').where('id', '=', runId).execute();
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

/** Removes runs that are not to be kept. What they still have to send stays until it was sent (sends/send-store.ts). */
export async function forgetRuns(tx: Tx, ids: readonly string[]): Promise<void> {
  await deletePartsOf(tx, ids, ['run_steps', 'run_resumes']);
  await tx
    .deleteFrom('run_sends')
    .where('run_id', 'in', [...ids])
    .where((where) => where.or([where('kind', '=', 'emit'), where('state', '!=', 'queued')]))
    .execute();
  await tx
    .deleteFrom('runs')
    .where('id', 'in', [...ids])
    .execute();
}

/** Rows of some runs, but their own. */
async function deletePartsOf(
  tx: Tx,
  ids: readonly string[],
  tables: readonly ('run_steps' | 'run_resumes' | 'run_sends')[],
): Promise<void> {
  for (const table of tables)
    await tx
      .deleteFrom(table)
      .where('run_id', 'in', [...ids])
      .execute();
}

export async function deleteRuns(tx: Tx, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  await deletePartsOf(tx, ids, ['run_steps', 'run_resumes', 'run_sends']);
  await tx
    .deleteFrom('runs')
    .where('id', 'in', [...ids])
    .execute();
}

/** Ended runs of a workflow beyond the `keep` newest, oldest first, at most `limit`. */
export async function runsToPrune(
  db: Db,
  workflowId: string,
  { keep, limit }: { keep: number; limit: number },
): Promise<string[]> {
  const edge = await db
    .selectFrom('runs')
    .select(['created_at_ms', 'id'])
    .where('workflow_id', '=', workflowId)
    .orderBy('created_at_ms', 'desc')
    .orderBy('id', 'desc')
    .where('ended_at_ms', 'is not', null)
    .offset(keep)
    .limit(1)
    .executeTakeFirst();
  if (edge === undefined) return [];
  const rows = await db
    .selectFrom('runs')
    .select('id')
    .where('workflow_id', '=', workflowId)
    .where((where) =>
      where.or([
        where('created_at_ms', '<', edge.created_at_ms),
        where.and([where('created_at_ms', '=', edge.created_at_ms), where('id', '<=', edge.id)]),
      ]),
    )
    .where('ended_at_ms', 'is not', null)
    .orderBy('created_at_ms')
    .orderBy('id')
    .limit(limit)
    .execute();
  return rows.map((row) => row.id);
}

/** Workflows that may have more than `keep` runs, for a look over all of them at start. */
export async function workflowsWithRuns(db: Db, keep: number): Promise<string[]> {
  const rows = await db
    .selectFrom('runs')
    .select('workflow_id')
    .groupBy('workflow_id')
    .having((having) => having(having.fn.countAll(), '>', keep))
    .execute();
  return rows.map((row) => row.workflow_id);
}

/** The rows in which steps keep their `$.service.db`; made when a step first sets something. */
export async function ensureStepDbs(
  tx: Tx,
  steps: readonly { stepId: string; ownerId: string }[],
): Promise<void> {
  const owners = new Map(steps.map(({ stepId, ownerId }) => [stepId, ownerId]));
  await tx
    .insertInto('component_dbs')
    .values([...owners].map(([stepId, ownerId]) => ({ source_id: stepId, owner_id: ownerId, db: '{}' })))
    .onConflict((conflict) => conflict.column('source_id').doNothing())
    .execute();
}

/** Removes runs of a removed workflow with all that is theirs, at most `limit`. True when none is left. */
export async function deleteRunsOf(tx: Tx, workflowId: string, limit: number): Promise<boolean> {
  const runs = await tx
    .selectFrom('runs')
    .select('id')
    .where('workflow_id', '=', workflowId)
    .orderBy('created_at_ms')
    .limit(limit)
    .execute();
  const ids = runs.map((run) => run.id);
  if (ids.length > 0) {
    // The jobs first: who runs one of them finds out that it is gone before it finds its run gone.
    await tx.deleteFrom('jobs').where('id', 'in', ids).execute();
    await deleteRuns(tx, ids);
  }
  return ids.length < limit;
}
