import { readlinkSync, statSync } from 'node:fs';
import { lstat, readdir, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { scratchFilesMax } from './runner-limits.ts';

const blockBytes = 512;
/** Descriptors that are checked before the service continues with other work. */
const descriptorsPerTurn = 100;

/**
 * Disk space that one process uses: the files in its folder, and removed files that it holds open. `Infinity` when there are too many files to
 * count, or when user code has made a folder unreadable to hide them.
 */
export async function scratchBytes(folder: string, pid: number | undefined): Promise<number> {
  const [named, unnamed] = await Promise.all([
    folderBytes(folder),
    pid === undefined ? 0 : removedOpenBytes(pid),
  ]);
  return named + unnamed;
}

/**
 * The use of a `/tmp` that is in memory, with removed files that the process holds open. Undefined when the process has ended. The size is
 * limited, but bubblewrap limits no number of files, each of which takes about a kilobyte of kernel memory.
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
      // It was removed meanwhile.
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

/** Size of files without a name. They exist while a descriptor is open, and no folder shows them. 0 without /proc. */
async function removedOpenBytes(pid: number): Promise<number> {
  const folder = `/proc/${pid}/fd`;
  const descriptors = await readdir(folder).catch(() => []);
  if (descriptors.length > scratchFilesMax) return Number.POSITIVE_INFINITY;
  const blocksOf = new Map<number, number>();
  for (const [i, descriptor] of descriptors.entries()) {
    if (i % descriptorsPerTurn === descriptorsPerTurn - 1) await setImmediate();
    const path = join(folder, descriptor);
    try {
      // /proc never waits for a disk, and an asynchronous call costs several times as much.
      if (!readlinkSync(path).endsWith(' (deleted)')) continue;
      const { ino, nlink, blocks } = statSync(path);
      // Several descriptors may hold the same file, and the name of an existing file may end with this too.
      if (nlink === 0) blocksOf.set(ino, blocks);
    } catch {
      // It was closed meanwhile.
    }
  }
  return [...blocksOf.values()].reduce((sum, blocks) => sum + blocks * blockBytes, 0);
}
