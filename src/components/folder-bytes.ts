import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';

/** Files looked at, at a time. */
const filesAtATime = 64;

/** Bytes of all files below a folder. */
export async function folderBytes(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  let bytes = 0;
  for (let at = 0; at < files.length; at += filesAtATime) {
    const sizes = await Promise.all(
      files.slice(at, at + filesAtATime).map(async (file) => (await stat(file)).size),
    );
    bytes += sizes.reduce((sum, size) => sum + size, 0);
  }
  return bytes;
}
