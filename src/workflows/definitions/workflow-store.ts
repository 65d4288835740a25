import { type SqlBool, sql } from 'kysely';
import { deleteDeploymentAccountsOf, insertDeploymentAccounts } from '#accounts/account-grant-store.ts';
import type { HealthState } from '#health/health.ts';
import { hasHealth } from '#health/health-store.ts';
import { deleteComponentDbs } from '#sources/source-store.ts';
import type { Dialect } from '#storage/dialect.ts';
import { insertRows, type RowInsert } from '#storage/insert-rows.ts';
import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type {
  DeploymentAccountTable,
  DeploymentTable,
  WorkflowTable,
} from '#storage/tables/workflow-tables.ts';
import { variablesStamp } from '#user-data/variables/variable-store.ts';
import type { LoadedDeployment } from './loaded-deployment.ts';
import type { WorkflowDefinition } from './workflow-definition.ts';

const workflowColumns = [
  'id',
  'owner_id',
  'user_id',
  'project_id',
  'name',
  'state',
  'deployment_id',
  'flow_control',
  'created_at_ms',
  'updated_at_ms',
] as const;

const deploymentColumns = [
  'id',
  'workflow_id',
  'owner_id',
  'user_id',
  'number',
  'template_id',
  'definition',
  'created_at_ms',
] as const;

export async function findWorkflow(db: Db, id: string): Promise<WorkflowTable | undefined> {
  return db.selectFrom('workflows').select(workflowColumns).where('id', '=', id).executeTakeFirst();
}

/** The ids among `ids` without a workflow, also because it was deleted. */
export async function goneWorkflows(db: Db, ids: ReadonlySet<string>): Promise<Set<string>> {
  const rows = await db
    .selectFrom('workflows')
    .select('id')
    .where('id', 'in', [...ids])
    .execute();
  return ids.difference(new Set(rows.map(({ id }) => id)));
}

/** Owner and state of those of `ids` that exist. */
export async function findWorkflowStates(
  db: Db,
  ids: ReadonlySet<string>,
): Promise<Map<string, Pick<WorkflowTable, 'owner_id' | 'state'>>> {
  if (ids.size === 0) return new Map();
  const rows = await db
    .selectFrom('workflows')
    .select(['id', 'owner_id', 'state'])
    .where('id', 'in', [...ids])
    .execute();
  return new Map(rows.map(({ id, ...row }) => [id, row]));
}

/** The workflow, locked until the end of the transaction. */
export async function lockWorkflow(store: Dialect, tx: Tx, id: string): Promise<WorkflowTable | undefined> {
  const query = tx.selectFrom('workflows').select(workflowColumns).where('id', '=', id);
  return store.lockRows(query).executeTakeFirst();
}

/** Workflows of an owner or of a project, newest first; with `words`, those that have them in their name or id; with `health`, those in that state. */
export async function pageOfWorkflows(
  db: Db,
  filter: ({ ownerId: string } | { projectId: string }) & {
    words?: string;
    health?: { state: HealthState; nowMs: number };
  },
  page: PageRequest,
): Promise<Page<WorkflowTable>> {
  const all = db.selectFrom('workflows').select(workflowColumns);
  const { health } = filter;
  let query =
    'ownerId' in filter
      ? all.where('owner_id', '=', filter.ownerId)
      : all.where('project_id', '=', filter.projectId);
  if (health !== undefined) query = query.where(hasHealth('workflow', health.state, health.nowMs));
  const words = (filter.words ?? '').trim();
  if (words === '') return pageOf(query, page);
  const pattern = `%${words.toLowerCase().replaceAll(/[\\%_]/g, '\\$&')}%`;
  const has = (column: 'name' | 'id') => sql<SqlBool>`lower(${sql.ref(column)}) like ${pattern} escape '\\'`;
  return pageOf(
    query.where((where) => where.or([has('name'), has('id')])),
    page,
  );
}

export async function insertWorkflow(tx: Tx, row: WorkflowTable): Promise<void> {
  await tx.insertInto('workflows').values(row).execute();
}

