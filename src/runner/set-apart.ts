import type { Blame, CallRequest, SetApartDeployment } from './runner.ts';

/** Far more than the deployments of a node that end their processes. Beyond that, the one set apart first may share again. */
const rememberedMax = 10_000;

type Code = Pick<CallRequest, 'deploymentId' | 'ownerId' | 'trustDomain' | 'module' | 'bundle' | 'revision'>;

interface Culprit extends SetApartDeployment {
  /** The code at fault. Undefined: some code of this revision. */
  code: { module: string | undefined; hash: string } | undefined;
  revision: number | string;
}

/**
 * Deployments whose code ended a process that others had code in. Each has a process of its own until that code changes, so that it harms
 * the others only once.
 */
export class SetApart {
  readonly #culprits = new Map<string, Culprit>();
  /** By trust domain. What happened stays true when the code has changed. */
  readonly #blames = new Map<string, Blame>();

  /** Sets the deployment of a call apart whose code ended the process. */
  add({ module, bundle, ...rest }: Code, how: { reason: string; atMs: number }): void {
    this.#add({ ...rest, code: { module, hash: bundle.hash } }, how);
  }

  /** Sets a deployment apart because code that its ended calls left behind ended the process. It is unknown which code it was. */
  addStray(
    rest: Pick<Code, 'deploymentId' | 'ownerId' | 'trustDomain' | 'revision'>,
    how: { reason: string; atMs: number },
  ): void {
    this.#add({ ...rest, code: undefined }, how);
  }

  #add(
    {
      deploymentId,
      ownerId,
      trustDomain = ownerId,
      revision,
      code,
    }: Pick<Culprit, 'deploymentId' | 'ownerId' | 'revision' | 'code'> & Pick<Code, 'trustDomain'>,
    { reason, atMs }: { reason: string; atMs: number },
  ): void {
    remember(this.#culprits, deploymentId, { deploymentId, ownerId, revision, code, reason, atMs });
    remember(this.#blames, trustDomain, { deploymentId, reason, atMs });
  }

  lastBlameOf(trustDomain: string): Blame | undefined {
    return this.#blames.get(trustDomain);
  }

  has({ deploymentId, module, bundle, revision }: Code): boolean {
    const culprit = this.#culprits.get(deploymentId);
    if (culprit === undefined) return false;
    const { code } = culprit;
    const isOther =
      code === undefined
        ? culprit.revision !== revision
        : code.module === module && code.hash !== bundle.hash;
    if (isOther) this.#culprits.delete(deploymentId);
    return !isOther;
  }

  /** Removes a deployment that was deleted or starts over. */
  remove(deploymentId: string): void {
    this.#culprits.delete(deploymentId);
  }

  get count(): number {
    return this.#culprits.size;
  }

  /** Lists them, the latest first. */
  list(): SetApartDeployment[] {
    return [...this.#culprits.values()]
      .reverse()
      .map(({ deploymentId, ownerId, reason, atMs }) => ({ deploymentId, ownerId, reason, atMs }));
  }
}

/** Puts a value at the end, as the latest. */
function remember<T>(all: Map<string, T>, key: string, value: T): void {
  all.delete(key);
  all.set(key, value);
  const [first] = all.keys();
  if (all.size > rememberedMax && first !== undefined) all.delete(first);
}
