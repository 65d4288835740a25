import { type RawBuilder, type SqlBool, sql } from 'kysely';
import { sharedLane } from '#jobs/shared-lane.ts';
import type { Db } from '#storage/store.ts';
import {
  type Health,
  type HealthKind,
  type HealthRow,
  type HealthState,
  viewHealth,
  waitingCountedMax,
} from './health.ts';

/** Work that is due for less is under way, not waiting. */
const dueForMs = 60_000;

/** How the health of a kind follows from its table, aliased `s`, and from its recorded outcomes, `h`. */
interface HealthRule {
  table: string;
  /** The name that users see. */
  name: RawBuilder<unknown>;
  /** The first that holds is the state; then failing, waiting, healthy, untested by what was recorded. */
  stops: RawBuilder<unknown>;
  note: RawBuilder<unknown>;
  sinceOfStop: RawBuilder<unknown>;
  /** Rows with `since_ms`, one for each run or delivery that waits, found by an index; undefined: nothing can wait. */
  waiting?: (lateMs: number) => RawBuilder<unknown>;
  isWaiting?: RawBuilder<unknown>;
  /** Those rows have a `kind`: what each waits for. While nothing is recorded it is the note, `several` where they differ. */
  saysWhatFor?: true;
}

/** With their types, which PostgreSQL would take for text. */
const noTime = sql`cast(null as bigint)`;
const noText = sql`cast(null as text)`;

/** Literals, because partial indexes are used only where the statement itself says the state. */
const rules: Readonly<Record<HealthKind, HealthRule>> = {
  source: {
    table: 'sources',
    name: sql`s.name`,
    stops: sql`when s.state = 'inactive' then 'paused'`,
    sinceOfStop: noTime,
    note: sql`s.state`,
    isWaiting: sql`s.state = 'deploying'`,
    waiting: (lateMs) => sql`
      select j.created_at_ms as since_ms from jobs j
      where j.lane in (s.id, s.id || ${sql.lit(sharedLane(''))}) and j.state = 'queued'
        and (j.attempts > 0 or j.run_at_ms < ${lateMs})`,
  },
  workflow: {
    table: 'workflows',
    name: sql`s.name`,
    stops: sql`when s.state <> 'active' then 'paused'`,
    sinceOfStop: noTime,
    note: noText,
    saysWhatFor: true,
    // A run that waits because its steps say so is no news of a workflow whose runs have ended.
    waiting: (lateMs) => sql`
      select r.created_at_ms as since_ms, 'begin' as kind from runs r
      where r.workflow_id = s.id and r.ended_at_ms is null and r.state = 'queued' and r.created_at_ms < ${lateMs}
      union all
      select r.created_at_ms as since_ms, r.wait_kind as kind from runs r where r.workflow_id = s.id and r.wait_kind = 'retry'
      union all
      select r.created_at_ms as since_ms, r.wait_kind as kind from runs r
      where r.workflow_id = s.id and r.ended_at_ms is null and r.state = 'waiting' and r.wait_kind <> 'retry'
        and h.subject_id is null`,
  },
  webhook: {
    table: 'webhooks',
    name: sql`coalesce(s.name, s.url)`,
    stops: sql`when s.state <> 'active' then s.state`,
    sinceOfStop: sql`s.disabled_at_ms`,
    note: sql`s.disabled_reason`,
    waiting: (lateMs) => sql`
      select d.created_at_ms as since_ms from deliveries d
      where d.listener_id = s.id and d.state = 'queued' and d.lease_node is null
        and (d.attempts > 0 or d.run_at_ms < ${lateMs})
      union all
      select d.created_at_ms as since_ms from deliveries d where d.listener_id = s.id and d.state = 'held'`,
  },
  account: {
    table: 'accounts',
    name: sql`case when coalesce(s.name, '') = '' then s.app_name else s.app_name || ': ' || s.name end`,
    // While a provider cannot be reached, its tests fail but do not count against the account.
    stops: sql`when s.healthy = 0 or s.dead = 1 then 'failing' when h.failing = 1 then 'waiting'`,
    sinceOfStop: sql`h.since_ms`,
    note: sql`s.error`,
  },
};

