import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { makeFolder, removeFolder } from './primordials.ts';

// biome-ignore lint/suspicious/noExplicitAny: functions of any signature are wrapped and passed on unchanged
type AnyFunction = (...args: any[]) => any;
type Loose = Record<string, unknown>;

const mappedRoot = '/tmp';

/** Functions of fs whose first argument is a path, without their Sync and promise forms. */
const onePath =
  'access appendFile chmod chown exists lchmod lchown lutimes lstat mkdir mkdtemp mkdtempDisposable open openAsBlob opendir readFile readdir readlink realpath rm rmdir stat statfs truncate unlink utimes watch watchFile unwatchFile writeFile'.split(
    ' ',
  );
/** Functions whose first two arguments are paths. */
const twoPaths = 'copyFile cp link rename symlink'.split(' ');
/** Functions that return a path, or entries that name their folder. Their results are mapped back. */
const answersPath = new Set(['mkdir', 'mkdtemp', 'readdir', 'readlink', 'realpath']);

/** The part of a step that `RunFolders` uses. */
interface ScratchUser {
  readonly scratch: string;
  usedScratch: boolean;
}

/** Folders that are `/tmp` for the steps of one run each, inside the folder of the process. */
export class RunFolders {
  readonly #base: string;

  constructor(base: string) {
    this.#base = folderOfFolders(base);
  }

  /** Returns the folder of a step's run, and creates it at the first use in a call. */
  of(step: ScratchUser): string {
    const folder = this.#folder(step.scratch);
    if (!step.usedScratch) {
      makeFolder(folder, { recursive: true });
      step.usedScratch = true;
    }
    return folder;
  }

  /** Removes the folder of a run. What cannot be removed stays until the process ends. */
  release(scratch: string): void {
    void removeFolder(this.#folder(scratch), { recursive: true, force: true }).catch(() => undefined);
  }

  #folder(scratch: string): string {
    return `${this.#base}/run-${encodeURIComponent(scratch)}`;
  }
}

/** Parent folder of the folders of runs and deployments. If the process's folder is `/tmp` itself, it is a subfolder that no code uses. */
export function folderOfFolders(base: string): string {
  return base === mappedRoot ? `${mappedRoot}/.runs` : base;
}

/**
 * Maps literal `/tmp/<name>` in the code of components to a folder of the deployment, or in a step to the folder of its run. `current` returns that
 * folder. Folders of packages below `/tmp` are not mapped. This is a convenience and no boundary: the boundary is that no other folder is
 * granted.
 */
export function mapTmpTo(
  base: string,
  current: () => string | undefined,
  packages: readonly string[] = [],
): void {
  const map = (path: unknown): unknown => mapPath(path, base, current, packages);
  const unmapPath = (path: unknown): unknown => {
    if (typeof path !== 'string' || !path.startsWith(base)) return path;
    const folder = current() ?? base;
    return path === folder || path.startsWith(`${folder}/`) ? mappedRoot + path.slice(folder.length) : path;
  };
  const unmap = (answer: unknown): unknown => {
    if (!Array.isArray(answer)) return unmapPath(answer);
    for (const entry of answer)
      if (entry instanceof fs.Dirent) entry.parentPath = unmapPath(entry.parentPath) as string;
    return answer;
  };
  /** Restores the paths that the code used in an error. */
  const unmapError = (error: unknown): unknown => {
    if (!(error instanceof Error)) return error;
    const folder = current() ?? base;
    const texts = error as unknown as Loose;
    for (const key of ['path', 'dest', 'message', 'stack']) {
      const text = texts[key];
      if (typeof text === 'string' && text.includes(folder)) texts[key] = text.replaceAll(folder, mappedRoot);
    }
    return error;
  };
  for (const [names, paths] of [
    [onePath, 1],
    [twoPaths, 2],
  ] as const) {
    for (const name of names) {
      const back = answersPath.has(name) ? unmap : (value: unknown) => value;
      wrap(fs as unknown as Loose, name, (original) => withCallback(original, paths, map, back, unmapError));
      wrap(fs as unknown as Loose, `${name}Sync`, (original) =>
        withAnswer(original, paths, map, back, unmapError),
      );
      wrap(fs.promises as unknown as Loose, name, (original) =>
        withPromise(original, paths, map, back, unmapError),
      );
    }
  }
  answerForRefusedPaths();
  syncBuiltinESMExports();
}

