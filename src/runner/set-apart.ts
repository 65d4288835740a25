import type { CallRequest, SetApartDeployment } from './runner.ts';

/** Far more than a node has deployments that end their processes. Beyond, the one set apart first may share again. */
const rememberedMax = 10_000;

type Code = Pick<CallRequest, 'deploymentId' | 'ownerId' | 'module' | 'bundle'>;

interface Culprit extends SetApartDeployment {
  module: string | undefined;
  hash: string;
}

/**
 * Deployments whose code ended a process that others had code in. From then on each has a process of its own, until that
 * code changes: nobody else pays for it again.
 */
export class SetApart {
  readonly #culprits = new Map<string, Culprit>();

  add(
    { deploymentId, ownerId, module, bundle }: Code,
    { reason, atMs }: { reason: string; atMs: number },
  ): void {
    this.#culprits.delete(deploymentId);
    this.#culprits.set(deploymentId, { deploymentId, ownerId, reason, atMs, module, hash: bundle.hash });
    const [first] = this.#culprits.keys();
    if (this.#culprits.size > rememberedMax && first !== undefined) this.#culprits.delete(first);
  }

  has({ deploymentId, module, bundle }: Code): boolean {
    const culprit = this.#culprits.get(deploymentId);
    if (culprit === undefined) return false;
    if (culprit.module === module && culprit.hash !== bundle.hash) {
      this.#culprits.delete(deploymentId);
      return false;
    }
    return true;
  }

  get count(): number {
    return this.#culprits.size;
  }

  /** The latest first. */
  list(): SetApartDeployment[] {
    return [...this.#culprits.values()]
      .reverse()
      .map(({ deploymentId, ownerId, reason, atMs }) => ({ deploymentId, ownerId, reason, atMs }));
  }
}
