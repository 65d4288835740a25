import { join, resolve } from 'node:path';
import { CallerError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { NpmConfig, PackageFile, ScanOutput } from './builder/build-messages.ts';
import { filesInParts } from './builder/file-parts.ts';
import { parsePackageSpecifier } from './builder/package-specifier.ts';
import { BuilderPool, type WarmProcess } from './builder-pool.ts';
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
const defaultDeadlineMs = 120_000;
/** More for each file that is read: a checkout of all public components has 10,000. */
const deadlineMsPerFile = 20;

/**
 * Whole packages from the npm registry, for the registry of components: fetched and read in confined processes, one of
 * each at a time, which stay warm for the next package. Nothing of a package is evaluated, and its dependencies are not
 * looked at.
 */
export class PackageFetcher {
  readonly #cache: string;
  readonly #npm: NpmConfig;
  readonly #deadlineMs: number;
  readonly #closing = new AbortController();
  readonly #running = new Set<Promise<unknown>>();
  /** Reading does not wait for the network: lists of what ships are read this way too. */
  readonly #installers: BuilderPool<InstallerProcess>;
  readonly #scanners: BuilderPool<ScannerProcess>;

  /** `deadlineMs` is for one package, from when it is its turn. */
  constructor(options: {
    cacheFolder: string;
    registry: string;
    npmConfig?: NpmConfig;
    logger: Logger;
    deadlineMs?: number;
  }) {
    this.#npm = npmConfigWith(options.npmConfig, options.registry);
    this.#cache = join(resolve(options.cacheFolder), 'npm');
    this.#deadlineMs = options.deadlineMs ?? defaultDeadlineMs;
    const { logger } = options;
    this.#installers = this.#laneOf(() => InstallerProcess.forFetching(this.#cache, logger));
    this.#scanners = this.#laneOf(() => ScannerProcess.start(logger));
  }

  /**
   * `version` may be a range or a tag; without it, the one tagged latest. Throws CallerError `unsupported_specifier`,
   * `package_not_found`, `package_refused`, `component_too_large`, `build_timeout`; UnavailableError
   * `registry_unreachable`, `builder_busy`, `build_failed`.
   */
  download(name: string, version = 'latest'): Promise<FetchedPackage> {
    const specifier = `${name}@${version}`;
    const parsed = parsePackageSpecifier(specifier);
    if (parsed === null || parsed.name !== name || parsed.subpath !== '' || !/^[^\s@]+$/.test(version)) {
      const shown = JSON.stringify(specifier.slice(0, 200));
      const message = `${shown} is not supported: expected the name of an npm package with a version, range or tag`;
      throw new CallerError('unsupported_specifier', message, { specifier });
    }
    return this.#inTurn(this.#installers, this.#deadlineMs, (installer, signal) =>
      installer.fetchPackage(
        {
          type: 'fetch',
          cache: this.#cache,
          npm: this.#npm,
          specifiers: [specifier],
          filesMax: packageFilesMax,
          bytesMax: packageBytesMax,
        },
        signal,
      ),
    );
  }

  /** What each of the files says of the component in it, in order. Throws as `download` does, about the processes. */
  scan(files: readonly PackageFile[]): Promise<ScanOutput['readings']> {
    if (files.length === 0) return Promise.resolve([]);
    const parts = filesInParts(files, scanCharactersMax);
    const ms = this.#deadlineMs + files.length * deadlineMsPerFile;
    return this.#inTurn(this.#scanners, ms, (scanner, signal) => scanner.scan(parts, signal));
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
      ...{ concurrency: 1, waitingMax, what: 'packages wait to be added' },
    });
  }

  async #inTurn<P extends WarmProcess, T>(
    lane: BuilderPool<P>,
    ms: number,
    work: (process: P, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const turn = lane.use((process) => this.#withDeadline(ms, (signal) => work(process, signal)));
    this.#running.add(turn);
    try {
      return await turn;
    } finally {
      this.#running.delete(turn);
    }
  }

  async #withDeadline<T>(ms: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const deadline = new AbortController();
    const timer = setTimeout(() => {
      const message = `the package took longer than ${Math.round(ms / 1000)} seconds to fetch or to read`;
      deadline.abort(new CallerError('build_timeout', message));
    }, ms);
    try {
      return await work(AbortSignal.any([deadline.signal, this.#closing.signal]));
    } finally {
      clearTimeout(timer);
    }
  }
}
