import { insertJobs, jobRow, leasedHere, type NewJob } from '#jobs/job-store.ts';
import type { WorkerPool } from '#jobs/worker-pool.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { DueTick, FiredTicks, TickTarget } from './tick-target.ts';
import { timerEvent } from './timer-event.ts';

/** Returns the jobs of ticks with those of sources under flow control held back. */
export type HoldTicks = (tx: Tx, jobs: readonly NewJob<'run_source'>[]) => Promise<NewJob<'run_source'>[]>;

/** Where the runs of ticks begin. */
export type TickPool = Pick<WorkerPool, 'node' | 'placesLeft' | 'failedHere' | 'hasRoom' | 'run' | 'poke'> & {
  lanes: Pick<WorkerPool['lanes'], 'hasOthers'>;
};

/**
 * Timers of sources become jobs `run_source`. All ticks of a timer have the same job id. When the insert finds it taken, the job of the tick
 * before has not finished, and this tick is skipped.
 *
 * Where this node has room for them the jobs are its own from the start, as those of requests are, and begin as soon as they are on disk. The
 * others wait for a claim. A thousand timers that are due together would need eight claims, each a transaction, before the last of them begins.
 */
export class SourceTicks implements TickTarget {
  readonly #store: Pick<Store, 'notify'>;
  readonly #pool: TickPool;
  readonly #hold: HoldTicks;
  readonly #onHeld: (sourceId: string) => void;

  constructor(options: {
    store: Pick<Store, 'notify'>;
    pool: TickPool;
    hold: HoldTicks;
    /** Ticks of this source were stored that flow control has to look at. */
    onHeld: (sourceId: string) => void;
  }) {
    this.#store = options.store;
    this.#pool = options.pool;
    this.#hold = options.hold;
    this.#onHeld = options.onHeld;
  }

  async fire(tx: Tx, ticks: readonly DueTick[], nowMs: number): Promise<FiredTicks> {
    const jobs = await this.#hold(
      tx,
      ticks.map((tick) => jobOf(tick, nowMs)),
    );
    const here = this.#withRoom(jobs);
    const rows = jobs.map((job) => jobRow(job, here.has(job) ? this.#pool.node : undefined));
    const inserted = new Set(await insertJobs(tx, rows));
    const made = jobs.filter(({ id }) => inserted.has(id));
    if (made.some((job) => !here.has(job))) await this.#store.notify(tx, 'millrace_jobs', '');
    return {
      outcomes: jobs.map(({ id }) =>
        inserted.has(id)
          ? { kind: 'fired' }
          : { kind: 'skipped', reason: 'the run before it had not finished' },
      ),
      committed: () => {
        for (const job of made) {
          if (job.payload.flow !== undefined) this.#onHeld(job.payload.source_id);
          else if (here.has(job)) this.#pool.run(leasedHere(job, job.payload.event?.length ?? 0));
        }
        if (made.some((job) => !here.has(job))) this.#pool.poke();
      },
    };
  }

  /** Those that may begin here without a claim. They take their places only when they are on disk, so they are counted. */
  #withRoom(jobs: readonly NewJob<'run_source'>[]): Set<NewJob> {
    const pool = this.#pool;
    const here = new Set<NewJob>();
    // This transaction may last longer than a lane is kept from other nodes after its last use.
    if (pool.lanes.hasOthers) return here;
    let left = pool.placesLeft;
    // Ticks of a timer have one job id: what is going to be stored of the one before must not meet this one.
    const { failedHere } = pool;
    for (const job of jobs) {
      const { ownerId, lane = '', payload } = job;
      if (left <= 0) break;
      if (payload.flow !== undefined || failedHere.has(job.id) || !pool.hasRoom(lane, ownerId)) continue;
      here.add(job);
      left -= 1;
    }
    return here;
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
