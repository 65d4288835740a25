import {
  type CompiledQuery,
  type ExpressionBuilder,
  type ExpressionWrapper,
  type SqlBool,
  sql,
} from 'kysely';
import type { RemoveOfOwner } from '#identity/retention-pruner.ts';
import { isNotHeld } from '#identity/retention-store.ts';
import { deleteQueuedJobs } from '#jobs/job-store.ts';
import type { Dialect } from '#storage/dialect.ts';
import { insertRows, type RowInsert } from '#storage/insert-rows.ts';
import { StatementTexts } from '#storage/statement-texts.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { EmitterTable } from '#storage/tables/event-tables.ts';
import type { Tables } from '#storage/tables.ts';
import { channels, type StoredEvent } from './event.ts';
import { type EventId, formatEventId } from './event-id.ts';

/** Events kept per emitter and channel (specification, section 8). `$in` is exempt: what waits there is not history. */
export const retainedMax = 100;

/** Events of one emitter that may wait for their `delivery_ts`: each is a row and a job. */
export const scheduledMax = 10_000;

export const eventColumns = [
  'emitter_id',
  'channel',
  'ms',
  'seq',
  'owner_id',
  'emit_id',
  'given_id',
  'summary',
  'ts_ms',
  'event',
  'deliver_channel',
  'deliver_at_ms',
  'hops',
] as const;

export async function insertEmitter(tx: Tx, row: { id: string; ownerId: string }): Promise<void> {
  await tx
    .insertInto('emitters')
    .values({ id: row.id, owner_id: row.ownerId, last_ms: 0, last_seq: 0, dedupe: '{}' })
    .execute();
}

/** As `insertEmitter`, unless it is there already. */
export async function ensureEmitter(tx: Tx, row: { id: string; ownerId: string }): Promise<void> {
  await tx
    .insertInto('emitters')
    .values({ id: row.id, owner_id: row.ownerId, last_ms: 0, last_seq: 0, dedupe: '{}' })
    .onConflict((conflict) => conflict.column('id').doNothing())
    .execute();
}

/** A locked emitter. `heard`: 0 when the events of its owner certainly have no subscribers. */
export type LockedEmitter = EmitterTable & { heard: number };

/**
 * With one writer, the statement that locks the emitters can also tell whether their owner has any subscription; if not, the look-up of
 * subscribers is skipped. With several writers it cannot: it may wait for the lock, and
 * the subscriptions that it sees are then out of date.
 */
const heardByAny = sql<number>`exists (select 1 from subscriptions where emitter_owner_id = emitters.owner_id)`;
const perhapsHeard = sql<number>`1`;

/** The emitters, locked until the end of the transaction where rows have locks; always in the order of their ids. */
export function lockEmittersQuery(
  store: Dialect,
  db: Db,
  ids: readonly string[],
): CompiledQuery<LockedEmitter> {
  return lockTexts.query(store, ids.length, ids, () => {
    const query = db
      .selectFrom('emitters')
      .select(['id', 'owner_id', 'last_ms', 'last_seq', 'dedupe'])
      .select((store.hasOneWriter ? heardByAny : perhapsHeard).as('heard'))
      .where('id', 'in', [...ids])
      .orderBy('id');
    return store.lockRows(query).compile();
  });
}

const lockTexts = new StatementTexts();

const emitterUpsert: RowInsert<'emitters'> = {
  table: 'emitters',
  columns: ['id', 'owner_id', 'last_ms', 'last_seq', 'dedupe'],
  ending:
    'on conflict (id) do update set last_ms = excluded.last_ms, last_seq = excluded.last_seq, dedupe = excluded.dedupe',
};

export async function updateEmitters(
  store: Dialect & Pick<Store, 'defer'>,
  tx: Tx,
  rows: readonly EmitterTable[],
): Promise<void> {
  for (const query of insertRows(store, emitterUpsert, rows)) await store.defer(tx, query);
}

const eventInsert: RowInsert<'events'> = { table: 'events', columns: eventColumns };

/** Stores events as rows of table `events`, without waiting for the store before the commit. `emitEvents` (`emit-event.ts`) calls it. */
export async function insertEvents(
  store: Dialect & Pick<Store, 'defer'>,
  tx: Tx,
  events: readonly StoredEvent[],
): Promise<void> {
  for (const query of insertRows(store, eventInsert, events)) await store.defer(tx, query);
}

