import type { CompiledQuery } from 'kysely';
import { insertJobs, jobRow } from '#jobs/job-store.ts';
import { newTimeOrderedId } from '#lib/ids.ts';
import type { Dialect } from '#storage/dialect.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import { type DedupeStrategy, dropDuplicates, readDedupeState } from './drop-duplicate.ts';
import { channelsMax, type DayRoom, type EmitRoom, isAhead, roomOfEmitters } from './emit-room.ts';
import { channels, oneLine, type StoredEvent } from './event.ts';
import { nextEventId } from './event-id.ts';
import { storedNotice } from './event-notice.ts';
import {
  deliveryJobId,
  insertEvents,
  type LockedEmitter,
  lockEmittersQuery,
  scheduledMax,
  updateEmitters,
} from './event-store.ts';

/** An event as its emitter passes it in. */
export interface NewEvent {
  channel: string;
  /** JSON text. */
  event: string;
  /** The id that is shown. */
  id?: string;
  /** SHA-256 (hex) of the full id, for an id of which `id` shows only a part. Deduplication compares it. */
  idHash?: string;
  idIsNumber?: boolean;
  summary?: string;
  /** Epoch ms; decides the order within one emission. */
  ts?: number;
  /** Epoch ms; when ahead of now, the event waits in `$in` until then. */
  deliverAtMs?: number;
  /** It waited in `$in`. It was accepted when it was emitted, and cannot be refused now. */
  waited?: boolean;
  /** `event` is an object that gets its `metadata` inside too (specification, section 2, Error event summary). */
  holdsMetadata?: boolean;
}

/** What one invocation emits, in the order of its calls. */
export interface Emission {
  emitterId: string;
  dedupe?: DedupeStrategy;
  hops: number;
  /** The `traceparent` of the span that emits. */
  trace?: string;
  events: readonly NewEvent[];
}

export type EmissionResult =
  | {
      accepted: true;
      stored: StoredEvent[];
      duplicates: number;
      /** Events were refused because their owner may emit no more now: the sentence that is in the logs. */
      overLimit?: string;
    }
  /** The emitter is gone: its source was deleted while the invocation ran. */
  | { accepted: false };

/** How many events an owner may still emit on this day, as this process knows it: `QuotaGuard` in `metering/quota-guard.ts`. */
export interface EventAllowance {
  /** Infinity: there is no limit. */
  eventsLeft(ownerId: string): number;
  /** These are about to be stored. */
  emitted(ownerId: string, events: number): void;
  /** Counts a refusal; the reason, in words. */
  refuseEvents(ownerId: string): string;
}

const unlimited: EventAllowance = {
  eventsLeft: () => Number.POSITIVE_INFINITY,
  emitted: () => {},
  refuseEvents: () => '',
};

/** Number of these stored events that count as emitted by their owner: log lines and errors do not. */
export function emittedCount(stored: readonly StoredEvent[]): number {
  let count = 0;
  for (const { channel } of stored) if (!isPlatformChannel(channel)) count += 1;
  return count;
}

/**
 * The one door for events. Runs in the transaction that ends the invocation, for many invocations at once: locks each
 * emitter once, drops duplicates, gives ids that strictly increase per emitter, and stores everything in a constant
 * number of statements. Events of one emission are sorted by `ts`, oldest first, before dedupe (component contract).
 *
 * The events become rows of table `events` (`insertEvents` in `event-store.ts`), their deliveries rows of `deliveries` (the `EventRouter`). The
 * row in `emitters` gets the last id and what deduplication remembers.
 */
export async function emitEvents(
  store: EmitStore,
  tx: Tx,
  batch: { emissions: readonly Emission[]; router: EventRouter; nowMs: number },
): Promise<EmissionResult[]> {
  if (batch.emissions.length === 0) return [];
  const { rows } = await tx.executeQuery(lockEmittersOf(store, tx, batch.emissions));
  return appendEvents(store, tx, { ...batch, emitters: rows });
}

/**
 * Creates the deliveries of stored events, in the transaction that stores the events: no event exists without its deliveries,
 * and no delivery without its event. The implementation is in `delivery`.
 */
