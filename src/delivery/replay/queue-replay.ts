import { deliveryWorkLane } from '#delivery/delivery.ts';
import { insertDeliveries } from '#delivery/delivery-store.ts';
import { insertPayloads } from '#delivery/dispatch/payload-store.ts';
import type { WaitingDeliveries } from '#delivery/dispatch/waiting-deliveries.ts';
import {
  type DeliveryPlaces,
  makeDeliveries,
  payloadRow,
  type RoutedDeliveries,
  routedDeliveries,
} from '#delivery/subscriptions/find-subscribers.ts';
import { findListener, type Listener } from '#delivery/subscriptions/subscription-ends.ts';
import { holdSubscription } from '#delivery/subscriptions/subscription-store.ts';
import { compareEventIds, type EventId } from '#events/event-id.ts';
import { eventBatches, pageOfPlaces, placesAfter } from '#events/event-page-store.ts';
import { retainedMax } from '#events/event-store.ts';
import type { JobPayloads } from '#jobs/job-kinds.ts';
import type { JobHandler } from '#jobs/job-registry.ts';
import { insertJobs, jobRow, type LeasedJob, settleJobs } from '#jobs/job-store.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { FairQueue } from '#lib/fair-queue.ts';
import { newId, newTimeOrderedId } from '#lib/ids.ts';
import type { Store, Tx } from '#storage/store.ts';
import type {
  DeliveryPayloadTable,
  DeliveryTable,
  ReplayReason,
  ReplayTable,
} from '#storage/tables/delivery-tables.ts';
import {
  advanceReplay,
  countOpenReplays,
  endReplay,
  insertReplay,
  lockReplay,
  pruneReplays,
} from './replay-store.ts';

/** Deliveries made in one transaction. */
const batchRows = 100;
/** Bytes of events in a transaction, which other writes wait for. */
const batchBytes = 512 * 1024;
/** Replays to one listener that are not over: what they send is kept apart from the events, so it has a bound. */
const openReplaysMax = 100;
/** How long records of ended replays are kept; each new replay removes a few older ones. */
const keptMs = 30 * 86_400_000;
const pruneMax = 20;

export interface NewReplay {
  emitterId: string;
  emitterOwnerId: string;
  channel: string;
  listener: Listener;
  userId: string;
  /** The subscription that begins with it. */
  subscriptionId?: string;
  /** Both inclusive; default all that is kept. */
  start?: EventId;
  end?: EventId;
  /** Deliveries per second. */
  rate: number;
}

/** A replay, and the deliveries that the transaction made: the caller passes it to `begun` after the commit. */
export interface BegunReplay {
  replay: ReplayTable;
  routed: RoutedDeliveries;
}

/**
 * Makes the deliveries of replays. The range is fixed in the transaction that begins one, and as many of its deliveries
 * as one transaction takes are made there, which is mostly all; a job makes the rest, a batch in a transaction that
 * moves the replay's mark with it, so nothing is made twice. What was removed from the events before its turn came is
 * missing, and counted: `total` is more than `queued` then.
 *
 * The rate is kept by the times at which deliveries are due. Each is a new delivery of an old event, with hops 0: a
 * replay is started by a user, and begins a new chain.
 */
export class ReplayQueue {
  readonly job: JobHandler;
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #waiting: WaitingDeliveries;
  readonly #turns: FairQueue;
  readonly #onRouted: (routed: RoutedDeliveries) => void;
  readonly #node: string;

  constructor(options: {
    store: Store;
    node: string;
    clock: Clock;
    waiting: WaitingDeliveries;
    /** Long work takes turns, one batch of an owner after another. */
    turns: FairQueue;
    /** Deliveries were routed, and a job where `hasJob`. */
    onRouted: (routed: RoutedDeliveries) => void;
  }) {
    const { store, node, clock, waiting, turns, onRouted } = options;
    this.#store = store;
    this.#clock = clock;
    this.#waiting = waiting;
    this.#turns = turns;
    this.#onRouted = onRouted;
    this.#node = node;
    this.job = {
      run: (job) => this.#run(node, job),
      quarantined: async (job) => {
        const { replay_id: id } = job.payload as JobPayloads['queue_replay'];
        await store.transaction((tx) => end(tx, id, 'queueing_failed', clock.now()));
      },
    };
  }

