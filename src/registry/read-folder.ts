import { readdir, readFile, realpath, stat } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { nameOf, namesIn } from '#components/builder/named-assets.ts';
import { packagePath } from '#components/builder/package-path.ts';
import { contentOf, textOf } from '#components/builder/text-of.ts';
import type { PackageFile } from '#components/package-fetcher.ts';
import { CallerError } from '#lib/errors.ts';
import { bytesText, countText } from '#lib/units.ts';

/** A checkout of all public components has about 30,000 files. */
const filesMax = 60_000;
const bytesMax = 256 * 1024 * 1024;
/** Larger files are data that no component imports. */
const fileBytesMax = 2 * 1024 * 1024;

/** Folders that other tools keep beside the files of users. */
const foldersLeftOut = new Set(['node_modules', '.git', '.hg', '.svn']);

/**
 * The text files of a folder, and those others that its code names, in the order of their paths. Links are left out. Throws
 * CallerError `invalid_parameter` when it is no folder, `component_too_large` when it holds more than a registry takes.
 */
export async function readFolder(folder: string): Promise<PackageFile[]> {
  const root = await realpath(folder).catch(() => null);
  if (root === null || !(await stat(root)).isDirectory()) {
    throw new CallerError('invalid_parameter', `there is no folder ${folder}`, { parameter: 'folder' });
  }
  const files: PackageFile[] = [];
  /** Paths of files that are not text. */
  const others: string[] = [];
  let bytes = 0;
  const take = (path: string, content: Buffer): void => {
    bytes += content.length;
    files.push({ path, ...contentOf(content) });
    if (files.length > filesMax || bytes > bytesMax) {
      const message = `${folder} has more than ${countText(filesMax)} files or ${bytesText(bytesMax)}: add its parts one by one`;
      throw new CallerError('component_too_large', message, { parameter: 'folder' });
    }
  };
  const waiting = [''];
  for (let below = waiting.pop(); below !== undefined; below = waiting.pop()) {
    const entries = await readAt(below, () => readdir(join(root, below), { withFileTypes: true }));
    for (const entry of entries ?? []) {
      const path = below === '' ? entry.name : `${below}${sep}${entry.name}`;
      if (entry.isDirectory() && !foldersLeftOut.has(entry.name)) waiting.push(path);
      const kept = packagePath(path.split(sep));
      if (!entry.isFile() || kept === null) continue;
      const content = await readAt(path, () => readAtMost(join(root, path)));
      if (content === null) continue;
      if (textOf(content) === null) others.push(kept);
      else take(kept, content);
    }
  }
  const names = namesIn(files);
  for (const path of others) {
    const content = names.has(nameOf(path)) ? await readAt(path, () => readAtMost(join(root, path))) : null;
    if (content !== null) take(path, content);
  }
  return files.sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** Null for a file that is larger than any that is kept. */
async function readAtMost(path: string): Promise<Buffer | null> {
  const { size } = await stat(path);
  return size > fileBytesMax ? null : readFile(path);
}

/** Null when it went away meanwhile, or has a name that is no text. */
async function readAt<T>(path: string, read: () => Promise<T>): Promise<T | null> {
  try {
    return await read();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ENOTDIR') return null;
    const message = `${path === '' ? 'the folder' : path} cannot be read: ${code}`;
    throw new CallerError('invalid_parameter', message, { parameter: 'folder' }, { cause: error });
  }
}
