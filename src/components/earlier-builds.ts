import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import type { BundleForm, OwnFile, PackageLock } from './builder/build-messages.ts';
import { parsePackageSpecifier } from './builder/package-specifier.ts';
import type { BuiltBundle } from './built-bundle.ts';
import { type BundleCache, type CachedResolution, sha256 } from './bundle-cache.ts';
import type { OwnFiles } from './own-files.ts';

/** What decides the bundle of a build, apart from its packages. */
export interface BuildInput {
  own: OwnFiles;
  ownerId: string;
  /** As requested. */
  form: BundleForm | undefined;
  standIns: readonly string[];
  language: string | undefined;
  /** The version of the builder (`readBuilderVersion`). */
  version: string;
  /** Takes no bundle of an earlier build. */
  rebuild: boolean;
}

/** The packages of a build: their lock, and the ranges that the package.json above the component declares. */
export interface BuildPackages {
  lock: PackageLock;
  declared: Record<string, string>;
}

/** Finds the bundles of earlier builds with the same input, and keeps new ones. */
export class EarlierBuilds {
  readonly #cache: BundleCache;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #unpinnedMaxAgeMs: number;

  constructor(options: { cache: BundleCache; clock: Clock; logger: Logger; unpinnedMaxAgeMs: number }) {
    this.#cache = options.cache;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#unpinnedMaxAgeMs = options.unpinnedMaxAgeMs;
  }

  /** The bundle of the same files. It is valid for ever if all versions were exact, otherwise for a while. */
  async findFresh(input: BuildInput, declared: Record<string, string>): Promise<BuiltBundle | null> {
    if (input.rebuild) return null;
    const cached = await this.#cache.find(input.ownerId, sourceKeyOf(input, declared));
    if (cached === null) return null;
    return cached.isPinned || this.#isRecent(cached.savedAtMs) ? cached.built : null;
  }

  /** The bundle of the same files with the same packages. */
  async findTree(input: BuildInput, { lock, declared }: BuildPackages): Promise<BuiltBundle | null> {
    if (input.rebuild) return null;
    const known = await this.#cache.find(input.ownerId, treeHashOf(input, JSON.stringify(lock)));
    if (known !== null) await this.save(input, known.built, { lock, declared });
    return known?.built ?? null;
  }

  async save(input: BuildInput, built: BuiltBundle, { lock, declared }: BuildPackages): Promise<void> {
    const isPinned = Object.keys(lock.imports).every((specifier) =>
      isExactVersion(parsePackageSpecifier(specifier)?.range),
    );
    const keys = [built.treeHash, sourceKeyOf(input, declared)];
    await this.#ignoringFailures(this.#cache.save(input.ownerId, keys, { built, isPinned }));
  }

  /** What these specifiers resolved to, if that was a while ago at most. */
  async findResolution(ownerId: string, key: string): Promise<CachedResolution['installed'] | null> {
    const resolved = await this.#cache.findResolution(ownerId, key);
    return resolved !== null && this.#isRecent(resolved.savedAtMs) ? resolved.installed : null;
  }

  async saveResolution(
    ownerId: string,
    key: string,
    installed: CachedResolution['installed'],
  ): Promise<void> {
    await this.#ignoringFailures(this.#cache.saveResolution(ownerId, key, installed));
  }

  /** The cache only saves work, so a full disk must not fail the build. */
  async #ignoringFailures(saved: Promise<void>): Promise<void> {
    await saved.catch((error: unknown) => {
      this.#logger.warn({ err: error }, 'build.cache-write-failed');
    });
  }

  #isRecent(savedAtMs: number): boolean {
    const ageMs = this.#clock.now() - savedAtMs;
    return ageMs >= 0 && ageMs < this.#unpinnedMaxAgeMs;
  }
}

/** The key that is known before any package is resolved. */
function sourceKeyOf(input: BuildInput, declared: Record<string, string>): string {
  return sha256(
    JSON.stringify([
      'source',
      filesOf(input),
      Object.entries(declared).sort(),
      input.language,
      input.version,
      input.form,
      ...input.standIns,
    ]),
  );
}

export function treeHashOf(input: BuildInput, lockText: string): string {
  const { language, version, form, standIns } = input;
  return sha256(JSON.stringify(['tree', filesOf(input), lockText, language, version, form, ...standIns]));
}

function filesOf({ own }: BuildInput): [string, string][] {
  const files = own.used().map((file): [string, string] => [file.path, hashOf(file)]);
  return files.sort(([a], [b]) => (a < b ? -1 : 1));
}

/** Hashes of the files of builds under way. Each build asks several times, and code may be large. */
const hashes = new WeakMap<OwnFile, string>();

function hashOf(file: OwnFile): string {
  const known = hashes.get(file) ?? sha256(file.text);
  hashes.set(file, known);
  return known;
}

function isExactVersion(range: string | undefined): boolean {
  return range !== undefined && /^v?\d+\.\d+\.\d+(?:[-+][\w.+-]+)?$/.test(range);
}
