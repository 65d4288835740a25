import { mkdirSync, realpathSync } from 'node:fs';
import { readFile, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { unreachable } from '#lib/assert.ts';
import { type Clock, systemClock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { bytesText } from '#lib/units.ts';
import type { BundlePackages } from '#runner/runner.ts';
import type { BundleFormat } from '#storage/tables/component-tables.ts';
import { type BuildLimits, defaultBuildLimits } from './build-limits.ts';
import { BuildTime } from './build-time.ts';
import type {
  BundleForm,
  BundleRequest,
  BundlerOutput,
  NpmConfig,
  PackageLock,
} from './builder/build-messages.ts';
import { parsePackageSpecifier } from './builder/package-specifier.ts';
import { errorOf, projectModules } from './builder-child.ts';
import { BuilderPool } from './builder-pool.ts';
import { readBuilderVersion } from './builder-version.ts';
import type { BuilderWalls } from './builder-walls.ts';
import { type BuiltBundle, hashOfBundle } from './built-bundle.ts';
import { BundleCache, sha256 } from './bundle-cache.ts';
import { BundlerProcess, providedFolder } from './bundler-process.ts';
import { type BuildInput, type BuildPackages, EarlierBuilds, treeHashOf } from './earlier-builds.ts';
import { npmConfigWith } from './npm-config.ts';
import {
  type FetchText,
  fetchedFiles,
  inlineFiles,
  localFiles,
  type OwnFiles,
  type ReadStored,
  storedFiles,
} from './own-files.ts';
import type { PackageFolders } from './package-folders.ts';
import { type InstallTree, PackageTrees } from './package-trees.ts';
import { processFolder, processFolderOf } from './process-folder.ts';
import { WarmInstallers } from './warm-installers.ts';

export type ComponentSource =
  /** Code from a request; without `language`, JavaScript when it parses as such, else TypeScript. */
  | { kind: 'code'; code: string; language?: 'ts' | 'js' }
  | { kind: 'url'; url: string }
  /** A file of the registry that ships with this project: relative imports stay below `root`, packages are those of the project. */
  | { kind: 'file'; path: string; root: string }
  /** A file of a package that is kept in the store; relative imports stay in the package. */
  | { kind: 'stored'; packageId: string; path: string; read: ReadStored };

export type { BuiltBundle, BundleForm };

export interface BuildOptions {
  /** The owner of the build. Bundles of other owners are not used. */
  ownerId: string;
  /** Absent: inline where that can work. */
  form?: BundleForm;
  /** In the form 'tree': packages whose native addon is replaced by a stand-in where addons are refused. */
  standIns?: readonly string[];
  /** Takes no bundle of an earlier build. */
  rebuild?: boolean;
  /**
   * In the form 'tree': has all packages that the package.json above declares, as other components of it do that are
   * built too; where they can be had.
   */
  allDeclared?: boolean;
  signal?: AbortSignal;
}

/**
 * Turns code, a URL or a file into one JavaScript text: its npm packages are a part of it (inline), or stay files that
 * it imports where it runs (tree), when they read files beside themselves or are too large for one text. Promises:
 * - the same tree with the same lock gives the same bundle, and is bundled once per owner;
 * - nothing of the component is evaluated here, no script of a package runs, nothing but the registry is connected to
 *   apart from what `fetchText` allows, and nothing outside the build's folder ends up in a bundle;
 * - a build takes no more than `cpuMs` and `deadlineMs`, installing its packages as much again, and after `close` none of its processes or build folders is left.
 *
 * Rejects with `CallerError` (invalid_component_code, unsupported_specifier, package_not_found, package_refused,
 * component_url_unreachable, component_too_large, native_addon, build_timeout) or `UnavailableError`
 * (registry_unreachable, builder_busy, build_failed).
 */
export interface ComponentBuilder {
  build(source: ComponentSource, options: BuildOptions): Promise<BuiltBundle>;
  /** Builds in a process now, and those in line for one. */
  counts(): { running: number; waiting: number; oldestWaitMs: number };
  close(): Promise<void>;
}

export interface ComponentBuilderOptions {
  /** Ours alone: holds bundles, npm's cache and the folders of running builds. */
  cacheFolder: string;
  /** '' is the registry of `npmConfig`. */
  registry: string;
  /** From `readNpmConfig`; absent means npm's defaults. */
  npmConfig?: NpmConfig;
  /** Keeps packages that stay files; absent: all are inlined. */
  packages?: PackageFolders;
  /** Native addons of packages are loaded where code runs: then such packages stay files. */
  addons?: boolean;
  fetchText: FetchText;
  logger: Logger;
  /** Absent: its processes have Node's permissions alone. */
  walls?: BuilderWalls;
  limits?: Partial<BuildLimits>;
  clock?: Clock;
}

const providedModules: Record<string, string> = {
  '@pipedream/platform': join(providedFolder, 'pipedream-platform.ts'),
  '@pipedreamhq/platform': join(providedFolder, 'pipedream-platform.ts'),
  '@pipedream/helpers': join(providedFolder, 'pipedream-helpers.ts'),
  '@pipedream/types': join(providedFolder, 'pipedream-types.ts'),
};

const emptyLock: PackageLock = { imports: {}, packages: {} };

export function createComponentBuilder(options: ComponentBuilderOptions): ComponentBuilder {
  return new ProcessBuilder(options);
}

class ProcessBuilder implements ComponentBuilder {
  readonly #options: ComponentBuilderOptions;
  readonly #limits: BuildLimits;
  readonly #clock: Clock;
  readonly #npm: NpmConfig;
  readonly #earlier: EarlierBuilds;
  readonly #cacheFolder: string;
  readonly #pool: BuilderPool<BundlerProcess>;
  readonly #trees: PackageTrees;
  readonly #installers: WarmInstallers;
  readonly #closing = new AbortController();
  /** Builds that run now, by owner and source: two requests for the same one share a build. */
  readonly #running = new Map<
    string,
    { result: Promise<BuiltBundle>; stop: AbortController; waiters: number }
  >();
  /** Packages that cannot all be had together. */
  readonly #refusedTogether = new Set<string>();
  #version: Promise<string> | undefined;
  #prepared: Promise<string> | undefined;

  constructor(options: ComponentBuilderOptions) {
    this.#options = options;
    this.#limits = { ...defaultBuildLimits, ...options.limits };
    this.#clock = options.clock ?? systemClock;
    this.#npm = npmConfigWith(options.npmConfig, options.registry);
    // Its real path: esbuild answers with those, and Node's permission model compares texts.
    mkdirSync(options.cacheFolder, { recursive: true, mode: 0o700 });
    this.#cacheFolder = realpathSync(options.cacheFolder);
    this.#earlier = new EarlierBuilds({
      cache: new BundleCache(join(this.#cacheFolder, 'bundles'), this.#clock),
      ...{ clock: this.#clock, logger: options.logger, unpinnedMaxAgeMs: this.#limits.unpinnedMaxAgeMs },
    });
    const { concurrency, waitingMax } = this.#limits;
    const buildsFolder = processFolderOf(join(this.#cacheFolder, 'builds'));
    const { logger, walls } = options;
    const tools = { logger, ...(walls === undefined ? {} : { walls }) };
    this.#installers = new WarmInstallers(tools);
    this.#trees = new PackageTrees({
      folder: buildsFolder,
      maxAgeMs: this.#limits.unpinnedMaxAgeMs,
      clock: this.#clock,
      logger: options.logger,
    });
    this.#pool = new BuilderPool({
      start: () => BundlerProcess.start(buildsFolder, tools),
      ...{ concurrency, waitingMax, what: 'components wait to be built' },
      logger: options.logger,
    });
  }

  async build(
    source: ComponentSource,
    { ownerId, form, standIns = [], rebuild = false, allDeclared = false, signal }: BuildOptions,
  ): Promise<BuiltBundle> {
    signal?.throwIfAborted();
    this.#closing.signal.throwIfAborted();
    const key = JSON.stringify([ownerId, form, standIns, rebuild, allDeclared, source]);
    let running = this.#running.get(key);
    if (running === undefined) {
      const stop = new AbortController();
      const result = this.#buildNow(
        source,
        { ownerId, form, standIns, rebuild, allDeclared },
        stop.signal,
      ).finally(() => this.#running.delete(key));
      running = { result, stop, waiters: 0 };
      this.#running.set(key, running);
    }
    running.waiters += 1;
    try {
      return await (signal === undefined
        ? running.result
        : Promise.race([running.result, rejectOnAbort(signal)]));
    } finally {
      running.waiters -= 1;
      if (running.waiters === 0)
        running.stop.abort(new CallerError('build_cancelled', 'no request waits for this build'));
    }
  }

  counts(): { running: number; waiting: number; oldestWaitMs: number } {
    return { ...this.#pool.counts, oldestWaitMs: this.#pool.oldestWaitMs };
  }

  async close(): Promise<void> {
    this.#closing.abort(new CallerError('build_cancelled', 'the service is stopping'));
    await Promise.allSettled([...this.#running.values()].map(({ result }) => result));
    await this.#pool.close();
    await this.#installers.close();
    await this.#trees.close();
    const folder = await this.#prepared?.catch(() => undefined);
    // Another builder of this process may have something there.
    if (folder !== undefined) await rmdir(folder).catch(() => undefined);
  }

  async #buildNow(
    source: ComponentSource,
    wanted: Pick<Build, 'ownerId' | 'form' | 'standIns' | 'rebuild' | 'allDeclared'>,
    stop: AbortSignal,
  ): Promise<BuiltBundle> {
    const time = this.#timeFor('building the component', AbortSignal.any([stop, this.#closing.signal]));
    const { signal } = time;
    try {
      const buildsFolder = await this.#prepare();
      const { packages, addons } = this.#options;
      this.#version ??= readBuilderVersion({
        hasPackageFolders: packages !== undefined,
        hasAddons: addons === true,
      });
      const version = await this.#version;
      const own = this.#ownFiles(source, signal);
      const entry = await Promise.race([own.entry(), rejectOnAbort(signal)]);
      if (Buffer.byteLength(entry.text) > this.#limits.bytesMax) {
        throw new CallerError(
          'component_too_large',
          `the component is larger than ${bytesText(this.#limits.bytesMax)}`,
        );
      }
      const build: Build = {
        ...{ ...wanted, own, version, time, signal, buildsFolder, language: entry.loader },
        isShipped: source.kind === 'file',
      };
      return (await this.#earlier.findFresh(build, {})) ?? (await this.#bundle(build));
    } finally {
      time.end();
    }
  }

  #timeFor(what: string, signal: AbortSignal): BuildTime {
    const { cpuMs, deadlineMs } = this.#limits;
    return new BuildTime({ what, limits: { cpuMs, deadlineMs }, signal });
  }

  #ownFiles(source: ComponentSource, signal: AbortSignal): OwnFiles {
    const limits = this.#limits;
    const fetching = { fetchText: this.#options.fetchText, limits, signal };
    switch (source.kind) {
      case 'code':
        return inlineFiles(source.code, source.language, fetching);
      case 'url':
        return fetchedFiles(source.url, fetching);
      case 'file':
        return localFiles(source.path, source.root, limits);
      case 'stored':
        return storedFiles(source.path, source.read, limits);
      default:
        return unreachable(source);
    }
  }

  async #bundle(build: Build): Promise<BuiltBundle> {
    build.time.pause();
    return this.#pool.use(
      async (bundler) => {
        build.time.restart();
        // Packages are looked for in the second pass only, so the first needs no folder of its own.
        const { form = 'inline' } = build;
        const outcome = await this.#runBundler(bundler, build, { folder: build.buildsFolder, form });
        if (outcome.type === 'bundled')
          return this.#finish(build, outcome, { lock: emptyLock, declared: {} });
        if (outcome.type === 'unfit') throw errorOf(outcome.problem);
        const shipped = build.isShipped && form === 'inline' ? await shippedLock(outcome.specifiers) : null;
        return shipped === null
          ? this.#bundleWithPackages(bundler, build, outcome)
          : this.#bundleShipped(bundler, build, shipped);
      },
      {
        isReusableAfter: (error) => error instanceof CallerError && !build.signal.aborted,
        signal: build.signal,
        ownerId: build.ownerId,
      },
    );
  }

  /** With the packages of this project, which the registry's own components import: nothing is installed for them. */
  async #bundleShipped(bundler: BundlerProcess, build: Build, lock: PackageLock): Promise<BuiltBundle> {
    const from = { lock, declared: {} };
    const known = await this.#earlier.findTree(build, from);
    if (known !== null) return known;
    const folder = dirname(projectModules);
    const outcome = await this.#runBundler(bundler, build, { folder, aliases: {}, form: 'inline' });
    if (outcome.type === 'unfit') throw errorOf(outcome.problem);
    if (outcome.type !== 'bundled')
      throw new Error('assertion failed: a second pass asks for packages again');
    return this.#finish(build, outcome, from);
  }

  async #bundleWithPackages(bundler: BundlerProcess, build: Build, needs: Needs): Promise<BuiltBundle> {
    const declared = await build.own.declaredDependencies();
    const all =
      build.form === 'tree' && build.allDeclared ? allNeeded(needs.specifiers, declared) : undefined;
    if (all === undefined || this.#refusedTogether.has(all.join('\n')))
      return this.#bundleWith(bundler, build, needs);
    try {
      return await this.#bundleWith(bundler, build, { ...needs, specifiers: all });
    } catch (error) {
      if (!(error instanceof CallerError) || build.signal.aborted || error.code === 'build_timeout')
        throw error;
      build.time.restart();
      // One that cannot be had is in the way of those that do not need it.
      this.#refusedTogether.add(all.join('\n'));
      return this.#bundleWith(bundler, build, needs);
    }
  }

  async #bundleWith(bundler: BundlerProcess, build: Build, needs: Needs): Promise<BuiltBundle> {
    const { specifiers } = needs;
    const declared = await this.#declaredFor(build.own, specifiers);
    const fresh = await this.#earlier.findFresh(build, declared);
    if (fresh !== null) return fresh;
    const { packagesMax, packageFilesMax, packageBytesMax } = this.#limits;
    const install: InstallTree = async (folder, signal, place) => {
      // The install has a time limit of its own: other builds may wait for the same packages.
      const time = this.#timeFor('installing the npm packages of the component', signal);
      const request = {
        ...{ type: 'install' as const, folder, nowMs: this.#clock.now() },
        ...{ cache: join(this.#cacheFolder, 'npm'), npm: this.#npm },
        ...{ specifiers, declared, packagesMax, filesMax: packageFilesMax, bytesMax: packageBytesMax },
      };
      try {
        return await this.#installers.install(place, request, time);
      } finally {
        time.end();
      }
    };
    const key = JSON.stringify([build.ownerId, specifiers, Object.entries(declared).sort()]);
    const asFiles = await this.#bundleAsFiles(bundler, build, { key, declared, needs });
    if (asFiles !== null) return asFiles;
    const { ownerId, signal } = build;
    build.time.pause();
    return this.#trees.use({ ownerId, key, install, signal }, async (tree) => {
      build.time.restart();
      const { folder, aliases, lock, lockfile } = tree;
      const known = await this.#earlier.findTree(build, { lock, declared });
      if (known !== null) return known;
      const installed = { folder, aliases };
      const { inlineFilesMax, inlineCodeBytesMax } = this.#limits;
      const isLarge = tree.files > inlineFilesMax || tree.codeBytes > inlineCodeBytesMax;
      const inline = await this.#bundleInline(bundler, build, { ...installed, isLarge });
      if (inline !== null) return this.#finish(build, inline, { lock, declared });
      const outcome = await this.#runBundler(bundler, build, {
        ...installed,
        form: 'tree',
        standIns: build.standIns,
      });
      if (outcome.type !== 'bundled') throw new Error('assertion failed: a tree asks for packages again');
      const packages = { ownerId: build.ownerId, lockfile };
      await this.#options.packages?.keepCopy(packages, folder);
      const resolved = { aliases, lock, lockfile };
      await this.#earlier.saveResolution(build.ownerId, key, resolved);
      return this.#finish(build, outcome, { lock, declared, packages });
    });
  }

  /** Where packages are to stay files, nothing is read of them: what they resolved to a while ago is enough. Null: unknown. */
  async #bundleAsFiles(
    bundler: BundlerProcess,
    build: Build,
    { key, declared, needs }: { key: string; declared: Record<string, string>; needs: Needs },
  ): Promise<BuiltBundle | null> {
    if (build.form !== 'tree' || this.#options.packages === undefined) return null;
    const resolved = await this.#earlier.findResolution(build.ownerId, key);
    if (resolved === null) return null;
    const { aliases, lock, lockfile } = resolved;
    const known = await this.#earlier.findTree(build, { lock, declared });
    if (known !== null) return known;
    const { standIns, buildsFolder: folder } = build;
    const isKnown = Object.keys(aliases).length === 0 && standIns.length === 0;
    const outcome =
      (isKnown ? needs.asTree : undefined) ??
      (await this.#runBundler(bundler, build, { folder, aliases, form: 'tree', standIns }));
    if (outcome.type !== 'bundled') throw new Error('assertion failed: a tree asks for packages again');
    return this.#finish(build, outcome, { lock, declared, packages: { ownerId: build.ownerId, lockfile } });
  }

  /** Null when the packages had better stay files. */
  async #bundleInline(
    bundler: BundlerProcess,
    build: Build,
    { isLarge, ...installed }: { folder: string; aliases: Record<string, string>; isLarge: boolean },
  ): Promise<Bundled | null> {
    const mayBeTree = this.#options.packages !== undefined && build.form !== 'inline';
    if (mayBeTree && (build.form === 'tree' || isLarge)) return null;
    const outcome = await this.#runBundler(bundler, build, installed);
    if (outcome.type === 'unfit') {
      if (mayBeTree) return null;
      throw errorOf(outcome.problem);
    }
    if (outcome.type !== 'bundled')
      throw new Error('assertion failed: a second pass asks for packages again');
    const needsAddons = this.#options.addons === true && outcome.addons.length > 0;
    return mayBeTree && (outcome.beside.length > 0 || needsAddons) ? null : outcome;
  }

  async #runBundler(
    bundler: BundlerProcess,
    build: Build,
    pass: Pick<BundleRequest, 'folder' | 'aliases' | 'standIns'> & { form?: BundleForm },
  ) {
    const entry = await build.own.entry();
    return bundler.bundle(
      {
        type: 'bundle',
        entry,
        form: 'inline',
        ...pass,
        provided: providedModules,
        providedFolder,
        projectModules,
        bundleBytesMax: this.#limits.bundleBytesMax,
      },
      (importer, specifier) => build.own.lookUp(importer, specifier),
      build.time,
    );
  }

  /** Ranges of the package.json above the component, for the packages whose import names none. */
  async #declaredFor(own: OwnFiles, specifiers: string[]): Promise<Record<string, string>> {
    const names = specifiers.map(parsePackageSpecifier).filter((it) => it !== null && it.range === undefined);
    const declared = await own.declaredDependencies();
    return Object.fromEntries(
      names.flatMap((it) => {
        const range = it === null || !Object.hasOwn(declared, it.name) ? undefined : declared[it.name];
        return it === null || range === undefined ? [] : [[it.name, range]];
      }),
    );
  }

  async #finish(
    build: Build,
    { code: text, format }: Bundled,
    from: BuildPackages & { packages?: BundlePackages },
  ): Promise<BuiltBundle> {
    const { lock, declared, packages } = from;
    const { text: code } = await build.own.entry();
    const lockText = JSON.stringify(lock);
    const built: BuiltBundle = {
      code,
      codeHash: sha256(code),
      bundle: {
        hash: hashOfBundle({ code: text, ...(packages === undefined ? {} : { packages }) }),
        ...{ code: text, format },
        ...(packages === undefined ? {} : { packages }),
      },
      lock: lockText,
      files: build.own.used().map((file) => ({ path: file.path, sha256: sha256(file.text) })),
      treeHash: treeHashOf(build, lockText),
    };
    await this.#earlier.save(build, built, { lock, declared });
    return built;
  }

  /** Makes the folder of builds, and clears what a crash left in it. */
  #prepare(): Promise<string> {
    this.#prepared ??= processFolder(join(this.#cacheFolder, 'builds'), 0o700).catch((error: unknown) => {
      // Tried again with the next build.
      this.#prepared = undefined;
      throw error;
    });
    return this.#prepared;
  }
}

