import { laneBacklog } from '#jobs/job-store.ts';
import type { Clock } from '#lib/clock.ts';
import type { Db, Store } from '#storage/store.ts';

/**
 * Runs of one source that may wait in the store, and the bytes of their events. Beyond that its component cannot keep up,
 * and whoever knows its address could fill the disk of all others.
 */
export const waitingMax = 100_000;
const waitingBytesMax = 256 * 1024 * 1024;
/** How long a count from the store is believed, or longer when it was long; what is accepted meanwhile is added. */
const countedMs = 1_000;
const countedMsPerJob = 0.1;

interface Count {
  jobs: number;
  bytes: number;
}

interface Believed {
  sinceMs: number;
  untilMs: number;
  count: Promise<Count>;
}

/** Not for ever when the clock steps back. */
function isBelieved({ sinceMs, untilMs }: Believed, nowMs: number): boolean {
  return sinceMs <= nowMs && nowMs < untilMs;
}

/** How much waits for each source (or workflow) that is asked for more runs than it makes. */
export class WaitingRuns {
  readonly #clock: Clock;
  readonly #limits: Count;
  readonly #ask: (id: string, limit: number) => Promise<Count>;
  readonly #counts = new Map<string, Believed>();

  constructor(options: {
    store: Pick<Store, 'read'>;
    clock: Clock;
    limits?: Count;
    /** What waits, counted up to `limit`; default: the jobs of the lane. */
    count?: (db: Db, id: string, limit: number) => Promise<Count>;
  }) {
    const { store, count = laneBacklog } = options;
    this.#clock = options.clock;
    this.#limits = options.limits ?? { jobs: waitingMax, bytes: waitingBytesMax };
    this.#ask = (id, limit) => count(store.read, id, limit);
  }

  /** True when one more run, with an event of `bytes`, may wait for this source; it is then counted. */
  async admit(sourceId: string, bytes: number): Promise<boolean> {
    const count = await this.#count(sourceId);
    if (count.jobs >= this.#limits.jobs || count.bytes + bytes > this.#limits.bytes) return false;
    count.jobs += 1;
    count.bytes += bytes;
    return true;
  }

  /** Runs that are asked for while the store counts wait for that count, instead of each asking for its own. */
  #count(sourceId: string): Promise<Count> {
    const nowMs = this.#clock.now();
    const known = this.#counts.get(sourceId);
    if (known !== undefined && isBelieved(known, nowMs)) return known.count;
    for (const [id, old] of this.#counts) if (!isBelieved(old, nowMs)) this.#counts.delete(id);
    const count = this.#ask(sourceId, this.#limits.jobs);
    const believed: Believed = { sinceMs: nowMs, untilMs: Number.POSITIVE_INFINITY, count };
    this.#counts.set(sourceId, believed);
    count.then(
      ({ jobs }) => {
        believed.untilMs = nowMs + Math.max(countedMs, jobs * countedMsPerJob);
      },
      () => this.#counts.delete(sourceId),
    );
    return count;
  }
}