type EventWhere = ExpressionBuilder<Tables, 'events'>;

function compareId(
  where: EventWhere,
  operator: '<' | '<=' | '>' | '>=',
  id: EventId,
): ExpressionWrapper<Tables, 'events', SqlBool> {
  return where(where.refTuple('ms', 'seq'), operator, where.tuple(id.ms, id.seq));
}

/** The highest id ever given to an event of this emitter, `0-0` before the first; undefined when there is no emitter. */
export async function lastEventId(db: Db, emitterId: string): Promise<EventId | undefined> {
  const row = await db
    .selectFrom('emitters')
    .select(['last_ms', 'last_seq'])
    .where('id', '=', emitterId)
    .executeTakeFirst();
  return row && { ms: row.last_ms, seq: row.last_seq };
}

/** True while an event with this ID is kept in the channel. */
export async function hasEvent(
  db: Db,
  options: { emitterId: string; channel: string; id: EventId },
): Promise<boolean> {
  const row = await db
    .selectFrom('events')
    .select('seq')
    .where('emitter_id', '=', options.emitterId)
    .where('channel', '=', options.channel)
    .where('ms', '=', options.id.ms)
    .where('seq', '=', options.id.seq)
    .executeTakeFirst();
  return row !== undefined;
}

/** Deletes events from `start` to `end`, both inclusive, at most `limit`; returns how many. Oldest first. */
export async function deleteEventRange(
  tx: Tx,
  options: { emitterId: string; channel: string; start?: EventId; end?: EventId; limit: number },
): Promise<number> {
  const { start, end } = options;
  let range = tx
    .selectFrom('events')
    .select(['ms', 'seq'])
    .where('emitter_id', '=', options.emitterId)
    .where('channel', '=', options.channel);
  if (start !== undefined) range = range.where((where) => compareId(where, '>=', start));
  if (end !== undefined) range = range.where((where) => compareId(where, '<=', end));
  const ids = await range.orderBy('ms').orderBy('seq').limit(options.limit).execute();
  const last = ids.at(-1);
  if (last === undefined) return 0;
  let doomed = tx
    .deleteFrom('events')
    .where('emitter_id', '=', options.emitterId)
    .where('channel', '=', options.channel)
    .where((where) => compareId(where, '<=', last));
  if (start !== undefined) doomed = doomed.where((where) => compareId(where, '>=', start));
  const result = await doomed.executeTakeFirst();
  if (options.channel === channels.scheduled) {
    // A job that runs now finds its event gone, and ends. Those that wait, for up to a year, are deleted with their events.
    const jobs = ids.map((id) => deliveryJobId(options.emitterId, id));
    await deleteQueuedJobs(tx, jobs);
  }
  return Number(result.numDeletedRows);
}

/** Deletes what lies beyond the newest `retainedMax` of a channel, at most `limit` rows; returns how many. */
export async function pruneChannel(
  tx: Tx,
  options: { emitterId: string; channel: string; limit: number },
): Promise<number> {
  const newestDoomed = await tx
    .selectFrom('events')
    .select(['ms', 'seq'])
    .where('emitter_id', '=', options.emitterId)
    .where('channel', '=', options.channel)
    .where(isNotHeld)
    .orderBy('ms', 'desc')
    .orderBy('seq', 'desc')
    .offset(retainedMax)
    .limit(1)
    .executeTakeFirst();
  if (newestDoomed === undefined) return 0;
  return deleteEventRange(tx, { ...options, end: newestDoomed });
}

/** Removes events that the sources and workflows of an owner, or the owner itself, emitted before a time. Those that wait in `$in` stay. */
export const removeEventsBefore: RemoveOfOwner = async (tx, { ownerId, beforeMs, limit }) => {
  const { numAffectedRows } = await sql`delete from events where (emitter_id, channel, ms, seq) in (
    select emitter_id, channel, ms, seq from events where ms < ${beforeMs} and channel <> ${channels.scheduled}
      and emitter_id in (select id from sources where owner_id = ${ownerId}
        union all select id from workflows where owner_id = ${ownerId} union all select ${ownerId})
    limit ${sql.lit(limit)})`.execute(tx);
  return Number(numAffectedRows ?? 0);
};

