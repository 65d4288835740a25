import { createHash, randomUUID } from 'node:crypto';
import { link, mkdir, readFile, rename, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '#lib/clock.ts';
import { filesByUse, removeBeyond } from './bound-folder.ts';
import type { Installed } from './builder/install-packages.ts';
import { type BuiltBundle, hashOfBundle } from './built-bundle.ts';

/** Disk that bundles may take before the ones not used for longest go. */
const cacheBytesMax = 1024 * 1024 * 1024;

/** How many writes may pass between two looks at the size. */
const writesPerSweep = 50;

export interface CachedBuild {
  built: BuiltBundle;
  /** No package of it was named without an exact version. */
  isPinned: boolean;
  savedAtMs: number;
}

export interface CachedResolution {
  installed: Installed;
  savedAtMs: number;
}

function resolutionKey(key: string): string {
  return `resolution ${key}`;
}

/**
 * Bundles on disk, by owner and content. The owner is in the folder and in every key: no build is answered from
 * what another owner made. Written under another name and renamed, so a crash leaves a whole entry or none; an entry that
 * does not fit its own hash counts as missing.
 */
export class BundleCache {
  readonly #folder: string;
  readonly #clock: Clock;
  #writes = 0;

  constructor(folder: string, clock: Clock) {
    this.#folder = folder;
    this.#clock = clock;
  }

  /** `key` says what was built: the hash of the tree, or of what led to it. */
  find(ownerId: string, key: string): Promise<CachedBuild | null> {
    return this.#read<CachedBuild>(ownerId, key, ({ built: { bundle, code, codeHash } }) => {
      return hashOfBundle(bundle) === bundle.hash && sha256(code) === codeHash;
    });
  }

  save(ownerId: string, keys: readonly string[], entry: Omit<CachedBuild, 'savedAtMs'>): Promise<void> {
    return this.#write(ownerId, keys, entry);
  }

  /** The versions that packages resolved to; `key` identifies the request. */
  findResolution(ownerId: string, key: string): Promise<CachedResolution | null> {
    return this.#read<CachedResolution>(ownerId, resolutionKey(key), ({ installed }) => {
      return typeof installed.lockfile === 'string';
    });
  }

  saveResolution(ownerId: string, key: string, installed: Installed): Promise<void> {
    return this.#write(ownerId, [resolutionKey(key)], { installed });
  }

  async #read<T>(ownerId: string, key: string, isWhole: (entry: T) => boolean): Promise<T | null> {
    const file = this.#fileOf(ownerId, key);
    try {
      const entry = JSON.parse(await readFile(file, 'utf8')) as T;
      if (!isWhole(entry)) return null;
      const now = new Date(this.#clock.now());
      await utimes(file, now, now).catch(() => {});
      return entry;
    } catch {
      return null;
    }
  }

  async #write(ownerId: string, keys: readonly string[], entry: object): Promise<void> {
    const text = JSON.stringify({ ...entry, savedAtMs: this.#clock.now() });
    let written: string | undefined;
    for (const key of new Set(keys)) {
      const file = this.#fileOf(ownerId, key);
      await mkdir(join(file, '..'), { recursive: true });
      const temporary = `${file}.${randomUUID()}.part`;
      // One file with two names, where the disk has such.
      const isLinked =
        written !== undefined &&
        (await link(written, temporary).then(
          () => true,
          () => false,
        ));
      if (!isLinked) await writeFile(temporary, text);
      await rename(temporary, file);
      written = file;
    }
    this.#writes += 1;
    if (this.#writes % writesPerSweep === 1) await this.#sweep();
  }

  #fileOf(ownerId: string, key: string): string {
    return join(this.#folder, sha256(ownerId).slice(0, 32), `${sha256(`${ownerId}\n${key}`)}.json`);
  }

  async #sweep(): Promise<void> {
    await removeBeyond(
      await filesByUse(this.#folder, (name) => /\.(?:json|part)$/.test(name)),
      cacheBytesMax,
    );
  }
}

export function sha256(text: string | Buffer): string {
  return createHash('sha256').update(text).digest('hex');
}
