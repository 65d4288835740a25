import type { Dialect } from '#storage/dialect.ts';
import { insertRows, type RowInsert } from '#storage/insert-rows.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { DeploymentAccountTable } from '#storage/tables/workflow-tables.ts';

/** An account that a source or a deployment uses, and whose it is. */
export type GrantedAccount = Pick<DeploymentAccountTable, 'account_id' | 'owner_id'>;

/** The source uses these accounts from now on, and no others. */
export async function replaceSourceAccounts(
  tx: Tx,
  sourceId: string,
  accounts: readonly GrantedAccount[],
): Promise<void> {
  await tx.deleteFrom('source_accounts').where('source_id', '=', sourceId).execute();
  await insertSourceAccounts(tx, sourceId, accounts);
}

/** The accounts that a new source uses. */
export async function insertSourceAccounts(
  tx: Tx,
  sourceId: string,
  accounts: readonly GrantedAccount[],
): Promise<void> {
  if (accounts.length === 0) return;
  await tx
    .insertInto('source_accounts')
    .values(accounts.map((account) => ({ ...account, source_id: sourceId })))
    .execute();
}

/** The accounts that a new deployment uses; written with what follows in the transaction. */
export async function insertDeploymentAccounts(
  store: Dialect & Pick<Store, 'defer'>,
  tx: Tx,
  deploymentId: string,
  accounts: readonly GrantedAccount[],
): Promise<void> {
  const rows = accounts.map(({ account_id, owner_id }) => ({
    deployment_id: deploymentId,
    account_id,
    owner_id,
  }));
  for (const query of insertRows(store, deploymentAccountInsert, rows)) await store.defer(tx, query);
}

const deploymentAccountInsert: RowInsert<'deployment_accounts'> = {
  table: 'deployment_accounts',
  columns: ['deployment_id', 'account_id', 'owner_id'],
};

/** The deployments of a workflow no longer use accounts. */
export async function deleteDeploymentAccountsOf(tx: Tx, workflowId: string): Promise<void> {
  await tx
    .deleteFrom('deployment_accounts')
    .where('deployment_id', 'in', (from) =>
      from.selectFrom('deployments').select('id').where('workflow_id', '=', workflowId),
    )
    .execute();
}
