import { readdir, readFile, realpath, stat } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { textOf } from '#components/builder/text-of.ts';
import type { PackageFile } from '#components/package-fetcher.ts';
import { CallerError } from '#lib/errors.ts';

/** A checkout of all public components has about 30,000 files. */
const filesMax = 60_000;
const bytesMax = 256 * 1024 * 1024;
/** Larger files are data that no component imports. */
const fileBytesMax = 2 * 1024 * 1024;

/** What other tools keep beside the files of people. */
const foldersLeftOut = new Set(['node_modules', '.git', '.hg', '.svn']);

/**
 * The text files of a folder, in the order of their paths. Links are left out. Throws CallerError `invalid_parameter` when
 * it is no folder, `component_too_large` when it holds more than a registry takes.
 */
export async function readFolder(folder: string): Promise<PackageFile[]> {
  const root = await realpath(folder).catch(() => null);
  if (root === null || !(await stat(root)).isDirectory()) {
    throw new CallerError('invalid_parameter', `there is no folder ${folder}`, { parameter: 'folder' });
  }
  const files: PackageFile[] = [];
  let bytes = 0;
  const waiting = [''];
  for (let below = waiting.pop(); below !== undefined; below = waiting.pop()) {
    for (const entry of await readdir(join(root, below), { withFileTypes: true })) {
      const path = below === '' ? entry.name : `${below}${sep}${entry.name}`;
      if (entry.isDirectory() && !foldersLeftOut.has(entry.name)) waiting.push(path);
      if (!entry.isFile()) continue;
      const { size } = await stat(join(root, path));
      if (size > fileBytesMax) continue;
      const text = textOf(await readFile(join(root, path)));
      if (text === null) continue;
      bytes += size;
      files.push({ path: path.split(sep).join('/'), text });
      if (files.length > filesMax || bytes > bytesMax) {
        const message = `${folder} has more than ${filesMax} text files or ${bytesMax} bytes: add its parts one by one`;
        throw new CallerError('component_too_large', message, { parameter: 'folder' });
      }
    }
  }
  return files.sort((a, b) => (a.path < b.path ? -1 : 1));
}