  /** In the caller's transaction. Throws CallerError `conflict` when the listener has too many already. */
  async begin(tx: Tx, wanted: NewReplay): Promise<BegunReplay> {
    const store = this.#store;
    const nowMs = this.#clock.now();
    await pruneReplays(store, tx, { beforeMs: nowMs - keptMs, limit: pruneMax });
    if ((await countOpenReplays(tx, wanted.listener.id)) >= openReplaysMax)
      throw new CallerError(
        'conflict',
        `one listener can have ${openReplaysMax} replays that are not over; wait for them, or cancel some`,
        { parameter: 'listener_id', limit: openReplaysMax },
      );
    const replay = await rangeOf(tx, wanted, nowMs);
    await insertReplay(tx, replay);
    const begun = await this.#queueBatch(tx, replay, wanted.listener);
    const hasJob = begun.replay.state === 'queueing';
    if (hasJob) {
      const { id, owner_id: ownerId } = replay;
      const lane = deliveryWorkLane(ownerId);
      const payload = { replay_id: id };
      await insertJobs(tx, [
        jobRow({ id, kind: 'queue_replay', ownerId, lane, payload, runAtMs: nowMs, nowMs }),
      ]);
    }
    await store.notify(tx, 'millrace_jobs', '');
    return { ...begun, routed: { ...begun.routed, hasJob } };
  }

  /** After the commit. */
  begun({ routed }: BegunReplay): void {
    this.#onRouted(routed);
  }

