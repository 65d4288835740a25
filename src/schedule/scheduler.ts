import { insertJobs, jobRow } from '#jobs/job-store.ts';
import type { Clock } from '#lib/clock.ts';
import { epochSeconds } from '#lib/clock.ts';
import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import type { TickTable, TimerTable } from '#storage/tables/source-tables.ts';
import { nextOccurrence, occurrencesBetween, type Schedule } from './next-occurrence.ts';
import {
  advanceTimers,
  deleteTimers,
  earliestTimerMs,
  insertTicks,
  lockDueTimers,
  pruneTicks,
  reanchorIntervals,
  scheduleOf,
} from './timer-store.ts';

/** Timers fired in one transaction. */
const batchMax = 500;
/** The longest sleep: another process may have added an earlier timer. */
const sleepMaxMs = 1_000;
/** A tick recorded later than this after its time is `late`. */
const lateMs = 2_000;
/** A step back of the clock by more than this makes intervals start anew. */
const stepBackMs = 2_000;

/**
 * Turns time into jobs. In one transaction per batch: the due timers are locked, their next times written, the run
 * jobs inserted and the ledger kept, so a tick fires once whatever dies. `next_at_ms` in the store is the only truth.
 *
 * A tick whose predecessor has not finished is skipped with a record: the job of a timer has one id, and an insert
 * that finds it taken is the proof. Ticks that were missed while nothing ran become one late run.
 */
export class Scheduler {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #onJobs: () => void;
  #timer: NodeJS.Timeout | undefined;
  #firing: Promise<void> | undefined;
  #again = false;
  #stopped = false;
  /** Unknown at first: the clock may have stepped back while nothing ran, too. */
  #lastSeenMs = Number.POSITIVE_INFINITY;

