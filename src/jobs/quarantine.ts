import type { Clock } from '#lib/clock.ts';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { type LeasedJob, pruneQuarantined } from './job-store.ts';
import type { LeaseClock } from './lease-clock.ts';
import { markNotified, type QuarantinedJob, takePending } from './node-store.ts';

/** Quarantined jobs stay in the store for a month. Each heartbeat then deletes a few. */
const keptMs = 30 * 86_400_000;
const pruneMax = 200;

/** Notifies the handlers of quarantined jobs. Until its handler is notified, the run or delivery behind a job neither continues nor ends. */
export class Quarantine {
  readonly #node: string;
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #leaseClock: LeaseClock;
  readonly #logger: Logger;
  readonly #notifyHandler: (job: LeasedJob) => Promise<void>;
  /** Jobs whose handlers could not be notified. */
  #pending: QuarantinedJob[] = [];

  constructor(options: {
    node: string;
    store: Store;
    clock: Clock;
    leaseClock: LeaseClock;
    logger: Logger;
    notify: (job: LeasedJob) => Promise<void>;
  }) {
    this.#node = options.node;
    this.#store = options.store;
    this.#clock = options.clock;
    this.#leaseClock = options.leaseClock;
    this.#logger = options.logger;
    this.#notifyHandler = options.notify;
  }

  /** Notifies the handler of a job that was quarantined, now or, when that fails, with `notifyPending`. */
  async notify({ job, rowId }: QuarantinedJob): Promise<void> {
    this.#logger.error({ job: job.id, kind: job.kind, lane: job.lane }, 'job.quarantined');
    try {
      await this.#notifyHandler(job);
      await this.#store.transaction((tx) => markNotified(tx, rowId));
    } catch (error) {
      // The job stays visible in quarantine. The handlers of the others of this round must be notified too.
      this.#logger.error(
        { job: job.id, error: toError(error).message },
        'job.quarantine-notification-failed',
      );
      this.#pending.push({ job, rowId });
    }
  }

  /** Notifies the handlers of jobs that failed to be notified before, and of jobs that lost nodes left. */
  async notifyPending(): Promise<void> {
    const pending = this.#pending;
    this.#pending = [];
    let left: QuarantinedJob[];
    try {
      left = await takePending(this.#store, { node: this.#node, nowMs: await this.#leaseClock.nowMs() });
    } catch (error) {
      this.#pending.push(...pending);
      throw error;
    }
    for (const job of [...pending, ...left]) await this.notify(job);
  }

  async prune(): Promise<void> {
    const beforeMs = this.#clock.now() - keptMs;
    await this.#store.transaction((tx) => pruneQuarantined(tx, { beforeMs, limit: pruneMax }));
  }
}
