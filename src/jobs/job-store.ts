import type { Db, Store, Tx } from '#storage/store.ts';
import type { JobTable } from '#storage/tables/job-tables.ts';
import type { JobKind, JobPayloads } from './job-kinds.ts';

/** A job this node holds: `attempts` is its fencing token. */
export interface LeasedJob {
  id: string;
  kind: JobKind;
  ownerId: string;
  lane: string | null;
  attempts: number;
  /** JSON text of `JobPayloads[kind]`. */
  payload: string;
  createdAtMs: number;
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
    payload: JSON.stringify(job.payload),
    error: null,
    created_at_ms: job.nowMs,
    updated_at_ms: job.nowMs,
  };
}

/** Inserts jobs; those whose id is already waiting or running are left alone. Returns the ids inserted. */
export async function insertJobs(tx: Tx, rows: readonly JobTable[]): Promise<string[]> {
  if (rows.length === 0) return [];
  const inserted = await tx
    .insertInto('jobs')
    .values([...rows])
    .onConflict((conflict) => conflict.column('id').doNothing())
    .returning('id')
    .execute();
  return inserted.map((row) => row.id);
}

const leasedColumns = ['id', 'kind', 'owner_id', 'lane', 'attempts', 'payload', 'created_at_ms'] as const;

function leasedJob(row: Pick<JobTable, (typeof leasedColumns)[number]>): LeasedJob {
  return {
    id: row.id,
    kind: row.kind as JobKind,
    ownerId: row.owner_id,
    lane: row.lane,
    attempts: row.attempts,
    payload: row.payload,
    createdAtMs: row.created_at_ms,
  };
}

/**
 * Leases due jobs to `node`, oldest first. A lane that runs on another node, or is in `busyLanes`, is passed over, so
 * that invocations of one source follow each other and one full lane never holds up the others.
 */
export async function claimJobs(
  store: Store,
  options: {
    node: string;
    kinds: readonly JobKind[];
    limit: number;
    busyLanes: readonly string[];
    nowMs: number;
  },
): Promise<LeasedJob[]> {
  return store.transaction(async (tx) => {
    let due = tx
      .selectFrom('jobs')
      .select('jobs.id')
      .where('jobs.state', '=', 'queued')
      .where('jobs.run_at_ms', '<=', options.nowMs)
      .where('jobs.kind', 'in', [...options.kinds]);
    if (options.busyLanes.length > 0) {
      due = due.where((where) =>
        where.or([where('jobs.lane', 'is', null), where('jobs.lane', 'not in', [...options.busyLanes])]),
      );
    }
    if (store.name === 'postgres') {
      due = due.where((where) =>
        where.not(
          where.exists(
            where
              .selectFrom('jobs as other')
              .select('other.id')
              .whereRef('other.lane', '=', 'jobs.lane')
              .where('other.state', '=', 'running')
              .where('other.lease_node', '!=', options.node),
          ),
        ),
      );
      due = due.forUpdate().skipLocked();
    }
    const ids = (
      await due.orderBy('jobs.run_at_ms').orderBy('jobs.created_at_ms').limit(options.limit).execute()
    ).map((row) => row.id);
    if (ids.length === 0) return [];
    const rows = await tx
      .updateTable('jobs')
      .set((set) => ({
        state: 'running',
        lease_node: options.node,
        attempts: set('attempts', '+', 1),
        updated_at_ms: options.nowMs,
      }))
      .where('id', 'in', ids)
      .where('state', '=', 'queued')
      .returning(leasedColumns)
      .execute();
    const order = new Map(ids.map((id, index) => [id, index]));
    return rows.map(leasedJob).sort((a, b) => (order.get(a.id) ?? 0) - (order.get(b.id) ?? 0));
  });
}

/** Earliest time a queued job becomes due, or undefined; tells the worker how long it may sleep. */
export async function nextDueMs(db: Db, kinds: readonly JobKind[]): Promise<number | undefined> {
  const row = await db
    .selectFrom('jobs')
    .select('run_at_ms')
    .where('state', '=', 'queued')
    .where('kind', 'in', [...kinds])
    .orderBy('run_at_ms')
    .limit(1)
    .executeTakeFirst();
  return row?.run_at_ms;
}

/**
 * Ends jobs in the caller's transaction. Answers the ids that this node really held (same node, same attempt): what
 * an invocation caused may be stored only for those.
 */
export async function settleJobs(
  tx: Tx,
  node: string,
  jobs: readonly { id: string; attempts: number }[],
): Promise<Set<string>> {
  if (jobs.length === 0) return new Set();
  const attemptsById = new Map(jobs.map((job) => [job.id, job.attempts]));
  const deleted = await tx
    .deleteFrom('jobs')
    .where('id', 'in', [...attemptsById.keys()])
    .where('state', '=', 'running')
    .where('lease_node', '=', node)
    .returning(['id', 'attempts'])
    .execute();
  const held = new Set<string>();
  for (const row of deleted) {
    // Another attempt on this very node holds the row: give it back untouched by failing the whole batch.
    if (attemptsById.get(row.id) !== row.attempts)
      throw new Error(`job ${row.id} is held by attempt ${row.attempts}`);
    held.add(row.id);
  }
  return held;
}

