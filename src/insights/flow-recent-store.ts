import { type RawBuilder, sql } from 'kysely';
import type { Store } from '#storage/store.ts';

/** Things in one statement. */
const keysPerStatement = 100;
/** States of deliveries that failed. Deliveries that a user cancelled are not among them. */
export const failedStates = sql.raw(`'failed', 'blocked', 'dropped', 'expired'`);

/** What the newest rows of one thing come to: those of one kind among them. Times are epoch ms. */
export interface Recent {
  /** The thing, and what its rows are counted apart by. */
  id: string;
  part: string | null;
  /** Rows of this part that were looked at. */
  looked: number;
  /** The part of them within the last minute. */
  lastMinute: number;
  failed: number;
  firstMs: number;
  lastMs: number;
}

export interface RecentOptions {
  sinceMs: number;
  minuteMs: number;
  /** Rows that are looked at of each thing, the newest. */
  rowsMax: number;
}

/** Deliveries to each of these listeners, by subscription. Failed: dead letters, and deliveries that wait for another attempt. */
export function recentDeliveries(
  store: Pick<Store, 'hasLateralJoins' | 'read'>,
  listenerIds: readonly string[],
  options: RecentOptions,
): Promise<Recent[]> {
  return recentRows(store, listenerIds, options, {
    table: 'deliveries',
    columns: 'r.subscription_id, r.state, r.attempts, r.created_at_ms',
    key: sql.raw('r.listener_id = k.id'),
    time: 'created_at_ms',
    part: sql.raw('d.subscription_id'),
    failed: sql`d.state in (${failedStates}) or (d.state = 'queued' and d.attempts > 0)`,
  });
}

/** Runs of each of these workflows, by what started them. */
export function recentRuns(
  store: Pick<Store, 'hasLateralJoins' | 'read'>,
  workflowIds: readonly string[],
  options: RecentOptions,
): Promise<Recent[]> {
  return recentRows(store, workflowIds, options, {
    table: 'runs',
    columns: 'r.emitter_id, r.state, r.created_at_ms',
    key: sql.raw('r.workflow_id = k.id'),
    time: 'created_at_ms',
    part: sql.raw('d.emitter_id'),
    failed: sql`d.state in ('failed', 'quarantined')`,
  });
}

/** Events of each of these emitters on one channel. */
export function recentEvents(
  store: Pick<Store, 'hasLateralJoins' | 'read'>,
  emitterIds: readonly string[],
  channel: string,
  options: RecentOptions,
): Promise<Recent[]> {
  return recentRows(store, emitterIds, options, {
    table: 'events',
    columns: 'r.channel, r.ms',
    key: sql`r.emitter_id = k.id and r.channel = ${channel}`,
    time: 'ms',
    part: sql.raw('d.channel'),
    failed: sql.raw('1 = 0'),
  });
}

interface RecentTable {
  table: 'deliveries' | 'runs' | 'events';
  /** All that is read: events and runs have large ones too. */
  columns: string;
  /** Which rows `r` belong to the thing `k.id`. */
  key: RawBuilder<unknown>;
  time: string;
  part: RawBuilder<unknown>;
  failed: RawBuilder<unknown>;
}

/** For each thing, one look into an index, for as many rows as it may be. */
async function recentRows(
  { hasLateralJoins, read }: Pick<Store, 'hasLateralJoins' | 'read'>,
  ids: readonly string[],
  { sinceMs, minuteMs, rowsMax }: RecentOptions,
  { table, columns, key, time, part, failed }: RecentTable,
): Promise<Recent[]> {
  const from = sql.raw(table);
  const at = sql.raw(time);
  const rows = await inParts(ids, async (some) => {
    const keys = sql.join(some.map((id) => sql`(cast(${id} as text))`));
    const newest = (what: string) => sql`select ${sql.raw(what)} from ${from} r
      where ${key} and r.${at} >= cast(${sinceMs} as bigint) order by r.${at} desc limit ${sql.lit(rowsMax)}`;
    // SQLite has no lateral joins, PostgreSQL no row ids in an index.
    const joined = hasLateralJoins
      ? sql`cross join lateral (${newest(columns)}) d`
      : sql`join ${from} d on d.rowid in (${newest('r.rowid')})`;
    const { rows: found } = await sql<
      Record<'id' | 'part' | 'looked' | 'minute' | 'bad' | 'first' | 'last', unknown>
    >`
      with k (id) as (values ${keys})
      select k.id, ${part} as part, count(*) as looked,
        sum(case when d.${at} >= cast(${minuteMs} as bigint) then 1 else 0 end) as minute,
        sum(case when ${failed} then 1 else 0 end) as bad, min(d.${at}) as first, max(d.${at}) as last
      from k ${joined} group by k.id, ${part}`.execute(read);
    return found;
  });
  return rows.map((row) => ({
    id: String(row.id),
    part: row.part === null ? null : String(row.part),
    looked: Number(row.looked),
    lastMinute: Number(row.minute),
    failed: Number(row.bad),
    firstMs: Number(row.first),
    lastMs: Number(row.last),
  }));
}

/** The rows that `read` finds for these ids, read a hundred at a time: other readers have their turn in between. */
export async function inParts<T>(
  ids: readonly string[],
  read: (part: string[]) => Promise<T[]>,
): Promise<T[]> {
  const found: T[] = [];
  for (let from = 0; from < ids.length; from += keysPerStatement)
    found.push(...(await read(ids.slice(from, from + keysPerStatement))));
  return found;
}
