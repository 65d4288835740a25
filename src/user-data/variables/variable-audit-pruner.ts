import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import { PeriodicTask } from '#lib/periodic-task.ts';
import type { Store } from '#storage/store.ts';
import { removeVariableAuditBefore } from './variable-store.ts';

const dayMs = 86_400_000;
/** Entries are kept for months, so an hour more does not matter. */
const intervalMs = 3_600_000;
/** Maximum of rows that are removed in one transaction. */
const batchRows = 200;

/** Removes audit entries of variables after MILLRACE_AUDIT_DAYS, a few at a time. */
export class VariableAuditPruner {
  readonly #store: Pick<Store, 'transaction'>;
  readonly #clock: Clock;
  readonly #daysKept: number;
  readonly #task: PeriodicTask;

  constructor(options: {
    store: Pick<Store, 'transaction'>;
    clock: Clock;
    logger: Logger;
    daysKept: number;
  }) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#daysKept = options.daysKept;
    this.#task = new PeriodicTask({
      everyMs: intervalMs,
      work: () => this.prune(),
      logger: options.logger,
      failure: 'variable-audit.prune-failed',
    });
  }

  start(): void {
    // A service that never runs for an hour prunes too.
    this.#task.start({ atOnce: true });
  }

  /** Removes all old entries. Public for tests, which do not wait for the interval. */
  async prune(): Promise<void> {
    const beforeMs = this.#clock.now() - this.#daysKept * dayMs;
    for (let removed = batchRows; removed >= batchRows && !this.#task.isStopped; )
      removed = await this.#store.transaction((tx) => removeVariableAuditBefore(tx, beforeMs, batchRows));
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }
}
