import { laneBacklog } from '#jobs/job-store.ts';
import type { Clock } from '#lib/clock.ts';
import type { Store } from '#storage/store.ts';

/**
 * Requests of one source that may wait in the store, and their bytes. Beyond that its component cannot keep up, and
 * whoever knows its address could fill the disk of all others.
 */
const waitingMax = 10_000;
const waitingBytesMax = 256 * 1024 * 1024;
/** How long a count from the store is believed; what is accepted meanwhile is added to it. */
const countedMs = 1_000;

/** How much waits for each source that has more requests than it runs. */
export class WaitingRequests {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #limits: { jobs: number; bytes: number };
  readonly #counts = new Map<string, { jobs: number; bytes: number; atMs: number }>();

  constructor(options: { store: Store; clock: Clock; limits?: { jobs: number; bytes: number } }) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#limits = options.limits ?? { jobs: waitingMax, bytes: waitingBytesMax };
  }

  /** True when one more request of `bytes` may wait for this source; it is then counted. */
  async admit(sourceId: string, bytes: number): Promise<boolean> {
    const count = await this.#count(sourceId);
    if (count.jobs >= this.#limits.jobs || count.bytes + bytes > this.#limits.bytes) return false;
    count.jobs += 1;
    count.bytes += bytes;
    return true;
  }

  async #count(sourceId: string): Promise<{ jobs: number; bytes: number }> {
    const nowMs = this.#clock.now();
    const known = this.#counts.get(sourceId);
    if (known !== undefined && Math.abs(nowMs - known.atMs) < countedMs) return known;
    for (const [id, { atMs }] of this.#counts) {
      if (Math.abs(nowMs - atMs) >= countedMs) this.#counts.delete(id);
    }
    const count = { ...(await laneBacklog(this.#store.read, sourceId, this.#limits.jobs)), atMs: nowMs };
    this.#counts.set(sourceId, count);
    return count;
  }
}
