import { CompiledQuery, sql } from 'kysely';
import { type HeldDelivery, heldDelivery } from '#delivery/delivery.ts';
import type { Dialect } from '#storage/dialect.ts';
import { StatementTexts } from '#storage/statement-texts.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { DeliveryReason, DeliveryState } from '#storage/tables/delivery-tables.ts';

/**
 * As literals, not parameters: the indexes that make these look-ups cheap are partial, and SQLite uses such an index
 * only where the statement itself says so.
 */
const queued = sql.lit<DeliveryState>('queued');

/** A delivery that waits in the store, before its text is read. */
export interface WaitingDelivery {
  id: string;
  listener_id: string;
  owner_id: string;
  payload_bytes: number;
}

/** Due deliveries that no node has, oldest first: the front of the whole queue, or of one listener's. */
export async function dueDeliveries(
  db: Db,
  options: { nowMs: number; limit: number; listenerId?: string },
): Promise<WaitingDelivery[]> {
  let query = db
    .selectFrom('deliveries')
    .select(['id', 'listener_id', 'owner_id', 'payload_bytes'])
    .where('state', '=', queued)
    .where('lease_node', 'is', null)
    .where('run_at_ms', '<=', options.nowMs);
  if (options.listenerId !== undefined) query = query.where('listener_id', '=', options.listenerId);
  return query.orderBy('run_at_ms').orderBy('id').limit(options.limit).execute();
}

/** Due deliveries that no node has, of several listeners with one statement: of each so many, oldest first. */
export async function dueOfListeners(
  store: Dialect & Pick<Store, 'read'>,
  nowMs: number,
  wanted: readonly { listenerId: string; limit: number }[],
): Promise<WaitingDelivery[]> {
  const parameters = wanted.flatMap(({ listenerId, limit }) => [listenerId, nowMs, limit]);
  const query = dueTexts.query<WaitingDelivery>(store, wanted.length, parameters, () =>
    CompiledQuery.raw(dueText(store, wanted.length)),
  );
  return (await store.read.executeQuery(query)).rows;
}

const dueTexts = new StatementTexts();

function dueText(dialect: Dialect, count: number): string {
  return Array.from({ length: count }, (_, at) => {
    const [listenerId, nowMs, limit] = ['text', 'bigint', 'integer'].map((type, index) =>
      dialect.parameter(at * 3 + index + 1, type),
    );
    return `select * from (select id, listener_id, owner_id, payload_bytes from deliveries
      where state = 'queued' and lease_node is null and listener_id = ${listenerId} and run_at_ms <= ${nowMs}
      order by run_at_ms, id limit ${limit}) as due_${at}`;
  }).join(' union all ');
}

/** Listeners with due deliveries that no node has, from `after` on, and their owners: jumps from one to the next in the index. */
export async function listenersWithDue(
  db: Db,
  options: { nowMs: number; after: string; limit: number },
): Promise<Pick<WaitingDelivery, 'listener_id' | 'owner_id'>[]> {
  const { rows } = await sql<{ listener_id: string; owner_id: string }>`
    with recursive listeners (listener_id) as (
      select min(listener_id) from deliveries
      where state = 'queued' and lease_node is null and listener_id > ${options.after}
      union all
      select (select min(deliveries.listener_id) from deliveries
        where deliveries.state = 'queued' and deliveries.lease_node is null
          and deliveries.listener_id > listeners.listener_id)
      from listeners where listeners.listener_id is not null)
    select listener_id, (select deliveries.owner_id from deliveries
        where deliveries.state = 'queued' and deliveries.lease_node is null
          and deliveries.listener_id = listeners.listener_id limit 1) as owner_id
    from listeners where listener_id is not null and exists (
      select 1 from deliveries where deliveries.state = 'queued' and deliveries.lease_node is null
        and deliveries.listener_id = listeners.listener_id and deliveries.run_at_ms <= ${options.nowMs})
    limit ${sql.lit(options.limit)}`.execute(db);
  return rows;
}

