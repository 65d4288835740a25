import { deleteJobsOf } from '#jobs/run-job-store.ts';
import type { Tx } from '#storage/store.ts';
import { forgetRuns } from '#workflows/runs/forget-run-store.ts';

/** A run that is not to begin, and why. */
export interface UnbegunEnd {
  runId: string;
  reason: string;
}

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
