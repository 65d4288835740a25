import fs from 'node:fs';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { callbackify } from 'node:util';

/**
 * Functions of `fs` that `node:vfs` does not serve from memory. They would open real files, which the process may not, or (`readv` and `writev`,
 * with which streams write queued data) do not work for any descriptor. Installed before `/tmp` is mapped, so that they get mapped paths.
 */
export function fillGaps(): void {
  replaceIn(fs, {
    cp: callbackify(copy),
    cpSync: copySync,
    mkdtempDisposableSync: makeDisposable,
    readv: keepingNames(fs.readv, readVectors),
    realpath: withNative(fs.realpath, realpathLater(fs.realpath)),
    realpathSync: withNative(fs.realpathSync, realpathNow(fs.realpathSync)),
    writev: keepingNames(fs.writev, writeVectors),
  });
  replaceIn(fs.promises, {
    cp: copy,
    mkdtempDisposable: async (prefix: string) => {
      const { path, remove } = makeDisposable(prefix);
      const removeLater = async () => remove();
      return { path, remove: removeLater, [Symbol.asyncDispose]: removeLater };
    },
  });
}

function replaceIn(target: object, functions: Record<string, unknown>): void {
  for (const [name, value] of Object.entries(functions))
    Object.defineProperty(target, name, { value, writable: true, configurable: true, enumerable: true });
}

/** Copies the symbols of the original, which tell `promisify` the names of the results. */
function keepingNames<F extends object>(original: object, replacement: F): F {
  for (const key of Object.getOwnPropertySymbols(original)) {
    const descriptor = Object.getOwnPropertyDescriptor(original, key);
    if (descriptor !== undefined) Object.defineProperty(replacement, key, descriptor);
  }
  return replacement;
}

/**
 * Node asks the system for each part of a real path without a look at its permissions, and by its answers says which files and processes of the
 * machine there are. `lstat` refuses what is not in memory.
 */
function realpathNow(original: typeof fs.realpathSync): (...args: unknown[]) => unknown {
  const { lstatSync } = fs;
  return (path, ...args) => {
    lstatSync(path as string);
    return Reflect.apply(original, fs, [path, ...args]);
  };
}

function realpathLater(original: typeof fs.realpath): (...args: unknown[]) => void {
  const { lstat } = fs;
  return (path, ...args) => {
    const done = args.at(-1);
    if (typeof done !== 'function') throw new TypeError('The "cb" argument must be of type function');
    const check = (error: unknown): void => {
      if (error === null) Reflect.apply(original, fs, [path, ...args]);
      else done(error);
    };
    lstat(path as string, check);
  };
}

function withNative<F extends object>(original: { native: unknown }, replacement: F): F {
  return Object.assign(replacement, { native: original.native });
}

type Vectors = NodeJS.ArrayBufferView[];
type VectorsCallback = (error: Error | null, bytes?: number, buffers?: Vectors) => void;

function readVectors(fd: number, buffers: Vectors, position: unknown, callback?: VectorsCallback): void {
  const { at, done } = vectorArguments(position, callback);
  const whole = Buffer.alloc(buffers.reduce((sum, { byteLength }) => sum + byteLength, 0));
  fs.read(fd, whole, 0, whole.length, at, (error, count) => {
    if (error !== null) return done(error);
    let from = 0;
    for (const { buffer, byteOffset, byteLength } of buffers) {
      const part = whole.subarray(from, Math.min(count, from + byteLength));
      new Uint8Array(buffer, byteOffset, byteLength).set(part);
      from += part.length;
    }
    done(null, count, buffers);
  });
}

function writeVectors(fd: number, buffers: Vectors, position: unknown, callback?: VectorsCallback): void {
  const { at, done } = vectorArguments(position, callback);
  const parts = buffers.map(({ buffer, byteOffset, byteLength }) =>
    Buffer.from(buffer, byteOffset, byteLength),
  );
  const whole = Buffer.concat(parts);
  fs.write(fd, whole, 0, whole.length, at, (error, count) =>
    error === null ? done(null, count, buffers) : done(error),
  );
}

