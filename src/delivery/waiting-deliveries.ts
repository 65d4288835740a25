import type { Store } from '#storage/store.ts';
import { countWaiting } from './delivery-store.ts';

/** Deliveries that may wait for one listener. Beyond that it cannot keep up: they are kept as blocked, not sent. */
export const waitingMax = 100_000;
/** How long a count from the store is believed, or longer when it was long; what is admitted meanwhile is added. */
const countedMs = 1_000;
const countedMsPerDelivery = 0.1;

/** How much waits for each listener that gets more than it takes. */
export class WaitingDeliveries {
  readonly #store: Pick<Store, 'read'>;
  readonly #hasRoomHere: (listenerId: string) => boolean;
  readonly #max: number;
  readonly #counts = new Map<string, { untilMs: number; waiting: Promise<{ count: number }> }>();

  constructor(options: {
    store: Pick<Store, 'read'>;
    /** A listener whose deliveries find room in memory has no backlog: it need not be counted. */
    hasRoomHere: (listenerId: string) => boolean;
    max?: number;
  }) {
    this.#store = options.store;
    this.#hasRoomHere = options.hasRoomHere;
    this.#max = options.max ?? waitingMax;
  }

  /** True when one more delivery may wait for this listener; it is then counted. `isHeld`: it will not be sent now. */
  async admit(listenerId: string, isHeld = false): Promise<boolean> {
    if (!isHeld && this.#hasRoomHere(listenerId)) return true;
    const waiting = await this.#count(listenerId);
    if (waiting.count >= this.#max) return false;
    waiting.count += 1;
    return true;
  }

  #count(listenerId: string): Promise<{ count: number }> {
    const nowMs = performance.now();
    const known = this.#counts.get(listenerId);
    if (known !== undefined && nowMs < known.untilMs) return known.waiting;
    for (const [id, { untilMs }] of this.#counts) if (untilMs <= nowMs) this.#counts.delete(id);
    const counted = { untilMs: Number.POSITIVE_INFINITY, waiting: this.#ask(listenerId) };
    this.#counts.set(listenerId, counted);
    counted.waiting.then(
      ({ count }) => {
        counted.untilMs = performance.now() + Math.max(countedMs, count * countedMsPerDelivery);
      },
      () => this.#counts.delete(listenerId),
    );
    return counted.waiting;
  }

  async #ask(listenerId: string): Promise<{ count: number }> {
    return { count: await countWaiting(this.#store.read, listenerId, this.#max) };
  }
}
