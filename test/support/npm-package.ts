import { execFile } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/**
 * Downloads published packages with the npm client and unpacks each into `<folder>/node_modules/<name>`, without its
 * dependencies. For tests on components that others wrote: they are fetched for the test and never committed. `versions` by
 * name; all of them in one call of the client, whose start takes longer than a download.
 */
export async function downloadPackages(
  folder: string,
  versions: Readonly<Record<string, string>>,
): Promise<void> {
  const packages = Object.entries(versions);
  const wanted = packages.map(([name, version]) => `${name}@${version}`);
  await run(
    'npm',
    ['pack', '--silent', '--prefer-offline', '--ignore-scripts', '--pack-destination', folder, ...wanted],
    { cwd: folder },
  );
  for (const [name, version] of packages) {
    const tarball = `${name.replace('@', '').replace('/', '-')}-${version}.tgz`;
    const target = join(folder, 'node_modules', ...name.split('/'));
    await mkdir(target, { recursive: true });
    await run('tar', ['-xzf', join(folder, tarball), '-C', target, '--strip-components=1']);
  }
}

/** One package, and the folder it is in. */
export async function downloadPackage(folder: string, name: string, version: string): Promise<string> {
  await downloadPackages(folder, { [name]: version });
  return join(folder, 'node_modules', ...name.split('/'));
}
