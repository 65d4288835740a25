import type { CallOutcome } from './call-outcome.ts';
import type { CallRequest } from './runner.ts';
import type { SandboxProcess } from './sandbox-process.ts';

/** A bundle of a deployment, as its process knows it. */
interface PlacedBundle {
  /** Names it in the process, for good: what is evaluated again has another name. */
  readonly name: string;
  readonly hash: string;
}

/** A deployment at one revision, in a process. */
export interface Resident {
  readonly deploymentId: string;
  readonly revision: number | string;
  /** Names its environment and its `/tmp` in the process. */
  readonly place: string;
  /** By the modules of requests; '' where the deployment is one bundle. */
  readonly bundles: Map<string, PlacedBundle>;
}

/**
 * A process and who has code in it: the deployments of one trust domain, or one deployment that has its own. Deployments
 * that come at another revision are evaluated anew; what they had before goes when no call is in it.
 */
export class Home {
  readonly key: string;
  readonly ownerId: string;
  readonly isShared: boolean;
  /** Epoch ms. */
  readonly startedAtMs: number;
  /** The process, or the outcome of calls that wait for one. Set by whoever opens the home. */
  starting: Promise<SandboxProcess | CallOutcome> | undefined;
  process: SandboxProcess | undefined;
  /** It takes no more deployments than it has. */
  isFull = false;
  /** Bundles that were unloaded. Node keeps something of each. */
  unloads = 0;
  readonly #residents = new Map<string, Resident>();
  /** At earlier revisions, until no call is in them. */
  readonly #leaving = new Set<Resident>();
  #names = 0;

  constructor(own: { key: string; ownerId: string; isShared: boolean; startedAtMs: number }) {
    this.key = own.key;
    this.ownerId = own.ownerId;
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

  /** Whether the code of a request is here as it is asked for, or has not been here. */
  fits({ deploymentId, revision, module = '', bundle }: CallRequest): boolean {
    const resident = this.#residents.get(deploymentId);
    if (resident === undefined) return true;
    const { hash = bundle.hash } = resident.bundles.get(module) ?? {};
    return resident.revision === revision && hash === bundle.hash;
  }

  /** The deployment of a request, and the name of the bundle in the process, from now on. */
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

  /** A bundle was not evaluated to its end: the next call evaluates it anew. */
  discard(resident: Resident, name: string): void {
    for (const [module, bundle] of resident.bundles)
      if (bundle.name === name) resident.bundles.delete(module);
    this.#unload([name]);
  }

  /** The code of a deployment is not wanted as it is. */
  drop(deploymentId: string): void {
    const resident = this.#residents.get(deploymentId);
    if (resident === undefined) return;
    this.#residents.delete(deploymentId);
    this.#leaving.add(resident);
    this.unloadUnused();
  }

  /** To be called when a call has ended. */
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
