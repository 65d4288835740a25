import type { HeldDelivery } from '#delivery/delivery.ts';
import type { Clock } from '#lib/clock.ts';
import type { Store } from '#storage/store.ts';
import type { DeliveryLanes } from './delivery-lanes.ts';
import {
  claimDeliveries,
  dueDeliveries,
  dueOfListeners,
  listenersWithDue,
  type WaitingDelivery,
} from './delivery-queue-store.ts';

/** Due deliveries looked at from the front of the queue before it is searched listener by listener. */
const frontRows = 512;
const claimMax = 256;
/** Listeners that are refilled together; each gets a part of what one claim takes. */
export const listenersPerRefill = 64;
const listenersPerSearch = 200;
/** Pages of listeners in one search; the next search continues after them. */
const searchPagesMax = 10;
/** Deliveries that one transaction takes: other commits come in between. */
const claimRows = 64;
/** Text of events read into memory with one statement; a single one may have more. */
const claimBytesMax = 8 * 1024 * 1024;

/** The turns of listening sources: only the node that runs a source delivers to it, so that it gets events in their order. */
export interface ListenerTurns {
  owns(listenerId: string): boolean;
  /** Returns those that this node has, or could take, now. */
  take(listenerIds: readonly string[]): Promise<Set<string>>;
  /** Reports the listeners that this node has now and did not have before. */
  onTaken(observer: (listenerIds: ReadonlySet<string>) => void): void;
}

/** Brings deliveries that wait in the store into memory: as many as there is room for, and fairly. */
export class DeliveryClaims {
  readonly #store: Store;
  readonly #node: string;
  readonly #clock: Clock;
  readonly #lanes: DeliveryLanes;
  readonly #onClaimed: (deliveries: readonly HeldDelivery[]) => void;
  readonly #isStopping: () => boolean;
  readonly #turns: Pick<ListenerTurns, 'take'>;
  /** Claims take turns: each knows what the one before it has brought. */
  #claimTurn: Promise<unknown> = Promise.resolve();
  #searchAfter = '';

  constructor(options: {
    store: Store;
    node: string;
    clock: Clock;
    lanes: DeliveryLanes;
    /** They are leased to this node; their lanes have room for them. */
    onClaimed: (deliveries: readonly HeldDelivery[]) => void;
    isStopping: () => boolean;
    turns: Pick<ListenerTurns, 'take'>;
  }) {
    this.#store = options.store;
    this.#node = options.node;
    this.#clock = options.clock;
    this.#lanes = options.lanes;
    this.#onClaimed = options.onClaimed;
    this.#isStopping = options.isStopping;
    this.#turns = options.turns;
  }

