import type { PackageFile } from '#components/package-fetcher.ts';
import { insertRows } from '#storage/insert-rows.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type {
  RegistryComponentTable,
  RegistryFileTable,
  RegistryPackageTable,
} from '#storage/tables/registry-tables.ts';
import type { ScannedComponent } from './scan-package.ts';

export interface NewPackage {
  row: RegistryPackageTable;
  files: readonly PackageFile[];
  components: readonly ScannedComponent[];
}

const packageColumns = [
  'id',
  'kind',
  'name',
  'version',
  'integrity',
  'apps',
  'problems',
  'files',
  'bytes',
  'user_id',
  'created_at_ms',
] as const;

const fileInsert = {
  table: 'registry_files',
  columns: ['package_id', 'path', 'content', 'encoding'],
} as const;
const componentInsert = {
  table: 'registry_components',
  columns: [
    'package_id',
    'component_key',
    'version',
    'kind',
    'app',
    'name',
    'description',
    'path',
    'component_id',
  ],
} as const;

/** Packages, for `pageOf`. */
export function packagesQuery(db: Db) {
  return db.selectFrom('registry_packages').select(packageColumns);
}

/** All versions of a package, or one of them; newest first. */
export async function findPackages(db: Db, name: string, version?: string): Promise<RegistryPackageTable[]> {
  const query = packagesQuery(db).where('name', '=', name);
  return (version === undefined ? query : query.where('version', '=', version))
    .orderBy('created_at_ms', 'desc')
    .orderBy('id', 'desc')
    .execute();
}

export async function allPackages(db: Db): Promise<RegistryPackageTable[]> {
  return packagesQuery(db).orderBy('name').orderBy('created_at_ms').orderBy('id').execute();
}

/** Ids of all packages: the same ids mean the same content, since packages never change. */
export async function packageIds(db: Db): Promise<string[]> {
  const rows = await db.selectFrom('registry_packages').select('id').orderBy('id').execute();
  return rows.map(({ id }) => id);
}

/** False when that version of that package is there already; nothing is changed then. */
export async function insertPackage(store: Store, tx: Tx, added: NewPackage): Promise<boolean> {
  const { row, files, components } = added;
  const inserted = await tx
    .insertInto('registry_packages')
    .values(row)
    .onConflict((conflict) => conflict.columns(['name', 'version']).doNothing())
    .returning('id')
    .execute();
  if (inserted.length === 0) return false;
  const fileRows = files.map(
    ({ path, text, encoding }): RegistryFileTable => ({
      package_id: row.id,
      path,
      content: text,
      encoding: encoding ?? 'utf8',
    }),
  );
  const componentRows = components.map(({ key, ...component }) => ({
    package_id: row.id,
    component_key: key,
    component_id: null,
    ...component,
  }));
  for (const query of [
    ...insertRows(store, fileInsert, fileRows),
    ...insertRows(store, componentInsert, componentRows),
  ]) {
    await tx.executeQuery(query);
  }
  return true;
}

/** With its files and keys; components that were built from it stay. */
export async function deletePackages(tx: Tx, ids: readonly string[]): Promise<void> {
  if (ids.length > 0)
    await tx
      .deleteFrom('registry_packages')
      .where('id', 'in', [...ids])
      .execute();
}

/** Every package that has this key. */
export async function findPackagedKey(
  db: Db,
  key: string,
): Promise<(RegistryComponentTable & { package_created_at_ms: number })[]> {
  return db
    .selectFrom('registry_components')
    .innerJoin('registry_packages', 'registry_packages.id', 'registry_components.package_id')
    .selectAll('registry_components')
    .select('registry_packages.created_at_ms as package_created_at_ms')
    .where('component_key', '=', key)
    .orderBy('registry_packages.id')
    .execute();
}

export type ListedComponent = Omit<RegistryComponentTable, 'component_id' | 'path'> & {
  package_name: string;
  package_version: string;
  package_created_at_ms: number;
};

/** Everything that is in packages. */
export async function listPackagedComponents(db: Db): Promise<ListedComponent[]> {
  return db
    .selectFrom('registry_components')
    .innerJoin('registry_packages', 'registry_packages.id', 'registry_components.package_id')
    .select([
      'package_id',
      'component_key',
      'registry_components.version',
      'registry_components.kind',
      'app',
      'registry_components.name',
      'description',
      'registry_packages.name as package_name',
      'registry_packages.version as package_version',
      'registry_packages.created_at_ms as package_created_at_ms',
    ])
    .execute();
}

/** Keys of packages, by package, in order. */
export async function keysOfPackages(db: Db, ids: readonly string[]): Promise<Map<string, PackageKey[]>> {
  const keys = new Map<string, PackageKey[]>(ids.map((id) => [id, []]));
  if (ids.length === 0) return keys;
  const rows = await db
    .selectFrom('registry_components')
    .select(['package_id', 'component_key', 'version', 'kind'])
    .where('package_id', 'in', [...ids])
    .orderBy('component_key')
    .execute();
  for (const { package_id, component_key: key, version, kind } of rows) {
    keys.get(package_id)?.push({ key, version, type: kind === 'sources' ? 'source' : 'action' });
  }
  return keys;
}

export interface PackageKey {
  key: string;
  version: string;
  type: 'source' | 'action';
}

export async function readPackageFile(
  db: Db,
  packageId: string,
  path: string,
): Promise<Omit<PackageFile, 'path'> | null> {
  const row = await db
    .selectFrom('registry_files')
    .select(['content', 'encoding'])
    .where('package_id', '=', packageId)
    .where('path', '=', path)
    .executeTakeFirst();
  if (row === undefined) return null;
  return { text: row.content, ...(row.encoding === 'base64' ? { encoding: row.encoding } : {}) };
}

/** What was built from this key of this package: from now on nothing is resolved or built for it again. */
export async function keepBuilt(
  tx: Tx,
  built: { packageId: string; key: string; componentId: string },
): Promise<void> {
  await tx
    .updateTable('registry_components')
    .set({ component_id: built.componentId })
    .where('package_id', '=', built.packageId)
    .where('component_key', '=', built.key)
    .execute();
}
