import { mkdirSync, realpathSync } from 'node:fs';
import { rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { unreachable } from '#lib/assert.ts';
import { type Clock, systemClock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { bytesText } from '#lib/units.ts';
import type { ShareObserver } from '#metering/share-records.ts';
import { BuildBudget } from './build-budget.ts';
import { type BuildLimits, defaultBuildLimits } from './build-limits.ts';
import type { BundleForm, NpmConfig } from './builder/build-messages.ts';
import { errorOf } from './builder-child.ts';
import { BuilderPool } from './builder-pool.ts';
import { readBuilderVersion } from './builder-version.ts';
import type { BuilderWalls } from './builder-walls.ts';
import type { BuiltBundle } from './built-bundle.ts';
import { BundleCache, sha256 } from './bundle-cache.ts';
import { type Build, BundlePasses } from './bundle-passes.ts';
import { BundlerProcess } from './bundler-process.ts';
import { EarlierBuilds } from './earlier-builds.ts';
import { EvaluationShares } from './evaluation-shares.ts';
import { FetchPace } from './fetch-pace.ts';
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
import { PackageTrees } from './package-trees.ts';
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
  /**
   * Parses code and makes one text of its own files; imports of packages stay imports, and are not looked for. Code of one file is
   * answered as it is. Rejects as `build` does.
   */
  join(source: ComponentSource, options: Pick<BuildOptions, 'ownerId' | 'signal'>): Promise<JoinedCode>;
  /**
   * Evaluates what was built for this owner when it is the turn of this one; its builds wait for its evaluations. Rejects as `evaluate` does, or with
   * `builder_busy`.
   */
  evaluated<T>(ownerId: string, evaluate: (signal: AbortSignal) => Promise<T>): Promise<T>;
  /** Ends builds and evaluations of an owner that was disabled or deleted, under way or waiting. They reject with `forbidden`. */
  endBuildsOf(ownerId: string): void;
  /** Builds in a process now, and those in line for one. */
  counts(): { running: number; waiting: number; oldestWaitMs: number };
  /** Those of an owner. */
  buildsOf(ownerId: string): number;
  close(): Promise<void>;
}

export interface JoinedCode {
  code: string;
  /** Paths of the files that it was made of, the entry first. */
  files: string[];
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
  /** Learns which owner's builds wait, and are refused. */
  shares?: ShareObserver;
  /** Throws where the owner may have no more builds than these, under way or waiting. */
  admit?: (ownerId: string, builds: number) => void;
}

export function createComponentBuilder(options: ComponentBuilderOptions): ComponentBuilder {
  return new ProcessBuilder(options);
}

class ProcessBuilder implements ComponentBuilder {
  readonly #options: ComponentBuilderOptions;
  readonly #limits: BuildLimits;
  readonly #clock: Clock;
  readonly #earlier: EarlierBuilds;
  readonly #cacheFolder: string;
  readonly #pool: BuilderPool<BundlerProcess>;
  readonly #evaluations: EvaluationShares;
  readonly #trees: PackageTrees;
  readonly #installers: WarmInstallers;
  readonly #passes: BundlePasses;
  readonly #closing = new AbortController();
  /** Builds that run now, by owner and source: two requests for the same one share a build. */
  readonly #running = new Map<
    string,
    { ownerId: string; result: Promise<BuiltBundle>; stop: AbortController; waiters: number }
  >();
  #version: Promise<string> | undefined;
  #prepared: Promise<string> | undefined;
  readonly #fetching: FetchPace;

  constructor(options: ComponentBuilderOptions) {
    this.#options = options;
    this.#limits = { ...defaultBuildLimits, ...options.limits };
    this.#fetching = new FetchPace({ fetchText: options.fetchText, bytesMax: this.#limits.bytesMax });
    this.#clock = options.clock ?? systemClock;
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
    this.#evaluations = new EvaluationShares({
      shares: options.shares,
      onEnded: () => this.#pool.beginNext(),
    });
    this.#pool = new BuilderPool({
      isHeld: (ownerId) => this.#evaluations.hasEnough(ownerId),
      start: () => BundlerProcess.start(buildsFolder, tools),
      ...{ concurrency, waitingMax, what: 'components wait to be built' },
      ...{ logger: options.logger, shares: options.shares, admit: options.admit },
    });
    this.#passes = new BundlePasses({
      ...{
        limits: this.#limits,
        clock: this.#clock,
        npm: npmConfigWith(options.npmConfig, options.registry),
      },
      npmCacheFolder: join(this.#cacheFolder, 'npm'),
      ...{ earlier: this.#earlier, pool: this.#pool, trees: this.#trees, installers: this.#installers },
      ...{ packages: options.packages, hasAddons: options.addons === true },
    });
  }

  async build(
    source: ComponentSource,
    { ownerId, form, standIns = [], rebuild = false, allDeclared = false, signal }: BuildOptions,
  ): Promise<BuiltBundle> {
    signal?.throwIfAborted();
    this.#closing.signal.throwIfAborted();
    const key = keyOf(source, { ownerId, form, standIns, rebuild, allDeclared });
    let running = this.#running.get(key);
    if (running === undefined) {
      // Here too, before work on code that may be large.
      this.#pool.refuseIfFull(ownerId);
      const stop = new AbortController();
      const result = this.#buildNow(
        source,
        { ownerId, form, standIns, rebuild, allDeclared },
        stop.signal,
      ).finally(() => this.#running.delete(key));
      running = { ownerId, result, stop, waiters: 0 };
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

  async join(
    source: ComponentSource,
    { ownerId, signal }: Pick<BuildOptions, 'ownerId' | 'signal'>,
  ): Promise<JoinedCode> {
    const stop = signal === undefined ? [] : [signal];
    const budget = this.#budgetFor('reading the code', AbortSignal.any([...stop, this.#closing.signal]));
    try {
      const folder = await this.#prepare();
      const own = this.#ownFiles(source, ownerId, budget.signal);
      budget.pause();
      const outcome = await this.#pool.use(
        (bundler) => {
          budget.restart();
          return this.#passes.runBundler(bundler, { own, budget }, { folder, form: 'joined' });
        },
        {
          isReusableAfter: (error) => error instanceof CallerError && !budget.signal.aborted,
          ...{ signal: budget.signal, ownerId },
        },
      );
      if (outcome.type === 'unfit') throw errorOf(outcome.problem);
      if (outcome.type !== 'bundled') throw new Error('assertion failed: joined code asks for packages');
      const files = own.used();
      const [entry] = files;
      return {
        code: files.length === 1 && entry !== undefined ? entry.text : outcome.code,
        files: files.map(({ path }) => path),
      };
    } finally {
      budget.end();
    }
  }

  evaluated<T>(ownerId: string, evaluate: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return this.#evaluations.run(ownerId, evaluate);
  }

  endBuildsOf(ownerId: string): void {
    const reason = new CallerError('forbidden', 'the owner of this build was disabled or deleted');
    this.#evaluations.end(ownerId, reason);
    this.#pool.endWaiting(ownerId, reason);
    for (const running of this.#running.values()) if (running.ownerId === ownerId) running.stop.abort(reason);
  }

  counts(): { running: number; waiting: number; oldestWaitMs: number } {
    return { ...this.#pool.counts, oldestWaitMs: this.#pool.oldestWaitMs };
  }

  buildsOf(ownerId: string): number {
    return this.#pool.usesOf(ownerId);
  }

  async close(): Promise<void> {
    this.#closing.abort(new CallerError('build_cancelled', 'the service is stopping'));
    this.#fetching.close();
    await Promise.allSettled([...this.#running.values()].map(({ result }) => result));
    await this.#pool.close();
    await this.#installers.close();
    await this.#trees.close();
    const folder = await this.#prepared?.catch(() => undefined);
    // Another builder of this process may have something there.
    if (folder !== undefined) await rmdir(folder).catch(() => undefined);
  }

  async #buildNow(source: ComponentSource, wanted: WantedBuild, stop: AbortSignal): Promise<BuiltBundle> {
    const budget = this.#budgetFor('building the component', AbortSignal.any([stop, this.#closing.signal]));
    const { signal } = budget;
    try {
      const buildsFolder = await this.#prepare();
      const { packages, addons } = this.#options;
      this.#version ??= readBuilderVersion({
        hasPackageFolders: packages !== undefined,
        hasAddons: addons === true,
      });
      const version = await this.#version;
      const own = this.#ownFiles(source, wanted.ownerId, signal);
      const entry = await Promise.race([own.entry(), rejectOnAbort(signal)]);
      if (Buffer.byteLength(entry.text) > this.#limits.bytesMax) {
        throw new CallerError(
          'component_too_large',
          `the component is larger than ${bytesText(this.#limits.bytesMax)}`,
        );
      }
      const build: Build = {
        ...{ ...wanted, own, version, budget, signal, buildsFolder, language: entry.loader },
        isShipped: source.kind === 'file',
      };
      return (await this.#earlier.findFresh(build, {})) ?? (await this.#passes.bundle(build));
    } finally {
      budget.end();
    }
  }

  #budgetFor(what: string, signal: AbortSignal): BuildBudget {
    return new BuildBudget({ what, limits: this.#limits, signal });
  }

  #ownFiles(source: ComponentSource, ownerId: string, signal: AbortSignal): OwnFiles {
    const limits = this.#limits;
    const fetching = { fetchText: this.#fetching.of(ownerId), limits, signal };
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

type WantedBuild = Pick<Build, 'ownerId' | 'form' | 'standIns' | 'rebuild' | 'allDeclared'>;

/** The same for the same build. Code may be large, and many builds may wait: they keep its hash. */
function keyOf(
  source: ComponentSource,
  { ownerId, form, standIns, rebuild, allDeclared }: WantedBuild,
): string {
  const named = source.kind === 'code' ? { ...source, code: sha256(source.code) } : source;
  return JSON.stringify([ownerId, form, standIns, rebuild, allDeclared, named]);
}

function rejectOnAbort(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}
