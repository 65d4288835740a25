import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Tarballs of exact versions, which never change: the client's start takes longer than all else here. */
const tarballs = fileURLToPath(new URL('../../node_modules/.cache/packages', import.meta.url));

const npmCache = fileURLToPath(new URL('../../node_modules/.cache/components-npm', import.meta.url));

/**
 * Downloads published packages with the npm client and unpacks each into `<folder>/node_modules/<name>`, without its
 * dependencies. For tests on components that others wrote: they are fetched for the test and never committed. `versions` by
 * name; all of them in one call of the client, and none where an earlier test has fetched them.
 */
export async function downloadPackages(
  folder: string,
  versions: Readonly<Record<string, string>>,
): Promise<void> {
  const packages = Object.entries(versions).map(([name, version]) => ({
    name,
    wanted: `${name}@${version}`,
    tarball: `${name.replace('@', '').replace('/', '-')}-${version}.tgz`,
  }));
  const missing = packages.filter(({ tarball }) => !existsSync(join(tarballs, tarball)));
  if (missing.length > 0) {
    await mkdir(tarballs, { recursive: true });
    // Beside its place, so that what another test file finds there is whole.
    const half = await mkdtemp(join(tarballs, 'part-'));
    try {
      const options = ['--silent', '--prefer-offline', '--ignore-scripts', '--pack-destination', half];
      await run('npm', ['pack', ...options, ...missing.map(({ wanted }) => wanted)], { cwd: folder });
      for (const { tarball } of missing) await rename(join(half, tarball), join(tarballs, tarball));
    } finally {
      await rm(half, { recursive: true, force: true });
    }
  }
  for (const { name, tarball } of packages) {
    const target = join(folder, 'node_modules', ...name.split('/'));
    await mkdir(target, { recursive: true });
    await run('tar', ['-xzf', join(tarballs, tarball), '-C', target, '--strip-components=1']);
  }
}

/** Has the service with this data folder install its components' packages through a cache that services under test share. */
export async function shareNpmCache(dataFolder: string): Promise<void> {
  await mkdir(npmCache, { recursive: true });
  await mkdir(join(dataFolder, 'components'), { recursive: true });
  await symlink(npmCache, join(dataFolder, 'components', 'npm'));
}
