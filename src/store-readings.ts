import { oldestDueDeliveryMs } from '#delivery/dispatch/delivery-queue-store.ts';
import { troubledWebhooks } from '#delivery/webhooks/webhook-store.ts';
import { oldestDueJobMs, type QueueDepth, queueDepths } from '#jobs/job-store.ts';
import type { Store } from '#storage/store.ts';

/** A scraper waits for ten seconds; the other metrics are of use to it although the store is away. */
const answerTimeoutMs = 4_000;

export interface StoreReading {
  depths: QueueDepth[];
  oldestJobSeconds: number;
  oldestDeliverySeconds: number;
  webhooks: Record<'failing' | 'disabled', number>;
}

/** Reads what metrics report of the store, once for all metrics that are asked for together. */
export class StoreReadings {
  readonly #store: Pick<Store, 'read'>;
  readonly #now: () => number;
  #reading: Promise<StoreReading | undefined> | undefined;

  constructor(options: { store: Pick<Store, 'read'>; now: () => number }) {
    this.#store = options.store;
    this.#now = options.now;
  }

  /** Undefined when the store does not answer in time. */
  read(): Promise<StoreReading | undefined> {
    this.#reading ??= this.#readInTime().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readInTime(): Promise<StoreReading | undefined> {
    const late = Promise.withResolvers<undefined>();
    const timer = setTimeout(() => late.resolve(undefined), answerTimeoutMs);
    try {
      return await Promise.race([this.#read().catch(() => undefined), late.promise]);
    } finally {
      clearTimeout(timer);
    }
  }

  async #read(): Promise<StoreReading> {
    const { read } = this.#store;
    const nowMs = this.#now();
    const [depths, jobMs, deliveryMs, webhooks] = await Promise.all([
      queueDepths(read),
      oldestDueJobMs(read, nowMs),
      oldestDueDeliveryMs(read, nowMs),
      troubledWebhooks(read),
    ]);
    return {
      depths,
      oldestJobSeconds: (nowMs - (jobMs ?? nowMs)) / 1000,
      oldestDeliverySeconds: (nowMs - (deliveryMs ?? nowMs)) / 1000,
      webhooks,
    };
  }
}
