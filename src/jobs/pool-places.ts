import type { LeasedJob } from './job-store.ts';

/** Jobs of this process at most, running or waiting for the turn of their lane; the rest waits in the store. */
export const runningMax = 2048;
/** And the bytes of their payloads. */
const runningBytesMax = 256 * 1024 * 1024;
/** Maximum of one lane: enough to keep it busy, and to take a burst without going through the store. */
export const runningPerLaneMax = 128;
/**
 * A lane gets at most this part of the room that is left: lanes of slow sources, each with a backlog, can then never
 * take the room of all others (each runs one job at a time, and its others only wait).
 */
const laneShare = 1 / 16;
/** Maximum of jobs in one claim. */
const claimMax = 128;
/**
 * What was full is filled again when it has run down to this, not at each job that ends: a claim costs a transaction,
 * whether it gets one job or many.
 */
const refillBelow = runningMax - claimMax;
const refillLanePart = 1 / 2;

/** The places for jobs in this process: how many there are, how many bytes, and how many of each lane. */
export class PoolPlaces {
  /** Jobs that could also wait in the store, and jobs that cannot: only the first count for claims. */
  readonly #perLane = new Map<string, number>();
  readonly #stayingPerLane = new Map<string, number>();
  #jobs = 0;
  #bytes = 0;

  take(job: LeasedJob): void {
    this.#jobs += 1;
    this.#bytes += job.bytes;
    const perLane = this.#lanesOf(job);
    if (job.lane !== null) perLane.set(job.lane, (perLane.get(job.lane) ?? 0) + 1);
  }

  /** The job has ended. */
  giveBack(job: LeasedJob): void {
    this.#jobs -= 1;
    this.#bytes -= job.bytes;
    if (job.lane === null) return;
    const perLane = this.#lanesOf(job);
    const left = (perLane.get(job.lane) ?? 1) - 1;
    if (left === 0) perLane.delete(job.lane);
    else perLane.set(job.lane, left);
  }

  get areFree(): boolean {
    return this.#jobs < runningMax && this.#bytes < runningBytesMax;
  }

  areFreeIn(lane: string): boolean {
    return this.areFree && (this.#perLane.get(lane) ?? 0) < this.laneMax();
  }

  /** For jobs that have to stay in this process, with the bound of those in their lane. */
  areFreeToStay(lane: string, laneMax: number): boolean {
    return this.areFree && this.stayingIn(lane) < laneMax;
  }

  /** How many jobs of a lane have to stay. */
  stayingIn(lane: string): number {
    return this.#stayingPerLane.get(lane) ?? 0;
  }

  /** How many may be claimed together: a part of the free places, so that the share of a lane shrinks as lanes take theirs. */
  claimMax(): number {
    if (!this.areFree) return 0;
    return Math.min(claimMax, Math.ceil((runningMax - this.#jobs) / 4));
  }

  /** Jobs of one lane at most. */
  laneMax(): number {
    const free = runningMax - this.#jobs;
    return Math.min(runningPerLaneMax, Math.max(1, Math.floor(free * laneShare)));
  }

  /** True when enough jobs have ended, after every place was taken, to claim again. */
  get haveDrained(): boolean {
    return this.#jobs <= refillBelow && this.#bytes < runningBytesMax;
  }

  /** The same for a lane. */
  haveDrainedIn(lane: string): boolean {
    return (this.#perLane.get(lane) ?? 0) <= this.laneMax() * refillLanePart;
  }

  isBusy(lane: string): boolean {
    return this.#perLane.has(lane) || this.#stayingPerLane.has(lane);
  }

  /** How many jobs of each lane there are, without those that have to stay. */
  get runningByLane(): ReadonlyMap<string, number> {
    return this.#perLane;
  }

  #lanesOf(job: LeasedJob): Map<string, number> {
    return job.staysHere === true ? this.#stayingPerLane : this.#perLane;
  }
}
