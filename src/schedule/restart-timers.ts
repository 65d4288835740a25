import type { Store } from '#storage/store.ts';
import { readTimeMs, type StoreTime } from '#storage/store-time.ts';
import type { TimerTable } from '#storage/tables/source-tables.ts';
import { nextOccurrence } from './next-occurrence.ts';
import { advanceTimers, cronTimersOfFuture, reanchorIntervals, scheduleOf } from './timer-store.ts';

/** Timers looked at in one transaction. */
const batchMax = 500;
/** A step back of the clock by more than this restarts timers: the clocks of nodes may differ by a part of it. */
export const stepBackMs = 2_000;

/**
 * After the clock stepped back: timers that were planned at a time that is now the future would stand still until the
 * clock catches up; they are restarted from now. Returns how many. Timers that were written at or before now stay as they are, so
 * where no clock has stepped this changes nothing.
 */
export async function restartTimers(store: Store, time: StoreTime): Promise<number> {
  const options = { time, toleranceMs: stepBackMs };
  let restarted = await store.transaction((tx) => reanchorIntervals(tx, options));
  let afterId = '';
  for (;;) {
    const { timers, changed } = await store.transaction(async (tx) => {
      const timers = await cronTimersOfFuture(store, tx, { ...options, afterId, limit: batchMax });
      const nowMs = timers.length === 0 ? 0 : await readTimeMs(tx, time);
      const changed = timers.flatMap((timer) => {
        const nextMs = restartedAt(timer, nowMs);
        return nextMs === undefined ? [] : [{ ...timer, next_at_ms: nextMs, updated_at_ms: nowMs }];
      });
      await advanceTimers(tx, changed);
      return { timers, changed };
    });
    restarted += changed.length;
    const last = timers.at(-1);
    if (last === undefined || timers.length < batchMax) return restarted;
    afterId = last.id;
  }
}

/** Undefined: the timer stays as planned. A small step back must not fire again what has just fired. */
function restartedAt(timer: TimerTable, nowMs: number): number | undefined {
  const schedule = scheduleOf(timer);
  const first = nextOccurrence(schedule, nowMs, nowMs);
  const second = first === undefined ? undefined : nextOccurrence(schedule, first, first);
  return second !== undefined && second < timer.next_at_ms ? first : undefined;
}
