import { sql } from 'kysely';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { JobKind } from '#storage/tables/job-tables.ts';
import { type LeasedJob, leasedColumns, leasedJob, queued, rowsPerStatement, running } from './job-store.ts';
import { lanesOfOthers } from './lane-lease-store.ts';
import type { LaneLeases } from './lane-leases.ts';
import { byAge, type DueJob, pickJobs } from './pick-jobs.ts';
import type { OwnerPlaces } from './pool-places.ts';
import { isSharedLane, runsInTurn } from './shared-lane.ts';

export interface ClaimOptions {
  node: string;
  /** The turns of lanes: claiming a job of a lane without a holder makes this node its holder. */
  lanes: Pick<LaneLeases, 'taking' | 'mayTake'>;
  kinds: readonly JobKind[];
  limit: number;
  /** What runs on this node already. */
  runningByLane: ReadonlyMap<string, number>;
  /** What owners have on this node, and what they may have. */
  places: OwnerPlaces;
  /** The place of the next owner, when more owners wait than one claim looks at. */
  turns: OwnerTurns;
  nowMs: number;
  /**
   * True while this node works on this attempt of a job, because it lost its lease without noticing. The job is left to
   * other nodes, or to a later claim. Otherwise the late outcome would be recorded as that of the new attempt.
   */
  isUnderWay?: (id: string, attempts: number) => boolean;
  /** True: nothing of this lane is leased now, because the first of it is tried again later. */
  rests?: (lane: string) => boolean;
  /** Called for each owner whose due jobs were passed over because it has its share of the places. */
  onPassedOver?: (ownerId: string) => void;
}

/**
 * A job that was lost with its node so often is a suspect. A node that dies takes all it held with it, the one at fault and those that
 * only happened to be there; alone on a node, only the one at fault is lost again (`claimSuspect`).
 */
const suspectLosses = sql.lit(2);

/** What a claim leaves to the next one. */
export interface OwnerTurns {
  /** It is the turn of owners with ids behind this one. */
  after: string;
  /** Claims that need no look behind the front: the last look found no other owner there. */
  looksSpared: number;
  /** The last claim chose from more jobs than the front has, or from behind those of owners with all their places. */
  isBacklogLong: boolean;
}

export function firstTurns(): OwnerTurns {
  return { after: '', looksSpared: 0, isBacklogLong: false };
}

/** The first job of an owner behind the backlog of another may wait for so many claims more. A look takes a query. */
const looksSparedMax = 3;

/** Due jobs looked at from the front of the queue before it is searched owner by owner, and lane by lane. */
const frontRows = 512;

/**
 * Leases due jobs to `node`. Where all of them have room they are leased oldest first; otherwise owners take turns, the one with the
 * fewest jobs here first, and the lanes of an owner take turns (`pickJobs`). However many jobs an owner has waiting, those of others are
 * found behind them. A lane that is another node's, or has as many running here as it may, is passed over, so that invocations of one
 * source follow each other and one full lane never holds up the others.
 */
export async function claimJobs(store: Store, options: ClaimOptions): Promise<LeasedJob[]> {
  // Where no other node claims, jobs of a long backlog are chosen before the transaction, which all writes of the embedded store wait for: it takes
  // 10 ms. What is no longer queued then is not leased. From a short one they are chosen when the transaction has its turn, because those that
  // came while it waited are claimed with it: without them claims were smaller and more, and deliveries took 7 % more CPU.
  const isBefore = !store.isShared && options.turns.isBacklogLong;
  const before = isBefore ? await chooseJobs(store, store.read, options) : undefined;
  if (before?.length === 0) return [];
  return options.lanes.taking(async (tx, take) => {
    // Two nodes that claim at once would each see the other's lanes free, and take one lane together: they take turns.
    await store.takeTurn(tx, 'claimJobs');
    const chosen = before ?? (await chooseJobs(store, tx, options));
    const wanted = new Set(chosen.flatMap(({ lane }) => (lane === null ? [] : [lane])));
    const taken = await take([...wanted]);
    const ids = chosen.filter(({ lane }) => lane === null || taken.has(lane)).map(({ id }) => id);
    if (ids.length === 0) return [];
    const jobs = await lease(tx, ids, options, { alone: 0 });
    const order = new Map(ids.map((id, index) => [id, index]));
    return jobs.sort((a, b) => (order.get(a.id) ?? 0) - (order.get(b.id) ?? 0));
  });
}

