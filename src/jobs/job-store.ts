import { type CompiledQuery, type SqlBool, sql } from 'kysely';
import type { Dialect } from '#storage/dialect.ts';
import { insertRows, type RowInsert } from '#storage/insert-rows.ts';
import { StatementTexts } from '#storage/statement-texts.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { JobKind, JobState, JobTable } from '#storage/tables/job-tables.ts';
import { arrivalLane } from './held-jobs.ts';
import type { JobPayloads } from './job-kinds.ts';
import { sharedLane } from './shared-lane.ts';
import type { UnpersistedJob } from './unpersisted-job.ts';

/** A job this node holds: `attempts` is its fencing token. */
export interface LeasedJob {
  id: string;
  kind: JobKind;
  ownerId: string;
  lane: string | null;
  attempts: number;
  /** How often there was evidence that it is at fault; absent: never. */
  blames?: number;
  payload: JobPayloads[JobKind];
  /** The approximate size of the payload. */
  bytes: number;
  createdAtMs: number;
  /** A caller waits for its reply in this process, so no other node may run it. */
  staysHere?: boolean;
  /** Present when the job runs before its row is known to be on disk. */
  unpersisted?: UnpersistedJob;
}

export interface NewJob<K extends JobKind = JobKind> {
  id: string;
  kind: K;
  ownerId: string;
  lane?: string;
  payload: JobPayloads[K];
  runAtMs: number;
  nowMs: number;
}

/** The row of a job: `queued`, or already `running` on the node that accepts it and will run it itself. */
export function jobRow(job: NewJob, leaseNode?: string): JobTable {
  return {
    id: job.id,
    kind: job.kind,
    owner_id: job.ownerId,
    lane: job.lane ?? null,
    state: leaseNode === undefined ? 'queued' : 'running',
    run_at_ms: job.runAtMs,
    attempts: leaseNode === undefined ? 0 : 1,
    lease_node: leaseNode ?? null,
    losses: 0,
    blames: 0,
    alone: 0,
    payload: JSON.stringify(job.payload),
    error: null,
    created_at_ms: job.nowMs,
    updated_at_ms: job.nowMs,
  };
}

/** A job whose row this node inserts as leased to itself. `bytes`: the approximate size of its payload. */
export function leasedHere(job: NewJob, bytes: number): LeasedJob {
  return {
    id: job.id,
    kind: job.kind,
    ownerId: job.ownerId,
    lane: job.lane ?? null,
    attempts: 1,
    payload: job.payload,
    bytes,
    createdAtMs: job.nowMs,
  };
}

/** Rows in one statement: far below the parameter limits of both dialects (32,766 and 65,535). */
export const rowsPerStatement = 500;

/** Inserts jobs; those whose id is already waiting or running are left alone. Returns the ids inserted. */
export async function insertJobs(tx: Tx, rows: readonly JobTable[]): Promise<string[]> {
  const inserted: string[] = [];
  for (let at = 0; at < rows.length; at += rowsPerStatement) {
    const answer = await tx
      .insertInto('jobs')
      .values(rows.slice(at, at + rowsPerStatement))
      .onConflict((conflict) => conflict.column('id').doNothing())
      .returning('id')
      .execute();
    for (const row of answer) inserted.push(row.id);
  }
  return inserted;
}

const jobInsert: RowInsert<'jobs'> = {
  table: 'jobs',
  columns: [
    'id',
    'kind',
    'owner_id',
    'lane',
    'state',
    'run_at_ms',
    'attempts',
    'lease_node',
    'payload',
    'error',
    'created_at_ms',
    'updated_at_ms',
  ],
};

/** Inserts jobs with new ids, without waiting for the store before the commit. */
export async function insertNewJobs(
  store: Dialect & Pick<Store, 'defer'>,
  tx: Tx,
  rows: readonly JobTable[],
): Promise<void> {
  for (const query of insertRows(store, jobInsert, rows)) await store.defer(tx, query);
}

/**
 * As literals, not parameters: the indexes that make these look-ups cheap are partial (`where state = 'queued'`), and
 * SQLite uses such an index only where the statement itself says so. With parameters a claim read the whole table.
 */
export const queued = sql.lit<JobState>('queued');
export const running = sql.lit<JobState>('running');
export const quarantined = sql.lit<JobState>('quarantined');

/** A condition on jobs: all but the one that removes an owner, which has to remain until everything else is gone. */
export const isNoDeletion = sql<SqlBool>`kind <> 'delete_owner'`;

export const leasedColumns = [
  'id',
  'kind',
  'owner_id',
  'lane',
  'attempts',
  'losses',
  'blames',
  'alone',
  'payload',
  'created_at_ms',
] as const;

export function leasedJob(row: Pick<JobTable, (typeof leasedColumns)[number]>): LeasedJob {
  return {
    id: row.id,
    kind: row.kind,
    ownerId: row.owner_id,
    lane: row.lane,
    attempts: row.attempts,
    ...(row.blames === 0 ? {} : { blames: row.blames }),
    payload: JSON.parse(row.payload) as JobPayloads[JobKind],
    bytes: row.payload.length,
    createdAtMs: row.created_at_ms,
  };
}

