import { createHash } from 'node:crypto';
import type { PackageFetcher, PackageFile } from '#components/package-fetcher.ts';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Store } from '#storage/store.ts';
import type { PackageKind, RegistryPackageTable } from '#storage/tables/registry-tables.ts';
import {
  allPackages,
  deletePackages,
  findPackages,
  insertPackage,
  keysOfPackages,
  type NewPackage,
  type PackageKey,
} from './package-store.ts';
import { readFolder } from './read-folder.ts';
import { type FileProblem, scanPackage } from './scan-package.ts';

/** A package as it is shown. */
export interface PackageView {
  id: string;
  kind: PackageKind;
  name: string;
  version: string;
  integrity: string;
  apps: string[];
  keys: PackageKey[];
  problems: FileProblem[];
  created_at: number;
}

export interface RegistryOptions {
  store: Store;
  clock: Clock;
  fetcher: Pick<PackageFetcher, 'download' | 'scan'>;
  /** Reports progress to the user. */
  progress?: (line: string) => void;
}

/** Problems of one package that are kept. */
const problemsMax = 200;

/**
 * Adds a package of npm for the whole instance, beside other versions of it; `version` may be a range or a tag. One that is
 * there already is answered as it is. All or nothing: whatever fails leaves the registry as it was. Throws what
 * `PackageFetcher` does, and CallerError `no_components`.
 */
export async function addPackage(
  options: RegistryOptions,
  wanted: { name: string; version?: string | undefined; userId: string | null },
): Promise<PackageView> {
  const { name, version, integrity, files } = await options.fetcher.download(
    wanted.name,
    wanted.version,
    wanted.userId ?? undefined,
  );
  const known = await keptPackage(options.store, { name, version, integrity });
  if (known !== undefined) return known;
  const { userId } = wanted;
  const added = await scanned(options, { kind: 'npm', name, version, integrity, userId }, files);
  const isNew = await options.store.transaction((tx) => insertPackage(options.store, tx, added));
  const kept = isNew ? undefined : await keptPackage(options.store, { name, version, integrity });
  return kept ?? viewOfOne(options.store, added.row);
}

/**
 * Adds a folder of this machine, by its absolute path, in the place of what it was when it was last added. Throws
 * CallerError `invalid_parameter`, `no_components`, `component_too_large`.
 */
export async function addFolder(options: RegistryOptions, folder: string): Promise<PackageView> {
  const files = await readFolder(folder);
  options.progress?.(`${files.length} files were read; looking for components in them`);
  const hash = createHash('sha256');
  for (const { path, text } of files)
    hash.update(`${Buffer.byteLength(path)}:${path}${Buffer.byteLength(text)}:`).update(text);
  const digest = hash.digest();
  const version = digest.toString('hex').slice(0, 12);
  const integrity = `sha256-${digest.toString('base64')}`;
  const [known] = await findPackages(options.store.read, folder, version);
  if (known !== undefined) return viewOfOne(options.store, known);
  const head = { kind: 'folder', name: folder, version, integrity, userId: null } as const;
  const added = await scanned(options, head, files);
  options.progress?.(`${added.components.length} components were found; keeping the files`);
  await options.store.transaction(async (tx) => {
    await insertPackage(options.store, tx, added);
    const before = await findPackages(tx, folder);
    await deletePackages(
      tx,
      before.flatMap(({ id, version: of }) => (of === version ? [] : [id])),
    );
  });
  // What was added elsewhere at the same time is only seen now: the last one stays.
  const [newest = added.row, ...older] = await findPackages(options.store.read, folder);
  await options.store.transaction((tx) =>
    deletePackages(
      tx,
      older.map(({ id }) => id),
    ),
  );
  return viewOfOne(options.store, newest);
}

/**
 * Adds the newest version of one package, or of all, beside the existing ones; a folder is read again. In the order of names. Of
 * all, those that fail do not stop the others; the failure is thrown at the end, as the CallerError or UnavailableError of the
 * first one, which names each.
 */
