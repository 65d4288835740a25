import { insertRows } from '#storage/insert-rows.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { RegistryRepositoryTable, RegistryVersionTable } from '#storage/tables/registry-tables.ts';

const repositoryColumns = [
  ...([
    'id',
    'url',
    'ref',
    'commit_id',
    'generation',
    'state',
    'state_since_ms',
    'error',
    'error_code',
  ] as const),
  ...(['progress', 'commits', 'components', 'versions', 'problems', 'user_id'] as const),
  ...(['created_at_ms', 'indexed_at_ms'] as const),
] as const;

/** What is found again stays as it is: its commit is pinned. */
const versionInsert = {
  table: 'registry_versions',
  columns: [
    ...([
      'repository_id',
      'generation',
      'component_key',
      'version',
      'kind',
      'app',
      'name',
      'description',
    ] as const),
    ...(['path', 'commit_id', 'committed_at_ms', 'is_head'] as const),
  ],
  ending: 'on conflict (repository_id, generation, component_key, version) do nothing',
} as const;

/** Repositories, for `pageOf`. */
export function repositoriesQuery(db: Db) {
  return db.selectFrom('registry_repositories').select(repositoryColumns);
}

export async function allRepositories(db: Db): Promise<RegistryRepositoryTable[]> {
  return repositoriesQuery(db).orderBy('url').orderBy('ref').execute();
}

export async function findRepository(db: Db, id: string): Promise<RegistryRepositoryTable | undefined> {
  return repositoriesQuery(db).where('id', '=', id).executeTakeFirst();
}

/** The repositories with this URL, or the one of them with this ref. */
export async function findRepositories(
  db: Db,
  url: string,
  ref?: string,
): Promise<RegistryRepositoryTable[]> {
  const query = repositoriesQuery(db).where('url', '=', url);
  return (ref === undefined ? query : query.where('ref', '=', ref)).orderBy('ref').execute();
}

/** False when it is there already. */
export async function insertRepository(tx: Tx, row: RegistryRepositoryTable): Promise<boolean> {
  const inserted = await tx
    .insertInto('registry_repositories')
    .values(row)
    .onConflict((conflict) => conflict.columns(['url', 'ref']).doNothing())
    .returning('id')
    .execute();
  return inserted.length > 0;
}

/** False when there is no such repository. */
export async function changeRepository(
  tx: Tx,
  id: string,
  changes: Partial<Omit<RegistryRepositoryTable, 'id' | 'url' | 'ref' | 'created_at_ms'>>,
): Promise<boolean> {
  const changed = await tx
    .updateTable('registry_repositories')
    .set(changes)
    .where('id', '=', id)
    .returning('id')
    .execute();
  return changed.length > 0;
}

/** With its index; components that were built from it stay. */
export async function deleteRepository(tx: Tx, id: string): Promise<void> {
  await tx.deleteFrom('registry_repositories').where('id', '=', id).execute();
}

export async function insertVersions(
  store: Store,
  tx: Tx,
  rows: readonly RegistryVersionTable[],
): Promise<void> {
  for (const query of insertRows(store, versionInsert, rows)) await tx.executeQuery(query);
}

/** Removes what was written for other generations than `generation`, at most `limit` rows; answers how many. */
export async function deleteOldVersions(
  tx: Tx,
  { id, generation, limit }: { id: string; generation: number; limit: number },
): Promise<number> {
  const old = await tx
    .selectFrom('registry_versions')
    .select(['generation', 'component_key', 'version'])
    .where('repository_id', '=', id)
    .where('generation', '<>', generation)
    .limit(limit)
    .execute();
  for (const row of old)
    await tx
      .deleteFrom('registry_versions')
      .where('repository_id', '=', id)
      .where('generation', '=', row.generation)
      .where('component_key', '=', row.component_key)
      .where('version', '=', row.version)
      .execute();
  return old.length;
}

export interface HeadVersion {
  component_key: string;
  version: string;
}

/** What the components of a generation have at the ref. */
export async function headVersions(db: Db, id: string, generation: number): Promise<HeadVersion[]> {
  return db
    .selectFrom('registry_versions')
    .select(['component_key', 'version'])
    .where('repository_id', '=', id)
    .where('generation', '=', generation)
    .where('is_head', '=', 1)
    .execute();
}

export async function setHead(
  tx: Tx,
  { id, generation, head, isHead }: { id: string; generation: number; head: HeadVersion; isHead: boolean },
): Promise<void> {
  await tx
    .updateTable('registry_versions')
    .set({ is_head: isHead ? 1 : 0 })
    .where('repository_id', '=', id)
    .where('generation', '=', generation)
    .where('component_key', '=', head.component_key)
    .where('version', '=', head.version)
    .execute();
}

export async function countVersions(db: Db, id: string, generation: number): Promise<number> {
  const { count } = await db
    .selectFrom('registry_versions')
    .select((select) => select.fn.countAll<number>().as('count'))
    .where('repository_id', '=', id)
    .where('generation', '=', generation)
    .executeTakeFirstOrThrow();
  return Number(count);
}

/** A version of a component, with the repository that it is in. */
export type RepositoryVersion = Omit<RegistryVersionTable, 'generation'> & {
  url: string;
  repository_created_at_ms: number;
};

function versionsQuery(db: Db) {
  return db
    .selectFrom('registry_versions')
    .innerJoin('registry_repositories', (join) =>
      join
        .onRef('registry_repositories.id', '=', 'registry_versions.repository_id')
        .onRef('registry_repositories.generation', '=', 'registry_versions.generation'),
    )
    .select([
      ...([
        'repository_id',
        'component_key',
        'version',
        'kind',
        'app',
        'name',
        'description',
        'path',
      ] as const),
      ...(['registry_versions.commit_id as commit_id', 'committed_at_ms', 'is_head', 'url'] as const),
      'registry_repositories.created_at_ms as repository_created_at_ms',
    ]);
}

/** All versions of a component that repositories have, or one of them; in each repository, the newest commits first. */
export async function findRepositoryVersions(
  db: Db,
  key: string,
  version?: string,
): Promise<RepositoryVersion[]> {
  const query = versionsQuery(db).where('component_key', '=', key);
  return (version === undefined ? query : query.where('version', '=', version))
    .orderBy('repository_created_at_ms', 'desc')
    .orderBy('committed_at_ms', 'desc')
    .execute();
}

/** What the repositories have at their refs. */
export async function listHeadVersions(db: Db): Promise<RepositoryVersion[]> {
  return versionsQuery(db).where('is_head', '=', 1).execute();
}

/** The same ones mean the same components at the refs. */
export async function repositoryTips(db: Db): Promise<string[]> {
  const rows = await db
    .selectFrom('registry_repositories')
    .select(['id', 'generation', 'commit_id'])
    .orderBy('id')
    .execute();
  return rows.map(({ id, generation, commit_id }) => `${id} ${generation} ${commit_id}`);
}