/** When the delivery that is due for longest, and that no node has, was due, epoch ms; undefined when none is due. */
export async function oldestDueDeliveryMs(db: Db, nowMs: number): Promise<number | undefined> {
  const row = await db
    .selectFrom('deliveries')
    .select('run_at_ms')
    .where('state', '=', queued)
    .where('lease_node', 'is', null)
    .where('run_at_ms', '<=', nowMs)
    .orderBy('run_at_ms')
    .limit(1)
    .executeTakeFirst();
  return row?.run_at_ms;
}

/** When the next delivery that no node has becomes due, after `afterMs`. */
export async function nextDueMs(db: Db, afterMs: number): Promise<number | undefined> {
  const row = await db
    .selectFrom('deliveries')
    .select('run_at_ms')
    .where('state', '=', queued)
    .where('lease_node', 'is', null)
    .where('run_at_ms', '>', afterMs)
    .orderBy('run_at_ms')
    .limit(1)
    .executeTakeFirst();
  return row?.run_at_ms;
}

/**
 * Leases waiting deliveries to a node and reads them, in the order given; those that another node took are missing. One
 * whose text is missing, which must not happen, ends with a record: nothing else is sent in its place. The store is asked once: other
 * commits wait for it, and a busy event loop is late for each answer.
 */
export async function claimDeliveries(
  store: Store,
  node: string,
  ids: readonly string[],
  nowMs: number,
): Promise<HeldDelivery[]> {
  if (ids.length === 0) return [];
  return store.transaction(async (tx) => {
    const free = tx
      .selectFrom('deliveries')
      .select('id')
      .where('id', 'in', [...ids])
      .where('state', '=', queued)
      .where('lease_node', 'is', null);
    const claimed = tx
      .with('free', () => store.lockRows(free, { skipLocked: true }))
      .updateTable('deliveries')
      .set({ lease_node: node })
      .where('id', 'in', (from) => from.selectFrom('free').select('free.id'))
      .returning('id')
      .compile();
    const held = tx
      .selectFrom('deliveries as d')
      .leftJoin('delivery_payloads as p', 'p.emit_id', 'd.emit_id')
      .select([
        'd.id',
        'd.owner_id',
        'd.listener_id',
        'd.emitter_id',
        'd.channel',
        'd.ms',
        'd.seq',
        'd.emit_id',
        'd.hops',
        'd.trace',
        'd.attempts',
        'd.attempt_log',
        'd.created_at_ms',
        'p.event',
      ])
      .where('d.id', 'in', [...ids])
      .where('d.lease_node', '=', node)
      .compile();
    const found = await store.ask(tx, { claimed, held });
    // What this node had before is not claimed again.
    const isNew = new Set(found.claimed.map(({ id }) => id));
    const rows = found.held.filter(({ id }) => isNew.has(id));
    const textless = rows.filter(({ event }) => event === null).map(({ id }) => id);
    if (textless.length > 0)
      await tx
        .updateTable('deliveries')
        .set({ state: 'failed', reason: 'event_gone', lease_node: null, has_payload: 0, ended_at_ms: nowMs })
        .where('id', 'in', textless)
        .execute();
    const order = new Map(ids.map((id, index) => [id, index]));
    return rows
      .flatMap(({ event, ...row }) => (event === null ? [] : [heldDelivery(row, Buffer.from(event))]))
      .sort((a, b) => (order.get(a.id) ?? 0) - (order.get(b.id) ?? 0));
  });
}

/** The outcome of a delivery that this node has. */
export interface SettledDelivery {
  id: string;
  emit_id: string;
  state: DeliveryState;
  reason: DeliveryReason | null;
  run_at_ms: number;
  attempts: number;
  attempt_log: string;
  status: number | null;
  latency_ms: number | null;
  has_payload: number;
  ended_at_ms: number | null;
}

