import { type CompiledQuery, sql } from 'kysely';
import { insertRows, type RowInsert } from '#storage/insert-rows.ts';
import { StatementTexts } from '#storage/statement-texts.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { JobTable } from '#storage/tables/job-tables.ts';
import type { ArrivingJob } from './arriving-job.ts';
import type { JobKind, JobPayloads } from './job-kinds.ts';
import { attemptsMax } from './retry-schedule.ts';

/** A job this node holds: `attempts` is its fencing token. */
export interface LeasedJob {
  id: string;
  kind: JobKind;
  ownerId: string;
  lane: string | null;
  attempts: number;
  payload: JobPayloads[JobKind];
  /** Of the payload, roughly. */
  bytes: number;
  createdAtMs: number;
  /** Present while the job runs before it is known to be on disk. */
  arriving?: ArrivingJob;
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

/** Rows in one statement: far below the parameter limits of both dialects (32,766 and 65,535). */
const rowsPerStatement = 500;

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
  store: Pick<Store, 'name' | 'defer'>,
  tx: Tx,
  rows: readonly JobTable[],
): Promise<void> {
  for (const query of insertRows(store.name, jobInsert, rows)) await store.defer(tx, query);
}

/**
 * As literals, not parameters: the indexes that make these look-ups cheap are partial (`where state = 'queued'`), and
 * SQLite uses such an index only where the statement itself says so. With parameters a claim read the whole table.
 */
const queued = sql.lit('queued');
const running = sql.lit('running');
const quarantined = sql.lit('quarantined');

const leasedColumns = ['id', 'kind', 'owner_id', 'lane', 'attempts', 'payload', 'created_at_ms'] as const;

function leasedJob(row: Pick<JobTable, (typeof leasedColumns)[number]>): LeasedJob {
  return {
    id: row.id,
    kind: row.kind as JobKind,
    ownerId: row.owner_id,
    lane: row.lane,
    attempts: row.attempts,
    payload: JSON.parse(row.payload) as JobPayloads[JobKind],
    bytes: row.payload.length,
    createdAtMs: row.created_at_ms,
  };
}

export interface ClaimOptions {
  node: string;
  kinds: readonly JobKind[];
  limit: number;
  /** Jobs of one lane that may run on this node at once. */
  laneMax: number;
  /** What runs on this node already. */
  runningByLane: ReadonlyMap<string, number>;
  /** A job that was lost with its node often enough to be the reason runs here: no other suspect is claimed. */
  suspectRuns?: boolean;
  nowMs: number;
}

/**
 * Jobs with so many attempts behind them run one at a time on a node. A node that dies takes all it held with it, the
 * one at fault and those that only waited; alone in its next attempt, only the one at fault is lost again.
 */
export const suspectAttempts = attemptsMax - 1;

/** Due jobs looked at from the front of the queue before it is searched lane by lane. */
const frontRows = 512;

/**
 * Leases due jobs to `node`, oldest first. A lane that runs on another node, or has as many running here as `laneMax`
 * allows, is passed over, so that invocations of one source follow each other and one full lane never holds up the
 * others, however many jobs it has waiting.
 */
export async function claimJobs(store: Store, options: ClaimOptions): Promise<LeasedJob[]> {
  const laneRoom = new Map(
    [...options.runningByLane].map(([lane, running]) => [lane, options.laneMax - running] as const),
  );
  return store.transaction(async (tx) => {
    // Two nodes that claim at once would each see the other's lanes free, and take one lane together: they take turns.
    if (store.name === 'postgres') await sql`select pg_advisory_xact_lock(7119265)`.execute(tx);
    const front = await dueJobs(tx, options).limit(frontRows).execute();
    let ids = await claimable(store, tx, front, laneRoom, options);
    if (ids.length === 0 && front.length === frontRows) {
      const behind = await dueBehindFullLanes(store, tx, options, laneRoom);
      ids = await claimable(store, tx, behind, laneRoom, options);
    }
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
      .where('state', '=', queued)
      .returning(leasedColumns)
      .execute();
    const order = new Map(ids.map((id, index) => [id, index]));
    return rows.map(leasedJob).sort((a, b) => (order.get(a.id) ?? 0) - (order.get(b.id) ?? 0));
  });
}

interface DueJob {
  id: string;
  lane: string | null;
  attempts: number;
}

/** Queued jobs that are due, oldest first. */
function dueJobs(tx: Tx, options: ClaimOptions) {
  return tx
    .selectFrom('jobs')
    .select(['id', 'lane', 'attempts'])
    .where('state', '=', queued)
    .where('run_at_ms', '<=', options.nowMs)
    .where('kind', 'in', [...options.kinds])
    .$if(options.suspectRuns === true, (query) => query.where('attempts', '<', suspectAttempts))
    .orderBy('run_at_ms')
    .orderBy('created_at_ms')
    .orderBy('id');
}

