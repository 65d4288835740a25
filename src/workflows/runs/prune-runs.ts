import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { PeriodicTask } from '#lib/periodic-task.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Store } from '#storage/store.ts';
import { forgetRuns, runsToPrune, workflowsWithRuns } from './forget-run-store.ts';

/** Runs removed in one transaction: a purge must never hold the store's one writer for long. */
const batchRows = 100;
/** The least time between two rounds. A workflow costs one look, about a millisecond, in each round after a run of it ended. */
const intervalMs = 1_000;
/** The longer a round took, the longer the next one is away, so that looks never take more than a tenth of the time. */
const restFactor = 10;
/** All workflows are looked at so often: another process may have ended runs and stopped before it pruned them. */
const sweepIntervalMs = 3_600_000;

/**
 * Keeps exactly the newest ended runs of each workflow. What is beyond them is removed within seconds, because how many
 * are kept is a promise to those whose data they hold. Runs that have not ended stay and do not count.
 */
export class RunPruner {
  readonly #store: Store;
  readonly #logger: Logger;
  readonly #keep: number;
  /** Workflows of which a run has ended since they were last looked at. */
  #grown = new Set<string>();
  readonly #task: PeriodicTask;
  /** By a clock that never steps; at once after the start: what ended before a crash is not in memory. */
  #nextSweepMs = 0;
  /** Runs removed since the store gave room back. */
  #forgotten = 0;

  /** `keep`: ended runs kept of each workflow. */
  constructor(options: { store: Store; logger: Logger; keep: number }) {
    this.#store = options.store;
    this.#logger = options.logger;
    this.#keep = options.keep;
    this.#task = new PeriodicTask({
      everyMs: intervalMs,
      restFactor,
      work: () => this.#round(),
      logger: options.logger,
      failure: 'run.prune-failed',
    });
  }

  start(): void {
    this.#task.start({ atOnce: true });
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }

  /** A run of this workflow has ended. */
  ended(workflowId: string): void {
    this.#grown.add(workflowId);
  }

  /** One round over the workflows of which runs have ended; exported for tests, which do not wait for the interval. */
  async pruneGrown(): Promise<void> {
    const grown = this.#grown;
    this.#grown = new Set();
    const old: string[] = [];
    try {
      for (const workflowId of grown) {
        for (let isMore = true; isMore; ) {
          if (this.#task.isStopped) return;
          const ids = await runsToPrune(this.#store.read, workflowId, { keep: this.#keep, limit: batchRows });
          isMore = ids.length === batchRows;
          old.push(...ids);
          // A few runs each of many workflows are one write.
          if (old.length >= batchRows) await this.#forget(old.splice(0));
        }
      }
      if (old.length > 0) await this.#forget(old);
      if (this.#forgotten < batchRows) return;
      // Not after each round: new runs take most of the room again.
      this.#forgotten = 0;
      await this.#store.reclaimSpace();
    } catch (error) {
      for (const workflowId of grown) this.#grown.add(workflowId);
      this.#logger.warn({ error: toError(error).message }, 'run.prune-failed');
    }
  }

  async #round(): Promise<void> {
    if (performance.now() >= this.#nextSweepMs) await this.#sweep();
    if (this.#grown.size > 0) await this.pruneGrown();
  }

  async #sweep(): Promise<void> {
    try {
      for (const workflowId of await workflowsWithRuns(this.#store.read, this.#keep))
        this.#grown.add(workflowId);
      this.#nextSweepMs = performance.now() + sweepIntervalMs;
    } catch (error) {
      this.#logger.warn({ error: toError(error).message }, 'run.sweep-failed');
    }
  }

  async #forget(ids: readonly string[]): Promise<void> {
    // With commits that others wait for: under load its own would be every third one.
    await this.#store.writes.submitLazily(forgetWrite, ids);
    this.#forgotten += ids.length;
  }
}

const forgetWrite: BatchWrite<readonly string[], void> = {
  name: 'forget-runs',
  async run(tx, batches) {
    await forgetRuns(tx, batches.flat());
    return batches.map(() => undefined);
  },
};
