import { execFile } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);

/**
 * Downloads a published package with the npm client and unpacks it into `<folder>/node_modules/<name>`, without its
 * dependencies. For tests on components that others wrote: they are fetched for the test and never committed.
 */
export async function downloadPackage(folder: string, name: string, version: string): Promise<string> {
  const { stdout } = await run(
    'npm',
    ['pack', '--silent', '--ignore-scripts', '--pack-destination', folder, `${name}@${version}`],
    { cwd: folder },
  );
  const tarball = stdout.trim().split('\n').at(-1) ?? '';
  const target = join(folder, 'node_modules', ...name.split('/'));
  await mkdir(target, { recursive: true });
  await run('tar', ['-xzf', join(folder, tarball), '-C', target, '--strip-components=1']);
  return target;
}
