import type { PackageFile } from './build-messages.ts';

/** What an import can say: the last part of a path that ends in an extension, as a whole text or after a slash. */
const namePattern = /(?<=["'`/])[^"'`/\\\n]{1,200}\.\w{1,20}(?=["'`])/g;
const codePattern = /\.[mc]?[jt]s$/;
/** Larger ones are data that no component imports. */
export const assetBytesMax = 2 * 1024 * 1024;

/** Names of files that the texts of a package's code name. */
export function namesIn(files: Iterable<PackageFile>): Set<string> {
  const names = new Set<string>();
  for (const { path, text, encoding } of files) {
    if (encoding !== undefined || !codePattern.test(path)) continue;
    for (const [name] of text.matchAll(namePattern)) names.add(name);
  }
  return names;
}

/** Without the files that are no text and that no code of the package names: pictures of its pages and the like. */
export function withNamedAssets(files: readonly PackageFile[]): PackageFile[] {
  const isText = files.every(({ encoding }) => encoding === undefined);
  if (isText) return [...files];
  const names = namesIn(files);
  return files.filter(({ path, encoding }) => encoding === undefined || names.has(nameOf(path)));
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}
