import { setTimeout as delay } from 'node:timers/promises';
import { type LaneLeases, laneIdleMs } from './lane-leases.ts';
import { RecentLanes } from './recent-lanes.ts';

/** A request waits so long for the turn of its lane; without it the request goes through the store. */
const patienceMs = 250;
/** Lanes of one transaction. */
const lanesPerRound = 500;

/**
 * Takes lanes that no node has for the node that requests for them come to. On another node each of the requests would wait in the store.
 *
 * Lanes are asked for together, in one transaction at a time: claims and heartbeats wait for the same turn (`LaneLeases`), and after an hour of
 * quiet, requests for thousands of lanes may come at once. Each lane is asked for at most as often as one that is idle becomes free, since
 * most of those that this node does not have belong to another one.
 */
export class FreeLanes {
  readonly #lanes: Pick<LaneLeases, 'take'>;
  readonly #asked = new RecentLanes({ forMs: laneIdleMs });
  readonly #waiting = new Set<string>();
  /** What each lane that was asked for is taken with. */
  readonly #underWay = new Map<string, Promise<void>>();
  #next: Promise<void> | undefined;
  #last: Promise<void> = Promise.resolve();

  constructor(lanes: Pick<LaneLeases, 'take'>) {
    this.#lanes = lanes;
  }

  /**
   * Resolves when the lane is taken or another node has it, or after a quarter of a second. Requests that come meanwhile wait for the same, so
   * that none of them is before the first.
   */
  async take(lane: string): Promise<void> {
    const taken = this.#underWay.get(lane) ?? this.#ask(lane);
    if (taken === undefined) return;
    const patience = new AbortController();
    const { signal } = patience;
    await Promise.race([taken, delay(patienceMs, undefined, { signal }).catch(() => {})]);
    patience.abort();
  }

  forgetOld(): void {
    this.#asked.forgetOld();
  }

  /** Undefined: it was asked for a moment ago. */
  #ask(lane: string): Promise<void> | undefined {
    if (this.#asked.has(lane)) return undefined;
    this.#asked.add(lane);
    this.#waiting.add(lane);
    this.#next ??= this.#begin();
    this.#underWay.set(lane, this.#next);
    return this.#next;
  }

  #begin(): Promise<void> {
    const round = this.#last.then(() => this.#takeWaiting());
    this.#last = round;
    return round;
  }

  async #takeWaiting(): Promise<void> {
    this.#next = undefined;
    const lanes = [...this.#waiting];
    this.#waiting.clear();
    try {
      for (let at = 0; at < lanes.length; at += lanesPerRound)
        await this.#lanes.take(lanes.slice(at, at + lanesPerRound));
    } catch {
      // The store is away. Who has the turn does not matter to the requests.
    } finally {
      for (const lane of lanes) this.#underWay.delete(lane);
    }
  }
}
