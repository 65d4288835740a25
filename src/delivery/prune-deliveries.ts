import type { RemoveOfOwner } from '#identity/retention-pruner.ts';
import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import { PeriodicTask } from '#lib/periodic-task.ts';
import type { Store } from '#storage/store.ts';
import type { DeliveryState } from '#storage/tables/delivery-tables.ts';
import { deadStates } from './delivery.ts';
import {
  changeDeliveries,
  deliveriesBefore,
  deliveriesBeyond,
  endedDeliveriesOf,
  listenersWithDeliveries,
  removeDeliveries,
} from './delivery-store.ts';
import { sweepPayloads } from './dispatch/payload-store.ts';
import { addRemovedRecords } from './webhooks/webhook-store.ts';

/** How deliveries ended, as far as it matters how many records of them are kept. */
export type EndedGroup = 'delivered' | 'dead';

/** Records kept of each listener, at most; those of what was not delivered can be sent again. */
const keptDefault: Record<EndedGroup, number> = { delivered: 1_000, dead: 10_000 };
/** Maximum bytes of texts of failed deliveries: enough for a few of the largest events, or for all small ones. */
const keptBytesDefault = 1024 * 1024 * 1024;
/** And none is kept for longer than this; what is held for longer expires. */
export const deliveryDays = 30;
const ageMaxMs = deliveryDays * 86_400_000;

/** A listener's records are pruned when this many more may have been added. */
const slack = 500;
/** Rows removed in one transaction, and looked for at once. */
const batchRows = 500;
const foundMax = 5_000;
const tickMs = 1_000;
const sweepMs = 3_600_000;
const payloadSweepMs = 60_000;
/** Texts looked at in one sweep: the next one continues where it stopped. */
const payloadsPerSweep = 5_000;
/** Texts younger than this may be about to be needed. */
const payloadAgeMs = 60_000;
const listenersPerPage = 100;
/** Listeners counted at most. Beyond that the one seen first is forgotten until the next sweep. */
const countedMax = 50_000;

const statesOf: Record<EndedGroup, readonly DeliveryState[]> = {
  delivered: ['delivered'],
  dead: deadStates,
};
const groups = Object.keys(statesOf) as EndedGroup[];

/**
 * Keeps the records of deliveries bounded, a little at a time: where many ended lately, by count; and once an hour
 * everywhere, by count and age.
 */
export class DeliveryPruner {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #kept: Record<EndedGroup, number>;
  readonly #keptBytes: number;
  /** Deliveries that ended since the last pruning, by `<group> <listener>`. */
  readonly #ended = new Map<string, { group: EndedGroup; listenerId: string; count: number }>();
  readonly #task: PeriodicTask;
  #payloadsAfter = '';
  #nextSweepMs = 0;
  #nextPayloadSweepMs = 0;

