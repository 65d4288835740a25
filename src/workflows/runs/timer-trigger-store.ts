import type { Db } from '#storage/store.ts';
import type { WorkflowTable } from '#storage/tables/workflow-tables.ts';

/** Those of these workflows that are active, and the deployment that new events run. */
export async function activeWorkflows(
  db: Db,
  ids: readonly string[],
): Promise<Pick<WorkflowTable, 'id' | 'owner_id' | 'deployment_id' | 'flow_control'>[]> {
  return db
    .selectFrom('workflows')
    .select(['id', 'owner_id', 'deployment_id', 'flow_control'])
    .where('id', 'in', [...ids])
    .where('state', '=', 'active')
    .execute();
}
