import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Store } from '#storage/store.ts';
import { forgetRuns, runsToPrune, workflowsWithRuns } from './forget-run-store.ts';

/** A workflow is pruned when so many runs beyond those that are kept may have gathered. */
const slack = 100;
/** Runs removed in one transaction: a purge must never hold the store's one writer for long. */
const batchRows = 100;
const intervalMs = 1_000;

/** Keeps the newest ended runs of each workflow, and removes older ones a little at a time. Runs that go on stay. */
export class RunPruner {
  readonly #store: Store;
  readonly #logger: Logger;
  readonly #keep: number;
  readonly #grown = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #working: Promise<void> | undefined;
  #stopped = false;

  /** `keep`: ended runs kept of each workflow. */
  constructor(options: { store: Store; logger: Logger; keep: number }) {
    this.#store = options.store;
    this.#logger = options.logger;
    this.#keep = options.keep;
  }

  start(): void {
    // What gathered before a crash is not in memory.
    this.#working = this.#sweep();
    this.#timer = setInterval(() => {
      this.#working ??= this.pruneGrown().finally(() => {
        this.#working = undefined;
      });
    }, intervalMs);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#timer);
    await this.#working;
  }

  /** A run of this workflow has ended. */
  ended(workflowId: string): void {
    this.#grown.set(workflowId, (this.#grown.get(workflowId) ?? 0) + 1);
  }

  /** Prunes every workflow that grew enough; exported for tests, which do not wait for the interval. */
  async pruneGrown(minimum = slack): Promise<void> {
    for (const [workflowId, ended] of [...this.#grown]) {
      if (this.#stopped) return;
      if (ended < minimum) continue;
      this.#grown.delete(workflowId);
      await this.#prune(workflowId);
    }
  }

  async #sweep(): Promise<void> {
    try {
      for (const workflowId of await workflowsWithRuns(this.#store.read, this.#keep + slack)) {
        if (this.#stopped) return;
        await this.#prune(workflowId);
      }
    } catch (error) {
      this.#logger.warn({ error: toError(error).message }, 'runs.not-swept');
    } finally {
      this.#working = undefined;
    }
  }

  async #prune(workflowId: string): Promise<void> {
    try {
      for (;;) {
        const ids = await runsToPrune(this.#store.read, workflowId, { keep: this.#keep, limit: batchRows });
        if (ids.length === 0 || this.#stopped) break;
        // With commits that others wait for: under load its own would be every third one.
        await this.#store.writes.submitPatiently(forgetWrite, ids);
      }
      // Not after each batch: new runs take most of the room again.
      await this.#store.reclaimSpace();
    } catch (error) {
      this.#logger.warn({ workflow: workflowId, error: toError(error).message }, 'runs.not-pruned');
    }
  }
}

const forgetWrite: BatchWrite<readonly string[], void> = {
  name: 'forget-runs',
  async run(tx, batches) {
    await forgetRuns(tx, batches.flat());
    return batches.map(() => undefined);
  },
};