/** Puts a job this node holds back into the queue, or aside. False when it does not hold it any more. */
export async function requeueJob(
  tx: Tx,
  node: string,
  job: { id: string; attempts: number },
  options: {
    state: 'queued' | 'quarantined';
    runAtMs: number;
    nowMs: number;
    error: string;
    /** Whether this attempt counts towards quarantine. */
    keepAttempts: boolean;
  },
): Promise<boolean> {
  const result = await tx
    .updateTable('jobs')
    .set((set) => ({
      state: options.state,
      lease_node: null,
      run_at_ms: options.runAtMs,
      error: options.error,
      updated_at_ms: options.nowMs,
      ...(options.keepAttempts ? {} : { attempts: set('attempts', '-', 1) }),
    }))
    .where('id', '=', job.id)
    .where('state', '=', 'running')
    .where('lease_node', '=', node)
    .where('attempts', '=', job.attempts)
    .executeTakeFirst();
  return Number(result.numUpdatedRows) === 1;
}

/** Renews the lease of everything this node holds. False when the node was declared dead meanwhile. */
export async function heartbeat(
  tx: Tx,
  node: string,
  options: { nowMs: number; leaseMs: number },
): Promise<boolean> {
  const result = await tx
    .updateTable('nodes')
    .set({ expires_at_ms: options.nowMs + options.leaseMs })
    .where('id', '=', node)
    .executeTakeFirst();
  return Number(result.numUpdatedRows) === 1;
}

export async function registerNode(
  tx: Tx,
  node: string,
  options: { nowMs: number; leaseMs: number },
): Promise<void> {
  await tx
    .insertInto('nodes')
    .values({ id: node, started_at_ms: options.nowMs, expires_at_ms: options.nowMs + options.leaseMs })
    .execute();
}

/** Gives back everything a stopping node still holds, without counting the attempt, and forgets the node. */
export async function releaseNode(tx: Tx, node: string, nowMs: number): Promise<number> {
  const result = await tx
    .updateTable('jobs')
    .set((set) => ({
      state: 'queued',
      lease_node: null,
      attempts: set('attempts', '-', 1),
      updated_at_ms: nowMs,
    }))
    .where('state', '=', 'running')
    .where('lease_node', '=', node)
    .executeTakeFirst();
  await tx.deleteFrom('nodes').where('id', '=', node).execute();
  return Number(result.numUpdatedRows);
}

/**
 * Takes over from nodes whose lease ran out: their jobs are queued again, or quarantined when they have now taken
 * `attemptsMax` nodes down. Recovery goes by expired lease alone, never by "everything running".
 */
export async function recoverExpired(
  store: Store,
  options: { nowMs: number; attemptsMax: number; retryDelayMs: (attempt: number) => number },
): Promise<{ requeued: number; quarantined: LeasedJob[] }> {
  return store.transaction(async (tx) => {
    const live = tx.selectFrom('nodes').select('id').where('expires_at_ms', '>', options.nowMs);
    const orphaned = await tx
      .selectFrom('jobs')
      .select(leasedColumns)
      .where('state', '=', 'running')
      .where('lease_node', 'not in', live)
      .limit(1000)
      .execute();
    const poison = orphaned.filter((row) => row.attempts >= options.attemptsMax);
    const rest = orphaned.filter((row) => row.attempts < options.attemptsMax);
    if (poison.length > 0) {
      await tx
        .updateTable('jobs')
        .set({
          state: 'quarantined',
          lease_node: null,
          error: `its process died ${options.attemptsMax} times`,
          updated_at_ms: options.nowMs,
        })
        .where(
          'id',
          'in',
          poison.map((row) => row.id),
        )
        .where('state', '=', 'running')
        .execute();
    }
    for (const [attempts, rows] of Map.groupBy(rest, (row) => row.attempts)) {
      await tx
        .updateTable('jobs')
        .set({
          state: 'queued',
          lease_node: null,
          // The first loss is most likely a restart: go on at once. A second one may be this job's fault: wait.
          run_at_ms: attempts <= 1 ? options.nowMs : options.nowMs + options.retryDelayMs(attempts),
          error: 'its process ended before it did',
          updated_at_ms: options.nowMs,
        })
        .where(
          'id',
          'in',
          rows.map((row) => row.id),
        )
        .where('state', '=', 'running')
        .execute();
    }
    await tx.deleteFrom('nodes').where('expires_at_ms', '<=', options.nowMs).execute();
    return { requeued: rest.length, quarantined: poison.map(leasedJob) };
  });
}

/** Quarantined jobs older than `beforeMs` are removed, a bounded number at a time. Returns how many. */
export async function pruneQuarantined(
  tx: Tx,
  options: { beforeMs: number; limit: number },
): Promise<number> {
  const old = tx
    .selectFrom('jobs')
    .select('id')
    .where('state', '=', 'quarantined')
    .where('updated_at_ms', '<', options.beforeMs)
    .limit(options.limit);
  const result = await tx.deleteFrom('jobs').where('id', 'in', old).executeTakeFirst();
  return Number(result.numDeletedRows);
}

/** Removes what waits in a lane, for a subject that is deleted. */
export async function deleteLane(tx: Tx, lane: string): Promise<void> {
  await tx.deleteFrom('jobs').where('lane', '=', lane).execute();
}

export interface QueueDepth {
  state: string;
  kind: string;
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
