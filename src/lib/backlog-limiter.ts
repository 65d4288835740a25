/** How much waits. */
export interface Backlog {
  count: number;
  bytes: number;
}

export interface BacklogLimiterOptions<Wish, Counted extends Backlog> {
  /** How much one is that may wait. */
  bytesOf: (wish: Wish) => number;
  /** What waits for `key` in the store, counted as far as it matters to the wish. */
  countStored: (key: string, wish: Wish) => Promise<Counted>;
  /** What is believed of a key before its first count. */
  nothing: () => Counted;
  /** Whether one more may wait; `factor`: with limits so many times as large. */
  hasRoom: (backlog: Counted, wish: Wish, factor: number) => boolean;
  /** Nothing is refused before the store was asked anew, which is dear where many are refused. */
  asksBeforeRefusal?: boolean;
  /** `arrived` is called for each that was admitted: until then a count of the store may miss it, so it is added. */
  tracksArrival?: boolean;
  nowMs: () => number;
}

/** How long a count is believed, or longer when it was long. */
const believedMs = 1_000;
const believedMsPerCounted = 0.1;
/** A key is forgotten when it was not needed for so long; it is looked for when there are so many. */
const forgottenMs = 60_000;
const forgetAtLeast = 1_000;
/** Counting in the background rests this many times as long as it took: it shares the store with all who read. */
const restFactor = 4;

interface Known<Counted> {
  /** What the store said. */
  stored: Counted;
  /** That, and everything admitted since. */
  believed: Counted;
  /** Everything admitted so far. */
  admitted: Backlog;
  /** Admitted, and not known to be in the store; zero where arrivals are not tracked. */
  onItsWay: Backlog;
  /** Never: -Infinity. */
  countedAtMs: number;
  usedAtMs: number;
  counting: Promise<void> | undefined;
}

/**
 * Bounds what may wait in the store for each of many keys without counting it for each that comes. What is believed is an
 * upper bound: a count, and everything admitted since; what has left the store since the count still counts.
 */
export class BacklogLimiter<Wish, Counted extends Backlog = Backlog> {
  readonly #options: BacklogLimiterOptions<Wish, Counted>;
  readonly #known = new Map<string, Known<Counted>>();
  #forgetAt = forgetAtLeast;
  /** To be counted in the background, with what is wished for. */
  readonly #toCount = new Map<string, Wish>();
  #counting: Promise<void> | undefined;

  constructor(options: BacklogLimiterOptions<Wish, Counted>) {
    this.#options = options;
  }

