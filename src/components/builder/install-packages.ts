import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { bytesText } from '#lib/units.ts';
import type { InstallRequest, PackageLock } from './build-messages.ts';
import { InstallRefusal, registriesOf } from './install-rules.ts';
import { parseNpmArgument } from './npm-argument.ts';
import { Arborist, type ArboristInstance, type PackageNode } from './npm-modules.ts';
import { npmOptions, publicRegistry } from './npm-options.ts';
import { type PackageSpecifier, parsePackageSpecifier } from './package-specifier.ts';
import { pinTags } from './pin-tags.ts';

/** What was installed: `lockfile` is the text of a package-lock.json, with which the same can be had again. */
export interface Installed {
  aliases: Record<string, string>;
  lock: PackageLock;
  lockfile: string;
}

/**
 * Installs the packages of `request.specifiers` below `request.folder`, or those of its `lockfile`, with every check
 * before anything is unpacked.
 */
export async function installPackages(request: InstallRequest): Promise<Installed> {
  // Processes of other users read what stays.
  process.umask(0o022);
  if (request.lockfile !== undefined) return installAgain(request, request.lockfile);
  const { dependencies, aliases } = planDependencies(request);
  await writeProject(request.folder, dependencies);
  const arborist = await resolvePackages(request);
  arborist.idealTree?.meta?.commit();
  const lockfile = arborist.idealTree?.meta?.toString() ?? '';
  const tree = await arborist.reify();
  return { aliases, lock: lockOf(tree, request, aliases), lockfile };
}

/** How far back versions are looked for when the newest ones depend on what the registry does not have. */
const olderByDays = [30, 90, 180];

async function resolvePackages(request: InstallRequest): Promise<ArboristInstance> {
  const options = arboristOptions(request);
  try {
    return await resolveTree(request, options);
  } catch (error) {
    if (!isOfDependency(error, request)) throw error;
    for (const days of olderByDays) {
      const before = new Date(request.nowMs - days * 24 * 3_600_000);
      const older = await resolveTree(request, { ...options, before }).catch(() => null);
      if (older !== null) return older;
    }
    throw error;
  }
}

/**
 * A mirror of a registry may have a package and not yet the version of another that it needs: the version before it did
 * without. This does not apply to packages that the component itself names.
 */
function isOfDependency(problem: unknown, request: InstallRequest): boolean {
  const { code, name } = problem as { code?: string; name?: string };
  return code === 'ETARGET' && !request.specifiers.some((text) => parsePackageSpecifier(text)?.name === name);
}

/** The very same versions and contents, on another machine or after the folder was removed. */
async function installAgain(request: InstallRequest, lockfile: string): Promise<Installed> {
  const locked = JSON.parse(lockfile) as {
    packages?: Record<string, { dependencies?: Record<string, string> }>;
  };
  pinTags(locked.packages ?? {});
  await writeProject(request.folder, locked.packages?.['']?.dependencies ?? {});
  await writeFile(join(request.folder, 'package-lock.json'), JSON.stringify(locked));
  const arborist = await resolveTree(request, { ...arboristOptions(request), packageLock: true });
  const tree = await arborist.reify();
  return { aliases: {}, lock: lockOf(tree, request, {}), lockfile };
}

/** What is to be installed, checked. */
async function resolveTree(
  request: InstallRequest,
  options: Record<string, unknown>,
): Promise<ArboristInstance> {
  let arborist = new Arborist(options);
  try {
    await arborist.buildIdealTree();
  } catch (error) {
    if ((error as { code?: string }).code !== 'ERESOLVE') throw error;
    // Packages that were never meant to agree on a peer, such as two unpinned ones: npm's older rule lets both in.
    arborist = new Arborist({ ...options, legacyPeerDeps: true });
    await arborist.buildIdealTree();
  }
  checkTree(arborist.idealTree, request);
  return arborist;
}

async function writeProject(folder: string, dependencies: Record<string, string>): Promise<void> {
  const text = JSON.stringify({ name: 'component', private: true, dependencies });
  await writeFile(join(folder, 'package.json'), text);
}

