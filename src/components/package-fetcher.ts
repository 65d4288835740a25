import { join, resolve } from 'node:path';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { NpmConfig, PackageFile, ScanOutput } from './builder/build-messages.ts';
import { filesInParts } from './builder/file-parts.ts';
import { parsePackageSpecifier } from './builder/package-specifier.ts';
import { runFetcher, runScanner } from './builder-process.ts';
import { npmConfigWith } from './npm-config.ts';

export type { PackageFile };

/** What one package may hold, unpacked. */
export const packageFilesMax = 20_000;
export const packageBytesMax = 24 * 1024 * 1024;

/** Text that goes to the scanner in one message, in UTF-16 characters. */
const scanCharactersMax = 1024 * 1024;
/** Packages that may wait for the one being fetched. */
const waitingMax = 16;
const deadlineMs = 120_000;
/** More for each file that is read: a checkout of all public components has 10,000. */
const deadlineMsPerFile = 20;

export interface FetchedPackage {
  name: string;
  version: string;
  /** Subresource integrity of the tarball, checked. */
  integrity: string;
  files: PackageFile[];
}

/**
 * Whole packages from the npm registry, for the registry of components: fetched and read in confined processes, one of
 * each at a time. Nothing of a package is evaluated, and its dependencies are not looked at.
 */
export class PackageFetcher {
  readonly #cacheFolder: string;
  readonly #npm: NpmConfig;
  readonly #logger: Logger;
  readonly #closing = new AbortController();
  /** Reading does not wait for the network: lists of what ships are read this way too. */
  readonly #lanes = { fetch: emptyLane(), scan: emptyLane() };

  constructor(options: { cacheFolder: string; registry: string; npmConfig?: NpmConfig; logger: Logger }) {
    this.#npm = npmConfigWith(options.npmConfig, options.registry);
    this.#cacheFolder = resolve(options.cacheFolder);
    this.#logger = options.logger;
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
    return this.#inTurn('fetch', deadlineMs, (signal) =>
      runFetcher(
        {
          type: 'fetch',
          cache: join(this.#cacheFolder, 'npm'),
          npm: this.#npm,
          specifiers: [specifier],
          filesMax: packageFilesMax,
          bytesMax: packageBytesMax,
        },
        { signal, logger: this.#logger },
      ),
    );
  }

  /** What each of the files says of the component in it, in order. Throws as `download` does, about the processes. */
  scan(files: readonly PackageFile[]): Promise<ScanOutput['readings']> {
    if (files.length === 0) return Promise.resolve([]);
    const parts = filesInParts(files, scanCharactersMax);
    return this.#inTurn('scan', deadlineMs + files.length * deadlineMsPerFile, (signal) =>
      runScanner(parts, { signal, logger: this.#logger }),
    );
  }

  async close(): Promise<void> {
    this.#closing.abort(new CallerError('build_cancelled', 'the service is stopping'));
    await Promise.all(Object.values(this.#lanes).map(({ last }) => last));
  }

  async #inTurn<T>(
    name: 'fetch' | 'scan',
    ms: number,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const lane = this.#lanes[name];
    if (lane.waiting >= waitingMax) {
      throw new UnavailableError('builder_busy', 'too many packages wait to be added; try again in a moment');
    }
    lane.waiting += 1;
    const turn = lane.last.then(() => this.#withDeadline(ms, work));
    lane.last = turn
      .catch(() => {})
      .finally(() => {
        lane.waiting -= 1;
      });
    return turn;
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

function emptyLane(): { last: Promise<unknown>; waiting: number } {
  return { last: Promise.resolve(), waiting: 0 };
}
