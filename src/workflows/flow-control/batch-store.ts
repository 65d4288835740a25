import { batchEvent, type MergedRuns } from '#flow-control/flow-target.ts';
import { deleteJobsOf } from '#jobs/run-job-store.ts';
import type { Tx } from '#storage/store.ts';
import type { FlowRunTable } from '#storage/tables/flow-tables.ts';
import { deleteRuns } from '#workflows/runs/forget-run-store.ts';

/**
 * Makes one run of several that have not begun: the first gets `{ events: […], batch: { count, key } }` as its event, in the order of
 * arrival, and the others are removed in the same transaction.
 */
export async function mergeRuns(
  tx: Tx,
  rows: readonly Pick<FlowRunTable, 'run_id'>[],
  { key }: { key: string },
): Promise<MergedRuns> {
  const ids = rows.map(({ run_id }) => run_id);
  if (ids.length === 0) return { leaderId: undefined, mergedIds: [], bytes: 0 };
  const runs = await tx
    .selectFrom('runs')
    .select(['id', 'event', 'no_store'])
    .where('id', 'in', ids)
    .where('ended_at_ms', 'is', null)
    .execute();
  const byId = new Map(runs.map((run) => [run.id, run]));
  const merged = ids.flatMap((id) => byId.get(id) ?? []);
  const [leader, ...others] = merged;
  if (leader === undefined) return { leaderId: undefined, mergedIds: [], bytes: 0 };
  const event = batchEvent(
    merged.map((run) => run.event),
    key,
  );
  const no_store = merged.some((run) => run.no_store === 1) ? 1 : 0;
  await tx.updateTable('runs').set({ event, no_store }).where('id', '=', leader.id).execute();
  if (others.length > 0) {
    const otherIds = others.map(({ id }) => id);
    await deleteJobsOf(tx, otherIds);
    await deleteRuns(tx, otherIds);
  }
  return { leaderId: leader.id, mergedIds: merged.map(({ id }) => id), bytes: event.length };
}
