import { readFileSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

const pageBytes = 4096;

/** Resident and private memory in bytes, or undefined where there is no /proc or no such process. */
export function processMemory(pid: number): { residentBytes: number; privateBytes: number } | undefined {
  try {
    const [, resident, shared] = readFileSync(`/proc/${pid}/statm`, 'latin1').split(' ').map(Number);
    if (resident === undefined || shared === undefined) return undefined;
    return { residentBytes: resident * pageBytes, privateBytes: (resident - shared) * pageBytes };
  } catch {
    return undefined;
  }
}

/** Entries looked at in one scratch folder; beyond, the folder counts as full. */
const entriesMax = 20_000;

/** Bytes on disk under a folder; `Infinity` when it has more entries than anyone should look at. */
export async function folderBytes(folder: string): Promise<number> {
  let bytes = 0;
  let entries = 0;
  const folders = [folder];
  for (let current = folders.pop(); current !== undefined; current = folders.pop()) {
    for (const entry of await readdir(current, { withFileTypes: true }).catch(() => [])) {
      entries += 1;
      if (entries > entriesMax) return Number.POSITIVE_INFINITY;
      const path = join(current, entry.name);
      if (entry.isDirectory()) folders.push(path);
      else
        bytes += await stat(path).then(
          (found) => found.blocks * 512,
          () => 0,
        );
    }
  }
  return bytes;
}
