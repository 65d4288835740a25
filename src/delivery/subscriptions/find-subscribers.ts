import { deliveryWorkLane, type HeldDelivery, heldDelivery, hopsMax } from '#delivery/delivery.ts';
import { insertDeliveries } from '#delivery/delivery-store.ts';
import { insertPayloads } from '#delivery/dispatch/payload-store.ts';
import type { WaitingDeliveries } from '#delivery/dispatch/waiting-deliveries.ts';
import type {
  EmittedTo,
  EventRouter,
  PrefetchedSubscribers,
  Routed,
  SubscriberPrefetch,
} from '#events/emit-event.ts';
import { channels, type StoredEvent } from '#events/event.ts';
import { insertNewJobs, jobRow } from '#jobs/job-store.ts';
import type { ActiveOwners } from '#lib/active-owners.ts';
import { newTimeOrderedId } from '#lib/ids.ts';
import type { Store, Tx } from '#storage/store.ts';
import type {
  DeliveryPayloadTable,
  DeliveryReason,
  DeliveryState,
  DeliveryTable,
} from '#storage/tables/delivery-tables.ts';
import type { JobTable } from '#storage/tables/job-tables.ts';
import { findSubscribersQuery, type Subscriber } from './subscription-store.ts';

/** How many deliveries a transaction makes. */
export interface FanOutBounds {
  /**
   * Maximum of one event created in the transaction that stores it. A thousand rows took 90 to 109 ms on a busy machine, in which no
   * other write of the store is done.
   */
  deliveriesPerEventMax: number;
  /** Maximum created in the transaction that stores the events. Jobs create the rest, one page per transaction. */
  deliveriesPerCommitMax: number;
  /** The same while several owners have something to do: with two thousand, calls of others waited for 50 to 100 ms (bench `floods`). */
  deliveriesPerSharedCommitMax: number;
  /**
   * A page: other commits come in between, so none waits for ten thousand deliveries. 250 rows took 12 to 23 ms; a healthy webhook of an owner
   * with a thousand slow ones had a p99 of 37 ms with them and 24 ms with 64 (`bench/hanging.bench.ts`).
   */
  pageRows: number;
}

export const fanOutBounds: Readonly<FanOutBounds> = {
  deliveriesPerEventMax: 250,
  deliveriesPerCommitMax: 2_000,
  deliveriesPerSharedCommitMax: 250,
  pageRows: 64,
};
const hintsMax = 20_000;
/** Channels in one statement. */
const channelsPerStatement = 250;

/** What deliveries are made for: an event, and the text of it. */
export type RoutedEvent = Pick<
  StoredEvent,
  'emitter_id' | 'owner_id' | 'channel' | 'ms' | 'seq' | 'emit_id' | 'hops' | 'event' | 'trace'
>;

/** Where new deliveries may go, as the node that makes them sees it. */
export interface DeliveryRoom {
  readonly node: string;
  /** Places for deliveries that are made in one transaction. */
  places(): DeliveryPlaces;
}

export interface DeliveryPlaces {
  /** True when this node can send one more delivery at once, which has the place then. */
  take(listenerId: string, ownerId: string, eventBytes: number): boolean;
}

/**
 * Routes events to their subscribers, in the transaction that stores the events (promise 3). Deliveries that this node can
 * send immediately are stored as leased to it, and handed to its dispatcher after the commit.
 */
export class SubscriberFinder implements EventRouter {
  readonly #store: Store;
  readonly #room: DeliveryRoom;
  readonly #waiting: WaitingDeliveries;
  readonly #deliveriesPerEventMax: number;
  readonly #deliveriesPerCommitMax: number;
  readonly #deliveriesPerSharedCommitMax: number;
  readonly #owners: Pick<ActiveOwners, 'areSeveral'> | undefined;
  readonly #onRouted: (routed: RoutedDeliveries) => void;

  /** Emitters that had subscribers when they last emitted. Only a hint when to prefetch. */
  readonly #heard = new Set<string>();

  constructor(options: {
    store: Store;
    room: DeliveryRoom;
    waiting: WaitingDeliveries;
    bounds: Readonly<FanOutBounds>;
    /** Those whose commits wait for one that makes many deliveries. Undefined: one owner is alone. */
    owners: Pick<ActiveOwners, 'areSeveral'> | undefined;
    /** Called when the deliveries of an event are on disk. */
    onRouted: (routed: RoutedDeliveries) => void;
  }) {
    this.#store = options.store;
    this.#room = options.room;
    this.#waiting = options.waiting;
    this.#deliveriesPerEventMax = options.bounds.deliveriesPerEventMax;
    this.#deliveriesPerCommitMax = options.bounds.deliveriesPerCommitMax;
    this.#deliveriesPerSharedCommitMax = options.bounds.deliveriesPerSharedCommitMax;
    this.#owners = options.owners;
    this.#onRouted = options.onRouted;
  }