export async function updateWorkflow(
  tx: Tx,
  id: string,
  changes: Partial<Pick<WorkflowTable, 'name' | 'state' | 'deployment_id' | 'flow_control'>> & {
    updated_at_ms: number;
  },
): Promise<void> {
  await tx.updateTable('workflows').set(changes).where('id', '=', id).execute();
}

export async function deleteWorkflowRow(tx: Tx, id: string): Promise<void> {
  await tx.deleteFrom('workflows').where('id', '=', id).execute();
}

/** An account that a deployment uses, and whose it is. */
export type DeploymentAccount = Pick<DeploymentAccountTable, 'account_id' | 'owner_id'>;

export async function insertDeployment(
  store: Dialect & Pick<Store, 'defer'>,
  tx: Tx,
  row: DeploymentTable,
  accounts: readonly DeploymentAccount[],
): Promise<void> {
  await tx
    .insertInto('deployments')
    .values({ ...row, components_listed: 1 })
    .execute();
  await listComponents(store, tx, [row]);
  await insertDeploymentAccounts(store, tx, row.id, accounts);
}

async function listComponents(
  store: Dialect & Pick<Store, 'defer'>,
  tx: Tx,
  deployments: readonly Pick<DeploymentTable, 'id' | 'definition'>[],
): Promise<void> {
  const rows = deployments.flatMap(({ id, definition }) => {
    const { steps } = JSON.parse(definition) as WorkflowDefinition;
    const ids = new Set(steps.map((step) => step.componentId));
    return [...ids].map((componentId) => ({ component_id: componentId, deployment_id: id }));
  });
  for (const query of insertRows(store, componentInsert, rows)) await store.defer(tx, query);
}

/** Lists the components of deployments that an older version stored, at most `limit` of them; answers how many. */
export function listDeployments(
  store: Dialect & Pick<Store, 'defer' | 'transaction'>,
  limit: number,
): Promise<number> {
  return store.transaction(async (tx) => {
    const deployments = await tx
      .updateTable('deployments')
      .set({ components_listed: 1 })
      .where('components_listed', '=', 0)
      .where('id', 'in', (from) =>
        from.selectFrom('deployments').select('id').where('components_listed', '=', 0).limit(limit),
      )
      .returning(['id', 'definition'])
      .execute();
    await listComponents(store, tx, deployments);
    return deployments.length;
  });
}

const componentInsert: RowInsert<'deployment_components'> = {
  table: 'deployment_components',
  columns: ['component_id', 'deployment_id'],
};

export async function findDeployment(db: Db, id: string): Promise<DeploymentTable | undefined> {
  return db.selectFrom('deployments').select(deploymentColumns).where('id', '=', id).executeTakeFirst();
}

/** Many deployments, by id. */
export async function findDeployments(db: Db, ids: readonly string[]): Promise<Map<string, DeploymentTable>> {
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom('deployments')
    .select(deploymentColumns)
    .where('id', 'in', [...ids])
    .execute();
  return new Map(rows.map((row) => [row.id, row]));
}

/** The workflows of many deployments, by the id of the deployment. */
export async function workflowsOfDeployments(
  db: Db,
  ids: readonly string[],
): Promise<Map<string, Pick<WorkflowTable, 'id' | 'name'>>> {
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom('deployments')
    .innerJoin('workflows', 'workflows.id', 'deployments.workflow_id')
    .select(['deployments.id as deployment_id', 'workflows.id', 'workflows.name'])
    .where('deployments.id', 'in', [...ids])
    .execute();
  return new Map(rows.map(({ deployment_id, id, name }) => [deployment_id, { id, name }]));
}

