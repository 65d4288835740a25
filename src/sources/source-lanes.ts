import type { Clock } from '#lib/clock.ts';
import { Slots } from '#lib/slots.ts';
import type { Store } from '#storage/store.ts';
import { type Deployment, type DeploymentContext, loadDeployment } from './deployment.ts';
import { findSource, readComponentDb, sourceRevision } from './source-store.ts';

/** A lane without work is forgotten after this long, with the code and credentials it held. */
const laneIdleMs = 60_000;

/**
 * Everything of one source that is in memory while it runs. Runs follow each other; the next one starts as soon as
 * the outcome of the previous one is known, while that outcome is still on its way to the disk. `epoch` undoes this
 * when the store refuses an outcome: all that was computed from it is dropped and run again.
 */
export interface Lane {
  sourceId: string;
  deployment: Promise<Deployment> | undefined;
  /** The expiry of the deployment's tokens, once it is loaded. */
  freshUntilMs: number | null;
  db: Record<string, string> | undefined;
  epoch: number;
  /** One run at a time, or as many as the source's concurrency. */
  turns: Slots;
  unsettled: Set<Promise<unknown>>;
  waiting: number;
  idleSinceMs: number;
}

/** The lanes of the sources that run in this process, or did a moment ago. */
export class SourceLanes {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #context: DeploymentContext;
  readonly #bySource = new Map<string, Lane>();
  readonly #sweeper: NodeJS.Timeout;

  constructor(options: { store: Store; clock: Clock; context: DeploymentContext }) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#context = options.context;
    this.#sweeper = setInterval(() => this.#forgetIdle(), laneIdleMs / 2);
    this.#sweeper.unref();
  }

  of(sourceId: string): Lane {
    const known = this.#bySource.get(sourceId);
    if (known !== undefined) return known;
    const lane: Lane = {
      sourceId,
      deployment: undefined,
      freshUntilMs: null,
      db: undefined,
      epoch: 0,
      turns: new Slots(1),
      unsettled: new Set(),
      waiting: 0,
      idleSinceMs: this.#clock.now(),
    };
    this.#bySource.set(sourceId, lane);
    return lane;
  }

  /** Undefined when the source was deleted. */
  async deploymentOf(lane: Lane): Promise<Deployment | undefined> {
    // With other processes on the store, another one may have changed the source since.
    if (lane.deployment !== undefined && this.#store.isShared) {
      const known = await lane.deployment.catch(() => undefined);
      const revision = await sourceRevision(this.#store.read, lane.sourceId);
      if (known === undefined || revision !== known.source.revision) lane.deployment = undefined;
      if (lane.unsettled.size === 0) lane.db = undefined;
    }
    if (lane.deployment !== undefined && lane.freshUntilMs !== null && lane.freshUntilMs <= this.#clock.now())
      lane.deployment = undefined;
    if (lane.deployment === undefined) {
      const source = await findSource(this.#store.read, lane.sourceId);
      if (source === undefined) return undefined;
      lane.turns.limit = source.concurrency;
      const loading = loadDeployment(this.#store.read, source, this.#context);
      lane.deployment = loading;
      lane.freshUntilMs = null;
      loading.then(
        ({ freshUntilMs }) => {
          if (lane.deployment === loading) lane.freshUntilMs = freshUntilMs;
        },
        () => {
          if (lane.deployment === loading) lane.deployment = undefined;
        },
      );
    }
    return lane.deployment;
  }

  /** The component db that the next run starts from. */
  async dbOf(lane: Lane): Promise<Record<string, string>> {
    if (lane.db === undefined) {
      // What is still on its way to the disk belongs to it.
      await Promise.allSettled(lane.unsettled);
      lane.db = await readComponentDb(this.#store.read, lane.sourceId);
    }
    return lane.db;
  }

  /** The source changed or went: what is in memory of it is out of date. */
  forget(sourceId: string): void {
    const lane = this.#bySource.get(sourceId);
    if (lane === undefined) return;
    lane.deployment = undefined;
    lane.db = undefined;
  }

  /** Credentials changed: sources that run with them are loaded again for the next run. */
  forgetAccount(accountId: string): void {
    for (const lane of this.#bySource.values()) {
      lane.deployment
        ?.then((deployment) => {
          if (deployment.accountIds.includes(accountId)) this.forget(lane.sourceId);
        })
        .catch(() => {});
    }
  }

  close(): void {
    clearInterval(this.#sweeper);
  }

  #forgetIdle(): void {
    const oldest = this.#clock.now() - laneIdleMs;
    for (const [id, lane] of this.#bySource) {
      if (lane.waiting === 0 && lane.unsettled.size === 0 && lane.idleSinceMs < oldest)
        this.#bySource.delete(id);
    }
  }
}
