import { randomUUID } from 'node:crypto';
import {
  chmod,
  constants,
  cp,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { type Clock, systemClock } from '#lib/clock.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { BundlePackages, OpenPackages, PackageSource } from '#runner/runner.ts';
import { reachableBase } from '#runner/sandbox-folders.ts';
import { mayUseDistinctUsers } from '#runner/self-test.ts';
import type { NpmConfig } from './builder/build-messages.ts';
import { runInstaller } from './builder-process.ts';
import { sha256 } from './bundle-cache.ts';
import { folderBytes } from './folder-bytes.ts';

/** Disk that folders of packages may take before those that are not used, for longest, go. */
const bytesMaxDefault = 4 * 1024 * 1024 * 1024;
/** Installs of folders that are missing, at a time; the rest wait. */
const installsMax = 2;
const waitingMax = 64;

export interface PackageFoldersOptions {
  /** Ours alone. Where other users cannot reach it, a folder of the system's temporary one is used instead. */
  folder: string;
  /** npm's cache. */
  cache: string;
  npm: NpmConfig;
  limits: { packagesMax: number; packageFilesMax: number; packageBytesMax: number; deadlineMs: number };
  bytesMax?: number;
  logger: Logger;
  clock?: Clock;
}

/**
 * npm packages as files, for components whose packages cannot be a part of one text. One folder for each lockfile of an
 * owner, never changed once it is there; nothing in it is a link, and nobody but the service can write it. What the
 * store keeps is the lockfile: another node, or this one after the folder is gone, installs the very same contents.
 *
 * `open` rejects with UnavailableError when they cannot be had right now, CallerError when they never will be.
 */
export class PackageFolders implements PackageSource {
  readonly #options: PackageFoldersOptions;
  readonly #clock: Clock;
  readonly #closing = new AbortController();
  readonly #opening = new Map<string, Promise<void>>();
  /** How many processes use a folder. */
  readonly #holds = new Map<string, number>();
  #installs = 0;
  readonly #waiting: (() => void)[] = [];
  #base: Promise<{ base: string; temporary: boolean }> | undefined;

  constructor(options: PackageFoldersOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** A new, empty folder to install into. */
  async #newFolder(): Promise<string> {
    const { base } = await this.#prepare();
    const folder = join(base, 'parts', randomUUID());
    await mkdir(folder, { mode: 0o700 });
    return folder;
  }

  /** Makes an installed folder, which stays what it is, that of the owner's lockfile, unless there is one already. */
  async keepCopy(packages: BundlePackages, installed: string): Promise<void> {
    const { base } = await this.#prepare();
    if (await isThere(placeOf(base, packages.ownerId, packages.lockfile))) return;
    const copy = await this.#newFolder();
    try {
      await cp(installed, copy, { recursive: true, mode: constants.COPYFILE_FICLONE });
      await this.#keep(packages, copy);
    } finally {
      await rm(copy, { recursive: true, force: true });
    }
  }

  /** Takes the folder, or removes it when there is one already. */
  async #keep({ ownerId, lockfile }: BundlePackages, installed: string): Promise<void> {
    const { base } = await this.#prepare();
    const place = placeOf(base, ownerId, lockfile);
    if (!(await isThere(place))) {
      const bytes = await folderBytes(installed);
      await mkdir(place.ownerFolder, { recursive: true });
      await chmod(place.ownerFolder, 0o711);
      // Without its note a folder is the half of something that a crash left, and no process was given it.
      await this.#remove(base, place.folder);
      // Processes of other users read it.
      await chmod(installed, 0o755);
      await rename(installed, place.folder).catch(ignoreExisting);
      await writeFile(place.note, JSON.stringify({ bytes }));
    }
    await rm(installed, { recursive: true, force: true });
    await this.#makeRoom(base, place.folder);
  }

  async open({ ownerId, lockfile }: BundlePackages): Promise<OpenPackages> {
    this.#closing.signal.throwIfAborted();
    const { base } = await this.#prepare();
    const place = placeOf(base, ownerId, lockfile);
    // Held from here on, so that nobody makes room of it.
    this.#holds.set(place.folder, (this.#holds.get(place.folder) ?? 0) + 1);
    const release = this.#releaseOnce(place.folder);
    try {
      if (!(await isThere(place))) await this.#installOnce(ownerId, lockfile, place);
      const now = new Date(this.#clock.now());
      await utimes(place.note, now, now).catch(() => undefined);
      return { folder: place.folder, release };
    } catch (error) {
      release();
      throw error;
    }
  }

  /** Where the packages of this owner are, whether there are some or not. */
  async ownerFolder(ownerId: string): Promise<string> {
    const { base } = await this.#prepare();
    const { ownerFolder } = placeOf(base, ownerId, '');
    await mkdir(ownerFolder, { recursive: true });
    await chmod(ownerFolder, 0o711);
    return ownerFolder;
  }

  async close(): Promise<void> {
    this.#closing.abort(new UnavailableError('overloaded', 'the service is stopping'));
    await Promise.allSettled(this.#opening.values());
    if (this.#base === undefined) return;
    const { base, temporary } = await this.#base;
    if (temporary) await rm(base, { recursive: true, force: true });
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

  #installOnce(ownerId: string, lockfile: string, place: Place): Promise<void> {
    let opening = this.#opening.get(place.folder);
    if (opening === undefined) {
      opening = this.#install(ownerId, lockfile).finally(() => this.#opening.delete(place.folder));
      this.#opening.set(place.folder, opening);
    }
    return opening;
  }

  async #install(ownerId: string, lockfile: string): Promise<void> {
    const { cache, npm, limits, logger } = this.#options;
    const { packagesMax, packageFilesMax: filesMax, packageBytesMax: bytesMax, deadlineMs } = limits;
    await this.#takeTurn();
    const folder = await this.#newFolder();
    try {
      const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(deadlineMs)]);
      const request = {
        ...{ type: 'install' as const, folder, cache, npm, lockfile, specifiers: [], declared: {} },
        ...{ packagesMax, filesMax, bytesMax, nowMs: this.#clock.now() },
      };
      await runInstaller(request, { signal, logger }).catch((error: unknown) => {
        if (error instanceof CallerError || error instanceof UnavailableError) throw error;
        throw new UnavailableError('registry_unreachable', 'the packages could not be installed in time');
      });
      await this.#keep({ ownerId, lockfile }, folder);
    } finally {
      await rm(folder, { recursive: true, force: true });
      this.#installs -= 1;
      this.#waiting.shift()?.();
    }
  }

  async #takeTurn(): Promise<void> {
    if (this.#installs >= installsMax) {
      if (this.#waiting.length >= waitingMax)
        throw new UnavailableError('builder_busy', 'too many packages are being installed');
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    this.#installs += 1;
  }

  /** Those least recently used go first, never one that a process uses, nor `fresh`. */
  async #makeRoom(base: string, fresh: string): Promise<void> {
    const bytesMax = this.#options.bytesMax ?? bytesMaxDefault;
    const notes = await readNotes(base);
    let bytes = notes.reduce((sum, note) => sum + note.bytes, 0);
    for (const note of notes.sort((a, b) => a.usedMs - b.usedMs)) {
      if (bytes <= bytesMax) return;
      if (note.folder === fresh || this.#holds.has(note.folder)) continue;
      await rm(`${note.folder}.json`, { force: true });
      await this.#remove(base, note.folder);
      bytes -= note.bytes;
    }
  }

  /** Out of its place first: a half removed folder must never be found there. */
  async #remove(base: string, folder: string): Promise<void> {
    const away = join(base, 'parts', randomUUID());
    const isMoved = await rename(folder, away).then(
      () => true,
      () => false,
    );
    if (isMoved) await rm(away, { recursive: true, force: true });
  }

  /** Makes the folders, and clears what a crash left. */
  #prepare(): Promise<{ base: string; temporary: boolean }> {
    this.#base ??= (async () => {
      const place = reachableBase(this.#options.folder, mayUseDistinctUsers());
      const parts = join(place.base, 'parts');
      await rm(parts, { recursive: true, force: true });
      await mkdir(parts, { recursive: true, mode: 0o711 });
      await chmod(place.base, 0o711);
      await chmod(parts, 0o711);
      return place;
    })();
    return this.#base;
  }
}

