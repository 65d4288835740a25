import { sql } from 'kysely';
import type { Dialect } from '#storage/dialect.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { StoreTime } from '#storage/store-time.ts';
import type { TickTable, TimerTable } from '#storage/tables/source-tables.ts';
import type { Schedule } from './next-occurrence.ts';

const timerColumns = [
  'id',
  'subject_id',
  'owner_id',
  'prop',
  'interval_seconds',
  'cron',
  'timezone',
  'next_at_ms',
  'schedule_changed_at_ms',
  'created_at_ms',
  'updated_at_ms',
] as const;

/** Ledger rows kept per source or workflow. */
const ticksRetained = 100;

export function scheduleOf(timer: Pick<TimerTable, 'interval_seconds' | 'cron' | 'timezone'>): Schedule {
  return timer.cron === null
    ? { intervalSeconds: timer.interval_seconds ?? 0 }
    : { cron: timer.cron, timezone: timer.timezone };
}

export async function insertTimers(tx: Tx, rows: readonly TimerTable[]): Promise<void> {
  if (rows.length > 0)
    await tx
      .insertInto('timers')
      .values([...rows])
      .execute();
}

/** Ends all timers of an owner. */
export async function deleteTimersOfOwner(tx: Tx, ownerId: string): Promise<void> {
  await tx.deleteFrom('timers').where('owner_id', '=', ownerId).execute();
}

export async function deleteTimersOf(tx: Tx, subjectId: string): Promise<void> {
  await tx.deleteFrom('timers').where('subject_id', '=', subjectId).execute();
}

/** The timers of a source or workflow, the next first. */
export async function timersOf(db: Db, subjectId: string, limit: number): Promise<TimerTable[]> {
  return db
    .selectFrom('timers')
    .select(timerColumns)
    .where('subject_id', '=', subjectId)
    .orderBy('next_at_ms')
    .orderBy('id')
    .limit(limit)
    .execute();
}

/** Due timers, earliest first, locked so that no other process fires them too. */
export async function lockDueTimers(
  store: Dialect,
  tx: Tx,
  nowMs: number,
  limit: number,
): Promise<TimerTable[]> {
  const query = tx
    .selectFrom('timers')
    .select(timerColumns)
    .where('next_at_ms', '<=', nowMs)
    .orderBy('next_at_ms')
    .limit(limit);
  return store.lockRows(query, { skipLocked: true }).execute();
}

/** Writes the next time of many timers in one statement. */
export async function advanceTimers(tx: Tx, timers: readonly TimerTable[]): Promise<void> {
  if (timers.length === 0) return;
  await tx
    .insertInto('timers')
    .values([...timers])
    .onConflict((conflict) =>
      conflict.column('id').doUpdateSet((set) => ({
        next_at_ms: set.ref('excluded.next_at_ms'),
        updated_at_ms: set.ref('excluded.updated_at_ms'),
      })),
    )
    .execute();
}

export async function deleteTimers(tx: Tx, ids: readonly string[]): Promise<void> {
  if (ids.length > 0)
    await tx
      .deleteFrom('timers')
      .where('id', 'in', [...ids])
      .execute();
}

/** The time now and that of the earliest timer, read together. */
export async function readTimerTimes(
  db: Db,
  time: StoreTime,
): Promise<{ nowMs: number; nextMs: number | undefined }> {
  const row = await db
    .selectNoFrom((select) => [
      time().as('now_ms'),
      select.selectFrom('timers').select('next_at_ms').orderBy('next_at_ms').limit(1).as('next_ms'),
    ])
    .executeTakeFirstOrThrow();
  return { nowMs: Number(row.now_ms), nextMs: row.next_ms ?? undefined };
}

/** Timers that are looked through for the owners of those due soon. */
const timersDueSoonMax = 2_000;

/** Owners of timers that are due after `afterMs` and until `untilMs`: of the first thousands of them. */
export async function ownersDueBetween(db: Db, afterMs: number, untilMs: number): Promise<string[]> {
  const rows = await db
    .selectFrom((from) =>
      from
        .selectFrom('timers')
        .select('owner_id')
        .where('next_at_ms', '>', afterMs)
        .where('next_at_ms', '<=', untilMs)
        .orderBy('next_at_ms')
        .limit(timersDueSoonMax)
        .as('soon'),
    )
    .select('owner_id')
    .distinct()
    .execute();
  return rows.map(({ owner_id }) => owner_id);
}

/**
 * After the clock stepped back: interval timers that were planned at a time that is now the future would stand still
 * until the clock catches up; they are restarted from now. Returns how many.
 *
 * Only a timer that was written in the future was planned by a clock that has stepped. Another node may fire timers
 * while this statement is on its way or waits for their rows: those were written now, and stay on their grid.
 */
export async function reanchorIntervals(
  tx: Tx,
  { time, toleranceMs }: { time: StoreTime; toleranceMs: number },
): Promise<number> {
  const oneInterval = sql<number>`${time()} + ${sql.ref('interval_seconds')} * 1000`;
  const tolerance = sql.lit(toleranceMs);
  const result = await tx
    .updateTable('timers')
    .set({ next_at_ms: oneInterval, updated_at_ms: time() })
    .where('interval_seconds', 'is not', null)
    .where('updated_at_ms', '>', sql<number>`${time()} + ${tolerance}`)
    .where('next_at_ms', '>', sql<number>`${oneInterval} + ${tolerance}`)
    .executeTakeFirst();
  return Number(result.numUpdatedRows);
}

