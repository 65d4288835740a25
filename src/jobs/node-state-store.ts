import type { Db, Tx } from '#storage/store.ts';
import type { ClockState, NodeStateTable } from '#storage/tables/job-tables.ts';

/** A node that stopped answering is shown for this long. */
const keptMs = 3_600_000;
/** Nodes of an answer. */
const listedMax = 1_000;

/** How the clock of a node compares with that of the database. */
export interface NodeClock {
  state: ClockState;
  offsetMs: number;
}

/** What a node says of itself with each heartbeat. Rows outlive the lease of a node, so that one that is gone is seen to be. */
export async function reportNode(
  tx: Tx,
  node: string,
  options: {
    nowMs: number;
    leaseMs: number;
    startedAtMs: number;
    clock: NodeClock | undefined;
    stoppingSinceMs: number | null;
  },
): Promise<void> {
  const { nowMs, clock } = options;
  const before = await tx
    .selectFrom('node_states')
    .select(['clock_state', 'clock_since_ms'])
    .where('id', '=', node)
    .executeTakeFirst();
  const isSame = before !== undefined && before.clock_state === (clock?.state ?? null);
  const row: NodeStateTable = {
    id: node,
    started_at_ms: options.startedAtMs,
    seen_at_ms: nowMs,
    lease_ms: options.leaseMs,
    clock_state: clock?.state ?? null,
    clock_offset_ms: clock?.offsetMs ?? null,
    clock_since_ms: clock === undefined ? null : isSame ? before.clock_since_ms : nowMs,
    stopping_since_ms: options.stoppingSinceMs,
  };
  await tx
    .insertInto('node_states')
    .values(row)
    .onConflict((conflict) => conflict.column('id').doUpdateSet(row))
    .execute();
  await tx
    .deleteFrom('node_states')
    .where('seen_at_ms', '<', nowMs - keptMs)
    .execute();
}

/** A node that stopped in order, or that is known to be gone because another has its data folder. */
export async function forgetNodeState(tx: Tx, node: string): Promise<void> {
  await tx.deleteFrom('node_states').where('id', '=', node).execute();
}

/** Only for a store that one process has open: all other nodes are gone. */
export async function forgetNodeStates(tx: Tx): Promise<void> {
  await tx.deleteFrom('node_states').execute();
}

/** All nodes, the longest running first. */
export function nodeStates(db: Db): Promise<NodeStateTable[]> {
  return db
    .selectFrom('node_states')
    .selectAll()
    .orderBy('started_at_ms')
    .orderBy('id')
    .limit(listedMax)
    .execute();
}
