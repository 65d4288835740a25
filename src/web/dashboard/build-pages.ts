import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { constants, existsSync } from 'node:fs';
import { access, mkdir, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join, relative } from 'node:path';

/** A build takes about two seconds; one that takes this long on a busy machine does not end. */
const buildTimeoutMs = 120_000;
/** The last characters of a failed build's output that are kept. */
const saidMax = 4_000;

export interface PagesProject {
  /** A folder with built pages, which the npm package has. */
  builtFolder?: string;
  /** Root of the project: has `dashboard/`, `sdk/src/`, `examples/` and `package-lock.json`. */
  root: string;
  /** Where built pages are kept, the first that can be written to. */
  cacheFolders: readonly string[];
}

/**
 * The folder with the pages of the dashboard as its sources are now: those of the npm package, built before, or built now in a process of its own.
 * Nothing is downloaded. Processes that build at the same time do the same work, and the first that is ready wins. Throws
 * an Error with the output of the build.
 */
export async function buildPages(
  { root, cacheFolders, builtFolder }: PagesProject,
  signal: AbortSignal,
): Promise<{ folder: string; built: boolean }> {
  if (builtFolder !== undefined) return { folder: builtFolder, built: false };
  const name = await nameOfPages(root);
  const found = cacheFolders.map((folder) => join(folder, name)).find((folder) => existsSync(folder));
  if (found !== undefined) return { folder: found, built: false };
  const cache = await firstWritable(cacheFolders);
  const half = await mkdtemp(join(cache, 'part-'));
  try {
    await runBuild(root, half, signal);
    const folder = join(cache, name);
    await rename(half, folder).catch((error: unknown) => {
      // Another process was quicker.
      if (!existsSync(folder)) throw error;
    });
    await removeOthers(cache, name);
    return { folder, built: true };
  } finally {
    await rm(half, { recursive: true, force: true });
  }
}

/** Folders whose files the pages are made from: their own, the client with which they ask the API, and the examples that they offer. */
const sourceFolders = ['dashboard', 'sdk/src', 'examples'];

/** A hash of everything that the pages are made from: their sources, and the versions of the packages. */
async function nameOfPages(root: string): Promise<string> {
  const hash = createHash('sha256');
  const folders = sourceFolders.map((folder) =>
    readdir(join(root, folder), { recursive: true, withFileTypes: true }),
  );
  const files = (await Promise.all(folders))
    .flat()
    .filter((entry) => entry.isFile() && !/\.(md|test\.ts)$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
  for (const file of [...files, join(root, 'package-lock.json')]) {
    hash
      .update(`${relative(root, file)}\0`)
      .update(await readFile(file))
      .update('\0');
  }
  return hash.digest('hex').slice(0, 32);
}

async function firstWritable(folders: readonly string[]): Promise<string> {
  const problems: string[] = [];
  for (const folder of folders) {
    try {
      await mkdir(folder, { recursive: true });
      await access(folder, constants.W_OK);
      return folder;
    } catch (error) {
      problems.push((error as Error).message);
    }
  }
  throw notBuilt(`there is no folder to keep it in: ${problems.join('; ')}`);
}

async function runBuild(root: string, out: string, signal: AbortSignal): Promise<void> {
  const child = spawn(process.execPath, [join(root, 'dashboard', 'build.ts'), out], {
    cwd: root,
    // Nothing of the service's environment, which may hold keys, is the build's business.
    env: { NODE_ENV: 'production' },
    stdio: ['ignore', 'pipe', 'pipe'],
    signal,
    timeout: buildTimeoutMs,
    killSignal: 'SIGKILL',
  });
  let said = '';
  const hear = (chunk: Buffer) => {
    said = `${said}${chunk}`.slice(-saidMax);
  };
  child.stdout.on('data', hear);
  child.stderr.on('data', hear);
  const ended = Promise.withResolvers<string>();
  child.on('error', (error) => ended.resolve(error.message));
  child.on('close', (code, killedBy) => ended.resolve(code === 0 ? '' : `it ended with ${code ?? killedBy}`));
  const problem = await ended.promise;
  if (problem !== '') throw notBuilt(`${problem}\n${said}`.trim());
}

function notBuilt(why: string): Error {
  return new Error(`the dashboard could not be built: ${why}`);
}

/** Pages of other versions: the service that runs has its own in memory. Folders that others are filling stay. */
async function removeOthers(cache: string, name: string): Promise<void> {
  for (const other of await readdir(cache)) {
    if (other !== name && !other.startsWith('part-'))
      await rm(join(cache, other), { recursive: true, force: true }).catch(() => undefined);
  }
}
