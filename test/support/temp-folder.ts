import { chmodSync, existsSync, statfsSync } from 'node:fs';
import { mkdir, mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface TempFolder {
  /** Absolute, with links resolved. */
  readonly path: string;
  /** Removes it with everything in it. May be called twice. */
  remove(): Promise<void>;
  /** `await using folder = await createTempFolder()`. */
  [Symbol.asyncDispose](): Promise<void>;
}

export async function createTempFolder(name = 'test'): Promise<TempFolder> {
  const path = await realpath(await mkdtemp(join(tmpdir(), `millrace-${name}-`)));
  const remove = async (): Promise<void> => {
    await rm(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 });
    // A service that had it as its data folder kept its key beside it.
    await rm(`${path}.key`, { force: true });
  };
  return { path, remove, [Symbol.asyncDispose]: remove };
}

/** In memory, where there is room: no test pulls the plug, so that a disk would only make each commit wait. */
const memoryFolder = '/dev/shm';
/** What a run of all tests writes, with room to spare. */
const runBytesMax = 4 * 1024 ** 3;

/**
 * The folder of one run of the tests, and below it the one for temporary files of tests and of the servers they use. Users that
 * servers and sandboxes run as may pass through both.
 */
export async function createRunFolder(): Promise<{
  path: string;
  temporary: string;
  remove(): Promise<void>;
}> {
  const parent = hasRoom(memoryFolder) ? memoryFolder : tmpdir();
  const path = await realpath(await mkdtemp(join(parent, 'millrace-tests-')));
  const temporary = join(path, 'tmp');
  await mkdir(temporary);
  chmodSync(path, 0o711);
  // As /tmp is: everyone makes files there, and removes their own.
  chmodSync(temporary, 0o1777);
  return {
    path,
    temporary,
    remove: () => rm(path, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 }),
  };
}

function hasRoom(folder: string): boolean {
  if (!existsSync(folder)) return false;
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize >= runBytesMax;
}
