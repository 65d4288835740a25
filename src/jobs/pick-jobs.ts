import type { OwnerPlaces } from './pool-places.ts';

/** A job that is due, as a claim sees it. */
export interface DueJob {
  id: string;
  lane: string | null;
  owner_id: string;
  attempts: number;
  run_at_ms: number;
  created_at_ms: number;
}

interface PickOptions {
  limit: number;
  places: Omit<OwnerPlaces, 'areFree'>;
  /** Jobs of each lane that run here. */
  runningByLane: ReadonlyMap<string, number>;
}

/** Oldest first. */
export function byAge(a: DueJob, b: DueJob): number {
  return a.run_at_ms - b.run_at_ms || a.created_at_ms - b.created_at_ms || (a.id < b.id ? -1 : 1);
}

/**
 * Chooses at most `limit` of the due jobs (oldest first), and returns them oldest first. Where more have room, each place goes to the owner that has the fewest
 * jobs here, running and chosen; among its jobs, to the lane that was chosen from least. Of each lane the oldest are chosen.
 */
export function pickJobs(jobs: readonly DueJob[], options: PickOptions): DueJob[] {
  const mayRun = withRoom(jobs, options);
  if (mayRun.length <= options.limit) return mayRun;
  const owners = [...Map.groupBy(mayRun, ({ owner_id }) => owner_id)].map(([ownerId, own]) => ({
    count: options.places.jobsOf(ownerId),
    waiting: lanesInTurn(own),
    next: 0,
  }));
  const chosen: DueJob[] = [];
  while (chosen.length < options.limit) {
    // Among those with the fewest, the one whose job is oldest: it comes first.
    let first: (typeof owners)[number] | undefined;
    for (const owner of owners)
      if (owner.next < owner.waiting.length && owner.count < (first?.count ?? Number.POSITIVE_INFINITY))
        first = owner;
    const job = first?.waiting[first.next];
    if (first === undefined || job === undefined) break;
    chosen.push(job);
    first.next += 1;
    first.count += 1;
  }
  return chosen.sort(byAge);
}

/** Those that their owner and their lane have room for. */
function withRoom(jobs: readonly DueJob[], { places, runningByLane }: PickOptions): DueJob[] {
  const laneRoom = new Map<string, number>();
  const ownerRoom = new Map<string, number>();
  return jobs.filter(({ lane, owner_id: owner }) => {
    const ofOwner = ownerRoom.get(owner) ?? places.roomOf(owner);
    if (ofOwner <= 0) return false;
    if (lane !== null) {
      const ofLane = laneRoom.get(lane) ?? places.laneMaxOf(owner) - (runningByLane.get(lane) ?? 0);
      if (ofLane <= 0) return false;
      laneRoom.set(lane, ofLane - 1);
    }
    ownerRoom.set(owner, ofOwner - 1);
    return true;
  });
}

/** The first jobs of all lanes, then their second ones, and so on. */
function lanesInTurn(jobs: readonly DueJob[]): DueJob[] {
  const places = new Map<string | null, number>();
  const placed = jobs.map((job) => {
    const place = places.get(job.lane) ?? 0;
    places.set(job.lane, place + 1);
    return { job, place };
  });
  return placed.sort((a, b) => a.place - b.place).map(({ job }) => job);
}
