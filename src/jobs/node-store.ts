import { sql } from 'kysely';
import type { Db, Store, Tx } from '#storage/store.ts';
import { databaseTime, readTimeMs, type StoreTime } from '#storage/store-time.ts';
import type { JobTable } from '#storage/tables/job-tables.ts';
import {
  type LeasedJob,
  leasedColumns,
  leasedJob,
  quarantined,
  quarantinedId,
  requeueJob,
  running,
} from './job-store.ts';
import { freeLanesOfTheGone } from './lane-lease-store.ts';
import { forgetNodeState } from './node-state-store.ts';
import { blamesMax } from './retry-schedule.ts';
import { runsInTurn } from './shared-lane.ts';

/** The time of the database: what several nodes, each with a clock of its own, compare leases by. */
export function databaseTimeMs(db: Db): Promise<number> {
  return readTimeMs(db, databaseTime);
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
  options: { nowMs: number; leaseMs: number; claims?: boolean },
): Promise<void> {
  await tx
    .insertInto('nodes')
    .values({
      id: node,
      started_at_ms: options.nowMs,
      expires_at_ms: options.nowMs + options.leaseMs,
      claims: options.claims === false ? 0 : 1,
    })
    .execute();
}

/** Nodes whose lease has not run out: those that run, and those that died a moment ago. */
export async function listLiveNodes(db: Db, nowMs: number): Promise<string[]> {
  const rows = await db
    .selectFrom('nodes')
    .select('id')
    .where('expires_at_ms', '>', nowMs)
    .orderBy('id')
    .execute();
  return rows.map(({ id }) => id);
}

/** Number of nodes that do jobs, those that died a moment ago included. */
export async function countWorkingNodes(db: Db, time: StoreTime): Promise<number> {
  const { count } = await db
    .selectFrom('nodes')
    .select((select) => select.fn.countAll().as('count'))
    .where('expires_at_ms', '>', time())
    .where('claims', '=', 1)
    .executeTakeFirstOrThrow();
  return Number(count);
}

/** True while the lease of a node has not run out. */
export async function isLiveNode(db: Db, node: string, time: StoreTime): Promise<boolean> {
  const row = await db
    .selectFrom('nodes')
    .select('id')
    .where('id', '=', node)
    .where('expires_at_ms', '>', time())
    .executeTakeFirst();
  return row !== undefined;
}

/**
 * Ends the leases of all nodes there are. Only for a store that no other process may have open (the embedded one):
 * the holder of any lease is dead, and its jobs need not wait for the lease to run out.
 */
export async function forgetNodes(tx: Tx): Promise<void> {
  await tx.deleteFrom('nodes').execute();
}

/** Ends the lease of a node that is known to be gone: what it held need not wait for that to run out. */
export async function forgetNode(tx: Tx, node: string): Promise<void> {
  await tx.deleteFrom('nodes').where('id', '=', node).execute();
}

/** Gives back everything a stopping node still holds, without counting the attempt, and forgets the node. */
export async function releaseNode(tx: Tx, node: string, nowMs: number): Promise<number> {
  const result = await tx
    .updateTable('jobs')
    .set((set) => ({
      state: 'queued',
      lease_node: null,
      alone: 0,
      attempts: set('attempts', '-', 1),
      updated_at_ms: nowMs,
    }))
    .where('state', '=', running)
    .where('lease_node', '=', node)
    .executeTakeFirst();
  await tx.deleteFrom('nodes').where('id', '=', node).execute();
  await forgetNodeState(tx, node);
  return Number(result.numUpdatedRows);
}

/**
 * Gives back, uncounted, what this node holds and does not run (`isRunning` says what it runs), when it has held it for
 * longer than `olderThanMs`: a commit whose answer was lost on the way from the database leaves such jobs. They keep their places. Returns how many.
 */
export async function releaseUnknown(
  store: Store,
  options: { node: string; isRunning: (id: string) => boolean; nowMs: number; olderThanMs: number },
): Promise<number> {
  const { node, nowMs } = options;
  const held = await store.read
    .selectFrom('jobs')
    .select(['id', 'attempts'])
    .where('state', '=', running)
    .where('lease_node', '=', node)
    .where('updated_at_ms', '<', nowMs - options.olderThanMs)
    .execute();
  const unknown = held.filter(({ id }) => !options.isRunning(id)).slice(0, recoveredMax);
  if (unknown.length === 0) return 0;
  const released = { state: 'queued', runAtMs: undefined, nowMs, blamed: false } as const;
  const error = 'its node did not learn that it holds it';
  await store.transaction(async (tx) => {
    for (const job of unknown) await requeueJob(tx, node, job, { ...released, error });
  });
  return unknown.length;
}

/** Jobs taken over in one transaction; the next round takes the rest. */
const recoveredMax = 1000;

