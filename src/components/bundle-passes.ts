import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { codeExtension } from '#lib/installation.ts';
import type { BundlePackages } from '#runner/runner.ts';
import type { BundleFormat } from '#storage/tables/component-tables.ts';
import { BuildBudget } from './build-budget.ts';
import type { BuildLimits } from './build-limits.ts';
import type { BundleRequest, BundlerOutput, NpmConfig, PackageLock } from './builder/build-messages.ts';
import { parsePackageSpecifier } from './builder/package-specifier.ts';
import { errorOf, projectModules } from './builder-child.ts';
import type { BuilderPool } from './builder-pool.ts';
import { type BuiltBundle, hashOfBundle } from './built-bundle.ts';
import { sha256 } from './bundle-cache.ts';
import { type BundlerProcess, providedFolder } from './bundler-process.ts';
import { type BuildInput, type BuildPackages, type EarlierBuilds, treeHashOf } from './earlier-builds.ts';
import type { OwnFiles } from './own-files.ts';
import type { PackageFolders } from './package-folders.ts';
import type { InstallTree, PackageTrees } from './package-trees.ts';
import type { WarmInstallers } from './warm-installers.ts';

const providedModules: Record<string, string> = {
  '@pipedream/platform': join(providedFolder, `pipedream-platform${codeExtension}`),
  '@pipedreamhq/platform': join(providedFolder, `pipedream-platform${codeExtension}`),
  '@pipedream/helpers': join(providedFolder, `pipedream-helpers${codeExtension}`),
  '@pipedream/types': join(providedFolder, `pipedream-types${codeExtension}`),
};

const emptyLock: PackageLock = { imports: {}, packages: {} };

/** One build on its way. */
export interface Build extends BuildInput {
  /** A component of the registry that ships with the service. */
  isShipped: boolean;
  allDeclared: boolean;
  budget: BuildBudget;
  /** The signal of `budget`. */
  signal: AbortSignal;
  buildsFolder: string;
}

type Needs = Extract<BundlerOutput, { type: 'needs' }>;

type Bundled = { code: string; format: BundleFormat };

export interface BundlePassesOptions {
  limits: BuildLimits;
  clock: Clock;
  npm: NpmConfig;
  npmCacheFolder: string;
  earlier: EarlierBuilds;
  pool: BuilderPool<BundlerProcess>;
  trees: PackageTrees;
  installers: WarmInstallers;
  /** Undefined: all packages are inlined. */
  packages: PackageFolders | undefined;
  hasAddons: boolean;
}

/**
 * The passes of a bundler process over one component. The first finds which packages it needs; where it needs some, a further one has them,
 * in the text or as files beside it.
 */
export class BundlePasses {
  readonly #limits: BuildLimits;
  readonly #clock: Clock;
  readonly #npm: NpmConfig;
  readonly #npmCacheFolder: string;
  readonly #earlier: EarlierBuilds;
  readonly #pool: BuilderPool<BundlerProcess>;
  readonly #trees: PackageTrees;
  readonly #installers: WarmInstallers;
  readonly #packages: PackageFolders | undefined;
  readonly #hasAddons: boolean;
  /** Packages that cannot all be had together. */
  readonly #refusedTogether = new Set<string>();

  constructor(options: BundlePassesOptions) {
    this.#limits = options.limits;
    this.#clock = options.clock;
    this.#npm = options.npm;
    this.#npmCacheFolder = options.npmCacheFolder;
    this.#earlier = options.earlier;
    this.#pool = options.pool;
    this.#trees = options.trees;
    this.#installers = options.installers;
    this.#packages = options.packages;
    this.#hasAddons = options.hasAddons;
  }