  constructor(options: {
    store: Store;
    clock: Clock;
    logger: Logger;
    kept?: Record<EndedGroup, number>;
    keptBytes?: number;
  }) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#kept = options.kept ?? keptDefault;
    this.#keptBytes = options.keptBytes ?? keptBytesDefault;
    this.#task = new PeriodicTask({
      everyMs: tickMs,
      work: () => this.#work(),
      logger: options.logger,
      failure: 'delivery.prune-failed',
    });
  }

  start(): void {
    this.#task.start();
  }

  /** Deliveries to this listener ended. */
  ended(listenerId: string, group: EndedGroup, count = 1): void {
    if (count === 0) return;
    const key = `${group} ${listenerId}`;
    const known = this.#ended.get(key);
    if (known !== undefined) {
      known.count += count;
      return;
    }
    this.#ended.set(key, { group, listenerId, count });
    if (this.#ended.size <= countedMax) return;
    const oldest = this.#ended.keys().next().value;
    if (oldest !== undefined) this.#ended.delete(oldest);
  }

  /** Prunes the records of listeners of which enough ended; exported for tests, which do not wait for the interval. */
  async pruneEnded(minimum = slack): Promise<void> {
    for (const [key, { group, listenerId, count }] of [...this.#ended]) {
      if (this.#task.isStopped) return;
      if (count < minimum) continue;
      this.#ended.delete(key);
      try {
        if ((await this.#pruneBeyond(listenerId, group)) > 0) await this.#store.reclaimSpace();
      } catch (error) {
        this.ended(listenerId, group, count);
        throw error;
      }
    }
  }

  /** One look at every listener: what the counts do not know of, and what is too old. */
  async sweep(): Promise<void> {
    for (let after = ''; !this.#task.isStopped; ) {
      const listeners = await listenersWithDeliveries(this.#store.read, after, listenersPerPage);
      for (const listenerId of listeners) {
        if (this.#task.isStopped) return;
        await this.#sweepListener(listenerId);
      }
      if (listeners.length < listenersPerPage) return;
      after = listeners.at(-1) ?? '';
      await this.pruneEnded();
    }
  }

  /** Looks at the next texts and removes those that no delivery needs. */
  async sweepPayloads(): Promise<void> {
    const beforeMs = this.#clock.now() - payloadAgeMs;
    for (let seen = 0; seen < payloadsPerSweep && !this.#task.isStopped; seen += batchRows) {
      const after = this.#payloadsAfter;
      const last = await this.#store.transaction((tx) =>
        sweepPayloads(tx, { after, beforeMs, limit: batchRows }),
      );
      this.#payloadsAfter = last ?? '';
      if (last === undefined) return;
    }
  }

  stop(): Promise<void> {
    return this.#task.stop();
  }

  async #work(): Promise<void> {
    await this.pruneEnded();
    if (performance.now() >= this.#nextPayloadSweepMs) {
      this.#nextPayloadSweepMs = performance.now() + payloadSweepMs;
      await this.sweepPayloads();
    }
    if (performance.now() >= this.#nextSweepMs) {
      this.#nextSweepMs = performance.now() + sweepMs;
      await this.sweep();
    }
  }

  async #sweepListener(listenerId: string): Promise<void> {
    const beforeMs = this.#clock.now() - ageMaxMs;
    await this.#inBatches(
      () => this.#before(listenerId, ['held'], beforeMs),
      (ids) => this.#expire(ids),
    );
    for (const group of groups) {
      await this.#inBatches(
        () => this.#before(listenerId, statesOf[group], beforeMs),
        (ids) => this.#remove(listenerId, group, ids),
      );
      await this.#pruneBeyond(listenerId, group);
    }
  }

  async #pruneBeyond(listenerId: string, group: EndedGroup): Promise<number> {
    const options = {
      listenerId,
      states: statesOf[group],
      kept: this.#kept[group],
      keptBytes: this.#keptBytes,
      limit: foundMax,
    };
    return this.#inBatches(
      () => deliveriesBeyond(this.#store.read, options),
      (ids) => this.#remove(listenerId, group, ids),
    );
  }

  #before(listenerId: string, states: readonly DeliveryState[], beforeMs: number): Promise<string[]> {
    return deliveriesBefore(this.#store.read, { listenerId, states, beforeMs, limit: foundMax });
  }

  /** Works off what is found, a batch in a transaction, until nothing more is; answers how many there were. */
  async #inBatches(find: () => Promise<string[]>, work: (ids: string[]) => Promise<void>): Promise<number> {
    let worked = 0;
    for (;;) {
      const found = await find();
      for (let at = 0; at < found.length; at += batchRows) {
        if (this.#task.isStopped) return worked;
        await work(found.slice(at, at + batchRows));
      }
      worked += found.length;
      if (found.length < foundMax) return worked;
    }
  }

  async #remove(listenerId: string, group: EndedGroup, ids: readonly string[]): Promise<void> {
    await this.#store.transaction(async (tx) => {
      const removed = await removeDeliveries(tx, ids, statesOf[group]);
      // The number of removed records stays visible.
      if (group === 'dead' && removed > 0 && listenerId.startsWith('wh_'))
        await addRemovedRecords(tx, listenerId, removed);
    });
  }

  async #expire(ids: readonly string[]): Promise<void> {
    const change = { to: 'expired', reason: 'held_too_long', nowMs: this.#clock.now() } as const;
    await this.#store.transaction((tx) => changeDeliveries(tx, ids, { ...change, from: ['held'] }));
  }
}

/** Removes records of deliveries to the listeners of an owner that ended before a time. */
export const removeDeliveriesBefore: RemoveOfOwner = async (tx, of) => {
  const ended = await endedDeliveriesOf(tx, of);
  const ids = ended.map(({ id }) => id);
  await removeDeliveries(tx, ids, ['delivered', ...deadStates]);
  const dead = ended.filter(
    ({ listener_id, state }) => state !== 'delivered' && listener_id.startsWith('wh_'),
  );
  for (const [listenerId, removed] of Map.groupBy(dead, ({ listener_id }) => listener_id))
    await addRemovedRecords(tx, listenerId, removed.length);
  return ended.length;
};
