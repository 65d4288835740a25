import { CallerError } from '#lib/errors.ts';

/** Files of an export by their paths with `/`, without a leading one. */
export type ProjectFiles = ReadonlyMap<string, string>;

/** Entries of an archive, the ones that are not read included: a clone with its history has some thousand. */
export const entriesMax = 20_000;
/** Maximum of UTF-8 bytes of one file: that of the code of a component. */
export const fileBytesMax = 2 * 1024 * 1024;
/** Maximum of all files that are read; they are sealed and stored until the import is done. */
export const projectBytesMax = 16 * 1024 * 1024;
/** Characters of a path. */
const pathMax = 1_000;

/** Folders whose files are never part of a workflow. */
const skippedFolders = new Set(['.git', 'node_modules', '__MACOSX']);
const workflowFile = /(?:^|\/)workflow\.ya?ml$/;
const wantedName = /(?:^workflow\.ya?ml|^\.workflow\.state|\.(?:[mc]?[jt]s|json|py|sh|bash|go))$/;
/** Data that no code of a step imports. */
const unwantedName = /^(?:package(?:-lock)?|tsconfig)\.json$/;

/** The `manifest.json` of a project export: the outermost, where there is no synced repository. */
export function manifestPathOf(paths: readonly string[]): string | undefined {
  if (paths.some((path) => workflowFile.test(path))) return undefined;
  const manifests = paths.filter((path) => nameOf(path) === 'manifest.json');
  return manifests.sort((one, other) => one.split('/').length - other.split('/').length)[0];
}

/** The paths that a reader asks for: what defines workflows, and the code in their folders. */
export function wantedPaths(paths: readonly string[]): string[] {
  const own = paths.filter((path) => !path.split('/').some((part) => skippedFolders.has(part)));
  const manifest = manifestPathOf(own);
  if (manifest !== undefined) {
    const folder = folderOf(manifest);
    return own.filter((path) => path.endsWith('.json') && (folder === '' || path.startsWith(`${folder}/`)));
  }
  const folders = new Set(own.filter((path) => workflowFile.test(path)).map(folderOf));
  const isInWorkflow = (path: string): boolean => {
    for (let folder = folderOf(path); ; folder = folderOf(folder)) {
      if (folders.has(folder)) return true;
      if (folder === '') return false;
    }
  };
  return own.filter(
    (path) => wantedName.test(nameOf(path)) && !unwantedName.test(nameOf(path)) && isInWorkflow(path),
  );
}

/** '': the top. */
export function folderOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')));
}

export function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

/** Throws CallerError `invalid_import` for a path that leaves its folder, or that no export has. */
export function checkPath(path: string): void {
  const parts = path.split('/');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused.
  const isOdd = path.length > pathMax || /[\u0000-\u001f\\]/.test(path) || /^[A-Za-z]:/.test(path);
  if (isOdd || path.startsWith('/') || parts.includes('..'))
    throw refused(
      `the path ${JSON.stringify(path.slice(0, 200))} cannot be in an export, expected a path below its folder`,
    );
}

/** An archive, or a project, that cannot be imported. */
export function refused(message: string): CallerError {
  return new CallerError('invalid_import', message);
}
