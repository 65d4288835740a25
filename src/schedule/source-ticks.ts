import { insertJobs, jobRow, type NewJob } from '#jobs/job-store.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { DueTick, FiredTicks, TickTarget } from './tick-target.ts';
import { timerEvent } from './timer-event.ts';

/** Returns the jobs of ticks with those of sources under flow control held back. */
export type HoldTicks = (tx: Tx, jobs: readonly NewJob<'run_source'>[]) => Promise<NewJob<'run_source'>[]>;

/**
 * Timers of sources become jobs `run_source`. All ticks of a timer have the same job id. When the insert finds it taken, the job of the tick
 * before has not finished, and this tick is skipped.
 */
export class SourceTicks implements TickTarget {
  readonly #store: Pick<Store, 'notify'>;
  readonly #hold: HoldTicks;
  readonly #onJobs: () => void;
  readonly #onHeld: (sourceId: string) => void;

  constructor(options: {
    store: Pick<Store, 'notify'>;
    hold: HoldTicks;
    onJobs: () => void;
    /** Ticks of this source were stored that flow control has to look at. */
    onHeld: (sourceId: string) => void;
  }) {
    this.#store = options.store;
    this.#hold = options.hold;
    this.#onJobs = options.onJobs;
    this.#onHeld = options.onHeld;
  }

  async fire(tx: Tx, ticks: readonly DueTick[], nowMs: number): Promise<FiredTicks> {
    const made = await this.#hold(
      tx,
      ticks.map((tick) => jobOf(tick, nowMs)),
    );
    const jobs = made.map((job) => jobRow(job));
    const inserted = new Set(await insertJobs(tx, jobs));
    const held = made.filter(({ id, payload }) => payload.flow !== undefined && inserted.has(id));
    if (inserted.size > 0) await this.#store.notify(tx, 'millrace_jobs', '');
    return {
      outcomes: jobs.map(({ id }) =>
        inserted.has(id)
          ? { kind: 'fired' }
          : { kind: 'skipped', reason: 'the run before it had not finished' },
      ),
      committed: () => {
        if (inserted.size > 0) this.#onJobs();
        for (const { payload } of held) this.#onHeld(payload.source_id);
      },
    };
  }
}

const tickPrefix = 'tick_';

/** All ticks of a timer have one job id. */
export function tickJobId(timerId: string): string {
  return `${tickPrefix}${timerId}`;
}

export function isTickJob(id: string): boolean {
  return id.startsWith(tickPrefix);
}

function jobOf({ timer, schedule }: DueTick, nowMs: number): NewJob<'run_source'> {
  return {
    id: tickJobId(timer.id),
    kind: 'run_source',
    ownerId: timer.owner_id,
    lane: timer.subject_id,
    payload: {
      source_id: timer.subject_id,
      trigger: 'timer',
      event: JSON.stringify(timerEvent(schedule, timer.next_at_ms)),
      hops: 0,
      tick: { timer_id: timer.id, planned_ms: timer.next_at_ms },
    },
    runAtMs: nowMs,
    nowMs,
  };
}
