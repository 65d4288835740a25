import { type SelectQueryBuilder, type SqlBool, sql } from 'kysely';
import type { Db, Tx } from '#storage/store.ts';
import type { AccountUseTable } from '#storage/tables/account-tables.ts';
import type { SourceState } from '#storage/tables/source-tables.ts';
import type { WorkflowState } from '#storage/tables/workflow-tables.ts';
import type { Tables } from '#storage/tables.ts';

/** A source (dc_…) or a workflow (p_…) that an account is put into. */
export interface AccountUser {
  id: string;
  name: string;
  owner_id: string;
  state: SourceState | WorkflowState;
}

/** Sources that use an account, oldest first, at most `limit`. Those still being created are not there yet. */
export async function sourcesUsing(db: Db, filter: UserFilter, limit: number): Promise<AccountUser[]> {
  return sources(db, filter)
    .select(['id', 'name', 'owner_id', 'state'])
    .orderBy('created_at_ms')
    .orderBy('id')
    .limit(limit)
    .execute();
}

/** Workflows whose present deployment uses an account, oldest first, at most `limit`. */
export async function workflowsUsing(db: Db, filter: UserFilter, limit: number): Promise<AccountUser[]> {
  return workflows(db, filter)
    .select(['id', 'name', 'owner_id', 'state'])
    .orderBy('created_at_ms')
    .orderBy('id')
    .limit(limit)
    .execute();
}

export async function countSourcesUsing(db: Db, filter: UserFilter): Promise<number> {
  return countOf(sources(db, filter));
}

export async function countWorkflowsUsing(db: Db, filter: UserFilter): Promise<number> {
  return countOf(workflows(db, filter));
}

export interface UserFilter {
  accountId: string;
  /** Only what these own. */
  ownerIds?: readonly string[];
  /** Only what is active. */
  active?: boolean;
}

function sources(db: Db, { accountId, ownerIds, active }: UserFilter) {
  let query = db
    .selectFrom('sources')
    .where('state', '!=', 'deploying')
    .where('id', 'in', (from) =>
      from.selectFrom('source_accounts').select('source_id').where('account_id', '=', accountId),
    );
  if (ownerIds !== undefined) query = query.where('owner_id', 'in', [...ownerIds]);
  if (active === true) query = query.where('state', '=', 'active');
  return query;
}

function workflows(db: Db, { accountId, ownerIds, active }: UserFilter) {
  let query = db
    .selectFrom('workflows')
    .where('deployment_id', 'in', (from) =>
      from.selectFrom('deployment_accounts').select('deployment_id').where('account_id', '=', accountId),
    );
  if (ownerIds !== undefined) query = query.where('owner_id', 'in', [...ownerIds]);
  if (active === true) query = query.where('state', '=', 'active');
  return query;
}

async function countOf<TB extends keyof Tables, O>(
  query: SelectQueryBuilder<Tables, TB, O>,
): Promise<number> {
  const row = await query.select(sql<number>`count(*)`.as('count')).executeTakeFirstOrThrow();
  return Number((row as { count: number }).count);
}

/** Counts that a source, a workflow, or a component that is configured or run by itself (sc_…), was given the credentials of an account. */
export async function recordUse(
  tx: Tx,
  use: { account: { id: string; owner_id: string }; usedBy: string; nowMs: number },
): Promise<void> {
  const { account, usedBy, nowMs } = use;
  await tx
    .insertInto('account_uses')
    .values({
      account_id: account.id,
      used_by: usedBy,
      day: dayOf(nowMs),
      owner_id: account.owner_id,
      uses: 1,
      first_used_at_ms: nowMs,
      last_used_at_ms: nowMs,
    })
    .onConflict((conflict) =>
      conflict.columns(['account_id', 'used_by', 'day']).doUpdateSet((set) => ({
        uses: set('account_uses.uses', '+', 1),
        last_used_at_ms: nowMs,
      })),
    )
    .execute();
}

/**
 * Which source, workflow or component got the credentials of an account and when, by UTC day, newest first; `name` is null for what is gone and
 * for a component of another owner.
 */