  constructor(options: { store: Store; clock: Clock; logger: Logger; onJobs: () => void }) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#onJobs = options.onJobs;
  }

  start(): void {
    this.poke();
  }

  /** A timer was added, changed, or may be due. */
  poke(): void {
    if (this.#stopped) return;
    if (this.#firing !== undefined) {
      this.#again = true;
      return;
    }
    clearTimeout(this.#timer);
    this.#firing = this.#fire().finally(() => {
      this.#firing = undefined;
      if (this.#again) {
        this.#again = false;
        this.poke();
      }
    });
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await this.#firing;
  }

  async #fire(): Promise<void> {
    let sleepMs = sleepMaxMs;
    try {
      await this.#watchClock();
      for (;;) {
        const { timers, jobs } = await fireDueTimers(this.#store, this.#clock.now());
        if (jobs > 0) this.#onJobs();
        if (timers < batchMax || this.#stopped) break;
      }
      const next = await earliestTimerMs(this.#store.read);
      if (next !== undefined) sleepMs = Math.min(sleepMaxMs, Math.max(0, next - this.#clock.now()));
    } catch (error) {
      this.#logger.warn({ error: toError(error).message }, 'schedule.fire-failed');
    }
    if (!this.#stopped) this.#timer = setTimeout(() => this.poke(), sleepMs);
  }

  async #watchClock(): Promise<void> {
    const nowMs = this.#clock.now();
    if (nowMs < this.#lastSeenMs - stepBackMs) {
      const timers = await this.#store.transaction((tx) => reanchorIntervals(tx, nowMs));
      if (timers > 0) this.#logger.warn({ timers }, 'schedule.clock-stepped-back');
    }
    this.#lastSeenMs = nowMs;
  }
}

/** One batch: fires what is due at `nowMs`. Returns how many timers were due and how many jobs they became. */
export async function fireDueTimers(store: Store, nowMs: number): Promise<{ timers: number; jobs: number }> {
  return store.transaction(async (tx) => {
    const due = await lockDueTimers(store, tx, nowMs, batchMax);
    if (due.length === 0) return { timers: 0, jobs: 0 };
    const plans = due.map((timer) => planTick(timer, nowMs));
    const inserted = new Set(
      await insertJobs(
        tx,
        plans.map((plan) => plan.job),
      ),
    );
    await advanceTimers(
      tx,
      plans.flatMap((plan) =>
        plan.nextAtMs === undefined
          ? []
          : [{ ...plan.timer, next_at_ms: plan.nextAtMs, updated_at_ms: nowMs }],
      ),
    );
    await deleteTimers(
      tx,
      plans.filter((plan) => plan.nextAtMs === undefined).map((plan) => plan.timer.id),
    );
    await insertTicks(
      tx,
      plans.flatMap((plan) => tickRows(plan, inserted.has(plan.job.id), nowMs)),
    );
    for (const plan of plans) if (Math.random() < 0.05) await pruneTicks(tx, plan.timer.subject_id);
    if (inserted.size > 0) await store.notify(tx, 'millrace_jobs', '');
    return { timers: due.length, jobs: inserted.size };
  });
}

interface TickPlan {
  timer: TimerTable;
  job: ReturnType<typeof jobRow>;
  nextAtMs: number | undefined;
  /** Planned ticks between this one and now that get no run of their own. */
  missed: number;
}

function planTick(timer: TimerTable, nowMs: number): TickPlan {
  const schedule = scheduleOf(timer);
  return {
    timer,
    missed: occurrencesBetween(schedule, timer.next_at_ms, nowMs),
    nextAtMs: nextOccurrence(schedule, timer.next_at_ms, nowMs),
    job: jobRow({
      id: `tick_${timer.id}`,
      kind: 'run_source',
      ownerId: timer.owner_id,
      lane: timer.subject_id,
      payload: {
        source_id: timer.subject_id,
        trigger: 'timer',
        event: JSON.stringify(timerEvent(schedule, timer.next_at_ms)),
        hops: 0,
      },
      runAtMs: nowMs,
      nowMs,
    }),
  };
}

function tickRows(plan: TickPlan, fired: boolean, nowMs: number): TickTable[] {
  const { timer, missed } = plan;
  const row = (outcome: string, reason: string | null, plannedMs: number, ticks: number): TickTable => ({
    subject_id: timer.subject_id,
    timer_id: timer.id,
    owner_id: timer.owner_id,
    planned_at_ms: plannedMs,
    recorded_at_ms: nowMs,
    outcome,
    reason,
    ticks,
  });
  const rows: TickTable[] = [];
  if (!fired) rows.push(row('skipped', 'the run before it had not finished', timer.next_at_ms, 1));
  else if (nowMs - timer.next_at_ms > lateMs)
    rows.push(row('late', `${nowMs - timer.next_at_ms} ms after its time`, timer.next_at_ms, 1));
  else rows.push(row('fired', null, timer.next_at_ms, 1));
  if (missed > 0)
    rows.push(
      row('missed', 'nothing ran at its time; the late run stands for it', timer.next_at_ms + 1, missed),
    );
  return rows;
}

/** The argument of `run` (component contract, timers); for cron also what the workflow trigger tells. */
export function timerEvent(schedule: Schedule, plannedMs: number): Record<string, unknown> {
  const timestamp = epochSeconds(plannedMs);
  if ('intervalSeconds' in schedule) return { timestamp, interval_seconds: schedule.intervalSeconds };
  return {
    timestamp,
    cron: schedule.cron,
    timezone_configured: zonedTime(plannedMs, schedule.timezone),
    timezone_utc: zonedTime(plannedMs, 'UTC'),
  };
}

function zonedTime(ms: number, timezone: string): Record<string, unknown> {
  const parts = new Intl.DateTimeFormat('en-US', {
    timeZone: timezone,
    hourCycle: 'h23',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    weekday: 'long',
    timeZoneName: 'longOffset',
  }).formatToParts(new Date(ms));
  const part = (type: Intl.DateTimeFormatPartTypes) =>
    parts.find((candidate) => candidate.type === type)?.value ?? '';
  const offset = part('timeZoneName').replace('GMT', '') || 'Z';
  const date = `${part('year')}-${part('month')}-${part('day')}`;
  const time = `${part('hour')}:${part('minute')}:${part('second')}.${String(ms % 1000).padStart(3, '0')}`;
  const dayNames = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
  const hour = Number(part('hour'));
  return {
    timezone,
    iso8601: { timestamp: `${date}T${time}${offset}`, date, time: `${time}${offset}` },
    date: { day: Number(part('day')), month: Number(part('month')), year: Number(part('year')) },
    time: { hour, minute: Number(part('minute')), second: Number(part('second')), millisecond: ms % 1000 },
    pretty: {
      date: new Intl.DateTimeFormat('en-US', { timeZone: timezone, dateStyle: 'full' }).format(ms),
      time: `${hour % 12 === 0 ? 12 : hour % 12}:${part('minute')} ${hour < 12 ? 'AM' : 'PM'}`,
      time_24h: `${part('hour')}:${part('minute')}`,
    },
    metadata: {
      day_name: part('weekday'),
      day_of_week: dayNames.indexOf(part('weekday')),
      start_of_week: 'Sunday',
    },
  };
}