  prefetchSubscribers(emitted: readonly EmittedTo[]): SubscriberPrefetch | undefined {
    if (!emitted.some(({ emitterId }) => this.#heard.has(emitterId))) return undefined;
    return { emitted, query: findSubscribersQuery(this.#store, emitted, this.#deliveriesPerCommitMax + 1) };
  }

  async routeEvents(
    tx: Tx,
    stored: readonly StoredEvent[],
    nowMs: number,
    prefetched?: PrefetchedSubscribers,
  ): Promise<Routed> {
    const routed = new Map<StoredEvent, () => void>();
    const events = stored.filter(({ channel }) => channel !== channels.scheduled);
    if (events.length === 0) return routed;
    const byChannel = await this.#subscribers(tx, events, prefetched);
    const heard = new Set<string>();
    for (const { emitter_id, channel } of events)
      if (byChannel.has(channelKey(emitter_id, channel))) heard.add(emitter_id);
    for (const { emitter_id } of events) this.#remember(emitter_id, heard.has(emitter_id));
    if (byChannel.size === 0) return routed;
    const deliveries: DeliveryTable[] = [];
    const payloads: DeliveryPayloadTable[] = [];
    const jobs: JobTable[] = [];
    const places = this.#room.places();
    const inAllMax = this.#owners?.areSeveral
      ? this.#deliveriesPerSharedCommitMax
      : this.#deliveriesPerCommitMax;
    for (const event of events) {
      const subscribers = byChannel.get(channelKey(event.emitter_id, event.channel));
      if (subscribers === undefined) continue;
      const isTooMany =
        subscribers === 'many' ||
        subscribers.length > this.#deliveriesPerEventMax ||
        deliveries.length + subscribers.length > inAllMax;
      if (isTooMany) {
        payloads.push(payloadRow(event, nowMs, { fanning: true }));
        jobs.push(fanOutJob(event, nowMs));
        routed.set(event, () => this.#onRouted({ held: [], left: [], ended: [], hasJob: true }));
        continue;
      }
      const rows = makeDeliveries({
        subscribers,
        event,
        nowMs,
        node: this.#room.node,
        places,
        waiting: this.#waiting,
      });
      deliveries.push(...rows);
      if (rows.some(({ has_payload }) => has_payload === 1))
        payloads.push(payloadRow(event, nowMs, { fanning: false }));
      const deliveriesOfEvent = routedDeliveries(rows, event);
      routed.set(event, () => this.#onRouted(deliveriesOfEvent));
    }
    await insertPayloads(this.#store, tx, payloads);
    await insertDeliveries(this.#store, tx, deliveries);
    if (jobs.length > 0) await insertNewJobs(this.#store, tx, jobs);
    if (jobs.length > 0 || deliveries.some(isForAnyNode)) await this.#store.notify(tx, 'millrace_jobs', '');
    return routed;
  }

  #remember(emitterId: string, isHeard: boolean): void {
    if (!isHeard) this.#heard.delete(emitterId);
    else if (this.#heard.size < hintsMax) this.#heard.add(emitterId);
    else this.#heard.clear();
  }

  /** `many`: more than one transaction creates. */
  async #subscribers(
    tx: Tx,
    events: readonly StoredEvent[],
    prefetched: PrefetchedSubscribers | undefined,
  ): Promise<Map<string, Subscriber[] | 'many'>> {
    const emitted = new Map<string, EmittedTo>();
    for (const { emitter_id, channel } of events)
      emitted.set(channelKey(emitter_id, channel), { emitterId: emitter_id, channel });
    const found = new Map<string, Subscriber[] | 'many'>();
    if (prefetched !== undefined && prefetched.rows.length <= this.#deliveriesPerCommitMax) {
      for (const row of prefetched.rows) addTo(found, row as Subscriber);
      for (const { emitterId, channel } of prefetched.prefetch.emitted)
        emitted.delete(channelKey(emitterId, channel));
    }
    // Usually nothing is left: only additional events, such as a warning on $logs, were not prefetched.
    const all = [...emitted.values()];
    for (let at = 0; at < all.length; at += channelsPerStatement) {
      const part = all.slice(at, at + channelsPerStatement);
      const rows = await this.#find(tx, part, this.#deliveriesPerCommitMax + 1);
      if (rows.length <= this.#deliveriesPerCommitMax) {
        for (const row of rows) addTo(found, row);
        continue;
      }
      // One of the channels has very many subscribers. Each is read alone, so that the others do not have to wait for a job.
      for (const channel of part) {
        const own = await this.#find(tx, [channel], this.#deliveriesPerCommitMax + 1);
        const isTooMany = own.length > this.#deliveriesPerCommitMax;
        if (own.length > 0)
          found.set(channelKey(channel.emitterId, channel.channel), isTooMany ? 'many' : own);
      }
    }
    return found;
  }

  async #find(tx: Tx, emitted: readonly EmittedTo[], limit: number): Promise<Subscriber[]> {
    const { rows } = await tx.executeQuery(findSubscribersQuery(this.#store, emitted, limit));
    return rows;
  }
}

/** The deliveries of one event after the commit: those that this node sends, and the listeners with deliveries in the store. */
export interface RoutedDeliveries {
  held: HeldDelivery[];
  left: string[];
  /** Listeners with records of deliveries that will not be sent. */
  ended: string[];
  /** A job creates the deliveries, or those that remain. */
  hasJob: boolean;
}

/** The rows of an event's deliveries. Nothing is left out: what cannot be sent gets a record that says why. */
export function makeDeliveries(options: {
  subscribers: readonly Subscriber[];
  event: RoutedEvent;
  nowMs: number;
  node: string;
  /** Given in this transaction. */
  places: DeliveryPlaces;
  waiting: WaitingDeliveries;
  replayId?: string;
  /** When they may be sent; default now. */
  runAtMs?: number;
}): DeliveryTable[] {
  const { subscribers, event, nowMs, places, waiting, runAtMs = nowMs } = options;
  const payloadBytes = Buffer.byteLength(event.event);
  const rows: DeliveryTable[] = [];
  for (const subscriber of subscribers) {
    const listenerId = subscriber.listener_id;
    const ownerId = subscriber.listener_owner_id;
    const start = startState(subscriber, event.hops, {
      isHere: () => runAtMs <= nowMs && places.take(listenerId, ownerId, payloadBytes),
      mayWait: () => waiting.admit(listenerId, payloadBytes),
    });
    const isEnded = start.state !== 'queued' && start.state !== 'held';
    rows.push({
      id: `dlv_${newTimeOrderedId(nowMs)}`,
      owner_id: ownerId,
      listener_id: listenerId,
      subscription_id: subscriber.subscription_id === '' ? null : subscriber.subscription_id,
      replay_id: options.replayId ?? null,
      emitter_id: event.emitter_id,
      channel: event.channel,
      ms: event.ms,
      seq: event.seq,
      emit_id: event.emit_id,
      hops: event.hops,
      trace: event.trace ?? null,
      state: start.state,
      reason: start.reason,
      run_at_ms: runAtMs,
      lease_node: start.isHere === true ? options.node : null,
      attempts: 0,
      attempt_log: '[]',
      status: null,
      latency_ms: null,
      has_payload: start.reason === 'too_many_hops' ? 0 : 1,
      payload_bytes: payloadBytes,
      created_at_ms: nowMs,
      ended_at_ms: isEnded ? nowMs : null,
    });
  }
  return rows;
}

function startState(
  { listener_id, webhook_state }: Subscriber,
  hops: number,
  room: { isHere: () => boolean; mayWait: () => boolean },
): { state: DeliveryState; reason: DeliveryReason | null; isHere?: boolean } {
  const isWebhook = listener_id.startsWith('wh_');
  // A webhook is the end of a chain; what others emit because of this would be one hop more.
  if (!isWebhook && hops >= hopsMax) return { state: 'dropped', reason: 'too_many_hops' };
  if (webhook_state === 'disabled') return { state: 'blocked', reason: 'webhook_disabled' };
  const isPaused = webhook_state === 'paused';
  if (!isPaused && room.isHere()) return { state: 'queued', reason: null, isHere: true };
  if (!room.mayWait()) return { state: 'blocked', reason: 'backlog_full' };
  if (isPaused) return { state: 'held', reason: 'webhook_paused' };
  return { state: 'queued', reason: null };
}

export function payloadRow(
  event: RoutedEvent,
  nowMs: number,
  options: { fanning: boolean },
): DeliveryPayloadTable {
  return {
    emit_id: event.emit_id,
    owner_id: event.owner_id,
    event: event.event,
    fanning: options.fanning ? 1 : 0,
    created_at_ms: nowMs,
  };
}

/** What follows from the rows of an event's deliveries once they are on disk. */
export function routedDeliveries(rows: readonly DeliveryTable[], event: RoutedEvent): RoutedDeliveries {
  const body = Buffer.from(event.event);
  const held = rows.filter(({ lease_node }) => lease_node !== null).map((row) => heldDelivery(row, body));
  return {
    held,
    left: rows.filter(isForAnyNode).map((row) => row.listener_id),
    ended: rows.filter(({ ended_at_ms }) => ended_at_ms !== null).map((row) => row.listener_id),
    hasJob: false,
  };
}

function isForAnyNode({ state, lease_node }: DeliveryTable): boolean {
  return state === 'queued' && lease_node === null;
}

function fanOutJob(event: RoutedEvent, nowMs: number): JobTable {
  const { emitter_id, owner_id, channel, ms, seq, emit_id, hops, trace } = event;
  return jobRow({
    id: `fan_${emit_id}`,
    kind: 'fan_out_event',
    ownerId: owner_id,
    lane: deliveryWorkLane(owner_id),
    payload: {
      emitter_id,
      owner_id,
      channel,
      ms,
      seq,
      emit_id,
      hops,
      ...(trace === undefined ? {} : { trace }),
      after: { place: 0, listenerId: '' },
    },
    runAtMs: nowMs,
    nowMs,
  });
}

function addTo(found: Map<string, Subscriber[] | 'many'>, row: Subscriber): void {
  const key = channelKey(row.emitter_id, row.event_name);
  const known = found.get(key);
  if (known === undefined) found.set(key, [row]);
  else if (known !== 'many') known.push(row);
}

function channelKey(emitterId: string, channel: string): string {
  return `${emitterId} ${channel}`;
}
