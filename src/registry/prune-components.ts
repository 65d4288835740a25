import {
  ownersOfMany,
  recordUsesUnderWay,
  removeUnused,
  type UnusedComponents,
} from '#components/component-use-store.ts';
import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import { PeriodicTask } from '#lib/periodic-task.ts';
import type { Store } from '#storage/store.ts';
import { registryOwner } from './resolve-component.ts';

const intervalMs = 10 * 60_000;
/** In one transaction: a bundle has up to 16 MB. */
const batchRows = 50;
const hourMs = 3_600_000;
/** A component that nothing uses is kept this long after its last use. */
const keptForMs = 7 * 24 * hourMs;
/** Maximum of them kept for one owner, once they are a day old. */
const keptMax = 500;
const keptAnywayMs = 24 * hourMs;
/** The use of a component that is deployed is recorded this often. It stays for at least the rest of a day after its end. */
const recordedForMs = 12 * hourMs;

/**
 * Removes components that nothing uses, with their bundles. Kept are those that a source, a deployment of a workflow or a
 * package of the registry has, those that a user has saved, and those that were used in the last seven days.
 */
export class ComponentPruner {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #listDeployments: (limit: number) => Promise<number>;
  readonly #task: PeriodicTask;

  /** `listDeployments` lists the components of deployments that an older version stored, some at a time; answers how many. */
  constructor(options: {
    store: Store;
    clock: Clock;
    logger: Logger;
    listDeployments: (limit: number) => Promise<number>;
  }) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#listDeployments = options.listDeployments;
    this.#task = new PeriodicTask({
      everyMs: intervalMs,
      work: () => this.prune(),
      logger: options.logger,
      failure: 'component.prune-failed',
    });
  }

  start(): void {
    this.#task.start();
  }

  /** Removes all that is due; exported for tests, which do not wait for the interval. */
  async prune(): Promise<void> {
    const nowMs = this.#clock.now();
    const shared = { limit: batchRows, instanceOwnerId: registryOwner };
    await this.#inBatches(this.#listDeployments);
    await this.#inBatches(() =>
      this.#store.transaction((tx) =>
        recordUsesUnderWay(tx, { ...shared, beforeMs: nowMs - recordedForMs, nowMs }),
      ),
    );
    let removed = await this.#remove({ ...shared, beforeMs: nowMs - keptForMs });
    for (const ownerId of await ownersOfMany(this.#store.read, keptMax)) {
      const beyond = { ownerId, keep: keptMax };
      removed += await this.#remove({ ...shared, beforeMs: nowMs - keptAnywayMs, beyond });
    }
    if (removed === 0) return;
    this.#logger.info({ removed }, 'component.pruned');
    await this.#store.reclaimSpace();
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }

  #remove(unused: UnusedComponents): Promise<number> {
    return this.#inBatches(() => this.#store.transaction((tx) => removeUnused(tx, unused)));
  }

  async #inBatches(work: (limit: number) => Promise<number>): Promise<number> {
    let sum = 0;
    for (let done = batchRows; done >= batchRows && !this.#task.isStopped; sum += done)
      done = await work(batchRows);
    return sum;
  }
}
