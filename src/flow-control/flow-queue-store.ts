import { sql } from 'kysely';
import type { Dialect } from '#storage/dialect.ts';
import type { Db, Tx } from '#storage/store.ts';
import type { FlowQueueTable, FlowRunState } from '#storage/tables/flow-tables.ts';

/** As literals, so that partial indexes are used (see jobs/job-store.ts). */
const waiting = sql.lit<FlowRunState>('waiting');
const started = sql.lit<FlowRunState>('started');

const flowQueueColumns = [
  'subject_id',
  'owner_id',
  'flow_control',
  'rate_key',
  'rate_limit',
  'rate_seconds',
  'wake_ms',
  'started',
  'skipped',
  'replaced',
  'debounced',
  'batched',
] as const satisfies readonly (keyof FlowQueueTable)[];

/**
 * The queue of a workflow or source, locked until the end of the transaction: one node at a time decides over its runs. Made when it is
 * not there yet.
 */
export async function lockQueue(
  store: Dialect,
  tx: Tx,
  subject: { id: string; ownerId: string },
): Promise<FlowQueueTable> {
  const query = tx.selectFrom('flow_queues').select(flowQueueColumns).where('subject_id', '=', subject.id);
  const locked = await store.lockRows(query).executeTakeFirst();
  if (locked !== undefined) return locked;
  await tx
    .insertInto('flow_queues')
    .values({
      subject_id: subject.id,
      owner_id: subject.ownerId,
      ...{ flow_control: null, rate_key: null, rate_limit: null, rate_seconds: null, wake_ms: null },
      ...{ started: 0, skipped: 0, replaced: 0, debounced: 0, batched: 0 },
    })
    .onConflict((conflict) => conflict.column('subject_id').doNothing())
    .execute();
  return store.lockRows(query).executeTakeFirstOrThrow();
}

export async function findQueue(db: Db, subjectId: string): Promise<FlowQueueTable | undefined> {
  return db
    .selectFrom('flow_queues')
    .select(flowQueueColumns)
    .where('subject_id', '=', subjectId)
    .executeTakeFirst();
}

export async function updateQueue(tx: Tx, queue: FlowQueueTable): Promise<void> {
  const { subject_id, owner_id: _, ...set } = queue;
  await tx.updateTable('flow_queues').set(set).where('subject_id', '=', subject_id).execute();
}

/** Workflows and sources whose queues are to be looked at, at most `limit`. */
export async function dueQueues(db: Db, nowMs: number, limit: number): Promise<string[]> {
  const rows = await db
    .selectFrom('flow_queues')
    .select('subject_id')
    .where('wake_ms', '<=', nowMs)
    .orderBy('wake_ms')
    .limit(limit)
    .execute();
  return rows.map(({ subject_id }) => subject_id);
}

export async function nextQueueDueMs(db: Db): Promise<number | undefined> {
  const row = await db
    .selectFrom('flow_queues')
    .select(({ fn }) => fn.min('wake_ms').as('wake_ms'))
    .where('wake_ms', 'is not', null)
    .executeTakeFirst();
  return row?.wake_ms === null || row?.wake_ms === undefined ? undefined : Number(row.wake_ms);
}

/** Workflows and sources with runs under flow control. */
export async function queuedSubjects(db: Db): Promise<string[]> {
  const rows = await db.selectFrom('flow_queues').select('subject_id').execute();
  return rows.map(({ subject_id }) => subject_id);
}

export interface QueueOutlook {
  /** When the queue is to be looked at next, as its rows say; undefined: when something happens to it. */
  wakeMs: number | undefined;
  /** Runs wait for their turn. */
  isWaiting: boolean;
  /** Runs hold a place. */
  isStarted: boolean;
}

/** What is left to do for a subject, in one statement. */
export async function queueOutlook(tx: Tx, subjectId: string): Promise<QueueOutlook> {
  const runIn = (state: typeof waiting) => sql`
    (select run_id from flow_runs where subject_id = ${subjectId} and state = ${state} limit 1)`;
  const { rows } = await sql<Record<'wake_ms' | 'due_ms' | 'waiting' | 'started', unknown>>`
    select (select min(wake_ms) from flow_groups where subject_id = ${subjectId} and wake_ms is not null) as wake_ms,
      (select min(due_ms) from flow_runs where subject_id = ${subjectId} and due_ms is not null) as due_ms,
      ${runIn(waiting)} as waiting, ${runIn(started)} as started`.execute(tx);
  const [row] = rows;
  const times = [row?.wake_ms, row?.due_ms].flatMap((ms) => (typeof ms === 'number' ? [ms] : []));
  return {
    wakeMs: times.length === 0 ? undefined : Math.min(...times),
    isWaiting: typeof row?.waiting === 'string',
    isStarted: typeof row?.started === 'string',
  };
}

/** Removes the groups of these workflows and sources. */
export async function deleteGroupsOf(tx: Tx, subjectIds: readonly string[]): Promise<void> {
  await tx
    .deleteFrom('flow_groups')
    .where('subject_id', 'in', [...subjectIds])
    .execute();
}

/** Everything of a workflow or source that was removed. */
export async function deleteFlowOf(tx: Tx, subjectId: string): Promise<void> {
  await tx.deleteFrom('flow_groups').where('subject_id', '=', subjectId).execute();
  await tx.deleteFrom('flow_runs').where('subject_id', '=', subjectId).execute();
  await tx.deleteFrom('flow_unbegun').where('subject_id', '=', subjectId).execute();
  await tx.deleteFrom('flow_queues').where('subject_id', '=', subjectId).execute();
}
