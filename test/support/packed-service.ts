import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';
import { projectFiles, projectRoot } from './project-files.ts';
import { removeOld } from './remove-old.ts';
import { waitFor } from './wait-for.ts';

const run = promisify(execFile);
/** An install writes 260 MB, which takes a while on a machine that is busy. */
const npmPatienceMs = 400_000;
/** Another file makes the package. */
const makePatienceMs = 400_000;

/** Files that are in no package, and that nothing of it is made from. */
const notPackaged = /^(test|bench|drills)\/|\.test\.tsx?$/;

/**
 * The npm package as it is published: the folder that npm would pack, which no test changes. It is made once for a run of the tests, and
 * found again until something changes that it is made from.
 */
export async function packageFolder(): Promise<string> {
  const cache = join(projectRoot, 'node_modules', '.cache');
  const all = join(cache, 'packages');
  const made = join(all, await hashOfSources());
  await mkdir(all, { recursive: true });
  // The lock of a process that was killed ends with it.
  const lock = new DatabaseSync(join(cache, 'packages.lock'), { timeout: 0 });
  try {
    await waitFor(
      () => {
        lock.exec('begin exclusive');
        return true;
      },
      { timeoutMs: makePatienceMs, what: 'another file to make the package' },
    );
    if (existsSync(made)) return made;
    await removeOld(all);
    const half = await mkdtemp(join(all, 'part-'));
    try {
      const script = join(projectRoot, 'scripts', 'package', 'make-package.ts');
      await run(process.execPath, ['--no-warnings', script, half]);
      await rename(half, made);
    } finally {
      await rm(half, { recursive: true, force: true });
    }
    return made;
  } finally {
    lock.close();
  }
}

async function hashOfSources(): Promise<string> {
  const hash = createHash('sha256');
  for (const path of projectFiles().filter((file) => !notPackaged.test(file)))
    hash
      .update(`${path}\0`)
      .update(await readFile(join(projectRoot, path)))
      .update('\0');
  return hash.digest('hex').slice(0, 32);
}

/** Packs the npm package into `folder`, and returns the path of its tarball. */
export async function packService(folder: string): Promise<string> {
  const name = await npm(['pack', '--silent', '--pack-destination', folder, await packageFolder()]);
  return join(folder, name.trim());
}

/** `npm` with the user's cache, which `npm ci` has filled. Resolves to its output. */
export async function npm(args: readonly string[]): Promise<string> {
  const options = ['--prefer-offline', '--no-audit', '--no-fund'];
  const { stdout } = await run('npm', [...args, ...options], { timeout: npmPatienceMs });
  return stdout;
}
