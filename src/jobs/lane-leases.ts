import type { Store, Tx } from '#storage/store.ts';
import { countLanes, releaseLanes, takeLanes } from './lane-lease-store.ts';
import { isSharedLane } from './shared-lane.ts';

/** A lane without work is released after this long: any node may get its next work. */
export const laneIdleMs = 60_000;
/** Every transaction that added work to a lane has ended this long after the lane was last used here. */
const settleMs = 250;
/** This node does not take back a lane that it handed over for this long, so that other nodes come first. */
const abstainMs = 2_000;
/** Other nodes count as present for so long after they were seen. */
const othersMs = 60_000;
/** The part of its surplus lanes that this node releases at each check. */
const givenPart = 1 / 4;
/** A node releases lanes when its surplus is more than this part of its lanes, and more than one lane. */
const unevenPart = 1 / 10;

/**
 * The lanes that this node owns. A lane without the mark of shared ones (`shared-lane.ts`) belongs to one node at a time, from its first
 * work until it is idle or is handed over. That node alone runs its jobs, one after another, so each run sees what earlier ones stored.
 *
 * The store (`lane_leases`) decides who owns a lane. Memory holds the lanes that this node may use without a query: a lane is added after
 * its row was written, and removed before its row is deleted. When a node loses its own lease, the store refuses what it still tries to
 * write (`keepLanesQuery`). With the embedded store there is one node, which owns all lanes.
 */