function vectorArguments(
  position: unknown,
  callback: VectorsCallback | undefined,
): { at: number | null; done: VectorsCallback } {
  const done = typeof position === 'function' ? (position as VectorsCallback) : callback;
  if (typeof done !== 'function') throw new TypeError('The "callback" argument must be of type function');
  return { at: typeof position === 'number' ? position : null, done };
}

function makeDisposable(prefix: string): { path: string; remove: () => void; [Symbol.dispose]: () => void } {
  const path = fs.mkdtempSync(prefix);
  const remove = (): void => fs.rmSync(path, { recursive: true, force: true });
  return { path, remove, [Symbol.dispose]: remove };
}

type FilterAnswer = boolean | Promise<boolean>;
type CopyOptions = Omit<fs.CopyOptions, 'filter'> & { filter?: (from: string, to: string) => FilterAnswer };

function copySync(from: string | URL, to: string | URL, options: CopyOptions = {}): void {
  const copying = copyAll(pathOf(from), pathOf(to), options);
  for (let step = copying.next(); step.done !== true; ) {
    if (typeof step.value === 'object')
      throw Object.assign(new TypeError('Expected boolean to be returned from the "filter" function'), {
        code: 'ERR_INVALID_RETURN_VALUE',
      });
    step = copying.next(step.value);
  }
}

async function copy(from: string | URL, to: string | URL, options: CopyOptions = {}): Promise<void> {
  const copying = copyAll(pathOf(from), pathOf(to), options);
  for (let step = copying.next(); step.done !== true; ) step = copying.next(await step.value);
}

/** As `fs.cp`. Yields the result of the filter, and gets back its value, for a promise after it has settled. */
function* copyAll(
  source: string,
  target: string,
  options: CopyOptions,
): Generator<FilterAnswer, void, boolean> {
  if (options.filter !== undefined && !(yield options.filter(source, target))) return;
  const stats = options.dereference === true ? fs.statSync(source) : fs.lstatSync(source);
  if (stats.isDirectory()) {
    if (options.recursive !== true) throw copyError('ERR_FS_EISDIR', `${source} is a directory`, source);
    if (isBelow(target, source))
      throw copyError(
        'ERR_FS_CP_EINVAL',
        `cannot copy ${source} to a subdirectory of self ${target}`,
        target,
      );
    fs.mkdirSync(target, { recursive: true });
    for (const name of fs.readdirSync(source))
      yield* copyAll(join(source, name), join(target, name), options);
    fs.chmodSync(target, stats.mode);
  } else {
    const exists = fs.lstatSync(target, { throwIfNoEntry: false }) !== undefined;
    if (exists && options.force === false) {
      if (options.errorOnExist === true)
        throw copyError('ERR_FS_CP_EEXIST', `${target} already exists`, target);
      return;
    }
    fs.mkdirSync(dirname(target), { recursive: true });
    if (stats.isSymbolicLink()) copyLink(source, target, exists, options.verbatimSymlinks === true);
    else fs.copyFileSync(source, target, options.mode);
  }
  if (options.preserveTimestamps === true) fs.utimesSync(target, stats.atime, stats.mtime);
}

function copyLink(source: string, target: string, exists: boolean, isVerbatim: boolean): void {
  const leadsTo = fs.readlinkSync(source);
  if (exists) fs.unlinkSync(target);
  fs.symlinkSync(isVerbatim || isAbsolute(leadsTo) ? leadsTo : resolve(dirname(source), leadsTo), target);
}

function pathOf(path: string | URL): string {
  return resolve(path instanceof URL ? fileURLToPath(path) : String(path));
}

function isBelow(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}

function copyError(code: string, message: string, path: string): Error {
  return Object.assign(new Error(message), { code, path, syscall: 'cp' });
}
