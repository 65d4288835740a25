import { CallerError } from '#lib/errors.ts';
import type { Store } from '#storage/store.ts';
import type { RunState, RunTable } from '#storage/tables/workflow-tables.ts';
import type { RunManager } from './manage-runs.ts';
import type { RepeatedRun, RunRepeater } from './repeat-run.ts';
import { isTerminal } from './run.ts';
import { countOfRuns, findRun, idsOfRuns, type RunFilter } from './run-store.ts';
import type { RunStarter } from './start-run.ts';

export const bulkOperations = ['cancel', 'replay', 'restart'] as const;
export type BulkOperation = (typeof bulkOperations)[number];

/** The states of runs that an operation takes when none is named, and those that it can take. */
export const bulkStates = {
  cancel: { usual: ['queued', 'running', 'waiting'], possible: ['queued', 'running', 'waiting'] },
  replay: {
    usual: ['failed', 'quarantined'],
    possible: ['succeeded', 'failed', 'cancelled', 'quarantined', 'not_triggered'],
  },
  restart: { usual: ['failed', 'quarantined'], possible: ['failed', 'cancelled', 'quarantined'] },
} as const satisfies Record<BulkOperation, { usual: readonly RunState[]; possible: readonly RunState[] }>;

/** Runs that one request takes at most: callers repeat it while some remain. */
export const bulkMax = 1_000;
/** Runs that are stored in one commit. */
const chunkRuns = 100;
/** Failures that an answer names; the others are counted. */
const failuresNamedMax = 20;

export interface BulkResult {
  /** Runs that were cancelled, or run again. */
  done: number;
  /** Runs for which that was not possible. */
  failed: number;
  failures: { runId: string; message: string }[];
  /** Runs that match and were not reached by this request. */
  remaining: number;
  /** The last run that was reached; undefined: none was. A request with it as `afterId` continues there. */
  lastId: string | undefined;
}

/**
 * One operation on many runs of a workflow, oldest first. A run that was run again is not taken once more, also by requests at the
 * same moment, so a request that is repeated continues where the one before it ended, whatever ended that.
 */
export class BulkRuns {
  readonly #store: Store;
  readonly #manager: RunManager;
  readonly #repeater: RunRepeater;
  readonly #starter: Pick<RunStarter, 'hasRoom'>;

  constructor(options: {
    store: Store;
    manager: RunManager;
    repeater: RunRepeater;
    starter: Pick<RunStarter, 'hasRoom'>;
  }) {
    this.#store = options.store;
    this.#manager = options.manager;
    this.#repeater = options.repeater;
    this.#starter = options.starter;
  }

  /** Ends early, with `remaining`, when too many runs of the workflow wait already. */
  async apply(
    operation: BulkOperation,
    { limit, ...wanted }: Omit<RunFilter, 'isRepeated'> & { limit: number },
  ): Promise<BulkResult> {
    const filter: RunFilter = { ...wanted, ...(operation === 'cancel' ? {} : { isRepeated: false }) };
    const ids = await idsOfRuns(this.#store.read, filter, limit);
    const result: BulkResult = { done: 0, failed: 0, failures: [], remaining: 0, lastId: undefined };
    const fail = (runId: string, error: unknown): void => {
      if (!(error instanceof CallerError)) throw error;
      result.failed += 1;
      if (result.failures.length < failuresNamedMax) result.failures.push({ runId, message: error.message });
    };
    for (let reached = 0; reached < ids.length; reached += chunkRuns) {
      const chunk = ids.slice(reached, reached + chunkRuns);
      if (operation === 'cancel') result.done += await this.#cancel(chunk, fail);
      else {
        const made = await this.#repeat(operation, chunk, fail);
        if (made === 'no room') break;
        result.done += made;
      }
      result.lastId = chunk.at(-1);
    }
    const afterId = result.lastId ?? filter.afterId;
    const rest = afterId === undefined ? filter : { ...filter, afterId };
    result.remaining = await countOfRuns(this.#store.read, rest);
    return result;
  }

  async #cancel(ids: readonly string[], fail: (id: string, error: unknown) => void): Promise<number> {
    let done = 0;
    for (const id of ids) {
      const run = await findRun(this.#store.read, id);
      if (run === undefined) continue;
      try {
        await this.#manager.cancel(run, 'cancelled by a person');
        done += 1;
      } catch (error) {
        // It ended by itself meanwhile, or with the run that called it: nothing is left to do.
        const now = await findRun(this.#store.read, id);
        const isOver = now === undefined || isTerminal(now);
        if (!(isOver && error instanceof CallerError)) fail(id, error);
      }
    }
    return done;
  }

  async #repeat(
    operation: 'replay' | 'restart',
    ids: readonly string[],
    fail: (id: string, error: unknown) => void,
  ): Promise<number | 'no room'> {
    const runs: RunTable[] = [];
    for (const id of ids) {
      const run = await findRun(this.#store.read, id);
      if (run !== undefined) runs.push(run);
    }
    const bytes = runs.reduce((sum, { event }) => sum + event.length, 0);
    const [first] = runs;
    if (first !== undefined) {
      const of = { workflowId: first.workflow_id, ownerId: first.owner_id };
      if (!(await this.#starter.hasRoom(of, bytes))) return 'no room';
    }
    const repeated: RepeatedRun[] = [];
    for (const run of runs) {
      try {
        repeated.push(
          operation === 'replay'
            ? await this.#repeater.prepareReplay(run)
            : await this.#repeater.prepareRestart(run),
        );
      } catch (error) {
        fail(run.id, error);
      }
    }
    if (first === undefined) return 0;
    return this.#repeater.storeOnce(first.workflow_id, repeated);
  }
}
