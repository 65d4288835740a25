import { LeaseClock } from '#jobs/lease-clock.ts';
import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { heldBy, releaseDeliveries, releaseOrphans } from './delivery-queue-store.ts';

const releasedPerLook = 1_000;
const heldLookedAt = 20_000;

/** Gives back deliveries that no node works on: those of dead nodes, and those leased to this node that it has no record of. */
export class DeliveryLeases {
  readonly #store: Store;
  readonly #node: string;
  readonly #leaseClock: LeaseClock;
  readonly #logger: Logger;
  #unknownBefore = new Set<string>();

  constructor(options: { store: Store; node: string; clock: Clock; logger: Logger }) {
    this.#store = options.store;
    this.#node = options.node;
    this.#leaseClock = new LeaseClock(options);
    this.#logger = options.logger;
  }

  /** Gives back what dead nodes hold; answers how many. */
  async releaseOrphans(): Promise<number> {
    const nowMs = await this.#leaseClock.nowMs();
    let released = 0;
    for (let count = releasedPerLook; count === releasedPerLook; released += count)
      count = await this.#store.transaction((tx) =>
        releaseOrphans(this.#store, tx, { node: this.#node, nowMs, limit: releasedPerLook }),
      );
    if (released > 0) this.#logger.info({ node: this.#node, released }, 'delivery.recovered');
    return released;
  }

  /**
   * A commit whose answer was lost leaves deliveries with this node that it does not know of. What is unknown in two
   * looks, seconds apart, is given back; answers how many, and what this node holds, where it looked at all of it.
   */
  async releaseUnknown(
    isKnown: (id: string) => boolean,
  ): Promise<{ released: number; held: ReadonlySet<string> | undefined }> {
    const ids = await heldBy(this.#store.read, this.#node, heldLookedAt);
    const held = ids.length < heldLookedAt ? new Set(ids) : undefined;
    const unknown = ids.filter((id) => !isKnown(id));
    const twice = unknown.filter((id) => this.#unknownBefore.has(id));
    this.#unknownBefore = new Set(unknown);
    if (twice.length === 0) return { released: 0, held };
    this.#logger.warn({ node: this.#node, released: twice.length }, 'delivery.unknown-released');
    await this.release(twice);
    return { released: twice.length, held };
  }

  /** Gives back some that this node holds. */
  async release(ids: readonly string[]): Promise<void> {
    await this.#store.transaction((tx) => releaseDeliveries(tx, this.#node, ids));
  }

  /** Gives back everything, when this node stops. */
  async releaseAll(): Promise<void> {
    for (let count = releasedPerLook; count === releasedPerLook; ) {
      const held = await heldBy(this.#store.read, this.#node, releasedPerLook);
      count = held.length;
      await this.#store.transaction((tx) => releaseDeliveries(tx, this.#node, held));
    }
  }
}
