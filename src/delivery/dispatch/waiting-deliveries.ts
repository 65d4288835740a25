import { countWaiting } from '#delivery/delivery-store.ts';
import { type Backlog, BacklogLimiter } from '#lib/backlog-limiter.ts';
import type { Store } from '#storage/store.ts';

/** What may wait for one listener. Beyond that it cannot keep up: deliveries are kept as blocked, not sent. */
export const waitingMax: Backlog = { count: 100_000, bytes: 1024 * 1024 * 1024 };

/** How much waits for each listener that gets more than it takes. Asked in the transactions in which events are stored. */
export class WaitingDeliveries {
  readonly #limiter: BacklogLimiter<number>;

  constructor(options: {
    store: Pick<Store, 'read'>;
    max?: Backlog;
    /** A clock that never steps, for tests to turn. */
    nowMs?: () => number;
  }) {
    const { store, max = waitingMax, nowMs = () => performance.now() } = options;
    this.#limiter = new BacklogLimiter({
      bytesOf: (payloadBytes) => payloadBytes,
      countStored: (listenerId) => countWaiting(store.read, listenerId, max.count),
      nothing: () => ({ count: 0, bytes: 0 }),
      hasRoom: ({ count, bytes }, _payloadBytes, factor) =>
        count < max.count * factor && bytes < max.bytes * factor,
      nowMs,
    });
  }

  /** True when one more delivery may wait for this listener; it is then counted. */
  admit(listenerId: string, bytes: number): boolean {
    return this.#limiter.admitWithoutWaiting(listenerId, bytes);
  }

  /** Resolves when everything that was to be counted is; for tests. */
  counted(): Promise<void> {
    return this.#limiter.counted();
  }
}
