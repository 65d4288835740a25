import { join, resolve } from 'node:path';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { NpmConfig, PackageFile, ScanOutput, ScanRequest } from './builder/build-messages.ts';
import { parsePackageSpecifier } from './builder/package-specifier.ts';
import { runFetcher, runScanner } from './builder-process.ts';
import { npmConfigWith } from './npm-config.ts';

export type { PackageFile };

/** What one package may hold, unpacked. */
export const packageFilesMax = 20_000;
export const packageBytesMax = 24 * 1024 * 1024;

/** Text that goes to the scanner in one message. */
const scanBytesMax = 4 * 1024 * 1024;
/** Packages that may wait for the one being fetched. */
const waitingMax = 16;
const fetchDeadlineMs = 120_000;

export interface FetchedPackage {
  name: string;
  version: string;
  /** Subresource integrity of the tarball, checked. */
  integrity: string;
  files: PackageFile[];
}

/**
 * Whole packages from the npm registry, for the registry of components: fetched and read in confined processes, one at a
 * time. Nothing of a package is evaluated, and its dependencies are not looked at.
 */
export class PackageFetcher {
  readonly #cacheFolder: string;
  readonly #npm: NpmConfig;
  readonly #logger: Logger;
  readonly #closing = new AbortController();
  #last: Promise<unknown> = Promise.resolve();
  #waiting = 0;

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
    return this.#inTurn((signal) =>
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
    return this.#inTurn((signal) => runScanner(partsOf(files), { signal, logger: this.#logger }));
  }

  async close(): Promise<void> {
    this.#closing.abort(new CallerError('build_cancelled', 'the service is stopping'));
    await this.#last;
  }

  async #inTurn<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    if (this.#waiting >= waitingMax) {
      throw new UnavailableError('builder_busy', 'too many packages wait to be added; try again in a moment');
    }
    this.#waiting += 1;
    const turn = this.#last.then(() => this.#withDeadline(work));
    this.#last = turn
      .catch(() => {})
      .finally(() => {
        this.#waiting -= 1;
      });
    return turn;
  }

  async #withDeadline<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const deadline = new AbortController();
    const timer = setTimeout(() => {
      const message = `the package took longer than ${fetchDeadlineMs / 1000} seconds to fetch and read`;
      deadline.abort(new CallerError('build_timeout', message));
    }, fetchDeadlineMs);
    try {
      return await work(AbortSignal.any([deadline.signal, this.#closing.signal]));
    } finally {
      clearTimeout(timer);
    }
  }
}

function* partsOf(files: readonly PackageFile[]): Generator<ScanRequest> {
  let part: PackageFile[] = [];
  let bytes = 0;
  for (const file of files) {
    part.push(file);
    bytes += file.text.length;
    if (bytes < scanBytesMax) continue;
    yield { files: part };
    part = [];
    bytes = 0;
  }
  if (part.length > 0) yield { files: part };
}
