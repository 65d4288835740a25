import { countWaiting } from '#delivery/delivery-store.ts';
import type { Store } from '#storage/store.ts';

interface Amount {
  count: number;
  bytes: number;
}

/** What may wait for one listener. Beyond that it cannot keep up: deliveries are kept as blocked, not sent. */
export const waitingMax: Amount = { count: 100_000, bytes: 1024 * 1024 * 1024 };
/** A listener is counted again after this at the earliest, or later when that took the store longer. */
const countedMs = 1_000;
const countedMsPerDelivery = 0.1;
/** A count is forgotten when it was not needed for so long. */
const forgottenMs = 60_000;
/** Counting rests this many times as long as it took: it shares the store with all who read. */
const restFactor = 4;

interface Believed {
  /** What the store said. */
  stored: Amount;
  /** What was admitted since it was asked. */
  since: Amount;
  countedAtMs: number;
  usedAtMs: number;
}

/**
 * How much waits for each listener that gets more than it takes. Asked in the transactions in which events are stored, so
 * it never waits for the store: it believes an upper bound, what was counted once and everything admitted since, and has
 * it counted anew, one listener after another, when that comes near the limit.
 */
export class WaitingDeliveries {
  readonly #store: Pick<Store, 'read'>;
  readonly #max: Amount;
  readonly #nowMs: () => number;
  readonly #believed = new Map<string, Believed>();
  readonly #toCount = new Set<string>();
  #counting: Promise<void> | undefined;
  #forgetAt = 1_000;

  constructor(options: {
    store: Pick<Store, 'read'>;
    max?: Amount;
    /** A clock that never steps, for tests to turn. */
    nowMs?: () => number;
  }) {
    this.#store = options.store;
    this.#nowMs = options.nowMs ?? (() => performance.now());
    this.#max = options.max ?? waitingMax;
  }

  /** True when one more delivery may wait for this listener; it is then counted. */
  admit(listenerId: string, bytes: number): boolean {
    const nowMs = this.#nowMs();
    const known = this.#believed.get(listenerId) ?? this.#begin(listenerId, nowMs);
    const { stored, since } = known;
    known.usedAtMs = nowMs;
    const part = Math.max(
      (stored.count + since.count) / this.#max.count,
      (stored.bytes + since.bytes) / this.#max.bytes,
    );
    const isOld = nowMs - known.countedAtMs >= Math.max(countedMs, stored.count * countedMsPerDelivery);
    if (isOld && part >= 1 / 2) this.#count(listenerId);
    // What was admitted may have been sent since. Until that is known it gets as much again, not more.
    const isUnsure = isOld && part < 2 && !this.#isFull(stored);
    if (part >= 1 && !isUnsure) return false;
    since.count += 1;
    since.bytes += bytes;
    return true;
  }

  /** Resolves when everything that was to be counted is; for tests. */
  async counted(): Promise<void> {
    while (this.#counting !== undefined) await this.#counting;
  }

  #isFull({ count, bytes }: Amount): boolean {
    return count >= this.#max.count || bytes >= this.#max.bytes;
  }

  #begin(listenerId: string, nowMs: number): Believed {
    if (this.#believed.size >= this.#forgetAt) {
      for (const [id, { usedAtMs }] of this.#believed)
        if (usedAtMs < nowMs - forgottenMs && !this.#toCount.has(id)) this.#believed.delete(id);
      this.#forgetAt = Math.max(1_000, 2 * this.#believed.size);
    }
    const nothing = () => ({ count: 0, bytes: 0 });
    const begun = { stored: nothing(), since: nothing(), countedAtMs: nowMs, usedAtMs: nowMs };
    this.#believed.set(listenerId, begun);
    this.#count(listenerId);
    return begun;
  }

  #count(listenerId: string): void {
    this.#toCount.add(listenerId);
    this.#counting ??= this.#countAll().finally(() => {
      this.#counting = undefined;
    });
  }

  async #countAll(): Promise<void> {
    for (const listenerId of this.#toCount) {
      const known = this.#believed.get(listenerId);
      const begunMs = this.#nowMs();
      try {
        if (known !== undefined) await this.#ask(listenerId, known);
      } catch {
        // The store is away: whatever asks next has it counted again.
      }
      this.#toCount.delete(listenerId);
      const restMs = (this.#nowMs() - begunMs) * restFactor;
      if (this.#toCount.size > 0) await new Promise<void>((resolve) => setTimeout(resolve, restMs).unref());
    }
  }

  async #ask(listenerId: string, known: Believed): Promise<void> {
    const before = { ...known.since };
    const stored = await countWaiting(this.#store.read, listenerId, this.#max.count);
    known.stored = stored;
    // What is on its way to the store at this moment is missing in both: a transaction's worth, until the next count.
    known.since = { count: known.since.count - before.count, bytes: known.since.bytes - before.bytes };
    known.countedAtMs = this.#nowMs();
  }
}
