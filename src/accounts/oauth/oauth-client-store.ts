import type { Db, Tx } from '#storage/store.ts';
import type { OAuthClientTable } from '#storage/tables/account-tables.ts';

export type OAuthClientRow = OAuthClientTable;

const columns = [
  'id',
  'owner_id',
  'user_id',
  'app_slug',
  'client_id',
  'sealed_secret',
  'scopes',
  'created_at_ms',
  'updated_at_ms',
] as const;

export async function findClientRow(db: Db, id: string): Promise<OAuthClientRow | undefined> {
  return db.selectFrom('oauth_clients').select(columns).where('id', '=', id).executeTakeFirst();
}

/** The client that an owner uses for an app. */
export async function findClientOf(
  db: Db,
  ownerId: string,
  appSlug: string,
): Promise<OAuthClientRow | undefined> {
  return db
    .selectFrom('oauth_clients')
    .select(columns)
    .where('owner_id', '=', ownerId)
    .where('app_slug', '=', appSlug)
    .executeTakeFirst();
}

export async function insertClient(tx: Tx, client: OAuthClientRow): Promise<void> {
  await tx.insertInto('oauth_clients').values(client).execute();
}

export async function changeClient(tx: Tx, id: string, changes: Partial<OAuthClientRow>): Promise<void> {
  await tx.updateTable('oauth_clients').set(changes).where('id', '=', id).execute();
}

export async function removeClient(tx: Tx, id: string): Promise<void> {
  await tx.deleteFrom('oauth_clients').where('id', '=', id).execute();
}

/** How many accounts were connected with the client. */
export async function countAccountsOf(db: Db, clientId: string): Promise<number> {
  const { count } = await db
    .selectFrom('accounts')
    .select((select) => select.fn.countAll<number>().as('count'))
    .where('oauth_client_id', '=', clientId)
    .executeTakeFirstOrThrow();
  return Number(count);
}

/**
 * The client changed: accounts of it that can be refreshed are, to see whether it works. Those that are looked at only
 * when their token ends, because there is nothing to refresh it with, are left until then.
 */
export async function refreshAccountsOf(tx: Tx, clientId: string, nowMs: number): Promise<void> {
  await tx
    .updateTable('accounts')
    .set({ next_refresh_at_ms: nowMs })
    .where('oauth_client_id', '=', clientId)
    .where('dead', '=', 0)
    .where('next_refresh_at_ms', 'is not', null)
    .where((where) =>
      where.or([
        where('refresh_failures', '>', 0),
        where('next_refresh_at_ms', '<', where.ref('expires_at_ms')),
      ]),
    )
    .execute();
}
