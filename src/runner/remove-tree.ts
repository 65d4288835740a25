import { chmodSync, lstatSync, readdirSync, rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';

/** Folders made passable in one removal; more are left to the next try, the walk must not hold the service up. */
const foldersMax = 100_000;

/**
 * Removes a folder that user code wrote in, synchronously. Folders whose rights were taken (`chmod 0`) are given
 * them back first: without, a service that is not root cannot remove what is in them.
 * Only for folders in which no process writes any more. Throws what the file system says when it fails still.
 */
export function removeTreeSync(folder: string): void {
  try {
    rmSync(folder, { recursive: true, force: true });
  } catch (error) {
    if (!isDenied(error)) throw error;
    makePassable(folder);
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The same without holding up the service, but for the rare folder without rights. */
export async function removeTree(folder: string): Promise<void> {
  try {
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  } catch (error) {
    if (!isDenied(error)) throw error;
    makePassable(folder);
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

function isDenied(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'EACCES' || code === 'EPERM' || code === 'ENOTEMPTY';
}

function makePassable(top: string): void {
  if (!lstatSync(top).isDirectory()) return;
  const folders = [top];
  let seen = 0;
  for (let folder = folders.pop(); folder !== undefined && seen < foldersMax; folder = folders.pop()) {
    seen += 1;
    try {
      chmodSync(folder, 0o700);
      for (const entry of readdirSync(folder, { withFileTypes: true })) {
        if (entry.isDirectory()) folders.push(join(folder, entry.name));
      }
    } catch {
      // The removal that follows says what is wrong with it.
    }
  }
}