export interface EventRouter {
  /**
   * The query for the subscribers of these channels, for callers that send the store other queries at the same time.
   * Undefined: these channels probably have no subscribers.
   */
  prefetchSubscribers(emitted: readonly EmittedTo[]): SubscriberPrefetch | undefined;
  /**
   * Stores the deliveries of these events. For each event with subscribers it returns a function to call after the commit.
   * `prefetched`: the subscribers, if they were read earlier in this transaction, after the emitters were locked.
   */
  routeEvents(
    tx: Tx,
    stored: readonly StoredEvent[],
    nowMs: number,
    prefetched?: PrefetchedSubscribers,
  ): Promise<Routed>;
}

export type Routed = ReadonlyMap<StoredEvent, () => void>;

/** A channel of an emitter. */
export interface EmittedTo {
  emitterId: string;
  channel: string;
}

export interface SubscriberPrefetch {
  readonly emitted: readonly EmittedTo[];
  readonly query: CompiledQuery<object>;
}

export interface PrefetchedSubscribers {
  prefetch: SubscriberPrefetch;
  rows: readonly object[];
}

/** Prefetches the subscribers of the channels that these emissions will probably be stored on. Undefined without events or subscribers. */
export function prefetchSubscribers(
  router: EventRouter,
  emissions: readonly Emission[],
): SubscriberPrefetch | undefined {
  const emitted = new Map<string, EmittedTo>();
  for (const { emitterId, events } of emissions)
    for (const event of events) {
      const channel = storedChannel(event.channel);
      emitted.set(`${emitterId} ${channel}`, { emitterId, channel });
    }
  return emitted.size === 0 ? undefined : router.prefetchSubscribers([...emitted.values()]);
}

/** The part of the store that emitting needs. */
export type EmitStore = Dialect & Pick<Store, 'notify' | 'defer'>;

/** The statement that locks the emitters of emissions, for callers that send the store other queries at the same time. */
export function lockEmittersOf(
  store: Dialect,
  db: Db,
  emissions: readonly Emission[],
): CompiledQuery<LockedEmitter> {
  return lockEmittersQuery(store, db, [...new Set(emissions.map((emission) => emission.emitterId))]);
}

/** `emitEvents` when the emitters are locked already. */
export async function appendEvents(
  store: EmitStore,
  tx: Tx,
  batch: {
    emissions: readonly Emission[];
    emitters: readonly LockedEmitter[];
    router: EventRouter;
    /** Subscribers that were read already. */
    prefetched?: PrefetchedSubscribers | undefined;
    /** Absent: what is emitted is not limited. */
    allowance?: EventAllowance | undefined;
    nowMs: number;
  },
): Promise<EmissionResult[]> {
  const { emissions, router, prefetched, allowance = unlimited, nowMs } = batch;
  const withEvents = emissions.filter((emission) => emission.events.length > 0);
  const emitters = new Map(batch.emitters.map((row) => [row.id, { row, changed: false }]));
  const storables = new Map(withEvents.map((emission) => [emission, emission.events.map(storable)]));
  const present = withEvents
    .filter(({ emitterId }) => emitters.has(emitterId))
    .map((emission) => ({ emitterId: emission.emitterId, events: storables.get(emission) ?? [] }));
  const dayRoomOf = (emitterId: string): DayRoom => {
    const ownerId = emitters.get(emitterId)?.row.owner_id ?? '';
    return {
      left: () => allowance.eventsLeft(ownerId),
      took: (events) => allowance.emitted(ownerId, events),
    };
  };
  const rooms = await roomOfEmitters(tx, present, dayRoomOf, nowMs);
  const results = new Map<Emission, EmissionResult>();
  const stored: StoredEvent[] = [];
  for (const emission of withEvents) {
    const emitter = emitters.get(emission.emitterId);
    const room = rooms.get(emission.emitterId);
    if (emitter === undefined || room === undefined) continue;
    const events = storables.get(emission) ?? [];
    const result = appendToEmitter(emitter.row, { ...emission, events }, { room, allowance, nowMs });
    emitter.row = result.emitter;
    emitter.changed = true;
    stored.push(...result.stored);
    const { stored: kept, duplicates, overLimit } = result;
    const excess = overLimit === undefined ? {} : { overLimit };
    results.set(emission, { accepted: true, stored: kept, duplicates, ...excess });
  }
  if (stored.length > 0) {
    await insertEvents(store, tx, stored);
    await scheduleDeliveries(tx, stored, nowMs);
    const heard = stored.filter(({ emitter_id }) => emitters.get(emitter_id)?.row.heard !== 0);
    const routed: Routed =
      heard.length > 0 ? await router.routeEvents(tx, heard, nowMs, prefetched) : new Map();
    for (const [event, handOver] of routed) event.handOver = handOver;
    await store.notify(tx, 'millrace_events', storedNotice(stored));
  }
  const changed = [...emitters.values()].filter((emitter) => emitter.changed).map((emitter) => emitter.row);
  if (changed.length > 0) await updateEmitters(store, tx, changed);
  return emissions.map((emission) => {
    const result = results.get(emission);
    if (result !== undefined) return result;
    return emitters.has(emission.emitterId)
      ? { accepted: true, stored: [], duplicates: 0 }
      : { accepted: false };
  });
}

