import type { Db } from '#storage/store.ts';
import { queued, running } from './job-store.ts';

/** Jobs of a lane that are counted at most, of each state: a long line is not read for each look at its subject. */
export const laneJobsCounted = 1_000;

/** Jobs of one lane. */
export interface LaneWork {
  /** A node has them: they run, or wait there for their turn. */
  underWay: number;
  queued: number;
  /** When a node took the oldest of those under way, epoch ms; undefined: none is. */
  sinceMs: number | undefined;
}

export async function workOfLane(db: Db, lane: string): Promise<LaneWork> {
  const jobs = db.selectFrom('jobs').where('lane', '=', lane).limit(laneJobsCounted);
  const [taken, waiting] = await Promise.all([
    jobs.where('state', '=', running).select('updated_at_ms').execute(),
    jobs.where('state', '=', queued).select('id').execute(),
  ]);
  const times = taken.map(({ updated_at_ms }) => updated_at_ms);
  return {
    underWay: taken.length,
    queued: waiting.length,
    sinceMs: times.length === 0 ? undefined : Math.min(...times),
  };
}