  /**
   * True when one more may wait; it is then counted. Waits for the store where the count is out of date: those that come
   * while the store counts share that count.
   */
  async admit(key: string, wish: Wish): Promise<boolean> {
    const { hasRoom, asksBeforeRefusal, nowMs } = this.#options;
    const known = this.#known.get(key) ?? this.#begin(key, Number.NEGATIVE_INFINITY);
    known.usedAtMs = nowMs();
    if (this.#isOld(known) || (asksBeforeRefusal === true && !hasRoom(known.believed, wish, 1)))
      await this.#count(key, known, wish);
    if (!hasRoom(known.believed, wish, 1)) return false;
    this.#add(known, wish);
    return true;
  }

  /**
   * The same for callers in a transaction, which wait for nothing: keys are counted in the background, one after another, when
   * they come near the limit. Until that is done a key gets as much again, not more.
   */
  admitAtOnce(key: string, wish: Wish): boolean {
    const { hasRoom, nowMs } = this.#options;
    let known = this.#known.get(key);
    if (known === undefined) {
      known = this.#begin(key, nowMs());
      this.#countSoon(key, wish);
    }
    known.usedAtMs = nowMs();
    const { believed, stored } = known;
    const isOld = this.#isOld(known);
    if (isOld && !hasRoom(believed, wish, 1 / 2)) this.#countSoon(key, wish);
    const isUnsure = isOld && hasRoom(believed, wish, 2) && hasRoom(stored, wish, 1);
    if (!hasRoom(believed, wish, 1) && !isUnsure) return false;
    this.#add(known, wish);
    return true;
  }

  /** One that was admitted is in the store, or will not come there. */
  arrived(key: string, wish: Wish): void {
    const onItsWay = this.#known.get(key)?.onItsWay;
    if (onItsWay === undefined) return;
    onItsWay.count -= 1;
    onItsWay.bytes -= this.#options.bytesOf(wish);
  }

  /** Resolves when everything is counted that was to be, in the background; for tests. */
  async counted(): Promise<void> {
    while (this.#counting !== undefined) await this.#counting;
  }

  #add({ believed, admitted, onItsWay }: Known<Counted>, wish: Wish): void {
    const bytes = this.#options.bytesOf(wish);
    believed.count += 1;
    believed.bytes += bytes;
    admitted.count += 1;
    admitted.bytes += bytes;
    if (this.#options.tracksArrival !== true) return;
    onItsWay.count += 1;
    onItsWay.bytes += bytes;
  }

  /** Also when the clock has stepped back: not believed for ever. */
  #isOld({ countedAtMs, stored }: Known<Counted>): boolean {
    const ageMs = this.#options.nowMs() - countedAtMs;
    return ageMs < 0 || ageMs >= Math.max(believedMs, stored.count * believedMsPerCounted);
  }

  #begin(key: string, countedAtMs: number): Known<Counted> {
    const { nothing, nowMs } = this.#options;
    if (this.#known.size >= this.#forgetAt) this.#forgetUnused();
    const known: Known<Counted> = {
      stored: nothing(),
      believed: nothing(),
      admitted: { count: 0, bytes: 0 },
      onItsWay: { count: 0, bytes: 0 },
      countedAtMs,
      usedAtMs: nowMs(),
      counting: undefined,
    };
    this.#known.set(key, known);
    return known;
  }

  #forgetUnused(): void {
    const nowMs = this.#options.nowMs();
    for (const [key, { usedAtMs, onItsWay, counting }] of this.#known) {
      const isNeeded = onItsWay.count > 0 || counting !== undefined || this.#toCount.has(key);
      if (!isNeeded && Math.abs(nowMs - usedAtMs) > forgottenMs) this.#known.delete(key);
    }
    this.#forgetAt = Math.max(forgetAtLeast, 2 * this.#known.size);
  }

  #count(key: string, known: Known<Counted>, wish: Wish): Promise<void> {
    known.counting ??= this.#ask(key, known, wish).finally(() => {
      known.counting = undefined;
    });
    return known.counting;
  }

  async #ask(key: string, known: Known<Counted>, wish: Wish): Promise<void> {
    const { countStored, nowMs } = this.#options;
    const { admitted } = known;
    const before = { ...admitted };
    const onItsWay = { ...known.onItsWay };
    const stored = await countStored(key, wish);
    known.stored = stored;
    known.believed = {
      ...stored,
      count: stored.count + onItsWay.count + admitted.count - before.count,
      bytes: stored.bytes + onItsWay.bytes + admitted.bytes - before.bytes,
    };
    known.countedAtMs = nowMs();
  }

  #countSoon(key: string, wish: Wish): void {
    this.#toCount.set(key, wish);
    this.#counting ??= this.#countAll().finally(() => {
      this.#counting = undefined;
    });
  }

  async #countAll(): Promise<void> {
    const { nowMs } = this.#options;
    for (const [key, wish] of this.#toCount) {
      const known = this.#known.get(key);
      const begunMs = nowMs();
      try {
        if (known !== undefined) await this.#count(key, known, wish);
      } catch {
        // The store is away. Whatever comes next has it counted again.
      }
      this.#toCount.delete(key);
      const restMs = (nowMs() - begunMs) * restFactor;
      if (this.#toCount.size > 0) await new Promise<void>((resolve) => setTimeout(resolve, restMs).unref());
    }
  }
}