/** Those of these jobs that a node has, or will run. */
export async function idsOfLeased(db: Db, node: string, ids: readonly string[]): Promise<Set<string>> {
  if (ids.length === 0) return new Set();
  const rows = await db
    .selectFrom('jobs')
    .select('id')
    .where('id', 'in', [...ids])
    .where('lease_node', '=', node)
    .where('state', '=', running)
    .execute();
  return new Set(rows.map(({ id }) => id));
}

/**
 * Ends jobs in the caller's transaction. Returns the ids that this node really held (same node, same attempt): what
 * an invocation caused may be stored only for those.
 */
export async function settleJobs(
  store: Dialect,
  tx: Tx,
  { node, jobs }: { node: string; jobs: readonly { id: string; attempts: number }[] },
): Promise<Set<string>> {
  if (jobs.length === 0) return new Set();
  const { rows } = await tx.executeQuery(settleJobsQuery(store, tx, { node, jobs }));
  return new Set(rows.map((row) => row.id));
}

/** The statement of `settleJobs`; it answers the ids that were held. */
export function settleJobsQuery(
  store: Dialect,
  db: Db,
  { node, jobs }: { node: string; jobs: readonly { id: string; attempts: number }[] },
): CompiledQuery<{ id: string }> {
  // Nearly all jobs are in their first attempt: one group, rarely two or three.
  const byAttempts = [...Map.groupBy(jobs, (job) => job.attempts)].map(
    ([attempts, group]) => [attempts, group.map((job) => job.id)] as const,
  );
  const shape = byAttempts.map(([, ids]) => ids.length).join();
  return settleTexts.query(store, shape, [...byAttempts.flat(2), node], () =>
    db
      .deleteFrom('jobs')
      .where((where) =>
        where.or(
          byAttempts.map(([attempts, ids]) =>
            where.and([where('attempts', '=', attempts), where('id', 'in', ids)]),
          ),
        ),
      )
      .where('state', '=', running)
      .where('lease_node', '=', node)
      .returning('id')
      .compile(),
  );
}

const settleTexts = new StatementTexts();

/** The statement that says whether this node holds a job, by its row, and locks it until the end of the transaction. */
export function heldJobQuery(
  store: Dialect,
  db: Db,
  { node, job }: { node: string; job: { id: string; attempts: number } },
): CompiledQuery<{ id: string }> {
  const held = db
    .selectFrom('jobs')
    .select('id')
    .where('id', '=', job.id)
    .where('attempts', '=', job.attempts)
    .where('state', '=', running)
    .where('lease_node', '=', node);
  return store.lockRows(held).compile();
}

/** Notes how far a job has come that this node holds (`heldJobQuery`), without waiting for the store before the commit. */
export async function continueJob<K extends JobKind>(
  store: Pick<Store, 'defer'>,
  tx: Tx,
  job: { id: string; payload: JobPayloads[K]; nowMs: number },
): Promise<void> {
  const query = tx
    .updateTable('jobs')
    .set({ payload: JSON.stringify(job.payload), updated_at_ms: job.nowMs })
    .where('id', '=', job.id)
    .compile();
  await store.defer(tx, query);
}

/** Puts a job this node holds back into the queue, or aside. False when it no longer holds it. */
export async function requeueJob(
  tx: Tx,
  node: string,
  job: { id: string; attempts: number },
  options: {
    state: 'queued' | 'quarantined';
    /** Undefined: it stays due as it was. */
    runAtMs: number | undefined;
    nowMs: number;
    error: string;
    /** True: the job is to blame for this attempt, which counts towards quarantine. */
    blamed: boolean;
  },
): Promise<boolean> {
  const result = await tx
    .updateTable('jobs')
    .set((set) => ({
      ...(options.state === 'quarantined' ? { id: quarantinedId(options.nowMs) } : {}),
      state: options.state,
      // The node that has to report a quarantined job to its handler.
      lease_node: options.state === 'quarantined' ? node : null,
      ...(options.runAtMs === undefined ? {} : { run_at_ms: options.runAtMs }),
      error: storableError(options.error),
      updated_at_ms: options.nowMs,
      alone: 0,
      ...(options.blamed ? { blames: set('blames', '+', 1) } : { attempts: set('attempts', '-', 1) }),
    }))
    .where('id', '=', job.id)
    .where('state', '=', running)
    .where('lease_node', '=', node)
    .where('attempts', '=', job.attempts)
    .executeTakeFirst();
  return Number(result.numUpdatedRows) === 1;
}

/** A quarantined job leaves its id to the next of its kind: a timer's ticks all have the same. */
export function quarantinedId(nowMs: number) {
  return sql<string>`${sql.ref('id')} || ${`~${nowMs}`}`;
}