/**
 * The statement that writes the outcomes of deliveries and gives up their leases. It returns the ids of those that this
 * node really held: a delivery that was cancelled, or taken over, meanwhile stays as it is.
 */
export function settleDeliveriesQuery(
  store: Dialect,
  node: string,
  settled: readonly SettledDelivery[],
): CompiledQuery<{ id: string }> {
  const parameters: unknown[] = [];
  for (const row of settled) for (const [name] of settledColumns) parameters.push(row[name]);
  parameters.push(node);
  return settleTexts.query(store, settled.length, parameters, () =>
    CompiledQuery.raw(settleText(store, settled.length)),
  );
}

const settleTexts = new StatementTexts();

const settledColumns = [
  ['id', 'text'],
  ['state', 'text'],
  ['reason', 'text'],
  ['run_at_ms', 'bigint'],
  ['attempts', 'integer'],
  ['attempt_log', 'text'],
  ['status', 'integer'],
  ['latency_ms', 'integer'],
  ['has_payload', 'integer'],
  ['ended_at_ms', 'bigint'],
] as const;

function settleText(dialect: Dialect, count: number): string {
  let parameter = 0;
  const placeholder = (type: string) => {
    parameter += 1;
    return dialect.parameter(parameter, type);
  };
  const rows = Array.from(
    { length: count },
    () => `(${settledColumns.map(([, type]) => placeholder(type)).join(', ')})`,
  );
  const changes = settledColumns.slice(1).map(([name]) => `${name} = done.${name}`);
  return `with done (${settledColumns.map(([name]) => name).join(', ')}) as (values ${rows.join(', ')})
    update deliveries set ${changes.join(', ')}, lease_node = null
    from done where deliveries.id = done.id and deliveries.lease_node = ${placeholder('text')}
    returning deliveries.id`;
}

/** Gives back deliveries that this node has and will not send now. */
export async function releaseDeliveries(tx: Tx, node: string, ids: readonly string[]): Promise<void> {
  for (let at = 0; at < ids.length; at += idsPerStatement)
    await tx
      .updateTable('deliveries')
      .set({ lease_node: null })
      .where('id', 'in', ids.slice(at, at + idsPerStatement))
      .where('lease_node', '=', node)
      .execute();
}

const idsPerStatement = 500;

/** What a node holds according to the store, at most `limit`. */
export async function heldBy(db: Db, node: string, limit: number): Promise<string[]> {
  const rows = await db
    .selectFrom('deliveries')
    .select('id')
    .where('lease_node', '=', node)
    .limit(limit)
    .execute();
  return rows.map(({ id }) => id);
}

/** Gives back the deliveries of nodes that are gone, at most `limit`; returns how many. */
export async function releaseOrphans(
  store: Pick<Store, 'lockRows'>,
  tx: Tx,
  options: { node: string; nowMs: number; limit: number },
): Promise<number> {
  const live = tx
    .selectFrom('nodes')
    .select('id')
    .where((where) => where.or([where('expires_at_ms', '>', options.nowMs), where('id', '=', options.node)]));
  const orphans = tx
    .selectFrom('deliveries')
    .select('id')
    .where('lease_node', 'is not', null)
    .where('lease_node', 'not in', live)
    .limit(options.limit);
  // Locked, or of two nodes that look at once the second would take them from the first, which sends them by then.
  const found = await store.lockRows(orphans, { skipLocked: true }).execute();
  if (found.length === 0) return 0;
  const ids = found.map(({ id }) => id);
  await tx.updateTable('deliveries').set({ lease_node: null }).where('id', 'in', ids).execute();
  return ids.length;
}

/** Gives back all deliveries that nodes hold, for a store that no node has open. */
export async function releaseAllDeliveries(tx: Tx): Promise<void> {
  await tx.updateTable('deliveries').set({ lease_node: null }).where('lease_node', 'is not', null).execute();
}
