import type { Db } from '#storage/store.ts';
import type { DeliveryState } from '#storage/tables/delivery-tables.ts';

/** Maximum of rows that are counted of one kind: more is reported as "at least". */
export const countedMax = 1000;
/** Due rows that are looked through at most, over all owners. */
const lookedThroughMax = 10_000;
/** Maximum of objects of each kind that are named as needing attention. */
export const namedMax = 5;
/** Failed deliveries, without those that a user cancelled. */
const failedStates: readonly DeliveryState[] = ['failed', 'blocked', 'dropped', 'expired'];

export interface Waiting {
  count: number;
  /** Since when the oldest of them is due; null: nothing waits. */
  oldestAtMs: number | null;
}

/** Work of an owner that could begin and has not: jobs (runs of sources and workflows). */
export async function waitingJobs(db: Db, ownerId: string, nowMs: number): Promise<Waiting> {
  const due = db
    .selectFrom('jobs')
    .select(['owner_id', 'run_at_ms'])
    .where('state', '=', 'queued')
    .where('run_at_ms', '<=', nowMs)
    .orderBy('run_at_ms')
    .limit(lookedThroughMax)
    .as('due');
  return summed(
    await db
      .selectFrom(due)
      .select(({ fn }) => [fn.countAll<number>().as('count'), fn.min('due.run_at_ms').as('oldest')])
      .where('due.owner_id', '=', ownerId)
      .executeTakeFirst(),
  );
}

/** Deliveries to listeners of an owner that are due, and those whose next attempt is later. */
export async function waitingDeliveries(db: Db, ownerId: string): Promise<Waiting> {
  const queued = db
    .selectFrom('deliveries')
    .select(['owner_id', 'created_at_ms'])
    .where('state', '=', 'queued')
    .where('lease_node', 'is', null)
    .orderBy('run_at_ms')
    .limit(lookedThroughMax)
    .as('waiting');
  return summed(
    await db
      .selectFrom(queued)
      .select(({ fn }) => [fn.countAll<number>().as('count'), fn.min('waiting.created_at_ms').as('oldest')])
      .where('waiting.owner_id', '=', ownerId)
      .executeTakeFirst(),
  );
}

function summed(row: { count: number; oldest: number | null } | undefined): Waiting {
  const count = Number(row?.count ?? 0);
  return { count, oldestAtMs: count === 0 || row === undefined ? null : Number(row.oldest) };
}

/** Counts rows of a query that finds at most `countedMax`. */
async function boundedCount(rows: Promise<readonly unknown[]>): Promise<number> {
  return (await rows).length;
}

/** Dead letters of which a record is kept. */
export function countDeadLetters(db: Db, ownerId: string): Promise<number> {
  return boundedCount(
    db
      .selectFrom('deliveries')
      .select('id')
      .where('owner_id', '=', ownerId)
      .where('ended_at_ms', 'is not', null)
      .where('state', '<>', 'delivered')
      .where('state', 'in', failedStates)
      .limit(countedMax)
      .execute(),
  );
}

export interface Trouble {
  id: string;
  name: string | null;
  reason: string | null;
  sinceMs: number | null;
}

/** Runs that took their process down again and again. */
export async function quarantinedRuns(
  db: Db,
  ownerId: string,
): Promise<(Trouble & { workflowId: string })[]> {
  const rows = await db
    .selectFrom('runs')
    .innerJoin('workflows', 'workflows.id', 'runs.workflow_id')
    .select(['runs.id', 'runs.workflow_id', 'workflows.name', 'runs.reason', 'runs.ended_at_ms'])
    .where('runs.owner_id', '=', ownerId)
    .where('runs.state', '=', 'quarantined')
    .orderBy('runs.created_at_ms', 'desc')
    .limit(namedMax)
    .execute();
  return rows.map((row) => ({
    id: row.id,
    name: row.name,
    reason: row.reason,
    sinceMs: row.ended_at_ms,
    workflowId: row.workflow_id,
  }));
}

/** Names of sources and workflows by id; what is gone is not in it. */
export async function namesOf(db: Db, ids: readonly string[]): Promise<Map<string, string>> {
  if (ids.length === 0) return new Map();
  const [sources, workflows] = await Promise.all([
    db
      .selectFrom('sources')
      .select(['id', 'name'])
      .where('id', 'in', [...ids])
      .execute(),
    db
      .selectFrom('workflows')
      .select(['id', 'name'])
      .where('id', 'in', [...ids])
      .execute(),
  ]);
  return new Map([...sources, ...workflows].map(({ id, name }) => [id, name]));
}
