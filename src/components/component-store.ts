import { must } from '#lib/assert.ts';
import type { Bundle } from '#runner/runner.ts';
import type { Db, Tx } from '#storage/store.ts';
import type { BundleTable, ComponentTable } from '#storage/tables/component-tables.ts';
import { insertUse } from './component-use-store.ts';

const componentColumns = [
  'id',
  'owner_id',
  'user_id',
  'component_key',
  'code',
  'code_hash',
  'tree_hash',
  'url',
  'name',
  'version',
  'shape',
  'bundle_hash',
  'lock',
  'created_at_ms',
  'updated_at_ms',
] as const;

export async function findComponent(db: Db, id: string): Promise<ComponentTable | undefined> {
  return db.selectFrom('components').select(componentColumns).where('id', '=', id).executeTakeFirst();
}

/** Many components, by id. */
export async function findComponents(db: Db, ids: readonly string[]): Promise<Map<string, ComponentTable>> {
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom('components')
    .select(componentColumns)
    .where('id', 'in', [...ids])
    .execute();
  return new Map(rows.map((row) => [row.id, row]));
}

/** JSON of the shapes of many components, by id. */
export async function componentShapes(db: Db, ids: readonly string[]): Promise<Map<string, string>> {
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom('components')
    .select(['id', 'shape'])
    .where('id', 'in', [...ids])
    .execute();
  return new Map(rows.map((row) => [row.id, row.shape]));
}

/** The newest saved component with this `key` (and version, where one is given) among those the owners have. */
export async function findComponentByKey(
  db: Db,
  key: string,
  ownerIds: readonly string[],
  version?: string,
): Promise<ComponentTable | undefined> {
  if (ownerIds.length === 0) return undefined;
  const query = db
    .selectFrom('components')
    .select(componentColumns)
    .where('component_key', '=', key)
    .where('owner_id', 'in', [...ownerIds]);
  return (version === undefined ? query : query.where('version', '=', version))
    .orderBy('created_at_ms', 'desc')
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst();
}

/** What the owner already saved from exactly these files, dependencies and address. */
export async function findComponentByTree(
  db: Db,
  options: { ownerId: string; treeHash: string; url: string | null },
): Promise<ComponentTable | undefined> {
  return db
    .selectFrom('components')
    .select(componentColumns)
    .where('owner_id', '=', options.ownerId)
    .where('tree_hash', '=', options.treeHash)
    .where('url', options.url === null ? 'is' : '=', options.url)
    .orderBy('created_at_ms', 'desc')
    .limit(1)
    .executeTakeFirst();
}

/** What the owner already saved from there: an address that always has the same files. */
export async function findComponentByOrigin(
  db: Db,
  options: { ownerId: string; key: string; origin: string },
): Promise<ComponentTable | undefined> {
  return db
    .selectFrom('components')
    .select(componentColumns)
    .where('owner_id', '=', options.ownerId)
    .where('component_key', '=', options.key)
    .where('url', '=', options.origin)
    .orderBy('created_at_ms', 'desc')
    .limit(1)
    .executeTakeFirst();
}

/** What the owner already saved from exactly this source text. */
export async function findComponentByCode(
  db: Db,
  options: { ownerId: string; codeHash: string; url: string | null },
): Promise<ComponentTable | undefined> {
  return db
    .selectFrom('components')
    .select(componentColumns)
    .where('owner_id', '=', options.ownerId)
    .where('code_hash', '=', options.codeHash)
    .where('url', options.url === null ? 'is' : '=', options.url)
    .orderBy('created_at_ms', 'desc')
    .limit(1)
    .executeTakeFirst();
}

export async function insertComponent(tx: Tx, component: ComponentTable, bundle: BundleTable): Promise<void> {
  await tx
    .insertInto('bundles')
    .values(bundle)
    .onConflict((conflict) =>
      // Renewed, so that it is not removed meanwhile with the last other component that has it.
      conflict.columns(['owner_id', 'hash']).doUpdateSet({ created_at_ms: bundle.created_at_ms }),
    )
    .execute();
  await tx.insertInto('components').values(component).execute();
  const { id, owner_id, created_at_ms: nowMs } = component;
  await insertUse(tx, { id, owner_id, nowMs });
}

/** What a saved component runs. */
export async function bundleOf(
  db: Db,
  component: Pick<ComponentTable, 'id' | 'owner_id' | 'bundle_hash'>,
): Promise<Bundle> {
  const row = await db
    .selectFrom('bundles')
    .select(['hash', 'format', 'code', 'packages'])
    .where('owner_id', '=', component.owner_id)
    .where('hash', '=', component.bundle_hash)
    .executeTakeFirst();
  const { hash, code, format, packages } = must(row, `bundle of ${component.id}`);
  return {
    ...{ hash, code, format },
    ...(packages === null ? {} : { packages: { ownerId: component.owner_id, lockfile: packages } }),
  };
}
