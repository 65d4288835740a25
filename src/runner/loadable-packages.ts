import { CallerError, toError } from '#lib/errors.ts';
import type { CallOutcome } from './call-outcome.ts';
import type { LoadableBundle } from './encode-load.ts';
import { PackageFileLists } from './package-file-server.ts';
import { serviceError } from './process-end.ts';
import type { ProcessNeeds } from './process-starter.ts';
import type {
  Bundle,
  BundlePackages,
  CallRequest,
  DescribeRequest,
  OpenPackages,
  PackageSource,
} from './runner.ts';
import { ended } from './runner-outcomes.ts';
import type { SandboxProcess } from './sandbox-process.ts';

/** The code of a request, whose own packages are ready, and the needs of its process. */
export interface ReadyCode {
  needs: ProcessNeeds;
  bundle: LoadableBundle;
  /** Called once. The packages are held until this process has ended, or released immediately without one. */
  holdFor: (process: SandboxProcess | undefined) => void;
}

/** Makes packages that bundles import from files available to processes. */
export class LoadablePackages {
  readonly #source: PackageSource | undefined;
  readonly #lists: PackageFileLists | undefined;
  readonly #whole: boolean;

  /**
   * `inMemory`: processes read no file and request those of packages from the service. `whole`: a process gets only files that exist when it
   * starts, so all packages of a deployment must be ready.
   */
  constructor(source: PackageSource | undefined, { inMemory, whole }: { inMemory: boolean; whole: boolean }) {
    this.#source = source;
    this.#lists = inMemory ? new PackageFileLists() : undefined;
    this.#whole = whole;
  }

  /**
   * Makes the packages of the request ready before it takes a process, because an install takes long and others need processes meanwhile.
   * The process may read these packages and those of the deployment's other bundles, and no others. Returns an outcome when the packages are
   * not available.
   */
  async ready(request: CallRequest | DescribeRequest): Promise<ReadyCode | CallOutcome> {
    const { memoryMb, packages: others = [] } = request as CallRequest;
    const own = request.bundle.packages;
    const source = this.#source;
    const wanted = own === undefined ? others : [...others, own];
    if (own === undefined && (source === undefined || wanted.length === 0))
      return { needs: { memoryMb }, bundle: request.bundle, holdFor: () => undefined };
    if (source === undefined) return notAvailable();
    let folders: string[];
    try {
      folders = await Promise.all(wanted.map((packages) => source.folderOf(packages)));
    } catch (error) {
      return outcomeOf(error);
    }
    const needs = this.#lists === undefined ? { memoryMb, packages: [...new Set(folders)] } : { memoryMb };
    const [opened, ...rest] = await Promise.all([
      this.#open(request.bundle),
      // A package that cannot be installed causes an error when its code is called.
      ...(this.#whole ? others.map((packages) => source.open(packages).catch(() => undefined)) : []),
    ]);
    const holdFor = (process: SandboxProcess | undefined): void => {
      if (!('status' in opened)) opened.holdFor(process);
      for (const held of rest) hold(held, process);
    };
    if ('status' in opened) holdFor(undefined);
    return 'status' in opened ? opened : { needs, bundle: opened.bundle, holdFor };
  }

  /**
   * Returns the bundle in the form that the process can load. Returns an outcome when its packages are not available. They are held until the
   * process has ended.
   */
  async open(process: SandboxProcess, bundle: Bundle): Promise<LoadableBundle | CallOutcome> {
    const opened = await this.#open(bundle);
    if ('status' in opened) return opened;
    opened.holdFor(process);
    return opened.bundle;
  }

  async #open(bundle: Bundle): Promise<Pick<ReadyCode, 'bundle' | 'holdFor'> | CallOutcome> {
    const { packages } = bundle;
    if (packages === undefined) return { bundle, holdFor: () => undefined };
    if (this.#source === undefined) return notAvailable();
    try {
      const opened = await this.#source.open(packages);
      return {
        bundle: await this.#loadable(bundle, opened),
        holdFor: (process) => hold(opened, process),
      };
    } catch (error) {
      return outcomeOf(error);
    }
  }

  async #loadable({ code, format }: Bundle, packages: OpenPackages): Promise<LoadableBundle> {
    if (this.#lists === undefined) return { code, format, packagesFolder: packages.folder };
    try {
      return { code, format, packageFiles: await this.#lists.of(packages.folder) };
    } catch (error) {
      packages.release();
      throw error;
    }
  }
}

function hold(packages: OpenPackages | undefined, process: SandboxProcess | undefined): void {
  if (process === undefined) packages?.release();
  else void process.ended.then(() => packages?.release());
}

function notAvailable(): CallOutcome {
  return ended('load_failed', serviceError('packages as files are not available here', 'no_packages'));
}

function outcomeOf(error: unknown): CallOutcome {
  const { message } = toError(error);
  const what = `the npm packages of the code could not be installed: ${message}`;
  // A refusal by the registry is permanent. Everything else may succeed later.
  return error instanceof CallerError
    ? ended('load_failed', serviceError(what, error.code))
    : ended('cancelled', serviceError(what, 'packages_unavailable'));
}

/** Distinct packages of several bundles: those that the process of their deployment may read. */
export function distinctPackages(bundles: readonly Pick<Bundle, 'packages'>[]): BundlePackages[] {
  const found = new Map<string, BundlePackages>();
  for (const { packages } of bundles)
    if (packages !== undefined) found.set(`${packages.ownerId}\n${packages.lockfile}`, packages);
  return [...found.values()];
}
