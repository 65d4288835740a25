import type { Tx } from '#storage/store.ts';
import type { TimerTable } from '#storage/tables/source-tables.ts';
import type { Schedule } from './next-occurrence.ts';

/** A timer that is due; its tick was planned for `timer.next_at_ms`. */
export interface DueTick {
  timer: TimerTable;
  schedule: Schedule;
}

/** The outcome of a tick: a run was started, or none for a reason, or its subject no longer exists. */
export type TickOutcome =
  /** With the id of the run, where runs have ids. */
  { kind: 'fired'; runId?: string } | { kind: 'skipped'; reason: string } | { kind: 'gone' };

export interface FiredTicks {
  /** One for each tick, in their order. */
  outcomes: TickOutcome[];
  /** Called once when the transaction is on disk, never when it is not. */
  committed(): void;
}

/**
 * What timers of one kind of subject set going. `fire` inserts that in the transaction that also moves the timers on,
 * so a tick fires once whatever dies; the number of its statements does not grow with that of the ticks.
 */
export interface TickTarget {
  fire(tx: Tx, ticks: readonly DueTick[], nowMs: number): Promise<FiredTicks>;
}
