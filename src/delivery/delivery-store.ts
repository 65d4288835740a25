import { type SelectQueryBuilder, sql } from 'kysely';
import { isAsInstance, isNotHeld } from '#identity/retention-store.ts';
import type { Dialect } from '#storage/dialect.ts';
import { insertRows, type RowInsert } from '#storage/insert-rows.ts';
import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { DeliveryReason, DeliveryState, DeliveryTable } from '#storage/tables/delivery-tables.ts';
import type { Tables } from '#storage/tables.ts';
import { dropPayloads } from './dispatch/payload-store.ts';
import { countRemoved } from './replay/replay-store.ts';

const deliveryColumns = [
  'id',
  'owner_id',
  'listener_id',
  'subscription_id',
  'replay_id',
  'emitter_id',
  'channel',
  'ms',
  'seq',
  'emit_id',
  'hops',
  'trace',
  'state',
  'reason',
  'run_at_ms',
  'lease_node',
  'attempts',
  'attempt_log',
  'status',
  'latency_ms',
  'has_payload',
  'payload_bytes',
  'created_at_ms',
  'ended_at_ms',
] as const;

const deliveryInsert: RowInsert<'deliveries'> = { table: 'deliveries', columns: deliveryColumns };

/** Without waiting for the store before the commit. */
export async function insertDeliveries(
  store: Dialect & Pick<Store, 'defer'>,
  tx: Tx,
  rows: readonly DeliveryTable[],
): Promise<void> {
  for (const query of insertRows(store, deliveryInsert, rows)) await store.defer(tx, query);
}

export async function findDelivery(db: Db, id: string): Promise<DeliveryTable | undefined> {
  return db.selectFrom('deliveries').select(deliveryColumns).where('id', '=', id).executeTakeFirst();
}

/** Deliveries to a listener, newest first; those of one subscription or replay, or in some states, where given. */
export async function pageOfDeliveries(
  db: Db,
  filter: {
    listenerId: string;
    subscriptionId?: string;
    replayId?: string;
    states?: readonly DeliveryState[];
  },
  page: PageRequest,
): Promise<Page<DeliveryTable>> {
  let query = db
    .selectFrom('deliveries')
    .select(deliveryColumns)
    .where('listener_id', '=', filter.listenerId);
  if (filter.subscriptionId !== undefined) query = query.where('subscription_id', '=', filter.subscriptionId);
  if (filter.replayId !== undefined) query = query.where('replay_id', '=', filter.replayId);
  if (filter.states !== undefined) query = query.where('state', 'in', [...filter.states]);
  return pageOf(query, page);
}

/** Deliveries to listeners of an owner that ended without having been delivered, newest first. */
export async function pageOfDeadLetters(
  db: Db,
  filter: { ownerId: string; states?: readonly DeliveryState[] },
  page: PageRequest,
): Promise<Page<DeliveryTable>> {
  let query = db
    .selectFrom('deliveries')
    .select(deliveryColumns)
    .where('owner_id', '=', filter.ownerId)
    // As the index says it.
    .where('ended_at_ms', 'is not', null)
    .where('state', '<>', sql.lit('delivered'));
  if (filter.states !== undefined) query = query.where('state', 'in', [...filter.states]);
  return pageOf(query, page);
}

/** How many deliveries wait for a listener (queued or held) and the bytes of their events, counting no further than `limit`. */
export async function countWaiting(
  db: Db,
  listenerId: string,
  limit: number,
): Promise<{ count: number; bytes: number }> {
  const row = await db
    .selectFrom((from) =>
      from
        .selectFrom('deliveries')
        .select('payload_bytes')
        .where('listener_id', '=', listenerId)
        .where('state', 'in', ['queued', 'held'])
        .limit(limit)
        .as('waiting'),
    )
    .select((select) => [
      select.fn.countAll<number>().as('count'),
      select.fn.sum<number>('payload_bytes').as('bytes'),
    ])
    .executeTakeFirst();
  return { count: Number(row?.count ?? 0), bytes: Number(row?.bytes ?? 0) };
}

/** Which deliveries a change is about: those to a listener, narrowed where given. */
export interface DeliveryFilter {
  listenerId: string;
  subscriptionId?: string;
  replayId?: string;
  /** Only those that ended (or, not ended, were made) in this time, epoch ms, both inclusive. */
  sinceMs?: number;
  untilMs?: number;
  states: readonly DeliveryState[];
  /** Only those whose text is kept. */
  withText?: boolean;
}

type FilteredQuery = SelectQueryBuilder<Tables, 'deliveries', object>;

