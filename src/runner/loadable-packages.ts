import { CallerError, toError } from '#lib/errors.ts';
import type { CallOutcome } from './call-outcome.ts';
import { serviceError } from './process-end.ts';
import type { ProcessNeeds } from './process-pool.ts';
import type { Bundle, CallRequest, DescribeRequest, PackageSource } from './runner.ts';
import { ended } from './runner-outcomes.ts';
import type { LoadableBundle, SandboxProcess } from './sandbox-process.ts';

/** Packages that bundles import from files: what a process needs for them, and having them there when it loads one. */
export class LoadablePackages {
  readonly #source: PackageSource | undefined;

  constructor(source: PackageSource | undefined) {
    this.#source = source;
  }

  /** What the process of the request has to be started with. */
  async needs(request: CallRequest | DescribeRequest): Promise<ProcessNeeds> {
    const { memoryMb, packageOwners = [] } = request as CallRequest;
    const { packages } = request.bundle;
    const owners = new Set(packages === undefined ? packageOwners : [...packageOwners, packages.ownerId]);
    const source = this.#source;
    if (source === undefined || owners.size === 0) return { memoryMb };
    return { memoryMb, packages: await Promise.all([...owners].map((id) => source.ownerFolder(id))) };
  }

  /** The bundle as the process can load it; an outcome when its packages cannot be had. Held until the process is gone. */
  async open(process: SandboxProcess, bundle: Bundle): Promise<LoadableBundle | CallOutcome> {
    const { packages } = bundle;
    if (packages === undefined) return bundle;
    if (this.#source === undefined)
      return ended('load_failed', serviceError('packages as files are not available here', 'no_packages'));
    try {
      const { folder, release } = await this.#source.open(packages);
      void process.ended.then(release);
      return { code: bundle.code, format: bundle.format, packagesFolder: folder };
    } catch (error) {
      const { message } = toError(error);
      const what = `the npm packages of the code could not be installed: ${message}`;
      // What the registry says of a package will be so the next time too; all else is for another time.
      return error instanceof CallerError
        ? ended('load_failed', serviceError(what, error.code))
        : ended('cancelled', serviceError(what, 'packages_unavailable'));
    }
  }
}
