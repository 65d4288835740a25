import { must } from '#lib/assert.ts';
import type { Store } from '#storage/store.ts';
import type { LedgerOutcome, TickTable } from '#storage/tables/source-tables.ts';
import { nextOccurrence, occurrencesBetween } from './next-occurrence.ts';
import type { DueTick, FiredTicks, TickOutcome, TickTarget } from './tick-target.ts';
import {
  advanceTimers,
  deleteTimers,
  insertTicks,
  lockDueTimers,
  pruneTicks,
  scheduleOf,
} from './timer-store.ts';

/** Timers fired in one transaction. */
const timersPerPass = 500;
/** A tick recorded later than this after its time is `late`. */
const lateMs = 2_000;

export interface TimerOptions {
  store: Store;
  /** What a due timer starts, by the prefix of the id of its source (`dc`) or workflow (`p`). */
  targets: { readonly dc: TickTarget; readonly p: TickTarget };
  /** True when an owner has quota for one more run (`QuotaGuard.mayRun`). Called for each tick, so it has to be fast. */
  mayRun: (ownerId: string) => boolean | Promise<boolean>;
}

interface TickPlan extends DueTick {
  /** Undefined: a cron expression that never fires again. */
  nextAtMs: number | undefined;
  /** Planned ticks between this one and now that get no run of their own. */
  missed: number;
}

/**
 * Fires the timers that are due, those of cron expressions and of intervals. In one transaction they are locked, what they start is inserted,
 * and their next times and the ledger are written. For a source that is a job (`source-ticks.ts`), which `jobs/worker-pool.ts` takes and
 * `sources/run-source.ts` runs; for a workflow it is a run (`workflows/runs/workflow-ticks.ts`) with a
 * job, which `workflows/runs/run-workflow.ts` does. `scheduler.ts` calls this when a timer is due, and
 * describes the whole way from a tick to running code. Returns how many timers were due and how many ticks fired.
 */
export async function fireDueTimers(
  options: TimerOptions,
  nowMs: number,
): Promise<{ timers: number; fired: number }> {
  const { store } = options;
  const done: FiredTicks[] = [];
  const result = await store.transaction(async (tx) => {
    // A transaction that is tried again starts over.
    done.length = 0;
    const due = await lockDueTimers(store, tx, nowMs, timersPerPass);
    if (due.length === 0) return { timers: 0, fired: 0 };
    const plans = due.map((timer): TickPlan => {
      const schedule = scheduleOf(timer);
      return {
        timer,
        schedule,
        missed: occurrencesBetween(schedule, timer.next_at_ms, nowMs),
        nextAtMs: nextOccurrence(schedule, timer.next_at_ms, nowMs),
      };
    });
    const outcomes = new Map<TickPlan, TickOutcome>();
    const allowed = await withinQuota(options, plans, outcomes);
    for (const [target, ticks] of Map.groupBy(allowed, (plan) => targetOf(options, plan))) {
      const fired = await target.fire(tx, ticks, nowMs);
      done.push(fired);
      for (const [index, tick] of ticks.entries())
        outcomes.set(tick, must(fired.outcomes[index], `the outcome of the tick of ${tick.timer.id}`));
    }
    const outcomeOf = (plan: TickPlan) => must(outcomes.get(plan), `the outcome of ${plan.timer.id}`);
    const [over, going] = partition(
      plans,
      (plan) => plan.nextAtMs === undefined || outcomeOf(plan).kind === 'gone',
    );
    await advanceTimers(
      tx,
      going.map((plan) => ({
        ...plan.timer,
        next_at_ms: plan.nextAtMs ?? plan.timer.next_at_ms,
        updated_at_ms: nowMs,
      })),
    );
    await deleteTimers(
      tx,
      over.map((plan) => plan.timer.id),
    );
    await insertTicks(
      tx,
      plans.flatMap((plan) => tickRows(plan, outcomeOf(plan), nowMs)),
    );
    for (const plan of plans) if (Math.random() < 0.05) await pruneTicks(tx, plan.timer.subject_id);
    const fired = plans.filter((plan) => outcomeOf(plan).kind === 'fired').length;
    return { timers: due.length, fired };
  });
  for (const fired of done) fired.committed();
  return result;
}

/** Those whose owners may run; the others get their outcome here. */
async function withinQuota(
  options: TimerOptions,
  plans: readonly TickPlan[],
  outcomes: Map<TickPlan, TickOutcome>,
): Promise<TickPlan[]> {
  const allowed: TickPlan[] = [];
  for (const plan of plans) {
    if (await options.mayRun(plan.timer.owner_id)) allowed.push(plan);
    else outcomes.set(plan, { kind: 'skipped', reason: 'quota_exceeded' });
  }
  return allowed;
}

function targetOf({ targets }: TimerOptions, { timer }: TickPlan): TickTarget {
  return timer.subject_id.startsWith('p_') ? targets.p : targets.dc;
}

function partition<T>(values: readonly T[], test: (value: T) => boolean): [T[], T[]] {
  const yes: T[] = [];
  const no: T[] = [];
  for (const value of values) (test(value) ? yes : no).push(value);
  return [yes, no];
}

function tickRows(plan: TickPlan, outcome: TickOutcome, nowMs: number): TickTable[] {
  const { timer, missed } = plan;
  if (outcome.kind === 'gone') return [];
  const row = (kind: LedgerOutcome, reason: string | null, plannedMs: number, ticks: number): TickTable => ({
    subject_id: timer.subject_id,
    timer_id: timer.id,
    owner_id: timer.owner_id,
    planned_at_ms: plannedMs,
    recorded_at_ms: nowMs,
    outcome: kind,
    reason,
    ticks,
    run_id: null,
    run_state: null,
    run_error: null,
    run_ended_at_ms: null,
  });
  const started: Partial<TickTable> =
    outcome.kind === 'fired' ? { run_id: outcome.runId ?? null, run_state: 'started' } : {};
  const rows: TickTable[] = [];
  const lateByMs = nowMs - timer.next_at_ms;
  if (outcome.kind === 'skipped') rows.push(row('skipped', outcome.reason, timer.next_at_ms, 1));
  else if (lateByMs > lateMs)
    rows.push({ ...row('late', `${lateByMs} ms after its time`, timer.next_at_ms, 1), ...started });
  else rows.push({ ...row('fired', null, timer.next_at_ms, 1), ...started });
  if (missed > 0) {
    const instead = outcome.kind === 'fired' ? '; the late run stands for it' : '';
    rows.push(row('missed', `nothing ran at its time${instead}`, timer.next_at_ms + 1, missed));
  }
  return rows;
}
