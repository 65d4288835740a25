import { type RawBuilder, sql } from 'kysely';
import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db } from '#storage/store.ts';
import type { DeploymentTable } from '#storage/tables/workflow-tables.ts';

/** A version of a workflow as it is listed, without its definition. */
export interface ListedDeployment extends Pick<DeploymentTable, 'id' | 'created_at_ms'> {
  /** Size of its definition and of the code of its steps. */
  bytes: number;
}

/** Sizes are read without the texts. */
const bytesOfDeployment: RawBuilder<number> = sql<number>`octet_length(definition) + coalesce((
  select sum(octet_length(components.code) + octet_length(components.shape)) from deployment_components
  join components on components.id = deployment_components.component_id
  where deployment_components.deployment_id = deployments.id), 0)`;

/** Versions of a workflow, newest first. */
export async function pageOfDeploymentSizes(
  db: Db,
  workflowId: string,
  page: PageRequest,
): Promise<Page<ListedDeployment>> {
  const query = db
    .selectFrom('deployments')
    .select(['id', 'created_at_ms'])
    .select(bytesOfDeployment.as('bytes'))
    .where('workflow_id', '=', workflowId);
  return pageOf(query, page);
}

/** Sizes of many deployments, by id. */
export async function sizesOfDeployments(db: Db, ids: readonly string[]): Promise<Map<string, number>> {
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom('deployments')
    .select('id')
    .select(bytesOfDeployment.as('bytes'))
    .where('id', 'in', [...ids])
    .execute();
  return new Map(rows.map(({ id, bytes }) => [id, Number(bytes)]));
}
