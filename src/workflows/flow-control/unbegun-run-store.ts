import { sql } from 'kysely';
import type { UnbegunEnd } from '#flow-control/flow-target.ts';
import { deleteJobsOf } from '#jobs/run-job-store.ts';
import type { Tx } from '#storage/store.ts';
import { forgetRuns } from '#workflows/runs/forget-run-store.ts';

/** True for a row of `flow_runs` whose run has not ended. */
export const isUnfinishedRun = sql<boolean>`exists (select 1 from runs
  where runs.id = flow_runs.run_id and runs.ended_at_ms is null)`;

/** Keeps runs as ones that never began, each with its reason; those of which nothing may be kept are removed. */
export async function keepUnbegun(tx: Tx, ends: readonly UnbegunEnd[], nowMs: number): Promise<void> {
  await deleteJobsOf(
    tx,
    ends.map(({ runId }) => runId),
  );
  const forgotten: string[] = [];
  for (const [reason, group] of Map.groupBy(ends, (end) => end.reason)) {
    const rows = await tx
      .updateTable('runs')
      .set({ state: 'not_triggered', reason, ended_at_ms: nowMs })
      .where(
        'id',
        'in',
        group.map(({ runId }) => runId),
      )
      .where('ended_at_ms', 'is', null)
      .returning(['id', 'no_store'])
      .execute();
    for (const { id, no_store } of rows) if (no_store === 1) forgotten.push(id);
  }
  if (forgotten.length > 0) await forgetRuns(tx, forgotten);
}
