import { readlinkSync, statSync } from 'node:fs';
import { lstat, readdir, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { scratchFilesMax } from './runner-limits.ts';

const blockBytes = 512;
/** Descriptors looked at before the service turns to other work. */
const descriptorsPerTurn = 100;

/**
 * Bytes on disk that one process takes: the files under its folder, and those it removed but holds open. `Infinity`
 * when these are more than anyone should look at, or when user code has made a folder unreadable to hide them.
 */
export async function scratchBytes(folder: string, pid: number | undefined): Promise<number> {
  const [named, unnamed] = await Promise.all([
    folderBytes(folder),
    pid === undefined ? 0 : removedOpenBytes(pid),
  ]);
  return named + unnamed;
}

/**
 * What the `/tmp` of a process takes that has one in memory, with files that it removed and holds open; undefined when the process is gone.
 * The size has a limit of its own; bubblewrap sets none for the number of files, each of which takes about a kilobyte of the kernel's memory.
 */
export async function memoryFolderUse(pid: number): Promise<{ bytes: number; files: number } | undefined> {
  const found = await statfs(join(`/proc/${pid}/root`, 'tmp')).catch(() => undefined);
  if (found === undefined) return undefined;
  const { blocks, bfree, bsize, files, ffree } = found;
  return { bytes: (blocks - bfree) * bsize, files: files - ffree };
}

async function folderBytes(folder: string): Promise<number> {
  let bytes = 0;
  let entries = 0;
  const folders = [folder];
  for (let current = folders.pop(); current !== undefined; current = folders.pop()) {
    let found: Awaited<ReturnType<typeof listFolder>>;
    try {
      found = await listFolder(current);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EACCES') return Number.POSITIVE_INFINITY;
      // Removed in between.
      continue;
    }
    for (const entry of found) {
      entries += 1;
      if (entries > scratchFilesMax) return Number.POSITIVE_INFINITY;
      const path = join(current, entry.name);
      if (entry.isDirectory()) folders.push(path);
      else
        bytes += await lstat(path).then(
          ({ blocks }) => blocks * blockBytes,
          () => 0,
        );
    }
  }
  return bytes;
}

function listFolder(folder: string) {
  return readdir(folder, { withFileTypes: true });
}

/** Files without a name live on while a descriptor is open, where no folder shows them. 0 without /proc. */
async function removedOpenBytes(pid: number): Promise<number> {
  const folder = `/proc/${pid}/fd`;
  const descriptors = await readdir(folder).catch(() => []);
  if (descriptors.length > scratchFilesMax) return Number.POSITIVE_INFINITY;
  const blocksOf = new Map<number, number>();
  for (const [i, descriptor] of descriptors.entries()) {
    if (i % descriptorsPerTurn === descriptorsPerTurn - 1) await setImmediate();
    const path = join(folder, descriptor);
    try {
      // Nothing of /proc waits for a disk, and asking in another thread costs several times as much.
      if (!readlinkSync(path).endsWith(' (deleted)')) continue;
      const { ino, nlink, blocks } = statSync(path);
      // Several descriptors may hold the same file, and a file may be named so and not be removed.
      if (nlink === 0) blocksOf.set(ino, blocks);
    } catch {
      // Closed in between.
    }
  }
  return [...blocksOf.values()].reduce((sum, blocks) => sum + blocks * blockBytes, 0);
}