async function chooseJobs(store: Store, db: Db, options: ClaimOptions): Promise<DueJob[]> {
  const candidates = new Candidates(store, db, options);
  // While the places are full, the front belongs to those who filled them.
  const front = options.places.areFree ? await dueJobs(db, options).limit(frontRows).execute() : [];
  await candidates.add(front);
  const { places, turns, limit } = options;
  turns.isBacklogLong = !places.areFree || front.length === frontRows;
  if (places.areFree) {
    const inFront = candidates.pick();
    if (front.length < frontRows) return inFront;
    if (turns.looksSpared > 0 && inFront.length === limit) {
      turns.looksSpared -= 1;
      return inFront;
    }
  }
  const { jobs, areAll } = await dueOfOwners(db, options, front);
  turns.looksSpared = jobs.length === 0 ? looksSparedMax : 0;
  await candidates.add(jobs);
  const chosen = candidates.pick();
  // Also when the lanes in front had some room: a long lane of quick jobs has some at every claim.
  if (chosen.length === limit || areAll) return chosen;
  await candidates.add(await dueBehindFullLanes(store, db, options, chosen));
  return candidates.pick();
}

/** The due jobs that a claim chooses from. */
class Candidates {
  readonly #store: Store;
  readonly #db: Db;
  readonly #options: ClaimOptions;
  readonly #jobs = new Map<string, DueJob>();
  readonly #lanes = new Set<string>();
  readonly #elsewhere = new Set<string>();

  constructor(store: Store, db: Db, options: ClaimOptions) {
    this.#store = store;
    this.#db = db;
    this.#options = options;
  }

