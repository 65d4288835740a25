import { removeKeysOf } from '#idempotency/idempotency-key-store.ts';
import type { JobPayloads } from '#jobs/job-kinds.ts';
import type { JobHandler } from '#jobs/job-registry.ts';
import { type LeasedJob, settleJobs } from '#jobs/job-store.ts';
import type { RemovalTurns } from '#storage/removal-turns.ts';
import type { Store } from '#storage/store.ts';
import { deleteTestEventsOf } from '#workflows/definitions/test-event-store.ts';
import { deleteDeploymentsOf } from '#workflows/definitions/workflow-store.ts';
import { deleteRunsOf } from './forget-run-store.ts';

/** Runs removed in one transaction, each with its steps: the store's writer is never held for long. */
const batchRuns = 50;
const batchKeys = 500;

/** Removes what a workflow leaves behind, batch by batch; the job ends with the last one, so after a crash it continues there. */
export function deleteWorkflowHandler({
  store,
  removals,
  node,
}: {
  store: Store;
  removals: RemovalTurns;
  node: string;
}): JobHandler {
  return {
    async run(job: LeasedJob, signal: AbortSignal) {
      const { workflow_id } = job.payload as JobPayloads['delete_workflow'];
      for (let done = false; !done; ) {
        done = await removals.transaction(signal, async (tx) => {
          if (!(await deleteRunsOf(tx, workflow_id, batchRuns))) return false;
          if (!(await removeKeysOf(tx, workflow_id, batchKeys))) return false;
          await deleteTestEventsOf(tx, workflow_id);
          await deleteDeploymentsOf(tx, workflow_id);
          await settleJobs(store, tx, { node, jobs: [job] });
          return true;
        });
      }
      await store.reclaimSpace();
    },
    async quarantined() {},
  };
}
