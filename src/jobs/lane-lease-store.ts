import { CompiledQuery, type ExpressionBuilder } from 'kysely';
import type { Db, Tx } from '#storage/store.ts';
import type { Tables } from '#storage/tables.ts';
import { running } from './job-store.ts';

/** Returns those of `lanes` that another node has. */
export async function lanesOfOthers(
  db: Db | Tx,
  node: string,
  lanes: readonly string[],
): Promise<Set<string>> {
  if (lanes.length === 0) return new Set();
  const rows = await db
    .selectFrom('lane_leases')
    .select('lane')
    .where('node', '!=', node)
    .where('lane', 'in', [...lanes])
    .execute();
  return new Set(rows.map(({ lane }) => lane));
}

/** Takes lanes without a holder; returns those of `lanes` that this node now holds. In one order, so that two nodes never wait for each other. */
export async function takeLanes(tx: Tx, node: string, lanes: readonly string[]): Promise<Set<string>> {
  if (lanes.length === 0) return new Set();
  const rows = await tx
    .insertInto('lane_leases')
    .values([...lanes].sort().map((lane) => ({ lane, node })))
    .onConflict((conflict) =>
      conflict.column('lane').doUpdateSet({ node }).where('lane_leases.node', '=', node),
    )
    .returning('lane')
    .execute();
  return new Set(rows.map(({ lane }) => lane));
}

/** Gives up lanes (default: all) in which nothing is leased to this node; returns the lanes given up. */
export async function releaseLanes(tx: Tx, node: string, lanes?: readonly string[]): Promise<Set<string>> {
  if (lanes?.length === 0) return new Set();
  const rows = await tx
    .deleteFrom('lane_leases')
    .where('node', '=', node)
    .$if(lanes !== undefined, (query) => query.where('lane', 'in', [...(lanes ?? [])]))
    .where((where) => nothingIsLeased(where, { inLane: true }))
    .returning('lane')
    .execute();
  return new Set(rows.map(({ lane }) => lane));
}

/**
 * Frees the lanes of nodes that are gone, once nothing of a node, neither job nor delivery, is leased to it: who has a lane next
 * begins with what the node before had begun. Returns the number of lanes.
 */
export async function freeLanesOfTheGone(tx: Tx, node: string, nowMs: number): Promise<number> {
  const live = tx
    .selectFrom('nodes')
    .select('id')
    .where((where) => where.or([where('expires_at_ms', '>', nowMs), where('id', '=', node)]));
  const gone = await tx
    .selectFrom('lane_leases')
    .select('node')
    .distinct()
    .where('node', 'not in', live)
    .where((where) => nothingIsLeased(where, { inLane: false }))
    .execute();
  if (gone.length === 0) return 0;
  const result = await tx
    .deleteFrom('lane_leases')
    .where(
      'node',
      'in',
      gone.map((row) => row.node),
    )
    .executeTakeFirst();
  return Number(result.numDeletedRows);
}

/** Neither a job nor a delivery is leased to the node that has the lane; `inLane`: of this lane, else of any. */
function nothingIsLeased(where: ExpressionBuilder<Tables, 'lane_leases'>, { inLane }: { inLane: boolean }) {
  const jobs = where
    .selectFrom('jobs')
    .select('jobs.id')
    .whereRef('jobs.lease_node', '=', 'lane_leases.node')
    .where('jobs.state', '=', running)
    .$if(inLane, (query) => query.whereRef('jobs.lane', '=', 'lane_leases.lane'));
  const deliveries = where
    .selectFrom('deliveries')
    .select('deliveries.id')
    .whereRef('deliveries.lease_node', '=', 'lane_leases.node')
    .$if(inLane, (query) => query.whereRef('deliveries.listener_id', '=', 'lane_leases.lane'));
  return where.and([where.not(where.exists(jobs)), where.not(where.exists(deliveries))]);
}

/** The number of lanes that all nodes hold together, of live nodes that take lanes, and of other live nodes of any role. */
export async function countLanes(
  db: Db,
  node: string,
  nowMs: number,
): Promise<{ lanes: number; nodes: number; others: number }> {
  const { lanes } = await db
    .selectFrom('lane_leases')
    .select((select) => select.fn.countAll<number>().as('lanes'))
    .executeTakeFirstOrThrow();
  const live = await db
    .selectFrom('nodes')
    .select(['id', 'claims'])
    .where('expires_at_ms', '>', nowMs)
    .execute();
  return {
    lanes: Number(lanes),
    nodes: live.filter(({ claims }) => claims === 1).length,
    others: live.filter(({ id }) => id !== node).length,
  };
}

/**
 * The statement that answers which of `lanes` this node has, and keeps them so until the transaction ends: what was computed from the
 * state of the run before may be stored only by who still has the turn.
 */
export function keepLanesQuery(node: string, lanes: readonly string[]): CompiledQuery<{ lane: string }> {
  return CompiledQuery.raw(
    'select lane from lane_leases where node = $1 and lane = any($2) order by lane for share',
    [node, [...lanes]],
  );
}
