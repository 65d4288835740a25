import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';

export interface FolderFile {
  file: string;
  bytes: number;
  usedMs: number;
}

/** Files below a folder, the least recently used first. A file that is removed meanwhile is left out. */
export async function filesByUse(folder: string, isOne: (name: string) => boolean = () => true) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  const files: FolderFile[] = [];
  for (const entry of entries.filter((one) => one.isFile() && isOne(one.name))) {
    const file = join(entry.parentPath, entry.name);
    const known = await stat(file).catch(() => null);
    // Reading a file counts as use where the file system records access times.
    if (known !== null)
      files.push({ file, bytes: known.size, usedMs: Math.max(known.mtimeMs, known.atimeMs) });
  }
  return files.sort((a, b) => a.usedMs - b.usedMs);
}

/** Removes the first of these files until the rest takes no more than `bytesMax`. Returns the number of bytes removed. */
export async function removeBeyond(files: readonly FolderFile[], bytesMax: number): Promise<number> {
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  let removed = 0;
  for (const { file, bytes: size } of files) {
    if (bytes - removed <= bytesMax) break;
    await rm(file, { force: true });
    removed += size;
  }
  return removed;
}
