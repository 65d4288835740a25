import { randomUUID } from 'node:crypto';
import { chmod, mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Clock, systemClock } from '#lib/clock.ts';
import { CallerError, toError, UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { BundlePackages, OpenPackages, PackageSource } from '#runner/runner.ts';
import { reachableBase } from '#runner/runner-folders.ts';
import { mayUseDistinctUsers } from '#runner/self-test.ts';
import { type BudgetLimits, BuildBudget } from './build-budget.ts';
import type { NpmConfig } from './builder/build-messages.ts';
import type { BuilderWalls } from './builder-walls.ts';
import { sha256 } from './bundle-cache.ts';
import { copyTree } from './copy-tree.ts';
import { runInstaller } from './installer-process.ts';
import { processFolder } from './process-folder.ts';
import { settleFolder } from './settle-folder.ts';

/** Maximum size of all folders. Beyond it, the least recently used are deleted. */
const bytesMaxDefault = 4 * 1024 * 1024 * 1024;
/** Maximum installs at a time; others wait. */
const installsMax = 2;
const waitingMax = 64;
const waitMaxMs = 5 * 60_000;
/** A folder without its note that is older than this was left by a crash. */
const noteMs = 60 * 60 * 1000;

export interface PackageFoldersOptions {
  /** For this class alone. If other users cannot reach it, a folder in the system's temporary folder is used. */
  folder: string;
  /** npm's cache. */
  cache: string;
  npm: NpmConfig;
  limits: { packagesMax: number; packageFilesMax: number; packageBytesMax: number } & BudgetLimits;
  bytesMax?: number;
  logger: Logger;
  walls?: BuilderWalls;
  clock?: Clock;
}

/**
 * npm packages as files, for components whose packages cannot be a part of one text. One folder for each lockfile of an
 * owner, never changed once it is there; nothing in it is a link, and only the service can write it. The
 * store keeps the lockfile, so that another node, or this one after the folder was deleted, installs the same contents.
 *
 * `open` rejects with UnavailableError when the packages cannot be installed now, CallerError when they never can.
 */
export class PackageFolders implements PackageSource {
  readonly #options: PackageFoldersOptions;
  readonly #clock: Clock;
  readonly #closing = new AbortController();
  readonly #making = new Map<string, Promise<void>>();
  /** How many processes use a folder. */
  readonly #holds = new Map<string, number>();
  #installs = 0;
  readonly #waiting: (() => void)[] = [];
  #base: Promise<Base> | undefined;

  constructor(options: PackageFoldersOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** A new, empty folder to install into. */
  async #newFolder(): Promise<string> {
    const { parts } = await this.#prepare();
    const folder = join(parts, randomUUID());
    await mkdir(folder, { mode: 0o700 });
    return folder;
  }

  /** Copies an installed folder to the place of the owner's lockfile, unless there is one. `installed` is not changed. */
  async keepCopy(packages: BundlePackages, installed: string): Promise<void> {
    try {
      const { base } = await this.#prepare();
      const place = placeOf(base, packages);
      // If an install of the same packages fails meanwhile, this copy is still made.
      await this.#making.get(place.folder)?.catch(() => undefined);
      if (!(await isThere(place))) await this.#makeOnce(place, () => this.#copy(packages, installed));
    } catch (error) {
      throw this.#unavailable(error, 'the packages could not be stored');
    }
  }

  async #copy(packages: BundlePackages, installed: string): Promise<void> {
    const copy = await this.#newFolder();
    try {
      await copyTree(installed, copy);
      await this.#keep(packages, copy);
    } finally {
      await rm(copy, { recursive: true, force: true });
    }
  }

  /** Moves the folder to its place, or deletes it if there is one already. */
  async #keep(packages: BundlePackages, installed: string): Promise<void> {
    const { base, parts } = await this.#prepare();
    const place = placeOf(base, packages);
    if (!(await isThere(place))) {
      const bytes = await settleFolder(installed);
      await mkdir(place.ownerFolder, { recursive: true });
      await chmod(place.ownerFolder, 0o711);
      // A folder without its note was left incomplete by a crash, and no process uses it.
      await remove(parts, place.folder);
      // Processes of other users read it.
      await chmod(installed, 0o755);
      await rename(installed, place.folder).catch(ignoreExisting);
      await writeFile(place.note, JSON.stringify({ bytes }));
    }
    await rm(installed, { recursive: true, force: true });
    await this.#makeRoom(place.folder);
  }

  async open(packages: BundlePackages): Promise<OpenPackages> {
    this.#closing.signal.throwIfAborted();
    const { base } = await this.#prepare().catch((error: unknown) => {
      throw this.#unavailable(error, 'the folder of packages cannot be used');
    });
    const place = placeOf(base, packages);
    // Held from here on, so that it is not deleted to make room.
    this.#holds.set(place.folder, (this.#holds.get(place.folder) ?? 0) + 1);
    const release = this.#releaseOnce(place.folder);
    try {
      if (!(await isThere(place)))
        await this.#makeOnce(place, () => this.#inTurn(() => this.#install(packages)));
      const now = new Date(this.#clock.now());
      await utimes(place.note, now, now).catch(() => undefined);
      return { folder: place.folder, release };
    } catch (error) {
      release();
      throw error;
    }
  }

  /** The folder of these packages, installed or not. */
  async folderOf(packages: BundlePackages): Promise<string> {
    const { base } = await this.#prepare().catch((error: unknown) => {
      throw this.#unavailable(error, 'the folder of packages cannot be used');
    });
    return placeOf(base, packages).folder;
  }

  async close(): Promise<void> {
    this.#closing.abort(new UnavailableError('overloaded', 'the service is stopping'));
    await Promise.allSettled(this.#making.values());
    const prepared = await this.#base?.catch(() => undefined);
    if (prepared === undefined) return;
    const { base, parts, temporary } = prepared;
    await rm(parts, { recursive: true, force: true });
    const isLast = (await readdir(join(base, 'parts')).catch(() => [])).length === 0;
    if (temporary && isLast) await rm(base, { recursive: true, force: true });
  }

  #releaseOnce(folder: string): () => void {
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      const count = (this.#holds.get(folder) ?? 1) - 1;
      if (count === 0) this.#holds.delete(folder);
      else this.#holds.set(folder, count);
    };
  }

  /** Makes a missing folder once, for all callers that ask for it meanwhile. */
  #makeOnce(place: Place, make: () => Promise<void>): Promise<void> {
    let making = this.#making.get(place.folder);
    if (making === undefined) {
      making = make().finally(() => this.#making.delete(place.folder));
      this.#making.set(place.folder, making);
    }
    return making;
  }

  async #install(packages: BundlePackages): Promise<void> {
    const { cache, npm, limits, logger, walls } = this.#options;
    const { packagesMax, packageFilesMax: filesMax, packageBytesMax: bytesMax } = limits;
    const { lockfile } = packages;
    let folder: string | undefined;
    const what = 'installing the npm packages of the component';
    const budget = new BuildBudget({ what, limits, signal: this.#closing.signal });
    try {
      folder = await this.#newFolder();
      const request = {
        ...{ type: 'install' as const, folder, cache, npm, lockfile, specifiers: [], declared: {} },
        ...{ packagesMax, filesMax, bytesMax, nowMs: this.#clock.now() },
      };
      await runInstaller(request, { budget, logger, ...(walls === undefined ? {} : { walls }) }).catch(
        (error: unknown) => {
          // The same packages were installed in time before, so this is not the caller's mistake.
          if (budget.signal.aborted && error instanceof CallerError)
            throw new UnavailableError('build_failed', error.message);
          throw error;
        },
      );
      await this.#keep(packages, folder);
    } catch (error) {
      throw this.#unavailable(error, 'the packages could not be stored');
    } finally {
      budget.end();
      if (folder !== undefined) await rm(folder, { recursive: true, force: true });
    }
  }

  /** A temporary problem, such as a full disk. */
  #unavailable(error: unknown, what: string): Error {
    if (error instanceof CallerError || error instanceof UnavailableError) return error;
    const { code = 'unknown reason' } = toError(error) as NodeJS.ErrnoException;
    this.#options.logger.error({ err: error, problem: what }, 'package-folder.write-failed');
    return new UnavailableError('build_failed', `${what} (${code})`);
  }

  /** Runs one install when it is its turn, after `waitMaxMs` at most. */
  async #inTurn(install: () => Promise<void>): Promise<void> {
    if (this.#installs >= installsMax) await this.#turn();
    else this.#installs += 1;
    try {
      await install();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) this.#installs -= 1;
      else next();
    }
  }

  #turn(): Promise<void> {
    const busy = (): UnavailableError => {
      const waiting = this.#waiting.length;
      this.#options.logger.warn({ running: this.#installs, waiting }, 'package-install.refused');
      const message = `too many installs of npm packages wait (${waiting}); try again in a moment`;
      return new UnavailableError('builder_busy', message);
    };
    if (this.#waiting.length >= waitingMax) throw busy();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const timer = setTimeout(() => {
      const error = busy();
      this.#waiting.splice(this.#waiting.indexOf(enter), 1);
      reject(error);
    }, waitMaxMs);
    const enter = (): void => {
      clearTimeout(timer);
      resolve();
    };
    this.#waiting.push(enter);
    return promise;
  }

  /** Those least recently used go first, never one that a process uses, nor `fresh`. */
  async #makeRoom(fresh: string): Promise<void> {
    const { base, parts } = await this.#prepare();
    const bytesMax = this.#options.bytesMax ?? bytesMaxDefault;
    const { notes, halves } = await readNotes(base, this.#clock.now() - noteMs);
    for (const half of halves) await remove(parts, half);
    let bytes = notes.reduce((sum, note) => sum + note.bytes, 0);
    for (const note of notes.sort((a, b) => a.usedMs - b.usedMs)) {
      if (bytes <= bytesMax) return;
      if (note.folder === fresh || this.#holds.has(note.folder)) continue;
      await rm(`${note.folder}.json`, { force: true });
      await remove(parts, note.folder);
      bytes -= note.bytes;
    }
  }

  /** Creates the folders, and deletes what a crash left. A failure is tried again at the next call. */
  #prepare(): Promise<Base> {
    this.#base ??= this.#makeBase().catch((error: unknown) => {
      this.#base = undefined;
      throw error;
    });
    return this.#base;
  }

  async #makeBase(): Promise<Base> {
    const place = reachableBase(this.#options.folder, mayUseDistinctUsers());
    await chmod(place.base, 0o711);
    return { ...place, parts: await processFolder(join(place.base, 'parts'), 0o711) };
  }
}

