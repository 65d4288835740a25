import { readdir } from 'node:fs/promises';
import { join } from 'node:path';

/**
 * Paths of all files below a folder that something else writes in, such as the data folder of a running service. What disappears meanwhile,
 * such as the folder of a build, is left out: the recursive `readdir` of Node fails then.
 */
export async function filesBelow(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  const found = entries.map(async (entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return filesBelow(path);
    return entry.isFile() ? [path] : [];
  });
  return (await Promise.all(found)).flat();
}