type Needs = Extract<BundlerOutput, { type: 'needs' }>;

/** Maximum of packages declared for a component; a checkout of a whole registry declares more. */
const togetherMax = 100;

/** What one component needs and what is declared beside it; undefined where that is too much. */
function allNeeded(specifiers: readonly string[], declared: Record<string, string>): string[] | undefined {
  const names = new Set(specifiers.map((specifier) => parsePackageSpecifier(specifier)?.name));
  const others = Object.keys(declared).filter(
    (name) => !names.has(name) && !Object.hasOwn(providedModules, name),
  );
  const all = [...specifiers, ...others].sort();
  return all.length > togetherMax ? undefined : all;
}

type Bundled = { code: string; format: BundleFormat };

/** The versions of these packages in the project; null where one is not there, or another version is asked for. */
async function shippedLock(specifiers: readonly string[]): Promise<PackageLock | null> {
  const lock: PackageLock = { imports: {}, packages: {} };
  for (const specifier of specifiers) {
    const parsed = parsePackageSpecifier(specifier);
    if (parsed === null || parsed.range !== undefined) return null;
    const { name } = parsed;
    const text = await readFile(join(projectModules, name, 'package.json'), 'utf8').catch(() => null);
    if (text === null) return null;
    lock.imports[specifier] = { name, version: String((JSON.parse(text) as { version?: unknown }).version) };
  }
  return lock;
}

interface Build extends BuildInput {
  /** A component of the registry that ships with the service. */
  isShipped: boolean;
  allDeclared: boolean;
  time: BuildTime;
  /** The signal of `time`. */
  signal: AbortSignal;
  buildsFolder: string;
}

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}