interface Base {
  base: string;
  temporary: boolean;
  /** This process's own folder for incomplete copies and for what is being deleted. */
  parts: string;
}

interface Place {
  ownerFolder: string;
  folder: string;
  /** Written last: it marks the folder as complete, and its time is that of the last use. */
  note: string;
}

/** Moves the folder away first, so that a partly deleted folder is never found at its place. */
async function remove(parts: string, folder: string): Promise<void> {
  const away = join(parts, randomUUID());
  const isMoved = await rename(folder, away).then(
    () => true,
    () => false,
  );
  if (isMoved) await rm(away, { recursive: true, force: true });
}

function placeOf(base: string, { ownerId, lockfile }: BundlePackages): Place {
  const ownerFolder = join(base, sha256(ownerId).slice(0, 32));
  const folder = join(ownerFolder, sha256(lockfile).slice(0, 32));
  return { ownerFolder, folder, note: `${folder}.json` };
}

async function isThere(place: Place): Promise<boolean> {
  const found = await Promise.all([stat(place.note), stat(place.folder)]).catch(() => null);
  return found !== null;
}

/** `halves`: folders without a note that were made before `sinceMs`. */
async function readNotes(
  base: string,
  sinceMs: number,
): Promise<{ notes: { folder: string; bytes: number; usedMs: number }[]; halves: string[] }> {
  const owners = (await readdir(base).catch(() => [])).filter((name) => name !== 'parts');
  const notes: { folder: string; bytes: number; usedMs: number }[] = [];
  const halves: string[] = [];
  for (const owner of owners) {
    const names = new Set(await readdir(join(base, owner)).catch(() => []));
    for (const name of names) {
      const file = join(base, owner, name);
      if (!name.endsWith('.json')) {
        const known = names.has(`${name}.json`) ? null : await stat(file).catch(() => null);
        if (known !== null && known.ctimeMs < sinceMs) halves.push(file);
        continue;
      }
      const read = await Promise.all([stat(file), readFile(file, 'utf8')]).catch(() => null);
      if (read === null) continue;
      const [{ mtimeMs }, text] = read;
      notes.push({ folder: file.slice(0, -'.json'.length), bytes: bytesIn(text), usedMs: mtimeMs });
    }
  }
  return { notes, halves };
}

function bytesIn(note: string): number {
  try {
    const { bytes } = JSON.parse(note) as { bytes?: unknown };
    return typeof bytes === 'number' ? bytes : 0;
  } catch {
    return 0;
  }
}

/** Another node of this machine was faster, with the same content. */
function ignoreExisting(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
}
