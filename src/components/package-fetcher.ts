import { join, resolve } from 'node:path';
import { CallerError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { ShareObserver } from '#metering/share-records.ts';
import { BuildBudget } from './build-budget.ts';
import type { NpmConfig, PackageFile, ScanOutput } from './builder/build-messages.ts';
import { filesInParts } from './builder/file-parts.ts';
import { parsePackageSpecifier } from './builder/package-specifier.ts';
import { BuilderPool, type WarmProcess } from './builder-pool.ts';
import type { BuilderWalls } from './builder-walls.ts';
import { type FetchedPackage, InstallerProcess } from './installer-process.ts';
import { npmConfigWith } from './npm-config.ts';
import { ScannerProcess } from './scanner-process.ts';

export type { FetchedPackage, PackageFile };

/** What one package may hold, unpacked. */
export const packageFilesMax = 20_000;
export const packageBytesMax = 24 * 1024 * 1024;

/** Text that goes to the scanner in one message, in UTF-16 characters. */
const scanCharactersMax = 1024 * 1024;
/** Packages that may wait for the one being fetched. */
const waitingMax = 16;
const defaultCpuMs = 120_000;
/** Wall time, for a registry that hardly answers: a busy machine gives a process a fraction of its processors. */
const deadlinePerCpu = 5;
/** More for each file that is read: a checkout of all public components has 10,000. */
const cpuMsPerFile = 20;

/**
 * Whole packages from the npm registry, for the registry of components: fetched and read in confined processes, which stay warm for the
 * next package. One of each works at a time, and owners take turns (`BuilderPool`). Nothing of a package is evaluated, and its dependencies are not
 * looked at.
 */
export class PackageFetcher {
  readonly #cache: string;
  readonly #npm: NpmConfig;
  readonly #deadlineMs: number | undefined;
  readonly #logger: Logger;
  readonly #shares: ShareObserver | undefined;
  readonly #closing = new AbortController();
  readonly #running = new Set<Promise<unknown>>();
  /** Reading does not wait for the network: lists of what ships are read this way too. */
  readonly #installers: BuilderPool<InstallerProcess>;
  readonly #scanners: BuilderPool<ScannerProcess>;

  /** `deadlineMs` is the wall time for one package, from when it is its turn. */
  constructor(options: {
    cacheFolder: string;
    registry: string;
    npmConfig?: NpmConfig;
    logger: Logger;
    walls?: BuilderWalls;
    deadlineMs?: number;
    /** Learns which owner's packages wait, and are refused. */
    shares?: ShareObserver;
  }) {
    this.#npm = npmConfigWith(options.npmConfig, options.registry);
    this.#cache = join(resolve(options.cacheFolder), 'npm');
    this.#deadlineMs = options.deadlineMs;
    const { logger, walls } = options;
    this.#logger = logger;
    this.#shares = options.shares;
    const tools = { logger, ...(walls === undefined ? {} : { walls }) };
    this.#installers = this.#laneOf(() => InstallerProcess.forFetching(this.#cache, tools));
    this.#scanners = this.#laneOf(() => ScannerProcess.start(tools));
  }

  /**
   * `version` may be a range or a tag; without it, the one tagged latest. Throws CallerError `unsupported_specifier`,
   * `package_not_found`, `package_refused`, `component_too_large`, `build_timeout`; UnavailableError
   * `registry_unreachable`, `builder_busy`, `build_failed`. `ownerId` waits its turn; absent: the instance does.
   */
  download(name: string, version = 'latest', ownerId?: string): Promise<FetchedPackage> {
    const specifier = `${name}@${version}`;
    const parsed = parsePackageSpecifier(specifier);
    if (parsed === null || parsed.name !== name || parsed.subpath !== '' || !/^[^\s@]+$/.test(version)) {
      const shown = JSON.stringify(specifier.slice(0, 200));
      const message = `${shown} is not supported: expected the name of an npm package with a version, range or tag`;
      throw new CallerError('unsupported_specifier', message, { specifier });
    }
    return this.#inTurn(
      { lane: this.#installers, begin: this.#budgetFor('fetching the package'), ownerId },
      (installer, budget) =>
        installer.fetchPackage(
          {
            type: 'fetch',
            cache: this.#cache,
            npm: this.#npm,
            specifiers: [specifier],
            filesMax: packageFilesMax,
            bytesMax: packageBytesMax,
          },
          budget,
        ),
    );
  }

  /** What each of the files says of the component in it, in order. Throws as `download` does, about the processes. */
  scan(files: readonly PackageFile[], ownerId?: string): Promise<ScanOutput['readings']> {
    if (files.length === 0) return Promise.resolve([]);
    const parts = filesInParts(files, scanCharactersMax);
    const begin = this.#budgetFor('reading the package', files.length);
    return this.#inTurn({ lane: this.#scanners, begin, ownerId }, (scanner, within) =>
      scanner.scan(parts, within),
    );
  }

  async close(): Promise<void> {
    this.#closing.abort(new CallerError('build_cancelled', 'the service is stopping'));
    await Promise.allSettled(this.#running);
    await Promise.all([this.#installers.close(), this.#scanners.close()]);
  }

  #laneOf<P extends WarmProcess>(start: () => Promise<P>): BuilderPool<P> {
    return new BuilderPool({
      start: () => {
        this.#closing.signal.throwIfAborted();
        return start();
      },
      ...{ concurrency: 1, waitingMax, what: 'packages wait to be added', logger: this.#logger },
      shares: this.#shares,
    });
  }

  #budgetFor(what: string, files = 0): () => BuildBudget {
    const cpuMs = defaultCpuMs + files * cpuMsPerFile;
    const deadlineMs = this.#deadlineMs ?? cpuMs * deadlinePerCpu;
    return () => new BuildBudget({ what, limits: { cpuMs, deadlineMs }, signal: this.#closing.signal });
  }

  /** `begin` starts the time when it is the turn of `work`. */
  async #inTurn<P extends WarmProcess, T>(
    { lane, begin, ownerId }: { lane: BuilderPool<P>; begin: () => BuildBudget; ownerId: string | undefined },
    work: (process: P, budget: BuildBudget) => Promise<T>,
  ): Promise<T> {
    const turn = lane.use(
      async (process) => {
        const budget = begin();
        try {
          return await work(process, budget);
        } finally {
          budget.end();
        }
      },
      { signal: this.#closing.signal, ...(ownerId === undefined ? {} : { ownerId }) },
    );
    this.#running.add(turn);
    try {
      return await turn;
    } finally {
      this.#running.delete(turn);
    }
  }
}