  async add(jobs: readonly DueJob[]): Promise<void> {
    const lanes = new Set(jobs.flatMap(({ lane }) => (lane === null || this.#lanes.has(lane) ? [] : [lane])));
    for (const lane of await lanesElsewhere(this.#store, this.#db, this.#options, lanes))
      this.#elsewhere.add(lane);
    for (const lane of lanes) this.#lanes.add(lane);
    for (const job of jobs) this.#jobs.set(job.id, job);
  }

  /** Those that this node may run, oldest first. */
  runnable(): DueJob[] {
    const { isUnderWay, rests } = this.#options;
    const jobs = [...this.#jobs.values()].filter(
      ({ id, lane, attempts }) =>
        !(lane !== null && (this.#elsewhere.has(lane) || rests?.(lane) === true)) &&
        isUnderWay?.(id, attempts + 1) !== true,
    );
    return jobs.sort(byAge);
  }

  /** Those that it leases now. */
  pick(): DueJob[] {
    return pickJobs(this.runnable(), this.#options);
  }
}

/** Suspects looked at for one that this node may run. */
const suspectsLookedAt = 64;

export interface SuspectOptions extends ClaimOptions {
  /** True: this node has jobs of this lane. */
  isBusy: (lane: string) => boolean;
}

/** Suspects that are due on this node: those that would begin at once, oldest first, and all lanes in which jobs follow each other. */
export async function dueSuspects(
  store: Store,
  db: Db,
  options: SuspectOptions,
): Promise<{ ready: DueJob[]; lanes: Set<string> }> {
  const suspects = new Candidates(store, db, options);
  const rows = await dueJobs(db, options, '>=').select('kind').limit(suspectsLookedAt).execute();
  await suspects.add(rows);
  const inTurn = new Map(rows.filter(runsInTurn).map(({ id, lane }) => [id, lane ?? '']));
  const runnable = suspects.runnable();
  return {
    ready: runnable.filter(({ id }) => !options.isBusy(inTurn.get(id) ?? '')),
    lanes: new Set(runnable.flatMap(({ id }) => inTurn.get(id) ?? [])),
  };
}

/**
 * Leases the oldest suspect that is due, whose lane this node may have, and which would not wait for its turn. Call it when nothing else begins on this
 * node until it has ended, or `endSolitude` was called: should the node die before that, the suspect is to blame.
 */
export async function claimSuspect(store: Store, options: SuspectOptions): Promise<LeasedJob | undefined> {
  return options.lanes.taking(async (tx, take) => {
    await store.takeTurn(tx, 'claimJobs');
    const [suspect] = (await dueSuspects(store, tx, options)).ready;
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
    .where('run_at_ms', '<=', nowMs)
    .returning(leasedColumns)
    .execute();
  return rows.map(leasedJob);
}

/** Queued jobs that are due, oldest first: those that are no suspects ('<'), or the suspects ('>='). */
function dueJobs(db: Db, options: ClaimOptions, losses: '<' | '>=' = '<') {
  return db
    .selectFrom('jobs')
    .select(['id', 'lane', 'owner_id', 'attempts', 'run_at_ms', 'created_at_ms'])
    .where('state', '=', queued)
    .where('run_at_ms', '<=', options.nowMs)
    .where('kind', 'in', [...options.kinds])
    .where('losses', losses, suspectLosses)
    .orderBy('run_at_ms')
    .orderBy('created_at_ms')
    .orderBy('id');
}

/** Returns those of `lanes` that another node has, or is being handed. */
async function lanesElsewhere(
  store: Store,
  db: Db,
  { node, lanes: leases }: ClaimOptions,
  all: ReadonlySet<string>,
): Promise<Set<string>> {
  // The embedded store has one node.
  if (!store.isShared) return new Set();
  const lanes = [...all].filter((lane) => !isSharedLane(lane));
  const elsewhere = new Set<string>();
  for (let at = 0; at < lanes.length; at += rowsPerStatement)
    for (const lane of await lanesOfOthers(db, node, lanes.slice(at, at + rowsPerStatement)))
      elsewhere.add(lane);
  for (const lane of lanes) if (!leases.mayTake(lane)) elsewhere.add(lane);
  return elsewhere;
}

/** Owners that are looked at together, whether jobs of them are due or only waiting for their time. */
const ownersPerLook = 256;
/** Owners with due jobs behind the front that one claim looks at: the others have their turn at the next one. */
const ownersPerClaim = 64;
/** An owner with so many jobs in the front needs no look behind it. */
const enoughInFront = 4;
/** Up to so many owners more than the oldest job of each is looked at: each owner is a part of the statement. */
const fewOwners = 4;

/**
 * The oldest due jobs of those owners that have few in `front`, or none: jumps from owner to owner in the index rather than over their
 * jobs. `areAll`: they are all that is due of owners that have room.
 */
async function dueOfOwners(
  db: Db,
  options: ClaimOptions,
  front: readonly DueJob[],
): Promise<{ jobs: DueJob[]; areAll: boolean }> {
  const { places, turns, limit } = options;
  const inFront = new Map<string, number>();
  for (const { owner_id } of front) inFront.set(owner_id, (inFront.get(owner_id) ?? 0) + 1);
  const oldest = new Map<string, string>();
  let areAll = true;
  for (let isLast = false; !isLast && oldest.size === 0; ) {
    const looked = await ownersInTurn(db, options);
    isLast = looked.length < ownersPerLook;
    turns.after = isLast ? '' : (looked.at(-1)?.owner ?? '');
    if (!isLast) areAll = false;
    for (const { owner, id } of looked) {
      if (id === null) continue;
      if (places.roomOf(owner) <= 0) {
        options.onPassedOver?.(owner);
      } else if ((inFront.get(owner) ?? 0) >= enoughInFront) {
        areAll = false;
      } else if (oldest.size < ownersPerClaim) {
        oldest.set(owner, id);
      } else {
        turns.after = [...oldest.keys()].at(-1) ?? '';
        areAll = false;
        break;
      }
    }
  }
  if (oldest.size > fewOwners)
    return {
      jobs: await dueJobs(db, options)
        .where('id', 'in', [...oldest.values()])
        .execute(),
      areAll: false,
    };
  const perOwner = Math.ceil(limit / oldest.size);
  const [first, ...others] = [...oldest.keys()].map((owner) =>
    db.selectFrom(dueJobs(db, options).where('owner_id', '=', owner).limit(perOwner).as('due')).selectAll(),
  );
  if (first === undefined) return { jobs: [], areAll };
  const jobs = await others.reduce((all, next) => all.unionAll(next), first).execute();
  const found = Map.groupBy(jobs, ({ owner_id }) => owner_id);
  return { jobs, areAll: areAll && [...found.values()].every(({ length }) => length < perOwner) };
}

/** The next owners with queued jobs, in the order of their ids, and the oldest due job of each. */
async function ownersInTurn(
  db: Db,
  { turns, nowMs, kinds }: ClaimOptions,
): Promise<{ owner: string; id: string | null }[]> {
  const { rows } = await sql<{ owner: string; id: string | null }>`
    with recursive owners (owner_id, place) as (
      select (select min(owner_id) from jobs where state = 'queued' and owner_id > ${turns.after}), 1
      union all
      select (select min(jobs.owner_id) from jobs where jobs.state = 'queued' and jobs.owner_id > owners.owner_id), place + 1
      from owners where owners.owner_id is not null and place < ${sql.lit(ownersPerLook)})
    select owner_id as owner, (
      select id from jobs
      where jobs.state = 'queued' and jobs.owner_id = owners.owner_id and jobs.run_at_ms <= ${nowMs}
        and jobs.losses < ${suspectLosses} and jobs.kind in (${sql.join(kinds)})
      order by jobs.run_at_ms, jobs.created_at_ms, jobs.id limit 1) as id
    from owners where owner_id is not null`.execute(db);
  return rows;
}

/**
 * Due jobs when the front of the queue belongs to lanes that cannot be claimed: jumps from lane to lane in the index
 * rather than over their jobs (a claim that read past 100,000 of them held the store for 30 to 50 ms, again and again).
 * `chosen` takes room in its lanes.
 */
async function dueBehindFullLanes(
  store: Store,
  db: Db,
  options: ClaimOptions,
  chosen: readonly DueJob[],
): Promise<DueJob[]> {
  const { nowMs, places, runningByLane, limit, rests } = options;
  const chosenOf = new Map<string, number>();
  for (const { lane } of chosen) if (lane !== null) chosenOf.set(lane, (chosenOf.get(lane) ?? 0) + 1);
  const taken = (lane: string) => (runningByLane.get(lane) ?? 0) + (chosenOf.get(lane) ?? 0);
  const { rows } = await sql<WaitingLane>`
    with recursive lanes (lane) as (
      select min(lane) from jobs where state = 'queued' and lane is not null
      union all
      select (select min(jobs.lane) from jobs where jobs.state = 'queued' and jobs.lane > lanes.lane)
      from lanes where lanes.lane is not null)
    select lanes.lane, oldest.id, oldest.owner_id from lanes join jobs oldest on oldest.id = (
      select jobs.id from jobs
      where jobs.state = 'queued' and jobs.lane = lanes.lane and jobs.run_at_ms <= ${nowMs}
        and jobs.losses < ${suspectLosses} and jobs.kind in (${sql.join(options.kinds)})
      order by jobs.run_at_ms, jobs.created_at_ms, jobs.id limit 1)
    where lanes.lane is not null`.execute(db);
  const waiting = rows.filter(
    ({ lane, owner_id: owner }) =>
      places.roomOf(owner) > 0 && taken(lane) < places.laneMaxOf(owner) && rests?.(lane) !== true,
  );
  const elsewhere = await lanesElsewhere(store, db, options, new Set(waiting.map(({ lane }) => lane)));
  const free = waiting.filter(({ lane }) => !elsewhere.has(lane)).slice(0, rowsPerStatement);
  const inNoLane = await dueJobs(db, options).where('lane', 'is', null).limit(limit).execute();
  return [...inNoLane, ...(await dueOfLanes(db, options, free))];
}

/** A lane with due jobs, and the oldest of them. */
interface WaitingLane {
  lane: string;
  id: string;
  owner_id: string;
}

/** Up to so many lanes more than the oldest job of each is looked at: each lane is a part of the statement. */
const fewLanes = 16;

/**
 * The oldest due jobs of these lanes: one of each where there are many, the next claim takes the next. A statement over all lanes sorts
 * all their jobs: with nine lanes of 5,000 each it took 8 to 12 ms of every claim.
 */
async function dueOfLanes(db: Db, options: ClaimOptions, lanes: readonly WaitingLane[]): Promise<DueJob[]> {
  if (lanes.length > fewLanes)
    return dueJobs(db, options)
      .where(
        'id',
        'in',
        lanes.map(({ id }) => id),
      )
      .execute();
  const perLane = Math.ceil(options.limit / lanes.length);
  const [first, ...others] = lanes.map(({ lane }) =>
    db.selectFrom(dueJobs(db, options).where('lane', '=', lane).limit(perLane).as('due')).selectAll(),
  );
  return first === undefined ? [] : others.reduce((all, next) => all.unionAll(next), first).execute();
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