/** The channels of an emitter that hold events. */
async function channelsOf(db: Db, emitterId: string): Promise<string[]> {
  const rows = await db
    .selectFrom('events')
    .select('channel')
    .distinct()
    .where('emitter_id', '=', emitterId)
    .execute();
  return rows.map((row) => row.channel);
}

/** Emitter and channel pairs that hold more than they may, for the sweep after a start. */
export async function overfullChannels(
  db: Db,
  limit: number,
): Promise<{ emitterId: string; channel: string }[]> {
  const rows = await db
    .selectFrom('events')
    .select(['emitter_id', 'channel'])
    .where('channel', '!=', channels.scheduled)
    .groupBy(['emitter_id', 'channel'])
    .having(sql<number>`count(*)`, '>', retainedMax)
    .limit(limit)
    .execute();
  return rows.map((row) => ({ emitterId: row.emitter_id, channel: row.channel }));
}

/** Which of these channels hold events. */
export async function channelsInUse(
  tx: Tx,
  pairs: readonly { emitterId: string; channel: string }[],
): Promise<{ emitterId: string; channel: string }[]> {
  const used: { emitterId: string; channel: string }[] = [];
  for (let at = 0; at < pairs.length; at += pairsPerStatement) {
    const values = pairs
      .slice(at, at + pairsPerStatement)
      .map(({ emitterId, channel }) => sql`(${emitterId}, ${channel})`);
    const { rows } = await sql<{ emitter_id: string; channel: string }>`
      with wanted (emitter_id, channel) as (values ${sql.join(values)})
      select emitter_id, channel from wanted where exists (
        select 1 from events where events.emitter_id = wanted.emitter_id and events.channel = wanted.channel
      )`.execute(tx);
    for (const row of rows) used.push({ emitterId: row.emitter_id, channel: row.channel });
  }
  return used;
}

const pairsPerStatement = 5_000;

/** Counts the channels of an emitter that hold events, without those in `but`. Each costs one look into the index, however many events it holds. */
export async function countChannels(tx: Tx, emitterId: string, but: readonly string[]): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    with recursive names (name) as (
      select min(channel) from events where emitter_id = ${emitterId}
      union all
      select (select min(channel) from events where emitter_id = ${emitterId} and channel > names.name)
      from names where names.name is not null
    )
    select count(name) as count from names where name not in (${sql.join([...but])})`.execute(tx);
  return Number(rows[0]?.count ?? 0);
}

/** How many events wait in `$in`. */
export async function countScheduled(tx: Tx, emitterId: string): Promise<number> {
  const row = await tx
    .selectFrom('events')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('emitter_id', '=', emitterId)
    .where('channel', '=', channels.scheduled)
    .executeTakeFirst();
  return Number(row?.count ?? 0);
}

/** The job that delivers an event of `$in`. */
export function deliveryJobId(emitterId: string, id: EventId): string {
  return `in_${emitterId}_${formatEventId(id)}`;
}

/** One waiting event of `$in`, or undefined when it was delivered or deleted. */
export async function readScheduledEvent(
  db: Db,
  emitterId: string,
  id: EventId,
): Promise<StoredEvent | undefined> {
  return db
    .selectFrom('events')
    .select(eventColumns)
    .where('emitter_id', '=', emitterId)
    .where('channel', '=', channels.scheduled)
    .where('ms', '=', id.ms)
    .where('seq', '=', id.seq)
    .executeTakeFirst();
}

/**
 * Removes an emitter with all its events, at most `limit` a time; true when nothing is left. The emitter itself goes
 * first: from then on nothing is accepted for it, and an emission under way is waited for, so no event stays behind.
 */
export async function deleteEmitter(tx: Tx, emitterId: string, limit: number): Promise<boolean> {
  await tx.deleteFrom('emitters').where('id', '=', emitterId).execute();
  let left = limit;
  for (const channel of await channelsOf(tx, emitterId)) {
    left -= await deleteEventRange(tx, { emitterId, channel, limit: left });
    if (left <= 0) return false;
  }
  return true;
}
