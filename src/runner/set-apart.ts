import type { CallRequest } from './runner.ts';

/** Far more than a node has deployments that end their processes. Beyond, the one set apart first may share again. */
const rememberedMax = 10_000;

type Code = Pick<CallRequest, 'deploymentId' | 'module' | 'bundle'>;

/**
 * Deployments whose code ended a process that others had code in. From then on each has a process of its own, until that
 * code changes: nobody else pays for it again.
 */
export class SetApart {
  readonly #codeOf = new Map<string, { module: string | undefined; hash: string }>();

  add({ deploymentId, module, bundle }: Code): void {
    this.#codeOf.delete(deploymentId);
    this.#codeOf.set(deploymentId, { module, hash: bundle.hash });
    const [first] = this.#codeOf.keys();
    if (this.#codeOf.size > rememberedMax && first !== undefined) this.#codeOf.delete(first);
  }

  has({ deploymentId, module, bundle }: Code): boolean {
    const code = this.#codeOf.get(deploymentId);
    if (code === undefined) return false;
    if (code.module === module && code.hash !== bundle.hash) {
      this.#codeOf.delete(deploymentId);
      return false;
    }
    return true;
  }

  get count(): number {
    return this.#codeOf.size;
  }
}