/** Two versions of one package live side by side under `npm:` aliases of our own. */
function planDependencies(request: InstallRequest): {
  dependencies: Record<string, string>;
  aliases: Record<string, string>;
} {
  const dependencies: Record<string, string> = {};
  const aliases: Record<string, string> = {};
  // Without a version first: they keep the package's own name, which peers look for.
  const specifiers = request.specifiers
    .map((text) => checkSpecifier(text))
    .sort((a, b) => Number(a.range !== undefined) - Number(b.range !== undefined));
  for (const [index, { name, range, request: text }] of specifiers.entries()) {
    const wanted = range ?? declaredRange(name, request) ?? 'latest';
    const takenBy = dependencies[name];
    const folder = takenBy === undefined ? name : `millrace-${index}-${name.replace(/^@[^/]+\//, '')}`;
    dependencies[folder] = folder === name ? wanted : `npm:${name}@${wanted}`;
    if (text !== folder) aliases[text] = folder;
  }
  return { dependencies, aliases };
}

function checkSpecifier(text: string): PackageSpecifier {
  const specifier = parsePackageSpecifier(text);
  if (specifier === null) throw unsupported(text);
  checkRange(specifier.name, specifier.range ?? '', text);
  return specifier;
}

export function checkRange(name: string, range: string, shown: string): void {
  let type: string;
  try {
    type = parseNpmArgument(name, range).type;
  } catch {
    throw unsupported(shown);
  }
  if (type !== 'version' && type !== 'range' && type !== 'tag') throw unsupported(shown);
}

function declaredRange(name: string, request: InstallRequest): string | undefined {
  if (!Object.hasOwn(request.declared, name)) return undefined;
  const range = request.declared[name];
  if (range !== undefined) checkRange(name, range, `${name}@${range}`);
  return range;
}

function unsupported(specifier: string): InstallRefusal {
  return new InstallRefusal(
    'unsupported_specifier',
    `${JSON.stringify(specifier)} is not supported: expected the name of an npm package with a version, range or tag`,
    { specifier },
  );
}

function arboristOptions(request: InstallRequest): Record<string, unknown> {
  return {
    ...npmOptions(request),
    path: request.folder,
    binLinks: false,
    audit: false,
    fund: false,
    save: false,
    packageLock: false,
    // Another node may have another registry.
    omitLockfileRegistryResolved: true,
    omit: ['dev'],
    installLinks: false,
  };
}

function checkTree(tree: PackageNode | null, request: InstallRequest): void {
  const nodes = [...(tree?.inventory.values() ?? [])].filter((node) => !node.isRoot);
  if (nodes.length > request.packagesMax) {
    throw new InstallRefusal(
      'component_too_large',
      `the component needs more than ${request.packagesMax} npm packages`,
      {},
    );
  }
  const hosts = new Set([...registriesOf(request.npm).map((url) => new URL(url).host), publicRegistry]);
  let unpackedBytes = 0;
  for (const node of nodes) {
    const name = node.packageName ?? node.name;
    const details = { package: `${name}@${node.version}` };
    if (node.isLink) throw new InstallRefusal('package_refused', `${name} is a link, not a package`, details);
    // Comes inside the tarball of another package, whose integrity covers it.
    if (node.inBundle) continue;
    if (!node.integrity)
      throw new InstallRefusal('package_refused', `the registry gives no integrity for ${name}`, details);
    // Without an address, as in our lockfiles, npm asks the configured registry for the name and version.
    const isFromRegistry =
      node.resolved === null
        ? request.lockfile !== undefined
        : URL.canParse(node.resolved) && hosts.has(new URL(node.resolved).host);
    if (!isFromRegistry) {
      throw new InstallRefusal(
        'package_refused',
        `${name} does not come from the configured registry`,
        details,
      );
    }
    const { dist } = node.package as { dist?: { unpackedSize?: unknown } };
    if (typeof dist?.unpackedSize === 'number') unpackedBytes += dist.unpackedSize;
  }
  if (unpackedBytes > request.bytesMax) {
    throw new InstallRefusal(
      'component_too_large',
      `the npm packages of the component unpack to more than ${bytesText(request.bytesMax)}`,
      {},
    );
  }
}

function lockOf(tree: PackageNode, request: InstallRequest, aliases: Record<string, string>): PackageLock {
  const lock: PackageLock = { imports: {}, packages: {} };
  for (const node of [...tree.inventory.values()].sort((a, b) => (a.location < b.location ? -1 : 1))) {
    if (node.isRoot) continue;
    const name = node.packageName ?? node.name;
    lock.packages[node.location] = { name, version: node.version ?? '', integrity: node.integrity ?? '' };
  }
  for (const specifier of request.specifiers) {
    const at = lock.packages[`node_modules/${aliases[specifier] ?? specifier}`];
    if (at !== undefined) lock.imports[specifier] = { name: at.name, version: at.version };
  }
  return lock;
}
