import { LeaseClock } from '#jobs/lease-clock.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError, toError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Logger } from '#lib/logger.ts';
import { PeriodicTask } from '#lib/periodic-task.ts';
import type { Store } from '#storage/store.ts';
import type { SourceTable } from '#storage/tables/source-tables.ts';
import type { ChangeSteps } from './change-steps.ts';
import { type DeploymentContext, makeDeployment } from './deployment.ts';
import { isLost } from './sealed-props.ts';
import { shapeOfSource } from './source-shape.ts';
import { findSource, isNodeAlive, sourcesUnderChange, takeOverChange } from './source-store.ts';

/** How often abandoned changes are looked for, and how many are undone together. */
const sweepMs = 10_000;
const sweepMax = 20;
/**
 * A node counts as dead when its lease is found expired twice in a row, this far apart: after the database was unreachable
 * for a while, the leases of the living have run out too, and are renewed within a few seconds.
 */
const foundAgainMs = { min: 8_000, max: 25_000 };

/**
 * Changes of one source take turns. Abandoned changes (their process died, or the store failed in between)
 * are undone: at start, from time to time, and before the next change of the source.
 */
export class ChangeTurns {
  readonly #store: Store;
  readonly #steps: ChangeSteps;
  readonly #clock: Clock;
  readonly #leaseClock: LeaseClock;
  readonly #logger: Logger;
  readonly #node: string;
  readonly #context: DeploymentContext;
  readonly #turns = new Map<string, Promise<unknown>>();
  /** When the nodes of these changes were first and last found expired. */
  readonly #expired = new Map<string, { firstMs: number; lastMs: number }>();
  readonly #sweeper: PeriodicTask;

  constructor(options: {
    store: Store;
    steps: ChangeSteps;
    clock: Clock;
    logger: Logger;
    node: string;
    context: DeploymentContext;
  }) {
    this.#store = options.store;
    this.#steps = options.steps;
    this.#clock = options.clock;
    this.#leaseClock = new LeaseClock(options);
    this.#logger = options.logger;
    this.#node = options.node;
    this.#context = options.context;
    this.#sweeper = new PeriodicTask({
      everyMs: sweepMs,
      // A change that waits for user code to be undone does not hold up the others of the next round.
      work: () => void this.undoAbandoned(),
      logger: options.logger,
      failure: 'source.sweep-failed',
    });
  }

  start(): void {
    this.#sweeper.start({ atOnce: true });
  }

  stop(): void {
    void this.#sweeper.stop();
  }

  async inTurn<T>(id: string, work: () => Promise<T>): Promise<T> {
    const previous = this.#turns.get(id) ?? Promise.resolve();
    const mine = previous.catch(() => {}).then(work);
    this.#turns.set(id, mine);
    try {
      return await mine;
    } finally {
      if (this.#turns.get(id) === mine) this.#turns.delete(id);
    }
  }

  /**
   * Returns a source without another change under way; call it in its turn. With `alsoHalfUndone`, a change that
   * cannot be undone now is no obstacle: the source then still has a mark, which is this process's. Throws `not_found`
   * or `conflict`, and any error from undoing a change.
   */
  async mustFind(id: string, options: { alsoHalfUndone?: boolean } = {}): Promise<SourceTable> {
    let source = await findSource(this.#store.read, id);
    if (source !== undefined && (await this.#isAbandoned(source))) {
      try {
        await this.#undo(source);
        source = await findSource(this.#store.read, id);
      } catch (error) {
        source = await findSource(this.#store.read, id);
        if (options.alsoHalfUndone !== true || source?.change_node !== this.#node) throw error;
        this.#logger.warn({ source: id, error: toError(error).message }, 'source.change-not-undone');
        return source;
      }
    }
    if (source === undefined)
      throw new CallerError('not_found', `there is no source ${JSON.stringify(id)}`, { id });
    if (source.change_id !== null)
      throw new CallerError('conflict', `source ${id} is being changed by another request; try again`, {
        id,
      });
    return source;
  }

  /** Undoes abandoned changes. Never rejects: what cannot be undone now is tried again. */
  async undoAbandoned(): Promise<void> {
    await this.#steps.attempt('source.sweep-failed', undefined, async () => {
      const found = await sourcesUnderChange(this.#store.read, sweepMax);
      await Promise.all(
        found
          .filter(({ id }) => !this.#turns.has(id))
          .map(({ id }) =>
            this.#steps.attempt('source.change-not-undone', id, () =>
              this.inTurn(id, async () => {
                const source = await findSource(this.#store.read, id);
                if (source !== undefined && (await this.#isAbandoned(source))) await this.#undo(source);
              }),
            ),
          ),
      );
    });
  }

  /** Undoes an abandoned change. How far it came is not known, so what may be set up elsewhere is removed first. */
  async #undo(source: SourceTable): Promise<void> {
    const taken = { ...source, change_id: newId('chg'), change_node: this.#node };
    const isTaken = await this.#store.transaction((tx) =>
      takeOverChange(tx, {
        sourceId: source.id,
        from: source.change_id ?? '',
        to: taken.change_id,
        node: this.#node,
      }),
    );
    if (!isTaken) return;
    // The code is the old one before the swap, and after it the new one, which may have been activated.
    if (taken.state !== 'inactive') await this.#deactivateIfPossible(taken);
    if (taken.before_change === null) await this.#steps.erase(taken);
    else await this.#steps.restore(taken);
    this.#steps.changed(taken);
    this.#logger.warn({ source: source.id, state: source.state }, 'source.interrupted-change-undone');
  }

  async #deactivateIfPossible(source: SourceTable): Promise<void> {
    const component = await this.#steps.componentOf(source);
    if (!shapeOfSource(component).hooks.includes('deactivate')) return;
    try {
      const deployment = await makeDeployment(this.#store.read, source, component, this.#context);
      await this.#steps.runHookOrThrow(deployment, 'deactivate');
    } catch (error) {
      // Most likely the hook had run already. A hook that could not be run now is tried again, unless it never can.
      if (!(error instanceof CallerError) && !isLost(error)) throw error;
    }
  }

  async #isAbandoned(source: SourceTable): Promise<boolean> {
    if (source.change_id === null) return false;
    // The caller has the turn, so this process does not work on the change; and a data folder has one process only.
    if (source.change_node === this.#node || !this.#store.isShared) return true;
    const nowMs = await this.#leaseClock.nowMs();
    if (!(await isNodeAlive(this.#store.read, source.change_node ?? '', nowMs)))
      return this.#isFoundAgain(source.change_id);
    this.#expired.delete(source.change_id);
    return false;
  }

  #isFoundAgain(changeId: string): boolean {
    const nowMs = this.#clock.now();
    for (const [id, { lastMs }] of this.#expired)
      if (Math.abs(nowMs - lastMs) > foundAgainMs.max) this.#expired.delete(id);
    const { firstMs } = this.#expired.get(changeId) ?? { firstMs: nowMs };
    this.#expired.set(changeId, { firstMs, lastMs: nowMs });
    return nowMs - firstMs >= foundAgainMs.min;
  }
}
