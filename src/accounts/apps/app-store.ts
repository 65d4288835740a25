import type { Db, Tx } from '#storage/store.ts';
import type { AppTable } from '#storage/tables/account-tables.ts';

/** Apps that owners added: rows of `apps`. */
export async function findOwnApps(
  db: Db,
  ownerIds: readonly string[],
  name: { slug: string } | { appId: string },
): Promise<AppTable[]> {
  if (ownerIds.length === 0) return [];
  const query = db
    .selectFrom('apps')
    .selectAll()
    .where('owner_id', 'in', [...ownerIds]);
  return 'slug' in name
    ? query.where('slug', '=', name.slug).execute()
    : query.where('app_id', '=', name.appId).execute();
}

export async function selectOwnApps(db: Db, ownerIds: readonly string[]): Promise<AppTable[]> {
  if (ownerIds.length === 0) return [];
  return db
    .selectFrom('apps')
    .selectAll()
    .where('owner_id', 'in', [...ownerIds])
    .orderBy('slug')
    .execute();
}

export async function countOwnApps(db: Db, ownerId: string): Promise<number> {
  const { count } = await db
    .selectFrom('apps')
    .select((select) => select.fn.countAll().as('count'))
    .where('owner_id', '=', ownerId)
    .executeTakeFirstOrThrow();
  return Number(count);
}

/** False: the owner has an app with this slug already. */
export async function insertOwnApp(tx: Tx, app: AppTable): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('apps')
    .values(app)
    .onConflict((conflict) => conflict.columns(['owner_id', 'slug']).doNothing())
    .executeTakeFirst();
  return (numInsertedOrUpdatedRows ?? 0n) > 0n;
}

/** False: there is none. */
export async function changeOwnApp(
  tx: Tx,
  { owner_id, slug }: Pick<AppTable, 'owner_id' | 'slug'>,
  changes: Pick<AppTable, 'definition' | 'updated_at_ms'>,
): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('apps')
    .set(changes)
    .where('owner_id', '=', owner_id)
    .where('slug', '=', slug)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** Also removes the owner's client at its provider, which is no longer of use. */
export async function removeOwnApp(
  tx: Tx,
  { owner_id, slug }: Pick<AppTable, 'owner_id' | 'slug'>,
): Promise<void> {
  await tx.deleteFrom('apps').where('owner_id', '=', owner_id).where('slug', '=', slug).execute();
  await tx
    .deleteFrom('oauth_clients')
    .where('owner_id', '=', owner_id)
    .where('app_slug', '=', slug)
    .execute();
}

/** Accounts of the app that the owner has, oldest first, and how many there are. */
export async function accountsOfApp(
  db: Db,
  ownerId: string,
  slug: string,
  limit: number,
): Promise<{ ids: string[]; count: number }> {
  const accounts = db.selectFrom('accounts').where('owner_id', '=', ownerId).where('app_slug', '=', slug);
  const { count } = await accounts
    .select((select) => select.fn.countAll().as('count'))
    .executeTakeFirstOrThrow();
  const rows = await accounts.select('id').orderBy('created_at_ms').orderBy('id').limit(limit).execute();
  return { ids: rows.map((row) => row.id), count: Number(count) };
}