function filtered(db: Db, filter: DeliveryFilter): FilteredQuery {
  const { subscriptionId, replayId, sinceMs, untilMs } = filter;
  let query: FilteredQuery = db
    .selectFrom('deliveries')
    .where('listener_id', '=', filter.listenerId)
    .where('state', 'in', [...filter.states]);
  if (subscriptionId !== undefined) query = query.where('subscription_id', '=', subscriptionId);
  if (replayId !== undefined) query = query.where('replay_id', '=', replayId);
  if (sinceMs !== undefined)
    query = query.where((where) => where(where.fn.coalesce('ended_at_ms', 'created_at_ms'), '>=', sinceMs));
  if (untilMs !== undefined)
    query = query.where((where) => where(where.fn.coalesce('ended_at_ms', 'created_at_ms'), '<=', untilMs));
  if (filter.withText === true) query = query.where('has_payload', '=', 1);
  return query;
}

/** A place in the deliveries to a listener, which are in the order in which they were made. */
export type DeliveryPlace = Pick<DeliveryTable, 'id' | 'created_at_ms'>;

/** The deliveries that a filter names, oldest first, behind `after`. */
export async function findDeliveries(
  db: Db,
  filter: DeliveryFilter,
  page: { after: DeliveryPlace | undefined; limit: number },
): Promise<DeliveryPlace[]> {
  const { after } = page;
  let query = filtered(db, filter).select(['id', 'created_at_ms']);
  if (after !== undefined)
    query = query.where((where) =>
      where(where.refTuple('created_at_ms', 'id'), '>', where.tuple(after.created_at_ms, after.id)),
    );
  return query.orderBy('created_at_ms').orderBy('id').limit(page.limit).execute();
}

/** How many deliveries a filter names. */
export async function countDeliveries(db: Db, filter: DeliveryFilter): Promise<number> {
  const row = await filtered(db, filter)
    .select((select) => select.fn.countAll<number>().as('count'))
    .executeTakeFirst();
  return Number(row?.count ?? 0);
}

/**
 * Puts those of these deliveries that are still in one of the states `from` into another one; answers how many. Those
 * that a node has in memory are included: what it finds out about them is refused. What is queued again is due in the
 * order in which it was made.
 */
export async function changeDeliveries(
  tx: Tx,
  ids: readonly string[],
  change: {
    from: readonly DeliveryState[];
    to: DeliveryState;
    reason: DeliveryReason | null;
    nowMs: number;
  },
): Promise<number> {
  if (ids.length === 0) return 0;
  const { to, reason, nowMs } = change;
  const isQueued = to === 'queued';
  const isOpen = isQueued || to === 'held';
  let update = tx
    .updateTable('deliveries')
    .set((set) => ({
      state: to,
      reason,
      lease_node: null,
      run_at_ms: isQueued ? set.ref('created_at_ms') : nowMs,
      ended_at_ms: isOpen ? null : nowMs,
      ...(isQueued ? { attempts: 0 } : {}),
    }))
    .where('id', 'in', [...ids])
    .where('state', 'in', [...change.from]);
  // What is sent again needs its text.
  if (isQueued) update = update.where('has_payload', '=', 1);
  const { numUpdatedRows } = await update.executeTakeFirst();
  return Number(numUpdatedRows);
}

/** Gives up the texts of ended deliveries that can no longer be sent again. */
export async function dropTexts(tx: Tx, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  const dropped = await tx
    .updateTable('deliveries')
    .set({ has_payload: 0 })
    .where('id', 'in', [...ids])
    .where('ended_at_ms', 'is not', null)
    .where('has_payload', '=', 1)
    .returning('emit_id')
    .execute();
  await dropPayloads(
    tx,
    dropped.map(({ emit_id }) => emit_id),
  );
}

/**
 * Queues one ended delivery again, with the text that is kept for it; `text` is a new one, stored under a key of its own:
 * a row of `delivery_payloads` that others use could go, with the last of them, before this is committed. False when the
 * delivery was not as it was read.
 */
export async function requeueDelivery(
  tx: Tx,
  delivery: Pick<DeliveryTable, 'id' | 'state' | 'has_payload'>,
  options: { nowMs: number; text?: { emitId: string; bytes: number } },
): Promise<boolean> {
  const { text } = options;
  const { numUpdatedRows } = await tx
    .updateTable('deliveries')
    .set({
      state: 'queued',
      reason: null,
      lease_node: null,
      run_at_ms: options.nowMs,
      attempts: 0,
      ended_at_ms: null,
      ...(text === undefined ? {} : { has_payload: 1, emit_id: text.emitId, payload_bytes: text.bytes }),
    })
    .where('id', '=', delivery.id)
    .where('state', '=', delivery.state)
    .where('has_payload', '=', delivery.has_payload)
    .executeTakeFirst();
  return Number(numUpdatedRows) === 1;
}