export class LaneLeases {
  readonly node: string;
  readonly #store: Store;
  readonly #isSole: boolean;
  readonly #nowMs: () => number;
  /** The time at which each lane was last used, of `nowMs`. */
  readonly #own = new Map<string, number>();
  /** Lanes to release as soon as nothing of them is under way here. */
  readonly #leaving = new Set<string>();
  readonly #abstains = new Map<string, number>();
  readonly #observers: ((lanes: ReadonlySet<string>) => void)[] = [];
  /** Other nodes count as present until then. Infinity before the first check. */
  #othersUntilMs = Number.POSITIVE_INFINITY;
  /** Serialises taking and releasing, so that neither undoes a write of the other. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(options: {
    node: string;
    store: Store;
    /** A clock that never steps, for tests to turn. */
    nowMs?: () => number;
  }) {
    this.node = options.node;
    this.#store = options.store;
    this.#nowMs = options.nowMs ?? (() => performance.now());
    this.#isSole = !options.store.isShared;
  }

  /**
   * Calls the observer with lanes that this node has just taken: older work of them may wait in the store, and newer work must not begin
   * before it.
   */
  onTaken(observer: (lanes: ReadonlySet<string>) => void): void {
    this.#observers.push(observer);
  }

  /** True when other nodes were there a moment ago. Without others, a node that stalls until its lease runs out may continue. */
  get hasOthers(): boolean {
    return !this.#isSole && this.#nowMs() < this.#othersUntilMs;
  }

  get count(): number {
    return this.#own.size;
  }

  /** True when new work of the lane may begin here without the way through the store. */
  owns(lane: string): boolean {
    if (this.#isSole || isSharedLane(lane)) return true;
    if (!this.#own.has(lane) || this.#leaving.has(lane)) return false;
    this.#own.set(lane, this.#nowMs());
    return true;
  }

  /** True when this node may take the lane from the store: the node is not giving it up. */
  mayTake(lane: string): boolean {
    if (this.#leaving.has(lane)) return false;
    const untilMs = this.#abstains.get(lane);
    if (untilMs !== undefined && untilMs <= this.#nowMs()) this.#abstains.delete(lane);
    return !this.#abstains.has(lane);
  }

  /** A transaction that takes lanes (`take`), alone among those that take or give up any. What it took counts once it is committed. */
  async taking<T>(
    work: (tx: Tx, take: (lanes: readonly string[]) => Promise<Set<string>>) => Promise<T>,
  ): Promise<T> {
    if (this.#isSole) return this.#store.transaction((tx) => work(tx, async (lanes) => new Set(lanes)));
    return this.#inTurn(async () => {
      let taken = new Set<string>();
      const result = await this.#store.transaction((tx) => {
        // If the store repeats the transaction, only the last attempt counts.
        taken = new Set();
        return work(tx, async (lanes) => {
          const own = lanes.filter((lane) => this.owns(lane));
          const free = lanes.filter((lane) => !this.owns(lane) && this.mayTake(lane));
          const mine = await takeLanes(tx, this.node, free);
          for (const lane of mine) taken.add(lane);
          return new Set([...own, ...mine]);
        });
      });
      const nowMs = this.#nowMs();
      for (const lane of taken) this.#own.set(lane, nowMs);
      if (taken.size > 0) for (const tell of this.#observers) tell(taken);
      return result;
    });
  }

  /** Returns those of `lanes` that this node has, or could take, now. */
  async take(lanes: readonly string[]): Promise<Set<string>> {
    const own = new Set(lanes.filter((lane) => this.owns(lane)));
    const others = lanes.filter((lane) => !own.has(lane));
    if (others.length === 0) return own;
    const taken = await this.taking((_tx, take) => take(others));
    return own.union(taken);
  }

  /**
   * Gives up what is idle, and chooses what is to be handed to nodes that have less. `isBusy`: something of a lane is under way in this
   * process. `comesElsewhere`: requests of a lane come to other nodes, so that it is handed over before others. Returns whether any
   * waits to be handed over.
   */
  async look(options: {
    nowMs: number;
    isBusy: (lane: string) => boolean;
    comesElsewhere?: (lane: string) => boolean;
  }): Promise<boolean> {
    if (this.#isSole) return false;
    const sinceMs = this.#nowMs() - laneIdleMs;
    await this.#release(() =>
      this.#ownWhere((lane, usedAtMs) => usedAtMs < sinceMs && !options.isBusy(lane)),
    );
    const { lanes, nodes, others } = await countLanes(this.#store.read, this.node, options.nowMs);
    if (others > 0) this.#othersUntilMs = this.#nowMs() + othersMs;
    else if (this.#othersUntilMs === Number.POSITIVE_INFINITY) this.#othersUntilMs = 0;
    const staying = [...this.#own].filter(([lane]) => !this.#leaving.has(lane));
    const excess = staying.length - Math.ceil(lanes / Math.max(1, nodes));
    if (nodes > 1 && excess > Math.max(1, staying.length * unevenPart)) {
      // Then the least recently used lanes: they are least likely to have work that the hand-over must wait for.
      const { comesElsewhere = () => false } = options;
      staying.sort(
        ([one, a], [other, b]) => Number(comesElsewhere(other)) - Number(comesElsewhere(one)) || a - b,
      );
      for (const [lane] of staying.slice(0, Math.ceil(excess * givenPart))) this.#leaving.add(lane);
    }
    return this.isLeaving;
  }

  /** Hands over what was chosen and has nothing under way here. */
  async giveUp(isBusy: (lane: string) => boolean): Promise<void> {
    const settledBefore = this.#nowMs() - settleMs;
    const isReady = (lane: string, usedAtMs: number) =>
      this.#leaving.has(lane) && usedAtMs < settledBefore && !isBusy(lane);
    const given = await this.#release(() => this.#ownWhere(isReady));
    // Others come first.
    for (const lane of given) this.#abstains.set(lane, this.#nowMs() + abstainMs);
  }

  #ownWhere(holds: (lane: string, usedAtMs: number) => boolean): string[] {
    return [...this.#own].filter(([lane, usedAtMs]) => holds(lane, usedAtMs)).map(([lane]) => lane);
  }

  /** Gives up those that `choose` names when its turn has come; work that comes meanwhile goes through the store. */
  #release(choose: () => string[]): Promise<Set<string>> {
    return this.#inTurn(async () => {
      const chosen = choose();
      if (chosen.length === 0) return new Set();
      const before = new Set(this.#leaving);
      for (const lane of chosen) this.#leaving.add(lane);
      let released = new Set<string>();
      try {
        released = await this.#store.transaction(async (tx) => {
          const gone = await releaseLanes(tx, this.node, chosen);
          if (gone.size > 0) await this.#store.notify(tx, 'millrace_jobs', '');
          return gone;
        });
        return released;
      } finally {
        // A lane that still has leased work was not released: it stays ours.
        for (const lane of chosen) {
          if (released.has(lane)) this.#own.delete(lane);
          if (released.has(lane) || !before.has(lane)) this.#leaving.delete(lane);
        }
      }
    });
  }

  get isLeaving(): boolean {
    return this.#leaving.size > 0;
  }

  /** This node lost its own lease: others have freed its lanes. */
  forgetAll(): void {
    this.#own.clear();
    this.#leaving.clear();
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => {});
    return done;
  }
}