export type RecordedUse = Pick<AccountUseTable, 'used_by' | 'day' | 'uses'> &
  Pick<AccountUseTable, 'first_used_at_ms' | 'last_used_at_ms'> & { name: string | null };

/** What `ownerIds` own, what is gone, and components that were configured or run by themselves, of any owner. */
export async function recordedUses(
  db: Db,
  accountId: string,
  ownerIds: readonly string[],
  limit: number,
): Promise<RecordedUse[]> {
  const rows = await db
    .selectFrom('account_uses')
    .leftJoin('sources', 'sources.id', 'account_uses.used_by')
    .leftJoin('workflows', 'workflows.id', 'account_uses.used_by')
    .leftJoin('components', 'components.id', 'account_uses.used_by')
    .select(['used_by', 'day', 'uses', 'first_used_at_ms', 'last_used_at_ms'])
    .select(['sources.name as source_name', 'workflows.name as workflow_name'])
    .select(['components.name as component_name', 'components.owner_id as component_owner_id'])
    .where('account_uses.account_id', '=', accountId)
    .where((where) =>
      where.or([
        where('sources.owner_id', 'in', [...ownerIds]),
        where('workflows.owner_id', 'in', [...ownerIds]),
        where.and([where('sources.id', 'is', null), where('workflows.id', 'is', null)]),
      ]),
    )
    .orderBy('account_uses.last_used_at_ms', 'desc')
    .orderBy('account_uses.used_by')
    .limit(limit)
    .execute();
  return rows.map(({ source_name, workflow_name, component_name, component_owner_id, ...row }) => ({
    ...row,
    uses: Number(row.uses),
    name:
      source_name ??
      workflow_name ??
      (component_owner_id !== null && ownerIds.includes(component_owner_id) ? component_name : null),
  }));
}

/** Removes records from before a time, at most `limit` rows. Returns their number. */
export async function removeUsesBefore(tx: Tx, ms: number, limit: number): Promise<number> {
  const rows = await tx
    .selectFrom('account_uses')
    .select(['account_id', 'used_by', 'day'])
    .where('day', '<', dayOf(ms))
    .orderBy('day')
    .limit(limit)
    .execute();
  if (rows.length === 0) return 0;
  await tx
    .deleteFrom('account_uses')
    .where(
      sql<SqlBool>`(account_id, used_by, day) in (values ${sql.join(rows.map((row) => sql`(${row.account_id}, ${row.used_by}, ${row.day})`))})`,
    )
    .execute();
  return rows.length;
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

/**
 * Takes the accounts that a user owns themselves out of the sources and workflows of a workspace. Every node that runs
 * these reloads them without the accounts. Returns the accounts.
 */
export async function endGrantsOf(tx: Tx, grant: { workspaceId: string; userId: string }): Promise<string[]> {
  const { workspaceId, userId } = grant;
  const ofSources = await tx
    .deleteFrom('source_accounts')
    .where('account_id', 'in', (from) =>
      from.selectFrom('accounts').select('accounts.id').where('accounts.owner_id', '=', userId),
    )
    .where('source_id', 'in', (from) =>
      from.selectFrom('sources').select('sources.id').where('sources.owner_id', '=', workspaceId),
    )
    .returning(['source_id', 'account_id'])
    .execute();
  const sourceIds = [...new Set(ofSources.map((row) => row.source_id))];
  for (let at = 0; at < sourceIds.length; at += idsPerStatement)
    await tx
      .updateTable('sources')
      .set((set) => ({ revision: set('revision', '+', 1) }))
      .where('id', 'in', sourceIds.slice(at, at + idsPerStatement))
      .execute();
  const ofDeployments = await tx
    .deleteFrom('deployment_accounts')
    .where('account_id', 'in', (from) =>
      from.selectFrom('accounts').select('accounts.id').where('accounts.owner_id', '=', userId),
    )
    .where('deployment_id', 'in', (from) =>
      from.selectFrom('deployments').select('deployments.id').where('deployments.owner_id', '=', workspaceId),
    )
    .returning('account_id')
    .execute();
  return [...new Set([...ofSources, ...ofDeployments].map((row) => row.account_id))];
}

const idsPerStatement = 500;