/** Makes `existsSync` return false for a path that may not be read. Node throws there, and no code expects that of this function. */
function answerForRefusedPaths(): void {
  wrap(
    fs as unknown as Loose,
    'existsSync',
    (original) =>
      function (this: unknown, ...args: unknown[]) {
        try {
          return original.apply(this, args);
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code === 'ERR_ACCESS_DENIED') return false;
          throw error;
        }
      },
  );
}

function mapPath(
  path: unknown,
  base: string,
  current: () => string | undefined,
  packages: readonly string[],
): unknown {
  let text: string;
  if (typeof path === 'string') text = path;
  else if (path instanceof URL && path.protocol === 'file:') text = fileURLToPath(path);
  else if (Buffer.isBuffer(path)) text = path.toString('utf8');
  else return path;
  // `/tmp/../etc` is not below `/tmp`.
  if (text.includes('..')) text = normalize(text);
  if (text !== mappedRoot && !text.startsWith(`${mappedRoot}/`)) return path;
  // The path was mapped already, or comes from an earlier result.
  const mapped = folderOfFolders(base);
  if (text === mapped || text.startsWith(`${mapped}/`)) return path;
  if (text !== mappedRoot && packages.some((folder) => leadsTo(text, folder))) return path;
  return (current() ?? base) + text.slice(mappedRoot.length);
}

/** True when a path is on the way to a folder or inside it. Node checks each folder on the way to a module. */
function leadsTo(path: string, folder: string): boolean {
  return folder === path || folder.startsWith(`${path}/`) || path.startsWith(`${folder}/`);
}

function withPaths(args: unknown[], paths: number, map: (path: unknown) => unknown): unknown[] {
  for (let i = 0; i < paths && i < args.length; i += 1) args[i] = map(args[i]);
  return args;
}

type Map1 = (value: unknown) => unknown;

function withAnswer(
  original: AnyFunction,
  paths: number,
  map: Map1,
  back: Map1,
  backError: Map1,
): AnyFunction {
  return function (this: unknown, ...args: unknown[]) {
    try {
      return back(original.apply(this, withPaths(args, paths, map)));
    } catch (error) {
      throw backError(error);
    }
  };
}

function withPromise(
  original: AnyFunction,
  paths: number,
  map: Map1,
  back: Map1,
  backError: Map1,
): AnyFunction {
  return async function (this: unknown, ...args: unknown[]) {
    try {
      return back(await original.apply(this, withPaths(args, paths, map)));
    } catch (error) {
      throw backError(error);
    }
  };
}

function withCallback(
  original: AnyFunction,
  paths: number,
  map: Map1,
  back: Map1,
  backError: Map1,
): AnyFunction {
  return function (this: unknown, ...args: unknown[]) {
    withPaths(args, paths, map);
    const callback = args.at(-1);
    if (typeof callback === 'function') {
      args[args.length - 1] = (error: unknown, answer: unknown, ...rest: unknown[]) =>
        callback(backError(error), back(answer), ...rest);
    }
    return original.apply(this, args);
  };
}

/** Replaces a function in place and keeps its properties (`realpath.native`, the promisify symbol of `exists`). */
function wrap(target: Loose, name: string, make: (original: AnyFunction) => AnyFunction): void {
  const original = target[name];
  if (typeof original !== 'function') return;
  const wrapped = make(original as AnyFunction);
  for (const key of Reflect.ownKeys(original)) {
    if (key === 'length' || key === 'name' || key === 'prototype') continue;
    const value = (original as unknown as Record<PropertyKey, unknown>)[key];
    Object.defineProperty(wrapped, key, {
      value: typeof value === 'function' ? make(value as AnyFunction) : value,
      writable: true,
      configurable: true,
    });
  }
  Object.defineProperty(wrapped, 'name', { value: name });
  Object.defineProperty(target, name, {
    value: wrapped,
    writable: true,
    configurable: true,
    enumerable: true,
  });
}
