import type { Dialect } from '#storage/dialect.ts';
import { insertRows, type RowInsert } from '#storage/insert-rows.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { UsageDayTable } from '#storage/tables/identity-tables.ts';
import { type UsageRow, usageDay } from './invocation-usage.ts';

export interface Usage {
  invocations: number;
  computeMs: number;
  credits: number;
  events: number;
  deliveries: number;
}

const nothing: Readonly<Usage> = { invocations: 0, computeMs: 0, credits: 0, events: 0, deliveries: 0 };

/** What an owner (u_… or o_…) used today; zeros when nothing. */
export async function usageToday(db: Db, ownerId: string, nowMs: number): Promise<Usage> {
  return (await usageTodayOf(db, [ownerId], nowMs)).get(ownerId) ?? { ...nothing };
}

/** The same for many owners in one statement; owners that used nothing are not in the map. */
export async function usageTodayOf(
  db: Db,
  ownerIds: readonly string[],
  nowMs: number,
): Promise<Map<string, Usage>> {
  if (ownerIds.length === 0) return new Map();
  const rows = await db
    .selectFrom('usage_days')
    .select(['owner_id', ...amounts])
    .where('owner_id', 'in', ownerIds)
    .where('day', '=', usageDay(nowMs))
    .execute();
  return new Map(
    rows.map(({ owner_id, compute_ms, ...used }) => [owner_id, { ...used, computeMs: compute_ms }]),
  );
}

const amounts = ['invocations', 'compute_ms', 'credits', 'events', 'deliveries'] as const;

const usageUpsert: RowInsert<'usage_days'> = {
  table: 'usage_days',
  columns: ['owner_id', 'day', ...amounts],
  ending: `on conflict (owner_id, day) do update set invocations = usage_days.invocations + excluded.invocations,
    compute_ms = usage_days.compute_ms + excluded.compute_ms, credits = usage_days.credits + excluded.credits,
    events = usage_days.events + excluded.events, deliveries = usage_days.deliveries + excluded.deliveries`,
};

/** Adds to what owners used, in the transaction of the invocations that are counted. One statement for all rows. */
export async function addUsage(
  store: Dialect & Pick<Store, 'defer'>,
  tx: Tx,
  rows: readonly UsageRow[],
): Promise<void> {
  // One row per owner and day: PostgreSQL refuses to touch a row twice in one upsert. Sorted, so that transactions that
  // meet lock rows in the same order.
  const sums = new Map<string, UsageDayTable>();
  for (const row of rows) {
    const key = `${row.ownerId} ${row.day}`;
    const sum = sums.get(key);
    sums.set(key, {
      owner_id: row.ownerId,
      day: row.day,
      invocations: row.invocations + (sum?.invocations ?? 0),
      compute_ms: Math.round(row.computeMs) + (sum?.compute_ms ?? 0),
      credits: row.credits + (sum?.credits ?? 0),
      events: (row.events ?? 0) + (sum?.events ?? 0),
      deliveries: (row.deliveries ?? 0) + (sum?.deliveries ?? 0),
    });
  }
  if (sums.size === 0) return;
  const sorted = [...sums].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, sum]) => sum);
  for (const query of insertRows(store, usageUpsert, sorted)) await store.defer(tx, query);
}

/** One UTC day (YYYY-MM-DD) of an owner's usage. */
export interface UsageDay extends Usage {
  day: string;
}

/** Usage by day, from the day of `fromMs` to the day of `toMs`, both inclusive and oldest first; zeros for days without any. */
export async function usageByDay(
  db: Db,
  ownerId: string,
  { fromMs, toMs }: { fromMs: number; toMs: number },
): Promise<UsageDay[]> {
  const first = usageDay(fromMs);
  const last = usageDay(toMs);
  const rows = await db
    .selectFrom('usage_days')
    .select(['day', ...amounts])
    .where('owner_id', '=', ownerId)
    .where('day', '>=', first)
    .where('day', '<=', last)
    .execute();
  const byDay = new Map(rows.map((row) => [row.day, row]));
  const days: UsageDay[] = [];
  for (let ms = Date.parse(first); ms <= toMs; ms += dayMs) {
    const day = usageDay(ms);
    const row = byDay.get(day);
    if (row === undefined) days.push({ day, ...nothing });
    else {
      const { compute_ms, ...used } = row;
      days.push({ ...used, computeMs: compute_ms });
    }
  }
  return days;
}

const dayMs = 86_400_000;
