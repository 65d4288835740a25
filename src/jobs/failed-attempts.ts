import type { Clock } from '#lib/clock.ts';
import { UnavailableError } from '#lib/errors.ts';
import type { Store } from '#storage/store.ts';
import { type LeasedJob, requeueJob } from './job-store.ts';
import type { Quarantine } from './quarantine.ts';
import { blamesMax, retryDelayMs, uncountedDelayMs } from './retry-schedule.ts';
import { isSharedLane } from './shared-lane.ts';

interface FailedAttempt {
  readonly job: LeasedJob;
  readonly error: Error;
}

/** An attempt that failed without the job's doing, and without a refusal of its caller: it is not counted, and the job runs again. */
export class UncountedAttempt extends Error {}

/** A job before this one is tried again first. Nothing has failed: the caller of this one learns that it will run later. */
export class EarlierJobFirst extends UnavailableError {
  constructor(message: string) {
    super('overloaded', message);
  }
}

/** Tries of one job that those behind it wait for. The pauses before them take two minutes together. */
const triesInOrder = 5;
/** Jobs whose tries are remembered. One that is forgotten has some tries more. */
const triedMax = 10_000;

/**
 * Attempts of jobs that failed, until that is stored: nothing of a failed attempt is, not even that it failed, while the
 * store is away.
 *
 * A job of a lane whose attempt does not count stays in front of those behind it: its lane rests on this node until it is tried again. After some
 * tries the others no longer wait for it. What those behind it did meanwhile is no try of theirs, so they keep their order too.
 */
export class FailedAttempts {
  readonly #node: string;
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #quarantine: Pick<Quarantine, 'notify'>;
  readonly #waiting: FailedAttempt[] = [];
  /** By job: those of which it is not known yet whether they are to be stored. */
  readonly #begun = new Map<string, FailedAttempt>();
  /** Those that are being stored. */
  readonly #underWay = new Set<FailedAttempt>();
  /** When the rests of lanes end, in the time of the clock. */
  readonly #rests = new Map<string, number>();
  /** By job. */
  readonly #tries = new Map<string, number>();

  constructor(options: {
    node: string;
    store: Store;
    clock: Clock;
    quarantine: Pick<Quarantine, 'notify'>;
  }) {
    this.#node = options.node;
    this.#store = options.store;
    this.#clock = options.clock;
    this.#quarantine = options.quarantine;
  }

  /** An attempt fails: from now on those behind it wait, until it was `add`ed and stored, or `isOver`. */
  begin(job: LeasedJob, error: Error): void {
    this.#begun.set(job.id, { job, error });
  }

  /** Nothing of the attempt is to be stored that was not added. */
  isOver(job: LeasedJob): void {
    this.#begun.delete(job.id);
  }

  add(job: LeasedJob, error: Error): void {
    this.#waiting.push({ job, error });
  }

  /** Ids of the jobs that are to be stored. */
  ids(): Set<string> {
    return new Set([...this.#waiting, ...this.#underWay].map(({ job }) => job.id));
  }

  /** True while a job of this lane has failed and is to run before those behind it. */
  rests(lane: string): boolean {
    if (this.#isResting(lane)) return true;
    for (const attempts of [this.#begun.values(), this.#waiting, this.#underWay])
      for (const failed of attempts) if (lane === restingLane(failed)) return true;
    return false;
  }

  #isResting(lane: string): boolean {
    return (this.#rests.get(lane) ?? 0) > this.#clock.now();
  }

  /** Lanes that rest, and those whose rest has ended since the last call. */
  takeResting(): string[] {
    const lanes = [...this.#rests.keys()];
    const nowMs = this.#clock.now();
    for (const [lane, untilMs] of this.#rests) if (untilMs <= nowMs) this.#rests.delete(lane);
    return lanes;
  }

  /** Milliseconds until the next rest ends; undefined: no lane rests. */
  get restEndsInMs(): number | undefined {
    if (this.#rests.size === 0) return undefined;
    return Math.max(0, Math.min(...this.#rests.values()) - this.#clock.now());
  }

  /** Puts the jobs back into the queue, or into quarantine. Two callers may run this simultaneously, so each takes its job out first. */
  async requeue(): Promise<void> {
    for (let failed = this.#waiting.shift(); failed !== undefined; failed = this.#waiting.shift()) {
      this.#underWay.add(failed);
      try {
        await this.#requeue(failed);
      } catch (error) {
        // Behind the others: one that cannot be stored must not keep them from it.
        this.#waiting.push(failed);
        throw error;
      } finally {
        this.#underWay.delete(failed);
      }
    }
  }

  async #requeue(failed: FailedAttempt): Promise<void> {
    const { job, error } = failed;
    const nowMs = this.#clock.now();
    const blamed = isBlamed(error);
    const blames = (job.blames ?? 0) + 1;
    const lane = restingLane(failed);
    const isBehind = lane !== undefined && this.#isResting(lane);
    const tries = this.#tries.get(job.id) ?? 0;
    const keepsPlace = isBehind || (lane !== undefined && tries < triesInOrder);
    // Jobs of a lane are in the order of the times when they are due.
    const runAtMs = keepsPlace
      ? undefined
      : nowMs +
        (blamed ? retryDelayMs(blames, Math.random) : uncountedDelayMs(nowMs - job.createdAtMs, Math.random));
    const state = blamed && blames >= blamesMax ? 'quarantined' : 'queued';
    const held = await this.#store.transaction((tx) =>
      requeueJob(tx, this.#node, job, { state, runAtMs, nowMs, error: error.message, blamed }),
    );
    if (!held) return;
    if (lane !== undefined && keepsPlace && !isBehind) this.#rest(lane, job, tries + 1);
    if (state === 'quarantined') await this.#quarantine.notify({ job, rowId: `${job.id}~${nowMs}` });
  }

  /** The pause does not depend on the age of the job: after an outage of an hour the first try comes after a second too. */
  #rest(lane: string, job: LeasedJob, tries: number): void {
    const untilMs = this.#clock.now() + retryDelayMs(tries, Math.random);
    this.#rests.set(lane, Math.max(untilMs, this.#rests.get(lane) ?? 0));
    this.#tries.set(job.id, tries);
    const [oldest] = this.#tries.keys();
    if (this.#tries.size > triedMax && oldest !== undefined) this.#tries.delete(oldest);
  }
}

/** An unavailable store is not the job's fault; any other error counts. */
function isBlamed(error: Error): boolean {
  return !(error instanceof UnavailableError || error instanceof UncountedAttempt);
}

/** The lane in which the job stays in front of the others. Undefined: it has none, no order is promised there, or it is to blame. */
function restingLane({ job, error }: FailedAttempt): string | undefined {
  return job.lane === null || isSharedLane(job.lane) || isBlamed(error) ? undefined : job.lane;
}
