import { readdir } from 'node:fs/promises';
import { extname, join, sep } from 'node:path';

/** Entries of a package that are looked at. */
const entriesMax = 20_000;

const place = /\b(?:__dirname|__filename)\b|\bimport\.meta\.(?:url|dirname|filename)\b/;
/** Matches code that reads files, or loads modules by a name that is computed at run time. */
const reading =
  /\b(?:readFile|readdir|createReadStream|opendir)(?:Sync)?\b|\brequire\(\s*(?:__dirname|path\b|join\(|resolve\()/;

/** Extensions of files for building and documentation, and of files that are imported: an import is followed anyway. */
const notRead = new Set(
  '.js .cjs .mjs .jsx .ts .cts .mts .tsx .map .md .markdown .json .yml .yaml .lock .flow .snap .coffee .tgz'.split(
    ' ',
  ),
);
const notReadNames =
  /^(?:\.|(?:licen[cs]e|copying|notice|authors|contributors|changelog|changes|history|readme|makefile|security)\b)/i;
const notReadFolders = new Set(
  'node_modules test tests __tests__ spec example examples demo docs doc coverage bench benchmark benchmarks man scripts'.split(
    ' ',
  ),
);

/** True when code asks for its own place on the disk, mostly to read a file beside it. */
export function namesItsPlace(code: Uint8Array): boolean {
  return place.test(Buffer.from(code.buffer, code.byteOffset, code.byteLength).toString('latin1'));
}

/**
 * True when such a file is likely to read something beside itself, which a bundle would not have: it reads files or
 * makes up names of modules, or its package has files that nothing could import. When this is wrong, a component is
 * kept with its packages as files, which costs disk space and some time at its start, and works the same.
 */
export async function readsBeside(code: string, packageFolder: string): Promise<boolean> {
  return reading.test(code) || (await hasAssets(packageFolder));
}

async function hasAssets(folder: string): Promise<boolean> {
  const folders = [folder];
  let seen = 0;
  for (let current = folders.pop(); current !== undefined; current = folders.pop()) {
    const entries = await readdir(current, { withFileTypes: true }).catch(() => []);
    for (const entry of entries) {
      seen += 1;
      if (seen > entriesMax) return true;
      if (entry.isDirectory()) {
        if (!notReadFolders.has(entry.name.toLowerCase())) folders.push(join(current, entry.name));
      } else if (isAsset(entry.name)) return true;
    }
  }
  return false;
}

function isAsset(name: string): boolean {
  const extension = extname(name).toLowerCase();
  return extension !== '' && !notRead.has(extension) && !notReadNames.test(name);
}

/** The folder of the package that a file below `root` belongs to. */
export function packageFolderOf(path: string): string {
  const parts = path.split(sep);
  const at = parts.lastIndexOf('node_modules');
  const names = (parts[at + 1] ?? '').startsWith('@') ? 2 : 1;
  return parts.slice(0, at + 1 + names).join(sep);
}
