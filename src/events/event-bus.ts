import type { Logger } from '#lib/logger.ts';
import type { StoredEvent } from './event.ts';
import { readNotice } from './event-notice.ts';

/** What a live reader is told: an event, that something may have been stored elsewhere, or that its emitter is gone. */
export interface BusListener {
  event(event: StoredEvent): void;
  /** Another process stored events of its emitter, or may have: look into the store. */
  storedElsewhere(): void;
  emitterRemoved(): void;
}

/**
 * From the transaction that stored events to the live readers in this process. Carries no promise: readers that need
 * every event take ids from it and fill gaps from the store.
 */
export class EventBus {
  readonly #listeners = new Map<string, Set<BusListener>>();
  readonly #observers = new Set<(events: readonly StoredEvent[]) => void>();
  readonly #logger: Logger;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** Called after the commit, in the order of the ids of each emitter. */
  publish(events: readonly StoredEvent[]): void {
    if (events.length === 0) return;
    for (const observe of this.#observers) this.#tell(() => observe(events));
    for (const event of events) {
      for (const listener of this.#listeners.get(event.emitter_id) ?? []) {
        this.#tell(() => listener.event(event));
      }
    }
  }

  /** For what must see every event of this process, such as pruning. */
  observe(observer: (events: readonly StoredEvent[]) => void): void {
    this.#observers.add(observer);
  }

  /** A notification of another process; only readers of the emitters it names are told. */
  heard(text: string): void {
    const notice = readNotice(text);
    if (notice.what === 'removed') {
      this.emitterRemoved(notice.emitterId);
      return;
    }
    const emitterIds = notice.what === 'anything' ? [...this.#listeners.keys()] : notice.emitterIds;
    for (const emitterId of emitterIds) {
      for (const listener of this.#listeners.get(emitterId) ?? [])
        this.#tell(() => listener.storedElsewhere());
    }
  }

  emitterRemoved(emitterId: string): void {
    for (const listener of this.#listeners.get(emitterId) ?? []) this.#tell(() => listener.emitterRemoved());
  }

  /** Returns the function that ends it. */
  subscribe(emitterId: string, listener: BusListener): () => void {
    const listeners = this.#listeners.get(emitterId) ?? new Set();
    listeners.add(listener);
    this.#listeners.set(emitterId, listeners);
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0) this.#listeners.delete(emitterId);
    };
  }

  #tell(call: () => void): void {
    try {
      call();
    } catch (error) {
      // One broken reader must not keep an event from the others.
      this.#logger.error({ error: (error as Error).message }, 'events.reader-failed');
    }
  }
}
