import type { Clock } from '#lib/clock.ts';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { removeAuditBefore } from './account-audit-store.ts';
import { removeUsesBefore } from './account-uses-store.ts';

const dayMs = 86_400_000;
/** What is kept for months may stay an hour longer. */
const intervalMs = 3_600_000;
/** In one transaction. */
const batchRows = 200;

/** Removes what the audit of accounts says of long ago, a little at a time. */
export class AuditPruner {
  readonly #store: Pick<Store, 'transaction'>;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #daysKept: number;
  #timer: NodeJS.Timeout | undefined;
  #working: Promise<void> | undefined;
  #stopped = false;

  constructor(options: {
    store: Pick<Store, 'transaction'>;
    clock: Clock;
    logger: Logger;
    daysKept: number;
  }) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#daysKept = options.daysKept;
  }

  start(): void {
    const work = () => {
      this.#working ??= this.prune().finally(() => {
        this.#working = undefined;
      });
    };
    this.#timer = setInterval(work, intervalMs);
    // Also for a service that never runs for an hour.
    work();
  }

  /** All that there is; exported for tests, which do not wait for the interval. */
  async prune(): Promise<void> {
    const beforeMs = this.#clock.now() - this.#daysKept * dayMs;
    try {
      for (const remove of [removeAuditBefore, removeUsesBefore]) {
        for (let removed = batchRows; removed >= batchRows && !this.#stopped; )
          removed = await this.#store.transaction((tx) => remove(tx, beforeMs, batchRows));
      }
    } catch (error) {
      this.#logger.warn({ error: toError(error).message }, 'account-audit.prune-failed');
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#timer);
    await this.#working;
  }
}
