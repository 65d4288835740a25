import type { LeasedJob } from './job-store.ts';

/** Jobs of this process at most, running or waiting for the turn of their lane; the rest waits in the store. */
export const runningMax = 2048;
/** And the bytes of their payloads. */
const runningBytesMax = 256 * 1024 * 1024;
/**
 * Places beyond these, for owners that have few or none. One owner may take all others with jobs that sleep for minutes, and what runs is
 * never ended to make room.
 */
export const reservedMax = 512;
const reservedBytesMax = 64 * 1024 * 1024;
/** An owner gets at most this part of what is left of the reserve, so that there is some for the next one. */
const reservedPart = 1 / 8;
/** While the places are full, freed ones go to an owner with more than this part of them only by a claim, which looks at all owners. */
const directPart = 1 / 4;
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

/** The places of this process, as a claim sees them. */
export interface OwnerPlaces {
  /** False: only owners with few places may have another. */
  readonly areFree: boolean;
  /** Jobs that an owner has here. */
  jobsOf(ownerId: string): number;
  /** How many more it may have. */
  roomOf(ownerId: string): number;
  /** Jobs of one of its lanes at most. */
  laneMaxOf(ownerId: string): number;
}

/** A job that has not begun so long after its place was promised will not: what it comes from was not stored. */
const promisedMs = 5_000;

/** What an owner has here. */
interface Use {
  jobs: number;
  bytes: number;
}

const nothing: Readonly<Use> = { jobs: 0, bytes: 0 };

/** The places for jobs in this process: how many there are, how many bytes, and how many of each lane and owner. */
export class PoolPlaces implements OwnerPlaces {
  /** Jobs that could also wait in the store, and jobs that cannot: only the first count for claims. */
  readonly #perLane = new Map<string, number>();
  readonly #stayingPerLane = new Map<string, number>();
  readonly #perOwner = new Map<string, Use>();
  /** Ids of jobs that begin when they are on disk, and when they were promised a place; oldest first. */
  readonly #promised = new Map<string, number>();
  #jobs = 0;
  #bytes = 0;
  readonly #nowMs: () => number;

  constructor({ nowMs = () => performance.now() }: { nowMs?: () => number } = {}) {
    this.#nowMs = nowMs;
  }

  /**
   * Keeps a place for a job until it begins. Hundreds that come with one commit would each find the last place free, and take the
   * reserve of owners with few jobs.
   */
  promise(jobId: string): void {
    this.#promised.set(jobId, this.#nowMs());
  }

  take(job: LeasedJob): void {
    this.#promised.delete(job.id);
    this.#jobs += 1;
    this.#bytes += job.bytes;
    const own = this.#perOwner.get(job.ownerId) ?? { jobs: 0, bytes: 0 };
    own.jobs += 1;
    own.bytes += job.bytes;
    this.#perOwner.set(job.ownerId, own);
    const perLane = this.#lanesOf(job);
    if (job.lane !== null) perLane.set(job.lane, (perLane.get(job.lane) ?? 0) + 1);
  }

  /** The job has ended. */
  giveBack(job: LeasedJob): void {
    this.#jobs -= 1;
    this.#bytes -= job.bytes;
    const own = this.#perOwner.get(job.ownerId);
    if (own !== undefined) {
      own.jobs -= 1;
      own.bytes -= job.bytes;
      if (own.jobs === 0) this.#perOwner.delete(job.ownerId);
    }
    if (job.lane === null) return;
    const perLane = this.#lanesOf(job);
    const left = (perLane.get(job.lane) ?? 1) - 1;
    if (left === 0) perLane.delete(job.lane);
    else perLane.set(job.lane, left);
  }

  /** True when an owner may have another place whatever it has already. */
  get areFree(): boolean {
    return this.#jobs + this.#promisedCount < runningMax && this.#bytes < runningBytesMax;
  }

  /** Places that any owner may have. */
  get left(): number {
    return this.areFree ? runningMax - this.#jobs - this.#promisedCount : 0;
  }

  get #promisedCount(): number {
    if (this.#promised.size === 0) return 0;
    const fromMs = this.#nowMs() - promisedMs;
    for (const [id, atMs] of this.#promised) {
      if (atMs >= fromMs) break;
      this.#promised.delete(id);
    }
    return this.#promised.size;
  }

  /** `othersWait`: jobs wait in the store for places. */
  areFreeIn(lane: string, ownerId: string, othersWait = false): boolean {
    const inLane = this.#perLane.get(lane) ?? 0;
    return this.#areFreeFor(ownerId, othersWait) && inLane < this.laneMaxOf(ownerId);
  }

  /** For jobs that have to stay in this process, with the bound of those in their lane. */
  areFreeToStay(lane: string, ownerId: string, laneMax: number, othersWait = false): boolean {
    return this.#areFreeFor(ownerId, othersWait) && this.stayingIn(lane) < laneMax;
  }

  #areFreeFor(ownerId: string, othersWait: boolean): boolean {
    if (!this.areFree) return this.roomOf(ownerId) > 0;
    return !othersWait || this.jobsOf(ownerId) < runningMax * directPart || this.#isReservedFor(ownerId);
  }

  jobsOf(ownerId: string): number {
    return this.#useOf(ownerId).jobs;
  }

  roomOf(ownerId: string): number {
    if (this.areFree) return Number.POSITIVE_INFINITY;
    return this.#isReservedFor(ownerId) ? this.#reservedPerOwner - this.jobsOf(ownerId) : 0;
  }

  laneMaxOf(ownerId: string): number {
    return this.#isReservedFor(ownerId) ? Math.max(this.laneMax(), this.#reservedPerOwner) : this.laneMax();
  }

  /** True when the owner has so few places that it may have one of the reserve. */
  #isReservedFor(ownerId: string): boolean {
    const { jobs, bytes } = this.#useOf(ownerId);
    return jobs < this.#reservedPerOwner && bytes < this.#reservedBytesLeft * reservedPart;
  }

  get #reservedLeft(): number {
    return runningMax + reservedMax - Math.max(this.#jobs, runningMax);
  }

  get #reservedBytesLeft(): number {
    return runningBytesMax + reservedBytesMax - Math.max(this.#bytes, runningBytesMax);
  }

  get #reservedPerOwner(): number {
    return this.#reservedLeft > 0 ? Math.max(1, Math.floor(this.#reservedLeft * reservedPart)) : 0;
  }

  #useOf(ownerId: string): Readonly<Use> {
    return this.#perOwner.get(ownerId) ?? nothing;
  }

  /** How many jobs of a lane have to stay. */
  stayingIn(lane: string): number {
    return this.#stayingPerLane.get(lane) ?? 0;
  }

  /** How many may be claimed together: a part of the free places, so that the share of a lane shrinks as lanes take theirs. */
  claimMax(): number {
    const left = this.areFree ? this.left : this.#reservedLeft;
    return Math.min(claimMax, Math.ceil(left / 4));
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

  /** True when the owner may take more of the reserve: enough of its jobs there have ended. */
  haveDrainedOf(ownerId: string): boolean {
    return this.jobsOf(ownerId) <= this.#reservedPerOwner / 2;
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
