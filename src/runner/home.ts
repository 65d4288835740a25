import type { CallOutcome } from './call-outcome.ts';
import type { CallRequest } from './runner.ts';
import type { SandboxProcess } from './sandbox-process.ts';

/** A bundle of a deployment in a process. */
interface PlacedBundle {
  /** Name of the bundle in the process. It is never used again: the same code, evaluated again, has another name. */
  readonly name: string;
  readonly hash: string;
}

/** A deployment at one revision, in a process. */
export interface Resident {
  readonly deploymentId: string;
  readonly revision: number | string;
  /** Name of its environment and its `/tmp` in the process. */
  readonly place: string;
  /** Bundles by the `module` of their requests; '' where the deployment is one bundle. */
  readonly bundles: Map<string, PlacedBundle>;
}

/**
 * A process and the deployments that have code in it: those of one trust domain, or one deployment that does not share. A deployment that
 * comes at another revision is evaluated again; its earlier bundles are unloaded when no call runs in them.
 */
export class Home {
  readonly key: string;
  readonly ownerId: string;
  readonly trustDomain: string;
  readonly isShared: boolean;
  /** Epoch ms. */
  readonly startedAtMs: number;
  /** The process, or the outcome for the calls that wait for it. Set by the code that opens the home. */
  starting: Promise<SandboxProcess | CallOutcome> | undefined;
  process: SandboxProcess | undefined;
  /** True: it accepts no further deployments. */
  isFull = false;
  /** The number of bundles that were unloaded. Node keeps a part of each in memory. */
  unloads = 0;
  readonly #residents = new Map<string, Resident>();
  /** Residents at earlier revisions. They stay until no call runs in them. */
  readonly #leaving = new Set<Resident>();
  #names = 0;

  constructor(own: Pick<Home, 'key' | 'ownerId' | 'trustDomain' | 'isShared' | 'startedAtMs'>) {
    this.key = own.key;
    this.ownerId = own.ownerId;
    this.trustDomain = own.trustDomain;
    this.isShared = own.isShared;
    this.startedAtMs = own.startedAtMs;
  }

  get deploymentCount(): number {
    return this.#residents.size;
  }

  get deploymentIds(): string[] {
    return [...this.#residents.keys()];
  }

  revisionOf(deploymentId: string): number | string | undefined {
    return this.#residents.get(deploymentId)?.revision;
  }

  has(deploymentId: string): boolean {
    return this.#residents.has(deploymentId);
  }

  /** True when the process has the requested code, or has no code of the deployment. */
  fits({ deploymentId, revision, module = '', bundle }: CallRequest): boolean {
    const resident = this.#residents.get(deploymentId);
    if (resident === undefined) return true;
    const { hash = bundle.hash } = resident.bundles.get(module) ?? {};
    return resident.revision === revision && hash === bundle.hash;
  }

  /** Adds the code of a request. Returns its deployment and the name of its bundle in the process. */
  place(request: CallRequest): { resident: Resident; name: string } {
    if (!this.fits(request)) this.drop(request.deploymentId);
    const { deploymentId, revision, module = '', bundle } = request;
    let resident = this.#residents.get(deploymentId);
    if (resident === undefined) {
      resident = { deploymentId, revision, place: this.#newName(deploymentId), bundles: new Map() };
      this.#residents.set(deploymentId, resident);
    }
    const known = resident.bundles.get(module);
    if (known !== undefined) return { resident, name: known.name };
    const name = this.#newName(deploymentId) + (module === '' ? '' : `/${encodeURIComponent(module)}`);
    resident.bundles.set(module, { name, hash: bundle.hash });
    return { resident, name };
  }

  #newName(deploymentId: string): string {
    this.#names += 1;
    return `${deploymentId}@${this.#names}`;
  }

  /** Forgets a bundle whose evaluation did not finish, so that the next call evaluates it again. */
  discard(resident: Resident, name: string): void {
    for (const [module, bundle] of resident.bundles)
      if (bundle.name === name) resident.bundles.delete(module);
    this.#unload([name]);
  }

  /** Forgets the code of a deployment, because it has changed or moves elsewhere. Calls in flight end first. */
  drop(deploymentId: string): void {
    const resident = this.#residents.get(deploymentId);
    if (resident === undefined) return;
    this.#residents.delete(deploymentId);
    this.#leaving.add(resident);
    this.unloadUnused();
  }

  /** Unloads earlier revisions. The caller calls this whenever a call has ended. */
  unloadUnused(): void {
    for (const resident of this.#leaving) {
      if (this.process === undefined || this.process.callsInFlightOf(resident.deploymentId) > 0) continue;
      this.#leaving.delete(resident);
      this.#unload([...resident.bundles.values()].map(({ name }) => name));
    }
  }

  #unload(names: readonly string[]): void {
    this.unloads += names.length;
    this.process?.unload(names);
  }
}
