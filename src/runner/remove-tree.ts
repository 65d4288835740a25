import { chmodSync, lstatSync, readdirSync, rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';

/** Maximum folders made passable in one removal. The next try continues, because the walk blocks the service. */
const foldersMax = 100_000;

/**
 * Removes a folder that user code wrote in, synchronously. Folders without permissions (`chmod 0`) are made passable first, because a
 * service that is not root cannot remove their contents otherwise. Only for folders in which no process writes. Throws the error of the
 * file system when the removal still fails.
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

/** As above, without blocking the service, except for a rare folder without permissions. */
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
      // The removal that follows reports the error.
    }
  }
}
