import { jobRow } from '#jobs/job-store.ts';
import type { JobTable } from '#storage/tables/job-tables.ts';
import type { RunSendTable, RunTable } from '#storage/tables/workflow-tables.ts';
import { carriedTrace } from '#telemetry/span.ts';

/** Jobs for what an ended run has to send; what it emits is an event already, and needs none. */
export function sendJobs(
  run: Pick<RunTable, 'id' | 'owner_id'>,
  sends: readonly Pick<RunSendTable, 'number' | 'kind'>[],
  nowMs: number,
): JobTable[] {
  return sends
    .filter(({ kind }) => kind !== 'emit')
    .map(({ number }) =>
      jobRow({
        id: `${run.id}:${number}`,
        kind: 'send_from_run',
        ownerId: run.owner_id,
        lane: `send:${run.owner_id}`,
        payload: { run_id: run.id, number, ...carriedTrace() },
        runAtMs: nowMs,
        nowMs,
      }),
    );
}
