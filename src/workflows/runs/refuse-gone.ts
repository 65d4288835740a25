import { unknownEndpoint } from '#sources/endpoint-errors.ts';
import type { Tx } from '#storage/store.ts';
import { goneWorkflows } from '#workflows/definitions/workflow-store.ts';

/**
 * For new runs, where other nodes are there: one of them may have deleted a workflow that this node still remembers, and the
 * request of the run would be acknowledged and lost. A workflow that is removed after this check takes its accepted requests with it. Throws
 * CallerError `unknown_endpoint`.
 */
export async function refuseGone(tx: Tx, workflowIds: readonly string[]): Promise<void> {
  if (workflowIds.length === 0) return;
  const gone = await goneWorkflows(tx, new Set(workflowIds));
  if (gone.size > 0) throw unknownEndpoint();
}
