import type { Clock } from '#lib/clock.ts';
import type { Store } from '#storage/store.ts';
import { databaseTimeMs } from './node-store.ts';

/**
 * The time in which leases are written and compared. Nodes that share a store use one clock, the database's: a node whose
 * own clock is wrong neither loses its lease nor takes over what others work on.
 */
export class LeaseClock {
  readonly #store: Pick<Store, 'isShared' | 'read'>;
  readonly #clock: Clock;

  constructor(options: { store: Pick<Store, 'isShared' | 'read'>; clock: Clock }) {
    this.#store = options.store;
    this.#clock = options.clock;
  }

  async nowMs(): Promise<number> {
    return this.#store.isShared ? databaseTimeMs(this.#store.read) : this.#clock.now();
  }
}
