import { postponeJobs } from '#jobs/run-job-store.ts';
import type { Tx } from '#storage/store.ts';

/** Runs that a throttle does not let in yet go back into the queue: they have not begun. */
export async function postponeRuns(
  tx: Tx,
  node: string,
  jobs: readonly { id: string; attempts: number; runAtMs: number }[],
  nowMs: number,
): Promise<void> {
  const held = await postponeJobs(tx, node, jobs, { error: 'waits for its throttle', nowMs });
  if (held.length === 0) return;
  await tx
    .updateTable('runs')
    .set({ state: 'queued', started_at_ms: null })
    .where('id', 'in', held)
    .where('state', '=', 'running')
    .execute();
}
