import { mkdir, mkdtemp, readdir, rm, rmdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Installed } from './builder/install-packages.ts';
import { sha256 } from './bundle-cache.ts';

/** Unused trees that are kept for the next build; each takes up to what one install may. */
const idleTreesMax = 4;
/** A tree waits this long for its next build. */
const idleMs = 60_000;
/** Files looked at, at a time. */
const filesAtATime = 64;

/** npm packages, installed: nothing more is written to it. */
export interface PackageTree extends Installed {
  folder: string;
  files: number;
  /** Bytes of the JavaScript files. */
  codeBytes: number;
}

/** Fills `folder`, which is empty and in the folder `place`. */
export type InstallTree = (folder: string, signal: AbortSignal, place: string) => Promise<Installed>;

interface Entry {
  tree: Promise<PackageTree>;
  stop: AbortController;
  users: number;
  startedAtMs: number;
  /** No build begins with one that is over: it failed, is too old, or is being removed. */
  state: 'installing' | 'installed' | 'over';
  idleTimer?: NodeJS.Timeout;
}

/**
 * Installed packages, shared by builds that need exactly the same: the components of a package mostly do, and unpacking
 * thousands of files costs a hundred times what bundling does. A tree is never changed, and is removed when it was not used
 * for a while.
 */
export class PackageTrees {
  readonly #options: { folder: string; maxAgeMs: number; clock: Clock; logger: Logger };
  /** The ones least recently used first. */
  readonly #entries = new Map<string, Entry>();
  readonly #removals = new Set<Promise<void>>();
  /** Folders of owners. */
  readonly #places = new Set<string>();

  /** `folder` exists and is the builder's. Ranges are resolved again after `maxAgeMs`. */
  constructor(options: { folder: string; maxAgeMs: number; clock: Clock; logger: Logger }) {
    this.#options = options;
  }

  /**
   * Runs `work` with the tree of this key, which is in the folder of its owner and is installed once for all callers at the same time or soon after; the
   * install ends early only when no caller waits for it. Rejects with what installing does, and when `signal` aborts.
   */
  async use<T>(
    wanted: { ownerId: string; key: string; install: InstallTree; signal: AbortSignal },
    work: (tree: PackageTree) => Promise<T>,
  ): Promise<T> {
    const { ownerId, signal } = wanted;
    const key = JSON.stringify([ownerId, wanted.key]);
    signal.throwIfAborted();
    const entry = this.#enter(key, ownerId, wanted.install);
    try {
      return await work(await unlessAborted(entry.tree, signal));
    } finally {
      this.#leave(key, entry);
    }
  }

  /** Removes all trees. No build may be using one. */
  async close(): Promise<void> {
    for (const [key, entry] of this.#entries) this.#remove(key, entry);
    await Promise.all(this.#removals);
    for (const place of this.#places) await rmdir(place).catch(() => undefined);
  }

  #enter(key: string, ownerId: string, install: InstallTree): Entry {
    const known = this.#entries.get(key);
    const ageMs = known === undefined ? 0 : this.#options.clock.now() - known.startedAtMs;
    if (known !== undefined && known.state !== 'over' && ageMs >= 0 && ageMs < this.#options.maxAgeMs) {
      clearTimeout(known.idleTimer);
      known.users += 1;
      this.#entries.delete(key);
      this.#entries.set(key, known);
      return known;
    }
    if (known !== undefined) this.#retire(key, known);
    const stop = new AbortController();
    const entry: Entry = {
      tree: this.#install(ownerId, install, stop.signal),
      stop,
      users: 1,
      startedAtMs: this.#options.clock.now(),
      state: 'installing',
    };
    entry.tree.then(
      () => {
        if (entry.state === 'installing') entry.state = 'installed';
      },
      () => {
        entry.state = 'over';
      },
    );
    this.#entries.set(key, entry);
    return entry;
  }

  #leave(key: string, entry: Entry): void {
    entry.users -= 1;
    if (entry.users > 0) return;
    // No caller waits for an install that still runs, so it is not worth finishing.
    if (entry.state !== 'installed' || this.#entries.get(key) !== entry) {
      this.#remove(key, entry);
      return;
    }
    entry.idleTimer = setTimeout(() => this.#remove(key, entry), idleMs).unref();
    const idle = [...this.#entries].filter(([, { users }]) => users === 0);
    for (const [idleKey, one] of idle.slice(0, Math.max(0, idle.length - idleTreesMax)))
      this.#remove(idleKey, one);
  }

  /** No further build gets the tree; those that use it continue. */
  #retire(key: string, entry: Entry): void {
    entry.state = 'over';
    this.#entries.delete(key);
    if (entry.users === 0) this.#remove(key, entry);
  }

  #remove(key: string, entry: Entry): void {
    clearTimeout(entry.idleTimer);
    entry.state = 'over';
    if (this.#entries.get(key) === entry) this.#entries.delete(key);
    entry.stop.abort(new CallerError('build_cancelled', 'no build waits for these packages'));
    const removal = entry.tree
      .then(
        ({ folder }) => removeFolder(folder),
        () => {},
      )
      .catch((error: unknown) => this.#options.logger.warn({ err: error }, 'package-tree.removal-failed'))
      .finally(() => this.#removals.delete(removal));
    this.#removals.add(removal);
  }

  async #install(ownerId: string, install: InstallTree, signal: AbortSignal): Promise<PackageTree> {
    const place = join(this.#options.folder, sha256(ownerId).slice(0, 32));
    await mkdir(place, { recursive: true });
    this.#places.add(place);
    const folder = await mkdtemp(join(place, 'build-'));
    try {
      const installed = await install(folder, signal, place);
      return { folder, ...(await sizeOf(folder)), ...installed };
    } catch (error) {
      await removeFolder(folder);
      throw error;
    }
  }
}

async function sizeOf(folder: string): Promise<Pick<PackageTree, 'files' | 'codeBytes'>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const code = files.filter(({ name }) => /\.[cm]?js$/.test(name));
  let codeBytes = 0;
  for (let at = 0; at < code.length; at += filesAtATime) {
    const part = code.slice(at, at + filesAtATime);
    const sizes = await Promise.all(
      part.map(async ({ parentPath, name }) => (await stat(join(parentPath, name))).size),
    );
    codeBytes += sizes.reduce((sum, size) => sum + size, 0);
  }
  return { files: files.length, codeBytes };
}

async function removeFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 3 });
}

async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = (): void => reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