/**
 * Takes over from nodes whose lease ran out: their lanes are free, and their jobs are queued again. That a node died says nothing of a
 * job: it may have been killed, or have died of another one. Only what ran there alone is to blame, and quarantined
 * when that was so `blamesMax` times. A job that waited for the turn of its source has not lost an attempt. Recovery goes by expired lease alone,
 * never by "everything running".
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
        // A node that renews is alive, however long the renewal took.
        where.or([where('expires_at_ms', '>', options.nowMs), where('id', '=', options.node)]),
      );
    const orphans = tx
      .selectFrom('jobs')
      .select([...leasedColumns, 'lease_node'])
      .where('state', '=', running)
      .where('lease_node', 'not in', live)
      // In the order in which their node began them, or would have.
      .orderBy('updated_at_ms')
      .orderBy('run_at_ms')
      .orderBy('created_at_ms')
      .orderBy('id')
      .limit(recoveredMax);
    // Locked, or two nodes that recover at once would both take a job over, the second from the node that runs it now.
    const orphaned = await store.lockRows(orphans, { skipLocked: true }).execute();
    const { begun, waited } = apart(orphaned);
    if (waited.length > 0)
      await tx
        .updateTable('jobs')
        .set((set) => ({
          ...{ state: 'queued', lease_node: null, alone: 0, attempts: set('attempts', '-', 1) },
          ...{ run_at_ms: inItsPlace(options.nowMs), updated_at_ms: options.nowMs },
        }))
        .where(
          'id',
          'in',
          waited.map((row) => row.id),
        )
        .where('state', '=', running)
        .execute();
    const poison = begun.filter((row) => row.blames + row.alone >= blamesMax);
    const rest = begun.filter((row) => row.blames + row.alone < blamesMax);
    if (poison.length > 0) {
      await tx
        .updateTable('jobs')
        .set((set) => ({
          id: quarantinedId(options.nowMs),
          state: 'quarantined',
          // The node that has to report the job to its handler.
          lease_node: options.node,
          error: 'the service ended each time that it ran there alone',
          blames: set('blames', '+', set.ref('alone')),
          updated_at_ms: options.nowMs,
        }))
        .where(
          'id',
          'in',
          poison.map((row) => row.id),
        )
        .where('state', '=', running)
        .execute();
    }
    for (const [losses, rows] of Map.groupBy(rest, (row) => row.losses + 1)) {
      await tx
        .updateTable('jobs')
        .set((set) => ({
          state: 'queued',
          lease_node: null,
          losses,
          blames: set('blames', '+', set.ref('alone')),
          alone: 0,
          // The first loss is most likely a restart: run it again immediately. A second one may be this job's fault: wait.
          run_at_ms: losses <= 1 ? inItsPlace(options.nowMs) : options.nowMs + options.retryDelayMs(losses),
          error: 'its process ended before it did',
          updated_at_ms: options.nowMs,
        }))
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
    // A lane continues on another node once the jobs that its node had begun are back in the store.
    if (store.isShared) await freeLanesOfTheGone(tx, options.node, options.nowMs);
    return { requeued: waited.length + rest.length, quarantined: poison.map(leasedJob) };
  });
}

/** Due now, in its old place among those of its lane that were not claimed yet. */
function inItsPlace(nowMs: number) {
  return sql<number>`case when run_at_ms < ${nowMs} then run_at_ms else ${nowMs} end`;
}

/**
 * Jobs of nodes that are gone: those that may have begun there, and those that waited for the turn of their lane. Of a lane whose jobs follow each other only
 * the first has begun, or one behind it after the first had ended and before that was stored; then the first is stored the next time, and
 * the other one is the first. `orphaned` are in the order in which they began.
 */
function apart<Row extends Pick<JobTable, 'kind' | 'lane' | 'lease_node'>>(
  orphaned: readonly Row[],
): { begun: Row[]; waited: Row[] } {
  const busy = new Set<string>();
  const [begun, waited]: [Row[], Row[]] = [[], []];
  for (const row of orphaned) {
    const turn = `${row.lease_node} ${row.lane}`;
    const waits = runsInTurn(row) && busy.has(turn);
    (waits ? waited : begun).push(row);
    busy.add(turn);
  }
  return { begun, waited };
}

/** A quarantined job, as it was before, and the id of its row now. */
export interface QuarantinedJob {
  job: LeasedJob;
  rowId: string;
}

/** Takes over quarantined jobs whose handlers were not notified before their node went away. */
export async function takePending(
  store: Store,
  options: { node: string; nowMs: number },
): Promise<QuarantinedJob[]> {
  const { node, nowMs } = options;
  const live = store.read
    .selectFrom('nodes')
    .select('id')
    .where((where) => where.or([where('expires_at_ms', '>', nowMs), where('id', '=', node)]));
  const pending = await store.read
    .selectFrom('jobs')
    .select('id')
    .where('state', '=', quarantined)
    .where('lease_node', 'is not', null)
    .where('lease_node', 'not in', live)
    .limit(recoveredMax)
    .execute();
  if (pending.length === 0) return [];
  return store.transaction(async (tx) => {
    const rows = await tx
      .updateTable('jobs')
      .set({ lease_node: node })
      .where(
        'id',
        'in',
        pending.map(({ id }) => id),
      )
      .where('lease_node', 'is not', null)
      .where('lease_node', 'not in', live)
      .returning(leasedColumns)
      .execute();
    return rows.map((row) => ({
      job: { ...leasedJob(row), id: row.id.replace(/~\d+$/, '') },
      rowId: row.id,
    }));
  });
}

/** Records that the handler of a quarantined job was notified. */
export async function markNotified(tx: Tx, rowId: string): Promise<void> {
  await tx
    .updateTable('jobs')
    .set({ lease_node: null })
    .where('id', '=', rowId)
    .where('state', '=', quarantined)
    .execute();
}

/**
 * Queues all jobs that run, for a store that no node has open. As with a node that stops, the attempt is not counted:
 * nothing says that it failed.
 */
export async function releaseAllJobs(tx: Tx, nowMs: number): Promise<void> {
  await tx
    .updateTable('jobs')
    .set({
      state: 'queued',
      lease_node: null,
      attempts: sql<number>`case when attempts > 0 then attempts - 1 else 0 end`,
      updated_at_ms: nowMs,
    })
    .where('state', '=', 'running')
    .execute();
}
