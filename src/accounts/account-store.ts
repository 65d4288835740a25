import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db, Tx } from '#storage/store.ts';
import type { AccountTable } from '#storage/tables/account-tables.ts';
import type { DataKey } from './vault.ts';

/** A connected account without its credentials. */
export type Account = Omit<AccountTable, 'sealed'>;

const accountColumns = [
  'id',
  'owner_id',
  'user_id',
  'app_slug',
  'app_id',
  'app_name',
  'name',
  'created_at_ms',
  'updated_at_ms',
] as const;

export async function insertAccount(tx: Tx, account: AccountTable): Promise<void> {
  await tx.insertInto('accounts').values(account).execute();
}

export async function findAccount(db: Db, id: string): Promise<Account | undefined> {
  return db.selectFrom('accounts').select(accountColumns).where('id', '=', id).executeTakeFirst();
}

/** The sealed credentials and whose data key opens them. */
export async function findSealed(
  db: Db,
  id: string,
): Promise<Pick<AccountTable, 'owner_id' | 'sealed'> | undefined> {
  return db.selectFrom('accounts').select(['owner_id', 'sealed']).where('id', '=', id).executeTakeFirst();
}

/** Accounts of the owners, newest first; with `app`, those of one app, by slug or app id. */
export async function selectAccounts(
  db: Db,
  filter: { ownerIds: readonly string[]; app?: string },
  page: PageRequest,
): Promise<Page<Account>> {
  let query = db
    .selectFrom('accounts')
    .select(accountColumns)
    .where('owner_id', 'in', [...filter.ownerIds]);
  const { app } = filter;
  if (app !== undefined)
    query = query.where((where) => where.or([where('app_slug', '=', app), where('app_id', '=', app)]));
  return pageOf(query, page);
}

/** The app of some account with this app id. */
export async function findAppSlug(db: Db, appId: string): Promise<string | undefined> {
  const found = await db
    .selectFrom('accounts')
    .select('app_slug')
    .where('app_id', '=', appId)
    .executeTakeFirst();
  return found?.app_slug;
}

export async function changeAccount(
  tx: Tx,
  id: string,
  changes: Partial<Pick<AccountTable, 'name' | 'sealed'>> & Pick<AccountTable, 'updated_at_ms'>,
): Promise<void> {
  await tx.updateTable('accounts').set(changes).where('id', '=', id).execute();
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

/** The data key that seals for this owner now. */
export async function findNewestDataKey(db: Db, ownerId: string): Promise<DataKey | undefined> {
  return asDataKey(
    await db
      .selectFrom('data_keys')
      .select(['owner_id', 'key_id', 'wrapped'])
      .where('owner_id', '=', ownerId)
      .orderBy('created_at_ms', 'desc')
      .orderBy('key_id', 'desc')
      .limit(1)
      .executeTakeFirst(),
  );
}

export async function findDataKey(db: Db, ownerId: string, keyId: string): Promise<DataKey | undefined> {
  return asDataKey(
    await db
      .selectFrom('data_keys')
      .select(['owner_id', 'key_id', 'wrapped'])
      .where('owner_id', '=', ownerId)
      .where('key_id', '=', keyId)
      .executeTakeFirst(),
  );
}

/** Any data key, to find out whether the master key fits; undefined when nothing was ever sealed. */
export async function findAnyDataKey(db: Db): Promise<DataKey | undefined> {
  return asDataKey(
    await db.selectFrom('data_keys').select(['owner_id', 'key_id', 'wrapped']).limit(1).executeTakeFirst(),
  );
}

export async function insertDataKey(tx: Tx, key: DataKey, nowMs: number): Promise<void> {
  await tx
    .insertInto('data_keys')
    .values({ owner_id: key.ownerId, key_id: key.keyId, wrapped: key.wrapped, created_at_ms: nowMs })
    .execute();
}

function asDataKey(
  row: { owner_id: string; key_id: string; wrapped: string } | undefined,
): DataKey | undefined {
  return row === undefined ? undefined : { ownerId: row.owner_id, keyId: row.key_id, wrapped: row.wrapped };
}
