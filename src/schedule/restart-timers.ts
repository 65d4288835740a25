import type { Store } from '#storage/store.ts';
import type { TimerTable } from '#storage/tables/source-tables.ts';
import { nextOccurrence } from './next-occurrence.ts';
import { advanceTimers, cronTimersWrittenAfter, reanchorIntervals, scheduleOf } from './timer-store.ts';

/** Timers looked at in one transaction. */
const batchMax = 500;

/**
 * After the clock stepped back: timers whose plan was made in what is now the future would stand still until the clock
 * catches up; they start anew from now. Returns how many. Timers written up to `writtenMs` were planned by a clock that
 * was right.
 */
export async function restartTimers(store: Store, nowMs: number, writtenMs: number): Promise<number> {
  let restarted = await store.transaction((tx) => reanchorIntervals(tx, nowMs));
  let afterId = '';
  for (;;) {
    const timers = await store.transaction(async (tx) => {
      const page = await cronTimersWrittenAfter(store, tx, { writtenMs, afterId, limit: batchMax });
      const changed = page.flatMap((timer) => {
        const nextMs = restartedAt(timer, nowMs);
        return nextMs === undefined ? [] : [{ ...timer, next_at_ms: nextMs, updated_at_ms: nowMs }];
      });
      await advanceTimers(tx, changed);
      restarted += changed.length;
      return page;
    });
    const last = timers.at(-1);
    if (last === undefined || timers.length < batchMax) return restarted;
    afterId = last.id;
  }
}

/** Undefined: it goes on as planned. A small step back must not fire again what has just fired. */
function restartedAt(timer: TimerTable, nowMs: number): number | undefined {
  const schedule = scheduleOf(timer);
  const first = nextOccurrence(schedule, nowMs, nowMs);
  const second = first === undefined ? undefined : nextOccurrence(schedule, first, first);
  return second !== undefined && second < timer.next_at_ms ? first : undefined;
}
