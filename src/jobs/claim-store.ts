import { sql } from 'kysely';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { JobKind } from '#storage/tables/job-tables.ts';
import { type LeasedJob, leasedColumns, leasedJob, queued, rowsPerStatement, running } from './job-store.ts';
import { lanesOfOthers } from './lane-lease-store.ts';
import type { LaneLeases } from './lane-leases.ts';
import { isSharedLane } from './shared-lane.ts';

export interface ClaimOptions {
  node: string;
  /** The turns of lanes: claiming a job of a lane without a holder makes this node its holder. */
  lanes: Pick<LaneLeases, 'taking' | 'mayTake'>;
  kinds: readonly JobKind[];
  limit: number;
  /** Maximum of jobs of one lane under way on this node. */
  laneMax: number;
  /** What runs on this node already. */
  runningByLane: ReadonlyMap<string, number>;
  nowMs: number;
  /**
   * True while this node works on this attempt of a job, because it lost its lease without noticing. The job is left to
   * other nodes, or to a later claim. Otherwise the late outcome would be recorded as that of the new attempt.
   */
  isUnderWay?: (id: string, attempts: number) => boolean;
}

/**
 * A job that was lost with its node so often is a suspect. A node that dies takes all it held with it, the one at fault and those that
 * only happened to be there; alone on a node, only the one at fault is lost again (`claimSuspect`).
 */
const suspectLosses = sql.lit(2);

/** Due jobs looked at from the front of the queue before it is searched lane by lane. */
const frontRows = 512;

/**
 * Leases due jobs to `node`, oldest first. A lane that is another node's, or has as many running here as `laneMax`
 * allows, is passed over, so that invocations of one source follow each other and one full lane never holds up the
 * others, however many jobs it has waiting.
 */
export async function claimJobs(store: Store, options: ClaimOptions): Promise<LeasedJob[]> {
  const laneRoom = new Map(
    [...options.runningByLane].map(([lane, running]) => [lane, options.laneMax - running] as const),
  );
  return options.lanes.taking(async (tx, take) => {
    // Two nodes that claim at once would each see the other's lanes free, and take one lane together: they take turns.
    await store.takeTurn(tx, 'claimJobs');
    const front = await dueJobs(tx, options).limit(frontRows).execute();
    const candidates = await claimable(store, tx, front, laneRoom, options);
    // Also when the lanes in front had some room: a long lane of quick jobs has some at every claim.
    if (candidates.length < options.limit && front.length === frontRows) {
      const chosen = new Set(candidates.map(({ id }) => id));
      const rest = { ...options, limit: options.limit - candidates.length };
      const behind = (
        await dueBehindFullLanes(store, tx, { ...rest, limit: options.limit }, laneRoom)
      ).filter(({ id }) => !chosen.has(id));
      candidates.push(...(await claimable(store, tx, behind, laneRoom, rest)));
    }
    const wanted = new Set(candidates.flatMap(({ lane }) => (lane === null ? [] : [lane])));
    const taken = await take([...wanted]);
    const ids = candidates.filter(({ lane }) => lane === null || taken.has(lane)).map(({ id }) => id);
    if (ids.length === 0) return [];
    const jobs = await lease(tx, ids, options, { alone: 0 });
    const order = new Map(ids.map((id, index) => [id, index]));
    return jobs.sort((a, b) => (order.get(a.id) ?? 0) - (order.get(b.id) ?? 0));
  });
}

/** Suspects looked at for one that this node may run. */
const suspectsLookedAt = 64;

/**
 * Leases the oldest suspect that is due and whose lane this node may have. Call it when nothing else begins on this node until it
 * has ended, or `endSolitude` was called: should the node die before that, the suspect is to blame.
 */
export async function claimSuspect(store: Store, options: ClaimOptions): Promise<LeasedJob | undefined> {
  return options.lanes.taking(async (tx, take) => {
    await store.takeTurn(tx, 'claimJobs');
    const suspects = await dueJobs(tx, options, '>=').limit(suspectsLookedAt).execute();
    const [suspect] = await claimable(store, tx, suspects, new Map(), { ...options, limit: 1 });
    if (suspect === undefined) return undefined;
    const { id, lane } = suspect;
    if (lane !== null && !(await take([lane])).has(lane)) return undefined;
    const [job] = await lease(tx, [id], options, { alone: 1 });
    return job;
  });
}

/** Records that other jobs begin on the node of this job: whatever happens to the node from now on is no evidence against the job. */
export async function endSolitude(tx: Tx, job: { id: string }): Promise<void> {
  await tx
    .updateTable('jobs')
    .set({ alone: 0 })
    .where('id', '=', job.id)
    .where('state', '=', running)
    .execute();
}