  async #run(node: string, job: LeasedJob): Promise<void> {
    const { replay_id: id } = job.payload as JobPayloads['queue_replay'];
    for (let isQueueing = true; isQueueing; ) {
      const step = await this.#turns.run(job.ownerId, () =>
        this.#store.transaction(async (tx) => {
          const goneOn = await this.#goOn(tx, id);
          if (goneOn?.replay.state !== 'queueing') await settleJobs(this.#store, tx, { node, jobs: [job] });
          return goneOn;
        }),
      );
      if (step !== undefined) this.#onRouted(step.routed);
      isQueueing = step?.replay.state === 'queueing';
    }
  }

  /** One more batch; undefined when nothing is left to do. */
  async #goOn(tx: Tx, id: string): Promise<BegunReplay | undefined> {
    const replay = await lockReplay(this.#store, tx, id);
    if (replay === undefined || replay.state !== 'queueing') return undefined;
    const { subscription_id } = replay;
    const nowMs = this.#clock.now();
    if (subscription_id !== null && !(await holdSubscription(this.#store, tx, subscription_id))) {
      await end(tx, id, 'subscription_removed', nowMs);
      return undefined;
    }
    const listener = await findListener(tx, replay.listener_id);
    if (listener === undefined) {
      await end(tx, id, 'listener_removed', nowMs);
      return undefined;
    }
    const goneOn = await this.#queueBatch(tx, replay, listener);
    await this.#store.notify(tx, 'millrace_jobs', '');
    return goneOn;
  }

  async #queueBatch(tx: Tx, replay: ReplayTable, listener: Listener): Promise<BegunReplay> {
    const nowMs = this.#clock.now();
    const { events, last } = await nextEvents(tx, replay);
    const firstMs = Math.max(replay.run_at_ms, nowMs);
    const dueMs = (place: number) => firstMs + Math.ceil((place * 1000) / replay.rate);
    const subscriber = {
      emitter_id: replay.emitter_id,
      event_name: replay.channel,
      subscription_id: replay.subscription_id ?? '',
      listener_id: listener.id,
      listener_owner_id: listener.ownerId,
      webhook_state: listener.webhookState,
    };
    const deliveries: DeliveryTable[] = [];
    const payloads: DeliveryPayloadTable[] = [];
    const routed: RoutedDeliveries = { held: [], left: [], ended: [], hasJob: false };
    for (const [place, stored] of events.entries()) {
      // A key of its own for the text: one that others use could go, with the last of them, before this is committed.
      const event = { ...stored, hops: 0, emit_id: newTimeOrderedId(nowMs) };
      const rows = makeDeliveries({
        subscribers: [subscriber],
        event,
        nowMs,
        node: this.#node,
        places: noPlaces,
        waiting: this.#waiting,
        replayId: replay.id,
        runAtMs: dueMs(place),
      });
      deliveries.push(...rows);
      payloads.push(payloadRow(event, nowMs, { fanning: false }));
      const { left, ended } = routedDeliveries(rows, event);
      routed.left.push(...left);
      routed.ended.push(...ended);
    }
    await insertPayloads(this.#store, tx, payloads);
    await insertDeliveries(this.#store, tx, deliveries);
    const advanced: ReplayTable = {
      ...replay,
      after_ms: last?.ms ?? replay.after_ms,
      after_seq: last?.seq ?? replay.after_seq,
      queued: replay.queued + deliveries.length,
      state: last === undefined || isEnd(replay, last) ? 'sending' : 'queueing',
      run_at_ms: dueMs(events.length),
      updated_at_ms: nowMs,
    };
    await advanceReplay(tx, advanced);
    return { replay: advanced, routed };
  }
}

/** The range as it is now: what is emitted later is not in it. */
async function rangeOf(tx: Tx, wanted: NewReplay, nowMs: number): Promise<ReplayTable> {
  const { emitterId, channel, listener, start, end: wantedEnd } = wanted;
  const places = await pageOfPlaces(tx, {
    emitterId,
    channel,
    limit: retainedMax,
    ...(start === undefined ? {} : { newerThan: before(start) }),
    ...(wantedEnd === undefined ? {} : { olderThan: { ms: wantedEnd.ms, seq: wantedEnd.seq + 1 } }),
  });
  const first = places.at(-1);
  const last = places[0];
  const after = before(first ?? { ms: 0, seq: 0 });
  return {
    id: newId('rpl'),
    owner_id: listener.ownerId,
    emitter_owner_id: wanted.emitterOwnerId,
    user_id: wanted.userId,
    emitter_id: emitterId,
    channel,
    listener_id: listener.id,
    subscription_id: wanted.subscriptionId ?? null,
    start_ms: first?.ms ?? null,
    start_seq: first?.seq ?? null,
    end_ms: last?.ms ?? null,
    end_seq: last?.seq ?? null,
    after_ms: after.ms,
    after_seq: after.seq,
    state: 'queueing',
    reason: null,
    total: places.length,
    queued: 0,
    removed_sent: 0,
    removed_failed: 0,
    rate: wanted.rate,
    run_at_ms: nowMs,
    created_at_ms: nowMs,
    updated_at_ms: nowMs,
  };
}

/** Its deliveries wait in the store for the time at which they are due. */
const noPlaces: DeliveryPlaces = { take: () => false };

/** No event has an id between this one and that. */
function before({ ms, seq }: EventId): EventId {
  return { ms, seq: seq - 1 };
}

/** The next events of the range that are still there, and the place up to which they were looked for. */
async function nextEvents(tx: Tx, replay: ReplayTable) {
  const channel = { emitterId: replay.emitter_id, channel: replay.channel };
  const after = { ms: replay.after_ms, seq: replay.after_seq };
  const found = await placesAfter(tx, { ...channel, after, limit: batchRows });
  const places = found.filter((place) => !isBehind(replay, place));
  const batch = await eventBatches(tx, channel, places, { bytesMax: batchBytes }).next();
  if (batch.done === true) return { events: [], last: undefined };
  return { events: batch.value.events, last: batch.value.places.at(-1) };
}

function isBehind({ end_ms: ms, end_seq: seq }: ReplayTable, id: EventId): boolean {
  return ms === null || seq === null || compareEventIds(id, { ms, seq }) > 0;
}

function isEnd(replay: ReplayTable, { ms, seq }: EventId): boolean {
  return isBehind(replay, { ms, seq: seq + 1 });
}

async function end(tx: Tx, id: string, reason: ReplayReason, nowMs: number): Promise<void> {
  await endReplay(tx, id, { reason, nowMs });
}
