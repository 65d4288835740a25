import type { Logger } from '#lib/logger.ts';
import type { StoredEvent } from './event.ts';
import { readNotice } from './event-notice.ts';

/** Notifications of a live reader: an event, that something may have been stored elsewhere, or that its emitter is gone. */
export interface BusListener {
  event(event: StoredEvent): void;
  /** Another process stored events of its emitter, or may have: look into the store. */
  storedElsewhere(): void;
  emitterRemoved(): void;
}

/** Notifications of a reader of everything that an owner emits. */
export interface OwnerListener {
  event(event: StoredEvent): void;
  /** As for `BusListener`, and which of its emitters; undefined: any of them. */
  storedElsewhere(emitterId: string | undefined): void;
  /** An emitter is gone, of this owner or of another one: a removal names no owner. */
  emitterRemoved(emitterId: string): void;
}

/**
 * From the transaction that stored events to the live readers in this process. Carries no promise: readers that need
 * every event take ids from it and fill gaps from the store.
 */
export class EventBus {
  readonly #listeners = new Map<string, Set<BusListener>>();
  readonly #ownerListeners = new Map<string, Set<OwnerListener>>();
  readonly #observers = new Set<(events: readonly StoredEvent[]) => void>();
  readonly #removalObservers = new Set<(emitterId: string) => void>();
  readonly #logger: Logger;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** Called after the commit, in the order of the ids of each emitter. */
  publish(events: readonly StoredEvent[]): void {
    if (events.length === 0) return;
    for (const event of events) {
      const { handOver } = event;
      if (handOver === undefined) continue;
      // Called once, even if the event is published again.
      event.handOver = undefined;
      this.#tell(handOver);
    }
    for (const observe of this.#observers) this.#tell(() => observe(events));
    for (const event of events) {
      for (const listener of this.#listeners.get(event.emitter_id) ?? []) {
        this.#tell(() => listener.event(event));
      }
      for (const listener of this.#ownerListeners.get(event.owner_id) ?? []) {
        this.#tell(() => listener.event(event));
      }
    }
  }

  /** For what must see every event of this process, such as pruning. */
  observe(observer: (events: readonly StoredEvent[]) => void): void {
    this.#observers.add(observer);
  }

  /** For what has to end with an emitter, wherever it was removed. */
  observeRemovals(observer: (emitterId: string) => void): void {
    this.#removalObservers.add(observer);
  }

  /** A notification of another process; only readers of the emitters it names are notified. */
  heard(text: string): void {
    const notice = readNotice(text);
    if (notice.what === 'removed') {
      this.emitterRemoved(notice.emitterId);
      return;
    }
    if (notice.what === 'anything') {
      for (const listener of everyone(this.#listeners)) this.#tell(() => listener.storedElsewhere());
      for (const listener of everyone(this.#ownerListeners))
        this.#tell(() => listener.storedElsewhere(undefined));
      return;
    }
    for (const { emitterId, ownerId } of notice.emitters) {
      for (const listener of this.#listeners.get(emitterId) ?? [])
        this.#tell(() => listener.storedElsewhere());
      for (const listener of this.#ownerListeners.get(ownerId) ?? [])
        this.#tell(() => listener.storedElsewhere(emitterId));
    }
  }

  emitterRemoved(emitterId: string): void {
    for (const observe of this.#removalObservers) this.#tell(() => observe(emitterId));
    for (const listener of this.#listeners.get(emitterId) ?? []) this.#tell(() => listener.emitterRemoved());
    for (const listener of everyone(this.#ownerListeners))
      this.#tell(() => listener.emitterRemoved(emitterId));
  }

  /** Returns the function that ends it. */
  subscribe(emitterId: string, listener: BusListener): () => void {
    return join(this.#listeners, emitterId, listener);
  }

  /** As `subscribe`, to all emitters of an owner, those that come later too. */
  subscribeToOwner(ownerId: string, listener: OwnerListener): () => void {
    return join(this.#ownerListeners, ownerId, listener);
  }

  #tell(call: () => void): void {
    try {
      call();
    } catch (error) {
      // One broken reader must not keep an event from the others.
      this.#logger.error({ error: (error as Error).message }, 'event.reader-failed');
    }
  }
}

function join<L>(listenersById: Map<string, Set<L>>, id: string, listener: L): () => void {
  const listeners = listenersById.get(id) ?? new Set();
  listeners.add(listener);
  listenersById.set(id, listeners);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0 && listenersById.get(id) === listeners) listenersById.delete(id);
  };
}

/** A copy: listeners may come and go while they are notified. */
function everyone<L>(listenersById: ReadonlyMap<string, ReadonlySet<L>>): L[] {
  return [...listenersById.values()].flatMap((listeners) => [...listeners]);
}