  /** Claims what is due, of any listener; answers as of when nothing was left that there was room for (`isAll`: nothing at all). */
  async claimDue(): Promise<{ lookedAtMs: number; isAll: boolean }> {
    let lookedAtMs = this.#clock.now();
    while (this.#lanes.hasRoom() && !this.#isStopping()) {
      lookedAtMs = this.#clock.now();
      const front = await dueDeliveries(this.#store.read, { nowMs: lookedAtMs, limit: frontRows });
      let chosen = this.#choose(await this.#ofThisNode(front));
      if (chosen.length === 0 && front.length === frontRows) chosen = await this.#search(lookedAtMs);
      if (chosen.length === 0 || this.#isStopping()) break;
      await this.#claimAll(chosen);
    }
    return { lookedAtMs, isAll: this.#lanes.hasRoom() && !this.#isStopping() };
  }

  /**
   * Claims what is due of several listeners, at most `listenersPerRefill`, with one look and one transaction for all of them. Returns
   * those of which nothing due is left.
   */
  async claimFor(listenerIds: readonly string[]): Promise<Set<string>> {
    const sources = listenerIds.filter(isSource);
    const own = sources.length === 0 ? new Set() : await this.#turns.take(sources);
    const isElsewhere = (id: string) => isSource(id) && !own.has(id);
    const complete = new Set(listenerIds.filter(isElsewhere));
    const share = Math.floor(claimMax / listenerIds.length);
    const wanted = listenerIds.flatMap((listenerId) => {
      const limit = Math.min(share, this.#lanes.room(listenerId));
      return limit <= 0 || isElsewhere(listenerId) ? [] : [{ listenerId, limit }];
    });
    if (wanted.length === 0) return complete;
    const due = await dueOfListeners(this.#store, this.#clock.now(), wanted);
    const left = await this.#claimAll(due);
    const found = Map.groupBy(due, ({ listener_id }) => listener_id);
    for (const { listenerId, limit } of wanted)
      if ((found.get(listenerId)?.length ?? 0) < limit && !left.has(listenerId)) complete.add(listenerId);
    return complete;
  }

  /** Without those to sources whose turn is another node's. */
  async #ofThisNode<T extends { listener_id: string }>(rows: readonly T[]): Promise<T[]> {
    const sources = new Set(rows.map(({ listener_id }) => listener_id).filter(isSource));
    const own = await this.#turns.take([...sources]);
    return rows.filter(({ listener_id }) => !sources.has(listener_id) || own.has(listener_id));
  }

  /** Chooses the waiting deliveries, in their order, that there is room for; lanes that get less than what waits are behind. */
  #choose(waiting: readonly WaitingDelivery[]): WaitingDelivery[] {
    const chosen: WaitingDelivery[] = [];
    const places = this.#lanes.places();
    for (const delivery of waiting) {
      const { listener_id, owner_id, payload_bytes } = delivery;
      const lane = this.#lanes.find(listener_id);
      const mayCome = lane?.isRefilling !== true && chosen.length < claimMax;
      if (mayCome && places.take(listener_id, owner_id, payload_bytes)) chosen.push(delivery);
      else if (lane !== undefined && this.#lanes.isBusy(lane)) this.#lanes.fallBehind(lane);
    }
    return chosen;
  }

  /** The front of the queue belongs to full lanes: looks for others behind it, at most once around. */
  async #search(nowMs: number): Promise<WaitingDelivery[]> {
    let ends = this.#searchAfter === '' ? 1 : 0;
    for (let page = 0; page < searchPagesMax && !this.#isStopping(); page += 1) {
      const chosen = await this.#searchBehind(nowMs);
      if (this.#searchAfter === '') ends += 1;
      if (chosen.length > 0 || ends > 1) return chosen;
    }
    return [];
  }

  /** A page of listeners, from where the last search stopped. */
  async #searchBehind(nowMs: number): Promise<WaitingDelivery[]> {
    const after = this.#searchAfter;
    const listeners = await listenersWithDue(this.#store.read, { nowMs, after, limit: listenersPerSearch });
    this.#searchAfter = listeners.length < listenersPerSearch ? '' : (listeners.at(-1)?.listener_id ?? '');
    const chosen: WaitingDelivery[] = [];
    const places = this.#lanes.places();
    for (const { listener_id: listenerId, owner_id } of await this.#ofThisNode(listeners)) {
      const limit = Math.min(claimMax - chosen.length, this.#lanes.room(listenerId));
      // Most of them belong to the owner at the front of the queue.
      if (limit <= 0 || !this.#lanes.hasRoomFor({ listenerId, ownerId: owner_id })) continue;
      if (this.#lanes.find(listenerId)?.isRefilling === true) continue;
      const due = await dueDeliveries(this.#store.read, { nowMs, limit, listenerId });
      chosen.push(...due.filter((row) => places.take(listenerId, owner_id, row.payload_bytes)));
      if (chosen.length >= claimMax) break;
    }
    return chosen;
  }

  /** Brings waiting deliveries into memory, of each listener up to the first that there is no room for; returns the listeners of these. */
  #claimAll(waiting: readonly WaitingDelivery[]): Promise<Set<string>> {
    const turn = this.#claimTurn.then(() => this.#claimInTurn(waiting));
    this.#claimTurn = turn.catch(() => {});
    return turn;
  }

  async #claimInTurn(waiting: readonly WaitingDelivery[]): Promise<Set<string>> {
    const places = this.#lanes.places();
    const left = new Set<string>();
    const fitting = waiting.filter(({ listener_id, owner_id, payload_bytes }) => {
      if (left.has(listener_id)) return false;
      const fits = places.take(listener_id, owner_id, payload_bytes);
      if (!fits) left.add(listener_id);
      return fits;
    });
    for (let at = 0; at < fitting.length; ) {
      let bytes = 0;
      let end = at;
      for (; end < fitting.length && end - at < claimRows && bytes < claimBytesMax; end += 1)
        bytes += fitting[end]?.payload_bytes ?? 0;
      const ids = fitting.slice(at, end).map(({ id }) => id);
      this.#onClaimed(await claimDeliveries(this.#store, this.#node, ids, this.#clock.now()));
      at = end;
    }
    return left;
  }
}

export function isSource(listenerId: string): boolean {
  return listenerId.startsWith('dc_');
}
