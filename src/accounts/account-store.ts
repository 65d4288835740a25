import type { HealthState } from '#health/health.ts';
import { hasHealth } from '#health/health-store.ts';
import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db, Tx } from '#storage/store.ts';
import type { AccountTable } from '#storage/tables/account-tables.ts';

/** A connected account without its credentials, and without who refreshes it right now. */
export type Account = Omit<AccountTable, 'sealed' | 'lease_node' | 'lease_until_ms'>;

const accountColumns = [
  'id',
  'owner_id',
  'user_id',
  'app_slug',
  'app_id',
  'app_name',
  'name',
  'version',
  'grant_type',
  'oauth_client_id',
  'authorized_scopes',
  'expires_at_ms',
  'last_refreshed_at_ms',
  'next_refresh_at_ms',
  'refresh_failures',
  'healthy',
  'dead',
  'error',
  'checked_at_ms',
  'next_check_at_ms',
  'check_failures',
  'created_at_ms',
  'updated_at_ms',
] as const;

export async function insertAccount(tx: Tx, account: AccountTable): Promise<void> {
  await tx.insertInto('accounts').values(account).execute();
}

export async function findAccount(db: Db, id: string): Promise<Account | undefined> {
  return db.selectFrom('accounts').select(accountColumns).where('id', '=', id).executeTakeFirst();
}

/** With its credentials, which the owner's data key opens, and who refreshes it or left without saying so. */
export type SealedAccount = Account & Pick<AccountTable, 'sealed' | 'lease_node'>;

export async function findSealedAccount(db: Db, id: string): Promise<SealedAccount | undefined> {
  return db
    .selectFrom('accounts')
    .select([...accountColumns, 'sealed', 'lease_node'])
    .where('id', '=', id)
    .executeTakeFirst();
}

export interface AccountFilter {
  ownerIds: readonly string[];
  /** Slug or app_ id. */
  app?: string;
  /** oa_… */
  oauthClientId?: string;
  health?: { state: HealthState; nowMs: number };
}

/** At most `limit` accounts that were connected with an OAuth client (oa_…). */
export async function findSealedAccountsOfClient(
  db: Db,
  clientId: string,
  limit: number,
): Promise<Pick<AccountTable, 'id' | 'owner_id' | 'sealed'>[]> {
  return db
    .selectFrom('accounts')
    .select(['id', 'owner_id', 'sealed'])
    .where('oauth_client_id', '=', clientId)
    .limit(limit)
    .execute();
}

/** Accounts of the owners, newest first; with `app`, those of one app (slug or app id), with a client, those of it; with `health`, those in that state. */
export async function selectAccounts(
  db: Db,
  filter: AccountFilter,
  page: PageRequest,
): Promise<Page<Account>> {
  let query = db
    .selectFrom('accounts')
    .select(accountColumns)
    .where('owner_id', 'in', [...filter.ownerIds]);
  const { app, oauthClientId, health } = filter;
  if (app !== undefined)
    query = query.where((where) => where.or([where('app_slug', '=', app), where('app_id', '=', app)]));
  if (oauthClientId !== undefined) query = query.where('oauth_client_id', '=', oauthClientId);
  if (health !== undefined) query = query.where(hasHealth('account', health.state, health.nowMs));
  return pageOf(query, page);
}

/** At most two accounts of an app with this name: a second one means that the name is not enough. */
export function findAccountsByName(
  db: Db,
  { ownerIds, app, name }: { ownerIds: readonly string[]; app: string; name: string },
): Promise<Account[]> {
  return db
    .selectFrom('accounts')
    .select(accountColumns)
    .where('owner_id', 'in', [...ownerIds])
    .where('app_slug', '=', app)
    .where('name', '=', name)
    .limit(2)
    .execute();
}

/** The app of some account of the owner with this app id. The apps of other owners are private. */
export async function findAppSlug(db: Db, ownerId: string, appId: string): Promise<string | undefined> {
  const found = await db
    .selectFrom('accounts')
    .select('app_slug')
    .where('owner_id', '=', ownerId)
    .where('app_id', '=', appId)
    .executeTakeFirst();
  return found?.app_slug;
}

export async function changeAccount(tx: Tx, id: string, changes: Partial<AccountTable>): Promise<void> {
  await tx.updateTable('accounts').set(changes).where('id', '=', id).execute();
}

/** What was begun with the credentials as they were is not stored over those of now. */
export async function raiseVersion(tx: Tx, id: string): Promise<void> {
  await tx
    .updateTable('accounts')
    .set((set) => ({ version: set('version', '+', 1) }))
    .where('id', '=', id)
    .execute();
}

/** As `changeAccount`, unless the credentials changed since `version`. True: it was written. */
export async function changeAccountAt(
  tx: Tx,
  { id, version }: Pick<Account, 'id' | 'version'>,
  changes: Partial<AccountTable>,
): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('accounts')
    .set(changes)
    .where('id', '=', id)
    .where('version', '=', version)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

export async function removeAccount(tx: Tx, id: string): Promise<void> {
  await tx.deleteFrom('accounts').where('id', '=', id).execute();
}

/** Sources that use the account get another revision: every node that runs them loads what the account is now. */
export async function raiseRevisionsOf(tx: Tx, accountId: string): Promise<void> {
  await tx
    .updateTable('sources')
    .set((set) => ({ revision: set('revision', '+', 1) }))
    .where('id', 'in', (query) =>
      query.selectFrom('source_accounts').select('source_id').where('account_id', '=', accountId),
    )
    .execute();
}

/** For a store that no other process has open: those that held leases are gone. */
export async function endRefreshLeases(tx: Tx): Promise<void> {
  await tx
    .updateTable('accounts')
    .set({ lease_node: null, lease_until_ms: null })
    .where((where) =>
      where.or([where('lease_until_ms', 'is not', null), where('lease_node', 'is not', null)]),
    )
    .execute();
}

/**
 * Makes `node` the one that refreshes the account until `untilMs`, unless another one does or its credentials changed
 * since. True: this node has the lease. A lease that was not given back (its node died) ends by itself.
 */
export async function takeRefreshLease(
  tx: Tx,
  { id, version }: Pick<Account, 'id' | 'version'>,
  lease: { node: string; nowMs: number; untilMs: number },
): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('accounts')
    .set({ lease_node: lease.node, lease_until_ms: lease.untilMs })
    .where('id', '=', id)
    .where('version', '=', version)
    .where((where) =>
      where.or([
        where('lease_until_ms', 'is', null),
        where('lease_until_ms', '<=', lease.nowMs),
        // After a step back of the clock: no lease is that long, even if the other node read the clock after us.
        where('lease_until_ms', '>', 2 * lease.untilMs - lease.nowMs),
      ]),
    )
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** Frees the account for its next refresh, if `node` still has the lease. */
export async function giveBackLease(tx: Tx, id: string, node: string): Promise<void> {
  await tx
    .updateTable('accounts')
    .set({ lease_node: null, lease_until_ms: null })
    .where('id', '=', id)
    .where('lease_node', '=', node)
    .execute();
}