/** Of `candidates`, in their order, those that this node may run now; takes their places in `laneRoom`. */
async function claimable(
  store: Store,
  tx: Tx,
  candidates: readonly DueJob[],
  laneRoom: Map<string, number>,
  options: ClaimOptions,
): Promise<string[]> {
  const lanes = new Set(candidates.flatMap(({ lane }) => (lane === null ? [] : [lane])));
  const elsewhere = await lanesElsewhere(store, tx, options.node, lanes);
  const ids: string[] = [];
  let suspectRuns = options.suspectRuns === true;
  for (const { id, lane, attempts } of candidates) {
    if (ids.length === options.limit) break;
    if (suspectRuns && attempts >= suspectAttempts) continue;
    if (lane !== null) {
      const room = laneRoom.get(lane) ?? options.laneMax;
      if (room <= 0 || elsewhere.has(lane)) continue;
      laneRoom.set(lane, room - 1);
    }
    suspectRuns ||= attempts >= suspectAttempts;
    ids.push(id);
  }
  return ids;
}

/** Of `lanes`, those that run on another node. */
async function lanesElsewhere(
  store: Store,
  tx: Tx,
  node: string,
  lanes: ReadonlySet<string>,
): Promise<Set<string>> {
  // The embedded store has one node.
  if (store.name === 'sqlite' || lanes.size === 0) return new Set();
  const rows = await tx
    .selectFrom('jobs')
    .select('lane')
    .distinct()
    .where('state', '=', running)
    .where('lease_node', '!=', node)
    .where('lane', 'in', [...lanes])
    .execute();
  return new Set(rows.flatMap(({ lane }) => (lane === null ? [] : [lane])));
}

/**
 * Due jobs when the front of the queue belongs to lanes that cannot be claimed: jumps from lane to lane in the index
 * rather than over their jobs (a claim that read past 100,000 of them held the store for 30 to 50 ms, again and again).
 */
async function dueBehindFullLanes(
  store: Store,
  tx: Tx,
  options: ClaimOptions,
  laneRoom: ReadonlyMap<string, number>,
): Promise<DueJob[]> {
  const { rows } = await sql<{ lane: string }>`
    with recursive lanes (lane) as (
      select min(lane) from jobs where state = 'queued' and lane is not null
      union all
      select (select min(jobs.lane) from jobs where jobs.state = 'queued' and jobs.lane > lanes.lane)
      from lanes where lanes.lane is not null)
    select lane from lanes
    where lane is not null and exists (
      select 1 from jobs
      where jobs.state = 'queued' and jobs.lane = lanes.lane and jobs.run_at_ms <= ${options.nowMs})`.execute(
    tx,
  );
  const waiting = rows.map(({ lane }) => lane).filter((lane) => (laneRoom.get(lane) ?? options.laneMax) > 0);
  const elsewhere = new Set<string>();
  for (let at = 0; at < waiting.length; at += rowsPerStatement) {
    const part = await lanesElsewhere(
      store,
      tx,
      options.node,
      new Set(waiting.slice(at, at + rowsPerStatement)),
    );
    for (const lane of part) elsewhere.add(lane);
  }
  const free = waiting.filter((lane) => !elsewhere.has(lane)).slice(0, rowsPerStatement);
  const inNoLane = await dueJobs(tx, options).where('lane', 'is', null).limit(options.limit).execute();
  if (free.length === 0) return inNoLane;
  const inFreeLanes = await dueJobs(tx, options).where('lane', 'in', free).limit(options.limit).execute();
  return [...inNoLane, ...inFreeLanes];
}

/**
 * Earliest time after `afterMs` at which a queued job becomes due, or undefined; tells the worker how long it may
 * sleep. What was due before and is still there waits for its lane, not for its time.
 */
export async function nextDueMs(
  db: Db,
  kinds: readonly JobKind[],
  afterMs: number,
): Promise<number | undefined> {
  const row = await db
    .selectFrom('jobs')
    .select('run_at_ms')
    .where('state', '=', queued)
    .where('run_at_ms', '>', afterMs)
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
  store: Pick<Store, 'name'>,
  tx: Tx,
  { node, jobs }: { node: string; jobs: readonly { id: string; attempts: number }[] },
): Promise<Set<string>> {
  if (jobs.length === 0) return new Set();
  const { rows } = await tx.executeQuery(settleJobsQuery(store, tx, { node, jobs }));
  return new Set(rows.map((row) => row.id));
}