function appendToEmitter(
  emitter: LockedEmitter,
  emission: Emission,
  { room, allowance, nowMs }: { room: EmitRoom; allowance: EventAllowance; nowMs: number },
): { emitter: LockedEmitter; stored: StoredEvent[]; duplicates: number; overLimit?: string } {
  const sorted = sortByTs(emission.events);
  const own = sorted.filter((event) => !isPlatformChannel(event.channel));
  const before = readDedupeState(emitter.dedupe);
  const { kept, state, unidentified, refusals, refused, overDay } = withinRoom(room, own, (events) =>
    dropDuplicates(emission.dedupe, before, events),
  );
  const keptSet = new Set<NewEvent>(kept);
  const passing = sorted.filter((event) => isPlatformChannel(event.channel) || keptSet.has(event));
  if (unidentified > 0 && emission.dedupe === 'unique') passing.push(missingIdWarning(unidentified, nowMs));
  const overLimit =
    overDay === 0
      ? undefined
      : `${overDay} event(s) were refused: ${allowance.refuseEvents(emitter.owner_id)}`;
  if (overLimit !== undefined) refusals.push(overLimit);
  for (const message of refusals) passing.push(logEvent('error', message, nowMs));
  let last = { ms: emitter.last_ms, seq: emitter.last_seq };
  const stored = passing.map((event): StoredEvent => {
    const previous = last;
    last = nextEventId(last, nowMs);
    const waits = isAhead(event, nowMs);
    const emitId = newTimeOrderedId(nowMs);
    return {
      emitter_id: emitter.id,
      channel: waits ? channels.scheduled : event.channel,
      ms: last.ms,
      seq: last.seq,
      owner_id: emitter.owner_id,
      emit_id: emitId,
      given_id: event.id ?? null,
      summary: event.summary ?? null,
      ts_ms: event.ts ?? null,
      event: event.holdsMetadata === true ? withMetadata(event, emitter.id, emitId) : event.event,
      deliver_channel: waits ? event.channel : null,
      deliver_at_ms: waits ? (event.deliverAtMs ?? null) : null,
      hops: emission.hops,
      previous,
      ...(emission.trace === undefined ? {} : { trace: emission.trace }),
    };
  });
  return {
    emitter: {
      ...emitter,
      last_ms: last.ms,
      last_seq: last.seq,
      dedupe: state === before ? emitter.dedupe : JSON.stringify(state),
    },
    stored,
    duplicates: own.length - kept.length - refused,
    ...(overLimit === undefined ? {} : { overLimit }),
  };
}

/** Each pass goes over all events of an emission. */
const exactPassesMax = 4;

/**
 * Drops duplicates, and refuses events that have no room. Dedupe does not remember the id of a refused event, so the event passes when it is
 * emitted again and there is room. `refusals` say so, because nothing may be lost in silence.
 */