interface Place {
  ownerFolder: string;
  folder: string;
  /** Written last: says that the folder is whole, and when it was used. */
  note: string;
}

function placeOf(base: string, ownerId: string, lockfile: string): Place {
  const ownerFolder = join(base, sha256(ownerId).slice(0, 32));
  const folder = join(ownerFolder, sha256(lockfile).slice(0, 32));
  return { ownerFolder, folder, note: `${folder}.json` };
}

async function isThere(place: Place): Promise<boolean> {
  const found = await Promise.all([stat(place.note), stat(place.folder)]).catch(() => null);
  return found !== null;
}

async function readNotes(base: string): Promise<{ folder: string; bytes: number; usedMs: number }[]> {
  const names = await readdir(base).catch(() => []);
  const notes: { folder: string; bytes: number; usedMs: number }[] = [];
  for (const owner of names.filter((name) => name !== 'parts')) {
    for (const name of await readdir(join(base, owner)).catch(() => [])) {
      if (!name.endsWith('.json')) continue;
      const file = join(base, owner, name);
      const read = await Promise.all([stat(file), readFile(file, 'utf8')]).catch(() => null);
      if (read === null) continue;
      const [{ mtimeMs }, text] = read;
      notes.push({ folder: file.slice(0, -'.json'.length), bytes: bytesIn(text), usedMs: mtimeMs });
    }
  }
  return notes;
}

function bytesIn(note: string): number {
  try {
    const { bytes } = JSON.parse(note) as { bytes?: unknown };
    return typeof bytes === 'number' ? bytes : 0;
  } catch {
    return 0;
  }
}

/** Another node of this machine was quicker: its content is the same. */
function ignoreExisting(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
}