/** Error text kept with a job. */
const errorCharactersMax = 2_000;

/** PostgreSQL has no NUL in text; a message that holds one must not keep its job from being stored. */
function storableError(message: string): string {
  return message.slice(0, errorCharactersMax).replaceAll('\0', '');
}

/** Quarantined jobs older than `beforeMs` are removed, a bounded number at a time. Returns how many. */
export async function pruneQuarantined(
  tx: Tx,
  options: { beforeMs: number; limit: number },
): Promise<number> {
  const old = tx
    .selectFrom('jobs')
    .select('id')
    .where('state', '=', quarantined)
    .where('updated_at_ms', '<', options.beforeMs)
    .limit(options.limit);
  const result = await tx.deleteFrom('jobs').where('id', 'in', old).executeTakeFirst();
  return Number(result.numDeletedRows);
}

/** True while a job waits in the store. */
export async function isQueued(db: Db, id: string): Promise<boolean> {
  const row = await db
    .selectFrom('jobs')
    .select('id')
    .where('id', '=', id)
    .where('state', '=', queued)
    .executeTakeFirst();
  return row !== undefined;
}

/** Removes jobs of a subject that is deleted, in each of its lanes and whichever node has them; at most `limit`. True when none is left. */
export async function deleteJobsFor(tx: Tx, subject: string, limit: number): Promise<boolean> {
  const jobs = tx.selectFrom('jobs').select('id').where('lane', 'in', lanesOf(subject)).limit(limit);
  const { numDeletedRows } = await tx.deleteFrom('jobs').where('id', 'in', jobs).executeTakeFirst();
  return Number(numDeletedRows) < limit;
}

/** The lane of a subject, the one of it that nodes share, and those of jobs that flow control has to look at. */
function lanesOf(subject: string): string[] {
  const arrivals = [true, false].map((isEvaluated) => arrivalLane(subject, { isEvaluated }));
  return [subject, sharedLane(subject), ...arrivals];
}

/** What waits in the lane of a subject, in the one of it that nodes share, or for flow control to look at it: jobs, at most `limit` of which are counted, and the bytes of their payloads. */
export async function laneBacklog(
  db: Db,
  lane: string,
  limit: number,
): Promise<{ jobs: number; bytes: number }> {
  const row = await db
    .selectFrom((from) =>
      from
        .selectFrom('jobs')
        .select((select) => select.fn<number>('octet_length', ['payload']).as('bytes'))
        .where('lane', 'in', [lane, sharedLane(lane), arrivalLane(lane, { isEvaluated: true })])
        .where('state', '=', queued)
        .limit(limit)
        .as('waiting'),
    )
    .select((select) => [
      select.fn.countAll<number>().as('jobs'),
      select.fn.coalesce(select.fn.sum<number>('bytes'), sql.lit(0)).as('bytes'),
    ])
    .executeTakeFirst();
  return { jobs: Number(row?.jobs ?? 0), bytes: Number(row?.bytes ?? 0) };
}

/** What the last attempt of a job of this kind ended with, by owner; without owners whose job did not fail. */
export async function lastErrors(
  db: Db,
  kind: JobKind,
  ownerIds: readonly string[],
): Promise<Map<string, string>> {
  if (ownerIds.length === 0) return new Map();
  const rows = await db
    .selectFrom('jobs')
    .select(['owner_id', 'error'])
    .where('owner_id', 'in', [...ownerIds])
    .where((where) => where.or([where('state', '=', queued), where('state', '=', running)]))
    .where('kind', '=', kind)
    .where('error', 'is not', null)
    .execute();
  return new Map(rows.map(({ owner_id, error }) => [owner_id, error ?? '']));
}

export interface QueueDepth {
  state: JobState;
  kind: JobKind;
  jobs: number;
}

/** How much waits, for metrics. Terminal rows are few by construction. */
export async function queueDepths(db: Db): Promise<QueueDepth[]> {
  const rows = await db
    .selectFrom('jobs')
    .select(['state', 'kind'])
    .select((select) => select.fn.countAll<number>().as('jobs'))
    .groupBy(['state', 'kind'])
    .execute();
  return rows.map((row) => ({ ...row, jobs: Number(row.jobs) }));
}

/** When the queued job that is due for longest was due, epoch ms; undefined when none is due. */
export async function oldestDueJobMs(db: Db, nowMs: number): Promise<number | undefined> {
  const row = await db
    .selectFrom('jobs')
    .select('run_at_ms')
    .where('state', '=', queued)
    .where('run_at_ms', '<=', nowMs)
    .orderBy('run_at_ms')
    .limit(1)
    .executeTakeFirst();
  return row?.run_at_ms;
}

/** Removes those of these jobs that have not begun. */
export async function deleteQueuedJobs(tx: Tx, ids: readonly string[]): Promise<void> {
  await tx
    .deleteFrom('jobs')
    .where('id', 'in', [...ids])
    .where('state', '=', 'queued')
    .execute();
}