  /** The bundle of a component of which no earlier build is fresh. */
  async bundle(build: Build): Promise<BuiltBundle> {
    build.budget.pause();
    return this.#pool.use(
      async (bundler) => {
        build.budget.restart();
        // Packages are looked for in the second pass only, so the first needs no folder of its own.
        const { form = 'inline' } = build;
        const outcome = await this.runBundler(bundler, build, { folder: build.buildsFolder, form });
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
    const outcome = await this.runBundler(bundler, build, { folder, aliases: {}, form: 'inline' });
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
      build.budget.restart();
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
      const budget = new BuildBudget({
        ...{ what: 'installing the npm packages of the component', limits: this.#limits, signal },
      });
      const request = {
        ...{ type: 'install' as const, folder, nowMs: this.#clock.now() },
        ...{ cache: this.#npmCacheFolder, npm: this.#npm },
        ...{ specifiers, declared, packagesMax, filesMax: packageFilesMax, bytesMax: packageBytesMax },
      };
      try {
        return await this.#installers.install(place, request, budget);
      } finally {
        budget.end();
      }
    };
    const key = JSON.stringify([build.ownerId, specifiers, Object.entries(declared).sort()]);
    const asFiles = await this.#bundleAsFiles(bundler, build, { key, declared, needs });
    if (asFiles !== null) return asFiles;
    const { ownerId, signal } = build;
    build.budget.pause();
    return this.#trees.use({ ownerId, key, install, signal }, async (tree) => {
      build.budget.restart();
      const { folder, aliases, lock, lockfile } = tree;
      const known = await this.#earlier.findTree(build, { lock, declared });
      if (known !== null) return known;
      const installed = { folder, aliases };
      const { inlineFilesMax, inlineCodeBytesMax } = this.#limits;
      const isLarge = tree.files > inlineFilesMax || tree.codeBytes > inlineCodeBytesMax;
      const inline = await this.#bundleInline(bundler, build, { ...installed, isLarge });
      if (inline !== null) return this.#finish(build, inline, { lock, declared });
      const outcome = await this.runBundler(bundler, build, {
        ...installed,
        form: 'tree',
        standIns: build.standIns,
      });
      if (outcome.type !== 'bundled') throw new Error('assertion failed: a tree asks for packages again');
      const packages = { ownerId: build.ownerId, lockfile };
      await this.#packages?.keepCopy(packages, folder);
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
    if (build.form !== 'tree' || this.#packages === undefined) return null;
    const resolved = await this.#earlier.findResolution(build.ownerId, key);
    if (resolved === null) return null;
    const { aliases, lock, lockfile } = resolved;
    const known = await this.#earlier.findTree(build, { lock, declared });
    if (known !== null) return known;
    const { standIns, buildsFolder: folder } = build;
    const isKnown = Object.keys(aliases).length === 0 && standIns.length === 0;
    const outcome =
      (isKnown ? needs.asTree : undefined) ??
      (await this.runBundler(bundler, build, { folder, aliases, form: 'tree', standIns }));
    if (outcome.type !== 'bundled') throw new Error('assertion failed: a tree asks for packages again');
    return this.#finish(build, outcome, { lock, declared, packages: { ownerId: build.ownerId, lockfile } });
  }

  /** Null when the packages had better stay files. */
  async #bundleInline(
    bundler: BundlerProcess,
    build: Build,
    { isLarge, ...installed }: { folder: string; aliases: Record<string, string>; isLarge: boolean },
  ): Promise<Bundled | null> {
    const mayBeTree = this.#packages !== undefined && build.form !== 'inline';
    if (mayBeTree && (build.form === 'tree' || isLarge)) return null;
    const outcome = await this.runBundler(bundler, build, installed);
    if (outcome.type === 'unfit') {
      if (mayBeTree) return null;
      throw errorOf(outcome.problem);
    }
    if (outcome.type !== 'bundled')
      throw new Error('assertion failed: a second pass asks for packages again');
    const needsAddons = this.#hasAddons && outcome.addons.length > 0;
    return mayBeTree && (outcome.beside.length > 0 || needsAddons) ? null : outcome;
  }

  async runBundler(
    bundler: BundlerProcess,
    build: Pick<Build, 'own' | 'budget'>,
    pass:
      | Pick<BundleRequest, 'folder' | 'aliases' | 'standIns' | 'form'>
      | Pick<BundleRequest, 'folder' | 'aliases'>,
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
      build.budget,
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
}

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