/** The statement of `settleJobs`; it answers the ids that were held. */
export function settleJobsQuery(
  store: Pick<Store, 'name'>,
  db: Db,
  { node, jobs }: { node: string; jobs: readonly { id: string; attempts: number }[] },
): CompiledQuery<{ id: string }> {
  // Nearly all jobs are in their first attempt: one group, rarely two or three.
  const byAttempts = [...Map.groupBy(jobs, (job) => job.attempts)].map(
    ([attempts, group]) => [attempts, group.map((job) => job.id)] as const,
  );
  const shape = `${store.name} ${byAttempts.map(([, ids]) => ids.length).join()}`;
  return settleTexts.query(shape, [...byAttempts.flat(2), node], () =>
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
      ...(options.state === 'quarantined' ? { id: quarantinedId(options.nowMs) } : {}),
      state: options.state,
      lease_node: null,
      run_at_ms: options.runAtMs,
      error: storableError(options.error),
      updated_at_ms: options.nowMs,
      ...(options.keepAttempts ? {} : { attempts: set('attempts', '-', 1) }),
    }))
    .where('id', '=', job.id)
    .where('state', '=', running)
    .where('lease_node', '=', node)
    .where('attempts', '=', job.attempts)
    .executeTakeFirst();
  return Number(result.numUpdatedRows) === 1;
}

/** A quarantined job leaves its id to the next of its kind: a timer's ticks all have the same. */
function quarantinedId(nowMs: number) {
  return sql<string>`${sql.ref('id')} || ${`~${nowMs}`}`;
}

/** Error text kept with a job. */
const errorCharactersMax = 2_000;

/** PostgreSQL has no NUL in text; a message that holds one must not keep its job from being stored. */
function storableError(message: string): string {
  return message.slice(0, errorCharactersMax).replaceAll('\0', '');
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

/**
 * Ends the leases of all nodes there are. Only for a store that no other process may have open (the embedded one):
 * whoever holds a lease there is dead, and what it held need not wait for its lease to run out.
 */
export async function forgetNodes(tx: Tx): Promise<void> {
  await tx.deleteFrom('nodes').execute();
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
    .where('state', '=', running)
    .where('lease_node', '=', node)
    .executeTakeFirst();
  await tx.deleteFrom('nodes').where('id', '=', node).execute();
  return Number(result.numUpdatedRows);
}

/** Jobs taken over in one transaction; the next round takes the rest. */
const recoveredMax = 1000;

/**
 * Takes over from nodes whose lease ran out: their jobs are queued again, or quarantined when they have now taken
 * `attemptsMax` nodes down. Recovery goes by expired lease alone, never by "everything running".
 */
export async function recoverExpired(
  store: Store,
  options: { node: string; nowMs: number; retryDelayMs: (attempt: number) => number },
): Promise<{ requeued: number; quarantined: LeasedJob[] }> {
  return store.transaction(async (tx) => {
    const live = tx
      .selectFrom('nodes')
      .select('id')
      .where((where) =>
        // Whoever asks is alive, however long its own renewal took.
        where.or([where('expires_at_ms', '>', options.nowMs), where('id', '=', options.node)]),
      );
    let orphans = tx
      .selectFrom('jobs')
      .select(leasedColumns)
      .where('state', '=', running)
      .where('lease_node', 'not in', live)
      .limit(recoveredMax);
    // Locked, or two nodes that recover at once would both take a job over, the second from the node that runs it now.
    if (store.name === 'postgres') orphans = orphans.forUpdate().skipLocked();
    const orphaned = await orphans.execute();
    const poison = orphaned.filter((row) => row.attempts >= attemptsMax);
    const rest = orphaned.filter((row) => row.attempts < attemptsMax);
    if (poison.length > 0) {
      await tx
        .updateTable('jobs')
        .set({
          id: quarantinedId(options.nowMs),
          state: 'quarantined',
          lease_node: null,
          error: `its process died ${attemptsMax} times`,
          updated_at_ms: options.nowMs,
        })
        .where(
          'id',
          'in',
          poison.map((row) => row.id),
        )
        .where('state', '=', running)
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
        .where('state', '=', running)
        .execute();
    }
    await tx
      .deleteFrom('nodes')
      .where('expires_at_ms', '<=', options.nowMs)
      .where('id', '!=', options.node)
      .execute();
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
    .where('state', '=', quarantined)
    .where('updated_at_ms', '<', options.beforeMs)
    .limit(options.limit);
  const result = await tx.deleteFrom('jobs').where('id', 'in', old).executeTakeFirst();
  return Number(result.numDeletedRows);
}

/** Removes what waits in a lane, for a subject that is deleted. */
export async function deleteLane(tx: Tx, lane: string): Promise<void> {
  await tx.deleteFrom('jobs').where('lane', '=', lane).execute();
}

/** What waits in a lane: jobs, at most `limit` of which are counted, and the bytes of their payloads. */
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
        .where('lane', '=', lane)
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

/** The time of the database: what several nodes, each with a clock of its own, compare leases by. */
export async function databaseTimeMs(db: Db): Promise<number> {
  const { rows } = await sql<{
    ms: number;
  }>`select (extract(epoch from clock_timestamp()) * 1000)::bigint as ms`.execute(db);
  return Number(rows[0]?.ms);
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