function withinRoom<R extends { kept: NewEvent[] }>(
  room: EmitRoom,
  own: readonly NewEvent[],
  dedupe: (events: readonly NewEvent[]) => R,
): R & { refusals: string[]; refused: number; overDay: number } {
  let events = own;
  let waiting = 0;
  let onNewChannels = 0;
  let overDay = 0;
  for (let pass = 1; ; pass += 1) {
    const result = dedupe(events);
    // A refused event can let others pass dedupe, so this is repeated. After `exactPassesMax` passes the room is given to all remaining events, duplicates too.
    const beyond = room.beyond(pass <= exactPassesMax ? result.kept : events);
    waiting += beyond.waiting.length;
    onNewChannels += beyond.onNewChannels.length;
    overDay += beyond.overDay.length;
    const gone = new Set([...beyond.waiting, ...beyond.onNewChannels, ...beyond.overDay]);
    if (gone.size === 0) {
      room.take(result.kept);
      const refusals: string[] = [];
      if (waiting > 0)
        refusals.push(
          `${waiting} event(s) with a delivery_ts were refused: ${scheduledMax} are waiting in $in`,
        );
      if (onNewChannels > 0) {
        const full = `events of ${channelsMax} channels are kept; delete those of channels that are not needed`;
        refusals.push(`${onNewChannels} event(s) on new channels were refused: ${full}`);
      }
      return { ...result, refusals, refused: waiting + onNewChannels + overDay, overDay };
    }
    // Copies of a refused event are removed too. Otherwise each pass would accept one copy, and refuse it again.
    const copies = new Set([...gone].filter(({ id }) => id !== undefined).map(sameEvent));
    events = events.filter(
      (event) => !gone.has(event) && (event.id === undefined || !copies.has(sameEvent(event))),
    );
  }
}

function sameEvent({ channel, id, idHash }: NewEvent): string {
  return JSON.stringify([channel, id, idHash]);
}

function withMetadata(event: NewEvent, emitterId: string, emitId: string): string {
  const metadata = { emitter_id: emitterId, emit_id: emitId, name: event.channel };
  return `${event.event.slice(0, -1)},"metadata":${JSON.stringify(metadata)}}`;
}

/**
 * PostgreSQL has no NUL in text (the event itself is JSON, where it is escaped). Streams send an event as one line. Events wait in `$in`, and
 * none is sent there: it would be neither delivered nor pruned.
 * What is logged is logged now: waiting lines would have no bound.
 */
function storable({ deliverAtMs, ...event }: NewEvent): NewEvent {
  const { id, summary } = event;
  return {
    ...event,
    ...(deliverAtMs === undefined || isPlatformChannel(event.channel) ? {} : { deliverAtMs }),
    event: oneLine(event.event),
    channel: storedChannel(event.channel),
    ...(id === undefined ? {} : { id: withoutNul(id) }),
    ...(summary === undefined ? {} : { summary: withoutNul(summary) }),
  };
}

function storedChannel(channel: string): string {
  return channel === channels.scheduled ? channels.default : withoutNul(channel);
}

function withoutNul(text: string): string {
  return text.includes('\0') ? text.replaceAll('\0', '') : text;
}

function isPlatformChannel(channel: string): boolean {
  return channel === channels.errors || channel === channels.logs;
}

/** Stable; events without a time keep their place behind the one emitted before them. */
function sortByTs(events: readonly NewEvent[]): NewEvent[] {
  if (!events.some((event) => event.ts !== undefined)) return [...events];
  let previous = Number.NEGATIVE_INFINITY;
  const keyed = events.map((event) => {
    previous = event.ts ?? previous;
    return { event, key: previous };
  });
  return keyed.sort((a, b) => (a.key === b.key ? 0 : a.key - b.key)).map(({ event }) => event);
}

function missingIdWarning(count: number, nowMs: number): NewEvent {
  const message = `dedupe "unique": ${count} event(s) were emitted without an id and cannot be deduplicated`;
  return logEvent('warn', message, nowMs);
}

function logEvent(level: 'warn' | 'error', message: string, nowMs: number): NewEvent {
  return { channel: channels.logs, event: JSON.stringify({ ts: nowMs, level, message }) };
}

async function scheduleDeliveries(tx: Tx, stored: readonly StoredEvent[], nowMs: number): Promise<void> {
  const waiting = stored.filter((event) => event.channel === channels.scheduled);
  await insertJobs(
    tx,
    waiting.map((event) =>
      jobRow({
        id: deliveryJobId(event.emitter_id, event),
        kind: 'deliver_scheduled_event',
        ownerId: event.owner_id,
        payload: {
          ...{ emitter_id: event.emitter_id, ms: event.ms, seq: event.seq },
          ...(event.trace === undefined ? {} : { trace: event.trace }),
        },
        runAtMs: event.deliver_at_ms ?? nowMs,
        nowMs,
      }),
    ),
  );
}
