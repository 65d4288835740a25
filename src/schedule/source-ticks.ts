import { insertJobs, jobRow } from '#jobs/job-store.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { DueTick, FiredTicks, TickTarget } from './tick-target.ts';
import { timerEvent } from './timer-event.ts';

/**
 * Timers of sources become jobs `run_source`. A tick whose predecessor has not finished is skipped: the job of a timer
 * has one id, and an insert that finds it taken is the proof.
 */
export class SourceTicks implements TickTarget {
  readonly #store: Pick<Store, 'notify'>;
  readonly #onJobs: () => void;

  constructor(options: { store: Pick<Store, 'notify'>; onJobs: () => void }) {
    this.#store = options.store;
    this.#onJobs = options.onJobs;
  }

  async fire(tx: Tx, ticks: readonly DueTick[], nowMs: number): Promise<FiredTicks> {
    const jobs = ticks.map((tick) => jobOf(tick, nowMs));
    const inserted = new Set(await insertJobs(tx, jobs));
    if (inserted.size > 0) await this.#store.notify(tx, 'millrace_jobs', '');
    return {
      outcomes: jobs.map(({ id }) =>
        inserted.has(id)
          ? { kind: 'fired' }
          : { kind: 'skipped', reason: 'the run before it had not finished' },
      ),
      committed: () => {
        if (inserted.size > 0) this.#onJobs();
      },
    };
  }
}

/** All ticks of a timer have one job id. */
export function tickJobId(timerId: string): string {
  return `tick_${timerId}`;
}

function jobOf({ timer, schedule }: DueTick, nowMs: number) {
  return jobRow({
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
  });
}
