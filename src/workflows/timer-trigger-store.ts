import type { Tx } from '#storage/store.ts';
import type { WorkflowTable } from '#storage/tables/workflow-tables.ts';

/** Those of these workflows that are active, and the deployment that new events run. */
export async function activeWorkflows(
  tx: Tx,
  ids: readonly string[],
): Promise<Pick<WorkflowTable, 'id' | 'owner_id' | 'deployment_id'>[]> {
  return tx
    .selectFrom('workflows')
    .select(['id', 'owner_id', 'deployment_id'])
    .where('id', 'in', [...ids])
    .where('state', '=', 'active')
    .execute();
}