/** Those that it may use: what a member put in of their own counts only while they are one. */
export async function deploymentAccounts(db: Db, deploymentId: string): Promise<DeploymentAccount[]> {
  return db
    .selectFrom('deployment_accounts')
    .innerJoin('deployments', 'deployments.id', 'deployment_accounts.deployment_id')
    .select(['deployment_accounts.account_id', 'deployment_accounts.owner_id'])
    .where('deployment_accounts.deployment_id', '=', deploymentId)
    .where((where) =>
      where.or([
        where('deployment_accounts.owner_id', '=', where.ref('deployments.owner_id')),
        where.exists(
          where
            .selectFrom('members')
            .select('members.user_id')
            .whereRef('members.user_id', '=', 'deployment_accounts.owner_id')
            .whereRef('members.workspace_id', '=', 'deployments.owner_id'),
        ),
      ]),
    )
    .orderBy('deployment_accounts.account_id')
    .execute();
}

/** The number that the next deployment of a workflow gets. With the workflow locked. */
export async function nextDeploymentNumber(tx: Tx, workflowId: string): Promise<number> {
  const row = await tx
    .selectFrom('deployments')
    .select((select) => select.fn.max('number').as('number'))
    .where('workflow_id', '=', workflowId)
    .executeTakeFirst();
  return Number(row?.number ?? 0) + 1;
}

/**
 * What a loaded deployment depends on that can change: the row of its workflow, accounts, and which of these it
 * may use. Another text means that something did.
 */
export async function deploymentStamp(
  db: Db,
  deployment: Pick<LoadedDeployment, 'id' | 'workflowId' | 'ownerId' | 'projectId' | 'accountIds'>,
): Promise<string> {
  const workflow = await db
    .selectFrom('workflows')
    .select('updated_at_ms')
    .where('id', '=', deployment.workflowId)
    .executeTakeFirst();
  const variables = await variablesStamp(db, deployment.ownerId, deployment.projectId);
  if (deployment.accountIds.length === 0) return JSON.stringify([workflow?.updated_at_ms, variables]);
  const accounts = await db
    .selectFrom('accounts')
    .select(['id', 'version'])
    .where('id', 'in', [...deployment.accountIds])
    .orderBy('id')
    .execute();
  return JSON.stringify([
    workflow?.updated_at_ms,
    variables,
    accounts.map((row) => [row.id, row.version]),
    (await deploymentAccounts(db, deployment.id)).map((row) => row.account_id),
  ]);
}

/** Removes the deployments of a removed workflow, with what their steps kept. */
export async function deleteDeploymentsOf(tx: Tx, workflowId: string): Promise<void> {
  await deleteStepDbs(tx, workflowId);
  await deleteDeploymentAccountsOf(tx, workflowId);
  await tx
    .deleteFrom('deployment_components')
    .where('deployment_id', 'in', (from) =>
      from.selectFrom('deployments').select('id').where('workflow_id', '=', workflowId),
    )
    .execute();
  await tx.deleteFrom('deployments').where('workflow_id', '=', workflowId).execute();
}

/** Has all workflows of an owner take no events any longer; runs under way continue. */
export async function deactivateWorkflowsOf(tx: Tx, ownerId: string, nowMs: number): Promise<void> {
  await tx
    .updateTable('workflows')
    .set({ state: 'inactive', updated_at_ms: nowMs })
    .where('owner_id', '=', ownerId)
    .where('state', '=', 'active')
    .execute();
}

/** Removes the lists of components of these deployments. */
export async function deleteComponentListsOf(tx: Tx, deploymentIds: readonly string[]): Promise<void> {
  await tx
    .deleteFrom('deployment_components')
    .where('deployment_id', 'in', [...deploymentIds])
    .execute();
}

/** What steps kept in `$.service.db`: under their ids, which deployments share. */
async function deleteStepDbs(tx: Tx, workflowId: string): Promise<void> {
  const deployments = await tx
    .selectFrom('deployments')
    .select('definition')
    .where('workflow_id', '=', workflowId)
    .execute();
  const steps = deployments.flatMap(({ definition }) => (JSON.parse(definition) as WorkflowDefinition).steps);
  const ids = [...new Set(steps.map((step) => step.id))];
  await deleteComponentDbs(tx, ids);
}