/** One row (`HealthRow`, `name` and `owner_id`) for each object of the kind for which `where` holds, which names it `s`. */
function healthQuery(
  kind: HealthKind,
  nowMs: number,
  where: RawBuilder<unknown>,
): RawBuilder<HealthRow & { name: string }> {
  const { table, name, stops, sinceOfStop, waiting, isWaiting = sql`1 = 0`, saysWhatFor } = rules[kind];
  const work = waiting && sql`(${waiting(nowMs - dueForMs)} limit ${sql.lit(waitingCountedMax)}) as work`;
  const count = work === undefined ? sql`0` : sql`(select count(*) from ${work})`;
  const note =
    saysWhatFor === undefined || work === undefined
      ? rules[kind].note
      : sql`case when h.subject_id is null then
          (select case when min(work.kind) = max(work.kind) then min(work.kind) else 'several' end from ${work}) end`;
  const oldest = work === undefined ? noTime : sql`(select min(work.since_ms) from ${work})`;
  return sql`
    select f.id, f.name, f.owner_id, f.state, f.note, f.reason, f.failures, f.waiting,
      case f.state when 'failing' then f.recorded_ms when 'healthy' then f.recorded_ms
        when 'waiting' then coalesce(f.oldest_ms, f.stopped_ms) when 'untested' then null else f.stopped_ms end as since_ms
    from (
      select w.*, case
        when w.stop is not null then w.stop when w.failing = 1 then 'failing' when w.waiting > 0 or w.held_up = 1 then 'waiting'
        when w.failing = 0 then 'healthy' else 'untested' end as state
      from (
        select s.id, ${name} as name, s.owner_id, case ${stops} end as stop, case when ${isWaiting} then 1 else 0 end as held_up,
          ${note} as note, ${sinceOfStop} as stopped_ms, h.failing, h.since_ms as recorded_ms, h.reason,
          coalesce(h.failures, 0) as failures, ${count} as waiting, ${oldest} as oldest_ms
        from ${sql.table(table)} s left join health h on h.subject_id = s.id
        where ${where}
      ) as w
    ) as f`;
}

/** Health of objects by id: one query for any number. */
export async function healthOf(
  db: Db,
  kind: HealthKind,
  ids: readonly string[],
  nowMs: number,
): Promise<Map<string, Health>> {
  if (ids.length === 0) return new Map();
  const { rows } = await healthQuery(kind, nowMs, sql`s.id in (${sql.join(ids)})`).execute(db);
  return new Map(rows.map((row) => [row.id, viewHealth(kind, inNumbers(row))]));
}

/** A condition for lists of the kind: only objects whose health is in this state. */
export function hasHealth(kind: HealthKind, state: HealthState, nowMs: number): RawBuilder<SqlBool> {
  const id = sql.ref(`${rules[kind].table}.id`);
  return sql<SqlBool>`exists (
    select 1 from (${healthQuery(kind, nowMs, sql`s.id = ${id}`)}) as state_of where state_of.state = ${state})`;
}

/** How many objects of an owner are in each state; states that none is in are missing. */
export async function countHealth(
  db: Db,
  kind: HealthKind,
  ownerId: string,
  nowMs: number,
): Promise<Partial<Record<HealthState, number>>> {
  const all = healthQuery(kind, nowMs, sql`s.owner_id = ${ownerId}`);
  const { rows } = await sql<{ state: HealthState; count: number }>`
    select one.state, count(*) as count from (${all}) as one group by one.state`.execute(db);
  return Object.fromEntries(rows.map(({ state, count }) => [state, Number(count)]));
}

/** Objects of an owner that need attention, those that fail or are disabled first, the latest change first. */
export async function troubledObjects(
  db: Db,
  kind: HealthKind,
  options: { ownerId: string; nowMs: number; limit: number },
): Promise<{ id: string; name: string; health: Health }[]> {
  const all = healthQuery(kind, options.nowMs, sql`s.owner_id = ${options.ownerId}`);
  const { rows } = await sql<HealthRow & { name: string }>`
    select * from (${all}) as one
    where one.state in ('failing', 'disabled', 'waiting') or (one.state = 'paused' and one.waiting > 0)
    order by case one.state when 'failing' then 0 when 'disabled' then 0 else 1 end, one.since_ms desc
    limit ${options.limit}`.execute(db);
  return rows.map((row) => ({ id: row.id, name: row.name, health: viewHealth(kind, inNumbers(row)) }));
}

/** PostgreSQL answers sums and bigints as text. */
function inNumbers(row: HealthRow): HealthRow {
  return {
    ...row,
    since_ms: row.since_ms === null ? null : Number(row.since_ms),
    failures: Number(row.failures),
    waiting: Number(row.waiting),
  };
}