/** Cron timers that were last written in the future, in the order of their ids, locked; for a clock that stepped back. */
export async function cronTimersOfFuture(
  store: Dialect,
  tx: Tx,
  options: { time: StoreTime; toleranceMs: number; afterId: string; limit: number },
): Promise<TimerTable[]> {
  const query = tx
    .selectFrom('timers')
    .select(timerColumns)
    .where('cron', 'is not', null)
    .where('updated_at_ms', '>', sql<number>`${options.time()} + ${sql.lit(options.toleranceMs)}`)
    .where('id', '>', options.afterId)
    .orderBy('id')
    .limit(options.limit);
  return store.lockRows(query).execute();
}

export async function insertTicks(tx: Tx, rows: readonly TickTable[]): Promise<void> {
  if (rows.length > 0)
    await tx
      .insertInto('ticks')
      .values([...rows])
      .execute();
}

/** How the run of a tick of a source ended. */
export interface TickEnd {
  subjectId: string;
  timerId: string;
  plannedMs: number;
  /** Null: it succeeded. */
  failure: string | null;
  endedAtMs: number;
}

/** Errors in the ledger are one line on a page; the whole error is on `$errors`. */
const errorCharactersMax = 500;

/** Records how runs of ticks ended, in one statement. */
export async function recordTickEnds(
  store: Pick<Store, 'defer'>,
  tx: Tx,
  ends: readonly TickEnd[],
): Promise<void> {
  if (ends.length === 0) return;
  const rows = ends.map(({ subjectId, timerId, plannedMs, failure, endedAtMs }) => {
    // PostgreSQL has no NUL in text.
    const error = failure === null ? null : failure.slice(0, errorCharactersMax).replaceAll('\0', '');
    return sql`(cast(${subjectId} as text), cast(${timerId} as text), cast(${plannedMs} as bigint),
      cast(${error} as text), cast(${endedAtMs} as bigint))`;
  });
  // Both dialects name the columns of a list of values column1, column2 and so on.
  const query = sql`
    update ticks set run_state = case when v.column4 is null then 'succeeded' else 'failed' end,
      run_error = v.column4, run_ended_at_ms = v.column5
    from (values ${sql.join(rows)}) as v
    where ticks.subject_id = v.column1 and ticks.timer_id = v.column2 and ticks.planned_at_ms = v.column3
      and ticks.run_state = 'started'`;
  await store.defer(tx, query.compile(tx));
}

export async function pruneTicks(tx: Tx, subjectId: string): Promise<void> {
  const oldest = await tx
    .selectFrom('ticks')
    .select('planned_at_ms')
    .where('subject_id', '=', subjectId)
    .orderBy('planned_at_ms', 'desc')
    .offset(ticksRetained)
    .limit(1)
    .executeTakeFirst();
  if (oldest === undefined) return;
  await tx
    .deleteFrom('ticks')
    .where('subject_id', '=', subjectId)
    .where('planned_at_ms', '<=', oldest.planned_at_ms)
    .execute();
}

export async function deleteTicksOf(tx: Tx, subjectId: string): Promise<void> {
  await tx.deleteFrom('ticks').where('subject_id', '=', subjectId).execute();
}

/** A place in the ledger: of the ticks planned for one moment, those of several timers are ordered by their ids. */
export interface TickPlace {
  plannedMs: number;
  /** Absent: before (or after) all ticks of that moment. */
  timerId?: string;
}

/** The ledger of a source or workflow, newest first. */
export async function readTicks(
  db: Db,
  subjectId: string,
  options: { limit: number; before?: TickPlace; after?: TickPlace },
): Promise<TickTable[]> {
  let query = db
    .selectFrom('ticks')
    .select([
      'subject_id',
      'timer_id',
      'owner_id',
      'planned_at_ms',
      'recorded_at_ms',
      'outcome',
      'reason',
      'ticks',
      'run_id',
      'run_state',
      'run_error',
      'run_ended_at_ms',
    ])
    .where('subject_id', '=', subjectId);
  const beyond = (place: TickPlace, operator: '<' | '>') => {
    const { plannedMs, timerId } = place;
    if (timerId === undefined) return query.where('planned_at_ms', operator, plannedMs);
    return query.where((where) =>
      where.or([
        where('planned_at_ms', operator, plannedMs),
        where.and([where('planned_at_ms', '=', plannedMs), where('timer_id', operator, timerId)]),
      ]),
    );
  };
  if (options.before !== undefined) query = beyond(options.before, '<');
  if (options.after !== undefined) {
    // The page right above the cursor: the oldest of the newer ones, then turned to newest first.
    const rows = await beyond(options.after, '>')
      .orderBy('planned_at_ms')
      .orderBy('timer_id')
      .limit(options.limit)
      .execute();
    return rows.reverse();
  }
  return query.orderBy('planned_at_ms', 'desc').orderBy('timer_id', 'desc').limit(options.limit).execute();
}
