import { type ExpressionBuilder, type ExpressionWrapper, type SqlBool, sql } from 'kysely';
import type { Db } from '#storage/store.ts';
import type { Tables } from '#storage/tables.ts';
import { channels, inlineBytesMax, type StoredEvent } from './event.ts';
import type { EventId } from './event-id.ts';
import { eventColumns, retainedMax, scheduledMax } from './event-store.ts';

/**
 * Maximum text of events that is read in one statement, plus the one event that exceeds it: an event may have some megabytes, and a
 * page a hundred of them.
 */
const batchBytesMax = 2 * 1024 * 1024;

export interface Channel {
  emitterId: string;
  channel: string;
}

/** Where an event is, and how many bytes its JSON has: of a page, this is read first. */
export interface EventPlace extends EventId {
  bytes: number;
}

export interface PageOptions extends Channel {
  limit: number;
  /** Both exclusive. */
  olderThan?: EventId;
  newerThan?: EventId;
}

type IdWhere = ExpressionBuilder<{ events: Pick<Tables['events'], 'ms' | 'seq'> }, 'events'>;

function compareId(
  where: IdWhere,
  operator: '<' | '<=' | '>' | '>=',
  id: EventId,
): ExpressionWrapper<{ events: Pick<Tables['events'], 'ms' | 'seq'> }, 'events', SqlBool> {
  return where(where.refTuple('ms', 'seq'), operator, where.tuple(id.ms, id.seq));
}

/** The places of the newest events of a channel, newest first. */
export async function pageOfPlaces(db: Db, options: PageOptions): Promise<EventPlace[]> {
  const { emitterId, channel, olderThan, newerThan } = options;
  // Only the newest `retainedMax` are readable; what pruning has not removed yet is not shown.
  const retained = db
    .selectFrom('events')
    .select(['ms', 'seq'])
    .where('emitter_id', '=', emitterId)
    .where('channel', '=', channel)
    .orderBy('ms', 'desc')
    .orderBy('seq', 'desc')
    .limit(channel === channels.scheduled ? scheduledMax : retainedMax);
  // The page right above a cursor has the oldest of the newer ones.
  const order = newerThan === undefined ? 'desc' : 'asc';
  let page = db.selectFrom(retained.as('events')).select(['ms', 'seq']);
  if (olderThan !== undefined) page = page.where((where) => compareId(where, '<', olderThan));
  if (newerThan !== undefined) page = page.where((where) => compareId(where, '>', newerThan));
  page = page.orderBy('ms', order).orderBy('seq', order).limit(options.limit);
  return db
    .selectFrom(page.as('page'))
    .innerJoin('events', (join) =>
      join
        .onRef('events.ms', '=', 'page.ms')
        .onRef('events.seq', '=', 'page.seq')
        .on('events.emitter_id', '=', emitterId)
        .on('events.channel', '=', channel),
    )
    .select(['events.ms', 'events.seq', sql<number>`octet_length(events.event)`.as('bytes')])
    .orderBy('events.ms', 'desc')
    .orderBy('events.seq', 'desc')
    .execute();
}

/** The places of the events after `after`, oldest first: what a reader that saw it has missed. */
export async function placesAfter(
  db: Db,
  options: Channel & { after: EventId; limit: number },
): Promise<EventPlace[]> {
  return db
    .selectFrom('events')
    .select(['ms', 'seq', sql<number>`octet_length(event)`.as('bytes')])
    .where('emitter_id', '=', options.emitterId)
    .where('channel', '=', options.channel)
    .where((where) => compareId(where, '>', options.after))
    .orderBy('ms')
    .orderBy('seq')
    .limit(options.limit)
    .execute();
}

/** A part of a page; `events` lacks those that were deleted since its places were read. */
export interface EventBatch {
  places: readonly EventPlace[];
  events: StoredEvent[];
}

type BeforeBatch = (bytes: number) => Promise<void> | undefined;

/** The events at neighbouring places, in their order, a bounded number of bytes at a time. `before`: what each batch waits for. */
export async function* eventBatches(
  db: Db,
  channel: Channel,
  places: readonly EventPlace[],
  { bytesMax = batchBytesMax, before }: { bytesMax?: number; before?: BeforeBatch } = {},
): AsyncGenerator<EventBatch> {
  for (let at = 0; at < places.length; ) {
    let bytes = 0;
    let end = at;
    for (; end < places.length && (end === at || bytes < bytesMax); end += 1)
      bytes += places[end]?.bytes ?? 0;
    const batch = places.slice(at, end);
    await before?.(bytes);
    yield { places: batch, events: await readPlaces(db, channel, batch) };
    at = end;
  }
}

/**
 * A page of events, newest first, with no more of each than a summary shows: `bytes` is the size of the whole event.
 */
export async function readBeginnings(db: Db, options: PageOptions): Promise<StoredEvent[]> {
  const places = await pageOfPlaces(db, options);
  const sizes = new Map(places.map(({ ms, seq, bytes }) => [`${ms}-${seq}`, bytes]));
  const events = await readPlaces(db, options, places, inlineBytesMax);
  return events.map((event) => ({ ...event, bytes: sizes.get(`${event.ms}-${event.seq}`) ?? 0 }));
}

/** `charactersMax`: of each event, only its beginning. */
async function readPlaces(
  db: Db,
  { emitterId, channel }: Channel,
  places: readonly EventPlace[],
  charactersMax?: number,
): Promise<StoredEvent[]> {
  const first = places[0];
  const last = places.at(-1);
  if (first === undefined || last === undefined) return [];
  const isAscending = first.ms < last.ms || (first.ms === last.ms && first.seq <= last.seq);
  const [oldest, newest] = isAscending ? [first, last] : [last, first];
  const order = isAscending ? 'asc' : 'desc';
  const text =
    charactersMax === undefined
      ? sql<string>`event`
      : sql<string>`substr(event, 1, ${sql.lit(charactersMax)})`;
  return db
    .selectFrom('events')
    .select(eventColumns.filter((column) => column !== 'event'))
    .select(text.as('event'))
    .where('emitter_id', '=', emitterId)
    .where('channel', '=', channel)
    .where((where) => compareId(where, '>=', oldest))
    .where((where) => compareId(where, '<=', newest))
    .orderBy('ms', order)
    .orderBy('seq', order)
    .execute();
}