async function lease(
  tx: Tx,
  ids: readonly string[],
  { node, nowMs }: ClaimOptions,
  { alone }: { alone: 0 | 1 },
): Promise<LeasedJob[]> {
  const rows = await tx
    .updateTable('jobs')
    .set((set) => ({
      state: 'running',
      lease_node: node,
      attempts: set('attempts', '+', 1),
      alone,
      updated_at_ms: nowMs,
    }))
    .where('id', 'in', [...ids])
    .where('state', '=', queued)
    .returning(leasedColumns)
    .execute();
  return rows.map(leasedJob);
}

interface DueJob {
  id: string;
  lane: string | null;
  attempts: number;
}

/** Queued jobs that are due, oldest first: those that are no suspects ('<'), or the suspects ('>='). */
function dueJobs(tx: Tx, options: ClaimOptions, losses: '<' | '>=' = '<') {
  return tx
    .selectFrom('jobs')
    .select(['id', 'lane', 'attempts'])
    .where('state', '=', queued)
    .where('run_at_ms', '<=', options.nowMs)
    .where('kind', 'in', [...options.kinds])
    .where('losses', losses, suspectLosses)
    .orderBy('run_at_ms')
    .orderBy('created_at_ms')
    .orderBy('id');
}

/** Returns those of `candidates`, in their order, that this node may run now; takes their places in `laneRoom`. */
async function claimable(
  store: Store,
  tx: Tx,
  candidates: readonly DueJob[],
  laneRoom: Map<string, number>,
  options: ClaimOptions,
): Promise<DueJob[]> {
  const lanes = new Set(candidates.flatMap(({ lane }) => (lane === null ? [] : [lane])));
  const elsewhere = await lanesElsewhere(store, tx, options, lanes);
  const chosen: DueJob[] = [];
  for (const job of candidates) {
    const { id, lane, attempts } = job;
    if (chosen.length === options.limit) break;
    if (options.isUnderWay?.(id, attempts + 1) === true) continue;
    if (lane !== null) {
      const room = laneRoom.get(lane) ?? options.laneMax;
      if (room <= 0 || elsewhere.has(lane)) continue;
      laneRoom.set(lane, room - 1);
    }
    chosen.push(job);
  }
  return chosen;
}

/** Returns those of `lanes` that another node has, or is being handed. */
async function lanesElsewhere(
  store: Store,
  tx: Tx,
  { node, lanes: leases }: ClaimOptions,
  all: ReadonlySet<string>,
): Promise<Set<string>> {
  // The embedded store has one node.
  if (!store.isShared) return new Set();
  const lanes = [...all].filter((lane) => !isSharedLane(lane));
  const elsewhere = await lanesOfOthers(tx, node, lanes);
  for (const lane of lanes) if (!leases.mayTake(lane)) elsewhere.add(lane);
  return elsewhere;
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
    const part = await lanesElsewhere(store, tx, options, new Set(waiting.slice(at, at + rowsPerStatement)));
    for (const lane of part) elsewhere.add(lane);
  }
  const free = waiting.filter((lane) => !elsewhere.has(lane)).slice(0, rowsPerStatement);
  const inNoLane = await dueJobs(tx, options).where('lane', 'is', null).limit(options.limit).execute();
  if (free.length === 0) return inNoLane;
  const inFreeLanes = await dueJobs(tx, options).where('lane', 'in', free).limit(options.limit).execute();
  return [...inNoLane, ...inFreeLanes];
}

/**
 * For the worker, when it has claimed what it could as of `afterMs`. `dueMs`: the earliest time after that at which a queued job becomes due; it bounds
 * the worker's sleep. What was due before and is still there waits for its lane, not for its time. `suspects`: some are due that this node may run.
 */
export async function whatWaits(
  db: Db,
  { node, kinds, afterMs }: { node: string; kinds: readonly JobKind[]; afterMs: number },
): Promise<{ dueMs: number | undefined; suspects: boolean }> {
  const { rows } = await sql<{ due_ms: number | null; suspects: boolean | number }>`
    select (select run_at_ms from jobs where state = 'queued' and run_at_ms > ${afterMs} and kind in (${sql.join(kinds)})
        order by run_at_ms limit 1) as due_ms,
      exists (select 1 from jobs where state = 'queued' and losses > 1 and run_at_ms <= ${afterMs}
        and kind in (${sql.join(kinds)}) and not exists (
          select 1 from lane_leases where lane_leases.lane = jobs.lane and lane_leases.node <> ${node})) as suspects`.execute(
    db,
  );
  return { dueMs: rows[0]?.due_ms ?? undefined, suspects: Boolean(rows[0]?.suspects) };
}