/**
 * Deliveries to a listener in these states that are beyond the newest `kept`, or whose texts are beyond the newest
 * `keptBytes`, oldest first, about `limit` at most. Read from the oldest on: what waits is newer, and may be a hundred times
 * as much.
 */
export async function deliveriesBeyond(
  db: Db,
  options: {
    listenerId: string;
    states: readonly DeliveryState[];
    kept: number;
    keptBytes: number;
    limit: number;
  },
): Promise<string[]> {
  const rows = await db
    .selectFrom('deliveries')
    .select(['id', 'has_payload', 'payload_bytes'])
    .where('listener_id', '=', options.listenerId)
    .where('state', 'in', [...options.states])
    .where(isNotHeld)
    .orderBy('created_at_ms')
    .orderBy('id')
    .limit(options.kept + options.limit)
    .execute();
  let beyond = Math.max(0, rows.length - options.kept);
  let bytes = 0;
  for (let at = rows.length - 1; at >= beyond; at -= 1) {
    const row = rows[at];
    bytes += row?.has_payload === 1 ? row.payload_bytes : 0;
    if (bytes > options.keptBytes) beyond = at + 1;
  }
  return rows.slice(0, beyond).map(({ id }) => id);
}

/**
 * Deliveries to a listener in these states that ended (or, not ended, were made) before a time, oldest first. None of a
 * workspace that keeps its own for another number of days, or all of them.
 */
export async function deliveriesBefore(
  db: Db,
  options: { listenerId: string; states: readonly DeliveryState[]; beforeMs: number; limit: number },
): Promise<string[]> {
  const { beforeMs } = options;
  const rows = await db
    .selectFrom('deliveries')
    .select('id')
    .where('listener_id', '=', options.listenerId)
    // What was made later has not ended earlier: so this is a range of the index.
    .where('created_at_ms', '<', beforeMs)
    .where((where) => where(where.fn.coalesce('ended_at_ms', 'created_at_ms'), '<', beforeMs))
    .where('state', 'in', [...options.states])
    .where(isAsInstance('deliveries'))
    .orderBy('created_at_ms')
    .orderBy('id')
    .limit(options.limit)
    .execute();
  return rows.map(({ id }) => id);
}

/** Removes those of these deliveries that are still in one of the states; answers how many. */
export async function removeDeliveries(
  tx: Tx,
  ids: readonly string[],
  states: readonly DeliveryState[],
): Promise<number> {
  if (ids.length === 0) return 0;
  const gone = await tx
    .deleteFrom('deliveries')
    .where('id', 'in', [...ids])
    .where('state', 'in', [...states])
    .returning(['emit_id', 'has_payload', 'replay_id', 'state'])
    .execute();
  await countRemoved(tx, gone);
  await dropPayloads(
    tx,
    gone.filter(({ has_payload }) => has_payload === 1).map(({ emit_id }) => emit_id),
  );
  return gone.length;
}

/** Ended deliveries to the listeners of an owner, from before a time. */
export function endedDeliveriesOf(
  db: Db,
  { ownerId, beforeMs, limit }: { ownerId: string; beforeMs: number; limit: number },
): Promise<Pick<DeliveryTable, 'id' | 'listener_id' | 'state'>[]> {
  return db
    .selectFrom('deliveries')
    .select(['id', 'listener_id', 'state'])
    .where('listener_id', 'in', (from) =>
      from
        .selectFrom('webhooks')
        .select('id')
        .where('owner_id', '=', ownerId)
        .unionAll(from.selectFrom('sources').select('id').where('owner_id', '=', ownerId))
        .unionAll(from.selectFrom('workflows').select('id').where('owner_id', '=', ownerId)),
    )
    .where('created_at_ms', '<', beforeMs)
    .where('ended_at_ms', '<', beforeMs)
    .limit(limit)
    .execute();
}

/** Listeners that have deliveries, from `after` on, in the order of their ids: one look into the index for each. */
export async function listenersWithDeliveries(db: Db, after: string, limit: number): Promise<string[]> {
  const { rows } = await sql<{ listener_id: string }>`
    with recursive listeners (listener_id) as (
      select min(listener_id) from deliveries where listener_id > ${after}
      union all
      select (select min(deliveries.listener_id) from deliveries
        where deliveries.listener_id > listeners.listener_id)
      from listeners where listeners.listener_id is not null)
    select listener_id from listeners where listener_id is not null limit ${sql.lit(limit)}`.execute(db);
  return rows.map((row) => row.listener_id);
}
