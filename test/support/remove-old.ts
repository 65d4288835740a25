import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';

const keptMs = 24 * 3_600_000;

/** Removes what runs of the tests left in this folder of the cache a day ago. */
export async function removeOld(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    const found = await stat(path).catch(() => undefined);
    if (found !== undefined && Date.now() - found.mtimeMs > keptMs)
      await rm(path, { recursive: true, force: true });
  }
}