export async function updatePackages(
  options: RegistryOptions,
  name: string | undefined,
  onDone: (updated: { name: string; before: string[]; now: PackageView }) => void,
): Promise<void> {
  const packages =
    name === undefined ? await allPackages(options.store.read) : await findPackages(options.store.read, name);
  if (name !== undefined && packages.length === 0) throw unknownPackage(name, undefined);
  const byName = Map.groupBy(packages, (row) => row.name);
  const failed: { name: string; error: CallerError | UnavailableError }[] = [];
  for (const [of, versions] of byName) {
    const isFolder = versions.some(({ kind }) => kind === 'folder');
    try {
      const now = isFolder
        ? await addFolder(options, of)
        : await addPackage(options, { name: of, userId: null });
      onDone({ name: of, before: versions.map(({ version }) => version), now });
    } catch (error) {
      if (!(error instanceof CallerError || error instanceof UnavailableError) || name !== undefined)
        throw error;
      failed.push({ name: of, error });
    }
  }
  const [first] = failed;
  if (first === undefined) return;
  const reasons = failed.map(({ name: of, error }) => `${of}: ${error.message}`).join('; ');
  const message = `${failed.length} of ${byName.size} packages could not be updated: ${reasons}`;
  const cause = first.error;
  throw cause instanceof CallerError
    ? new CallerError(cause.code, message, { packages: failed.map(({ name: of }) => of) }, { cause })
    : new UnavailableError(cause.code, message, { cause });
}

/** Removes one version, or all. What was built from it stays, and what uses that runs on. Throws CallerError `not_found`. */
export async function removePackages(
  { store }: Pick<RegistryOptions, 'store'>,
  name: string,
  version: string | undefined,
): Promise<RegistryPackageTable[]> {
  return store.transaction(async (tx) => {
    const found = await findPackages(tx, name, version);
    if (found.length === 0) throw unknownPackage(name, version);
    await deletePackages(
      tx,
      found.map(({ id }) => id),
    );
    return found;
  });
}

export async function viewPackages(
  store: Pick<Store, 'read'>,
  rows: readonly RegistryPackageTable[],
): Promise<PackageView[]> {
  const keys = await keysOfPackages(
    store.read,
    rows.map(({ id }) => id),
  );
  return rows.map((row) => ({
    id: row.id,
    kind: row.kind,
    name: row.name,
    version: row.version,
    integrity: row.integrity,
    apps: JSON.parse(row.apps) as string[],
    keys: keys.get(row.id) ?? [],
    problems: JSON.parse(row.problems) as FileProblem[],
    created_at: epochSeconds(row.created_at_ms),
  }));
}

async function viewOfOne(store: Store, row: RegistryPackageTable): Promise<PackageView> {
  const [view] = await viewPackages(store, [row]);
  if (view === undefined) throw new Error('assertion failed: one package has one view');
  return view;
}

/** What the registry has under this name and version. A version whose content changed is not to be trusted. */
async function keptPackage(
  store: Store,
  { name, version, integrity }: { name: string; version: string; integrity: string },
): Promise<PackageView | undefined> {
  const [known] = await findPackages(store.read, name, version);
  if (known === undefined) return undefined;
  if (known.integrity === integrity) return viewOfOne(store, known);
  throw new CallerError(
    'package_refused',
    `${name}@${version} has other content than when it was added: remove it first if that is right`,
    { package: `${name}@${version}` },
  );
}

async function scanned(
  { clock, fetcher }: RegistryOptions,
  head: { kind: PackageKind; name: string; version: string; integrity: string; userId: string | null },
  files: readonly PackageFile[],
): Promise<NewPackage> {
  const { components, apps, problems } = await scanPackage(files, fetcher, head.userId ?? undefined);
  const shown = problems.slice(0, problemsMax);
  if (components.length === 0) {
    const [first] = problems;
    const reason = first === undefined ? '' : `: ${first.path}: ${first.message}`;
    const message = `${head.name} has no components in folders actions or sources${reason}`;
    throw new CallerError('no_components', message, { package: head.name, problems: shown });
  }
  const { userId, ...named } = head;
  const row: RegistryPackageTable = {
    id: newId('pkg'),
    ...named,
    apps: JSON.stringify(apps),
    problems: JSON.stringify(shown),
    files: files.length,
    bytes: files.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0),
    user_id: userId,
    created_at_ms: clock.now(),
  };
  return { row, files, components };
}

function unknownPackage(name: string, version: string | undefined): CallerError {
  const shown = version === undefined ? name : `${name}@${version}`;
  return new CallerError('not_found', `the registry has no package ${JSON.stringify(shown)}`, {
    parameter: version === undefined ? 'name' : 'version',
  });
}
