/** How much waits. */
export interface Backlog {
  count: number;
  bytes: number;
}

export interface BacklogLimiterOptions<Request, Counted extends Backlog> {
  /** Size of one request. */
  bytesOf: (request: Request) => number;
  /** What waits for `key` in the store, counted as far as the request needs it. */
  countStored: (key: string, request: Request) => Promise<Counted>;
  /** The count of a key before its first look-up. */
  nothing: () => Counted;
  /** True when one more may wait, with limits multiplied by `factor`. */
  hasRoom: (backlog: Counted, request: Request, factor: number) => boolean;
  /** Nothing is refused before the store was counted again, which is expensive where many are refused. */
  recountsBeforeRefusal?: boolean;
  /** `settled` is called for each admitted request. Until then a count of the store may miss it, so it is added. */
  tracksUnstored?: boolean;
  nowMs: () => number;
}

/** Cache TTL of a count, and what each counted row adds to it. */
const countTtlMs = 1_000;
const countTtlMsPerCounted = 0.1;
/** Keys that were unused for this long are dropped, once there are more than this number. */
const unusedMs = 60_000;
const forgetAtLeast = 1_000;
/** The pause after a background count, as a multiple of its duration: other readers need the store too. */
const restFactor = 4;

interface Known<Counted> {
  /** The last count of the store. */
  stored: Counted;
  /** The last count and everything admitted since. */
  estimate: Counted;
  /** Everything admitted so far. */
  admitted: Backlog;
  /** Admitted, and not known to be in the store. Zero without `tracksUnstored`. */
  unstored: Backlog;
  /** -Infinity: never. */
  countedAtMs: number;
  usedAtMs: number;
  counting: Promise<void> | undefined;
}

/**
 * Bounds what may wait in the store for each of many keys, without a count for each request. The estimate is an upper bound:
 * the last count and everything admitted since. What has left the store since that count is still included.
 */
export class BacklogLimiter<Request, Counted extends Backlog = Backlog> {
  readonly #options: BacklogLimiterOptions<Request, Counted>;
  readonly #known = new Map<string, Known<Counted>>();
  #forgetAt = forgetAtLeast;
  /** Keys to be counted in the background, each with its request. */
  readonly #toCount = new Map<string, Request>();
  #counting: Promise<void> | undefined;

  constructor(options: BacklogLimiterOptions<Request, Counted>) {
    this.#options = options;
  }

  /**
   * True: one more may wait, and is included in the estimate. Waits for the store where the count has expired; requests
   * that come meanwhile share that count.
   */
  async admit(key: string, request: Request): Promise<boolean> {
    const { hasRoom, recountsBeforeRefusal, nowMs } = this.#options;
    const known = this.#known.get(key) ?? this.#begin(key, Number.NEGATIVE_INFINITY);
    known.usedAtMs = nowMs();
    if (this.#isOld(known) || (recountsBeforeRefusal === true && !hasRoom(known.estimate, request, 1)))
      await this.#count(key, known, request);
    if (!hasRoom(known.estimate, request, 1)) return false;
    this.#add(known, request);
    return true;
  }

  /**
   * The same for callers in a transaction, which cannot wait. Keys near the limit are counted in the background, one after
   * another. Until a key is counted, it gets at most twice its limit.
   */
  admitWithoutWaiting(key: string, request: Request): boolean {
    const { hasRoom, nowMs } = this.#options;
    let known = this.#known.get(key);
    if (known === undefined) {
      known = this.#begin(key, nowMs());
      this.#countSoon(key, request);
    }
    known.usedAtMs = nowMs();
    const { estimate, stored } = known;
    const isOld = this.#isOld(known);
    if (isOld && !hasRoom(estimate, request, 1 / 2)) this.#countSoon(key, request);
    const isUnsure = isOld && hasRoom(estimate, request, 2) && hasRoom(stored, request, 1);
    if (!hasRoom(estimate, request, 1) && !isUnsure) return false;
    this.#add(known, request);
    return true;
  }

  /** An admitted request is in the store, or will not be written. */
  settled(key: string, request: Request): void {
    const unstored = this.#known.get(key)?.unstored;
    if (unstored === undefined) return;
    unstored.count -= 1;
    unstored.bytes -= this.#options.bytesOf(request);
  }

  /** Resolves when the background counts are done; for tests. */
  async counted(): Promise<void> {
    while (this.#counting !== undefined) await this.#counting;
  }

  #add({ estimate, admitted, unstored }: Known<Counted>, request: Request): void {
    const bytes = this.#options.bytesOf(request);
    estimate.count += 1;
    estimate.bytes += bytes;
    admitted.count += 1;
    admitted.bytes += bytes;
    if (this.#options.tracksUnstored !== true) return;
    unstored.count += 1;
    unstored.bytes += bytes;
  }

  /** True as well when the clock has stepped back, so that a count cannot stay valid for ever. */
  #isOld({ countedAtMs, stored }: Known<Counted>): boolean {
    const ageMs = this.#options.nowMs() - countedAtMs;
    return ageMs < 0 || ageMs >= Math.max(countTtlMs, stored.count * countTtlMsPerCounted);
  }

  #begin(key: string, countedAtMs: number): Known<Counted> {
    const { nothing, nowMs } = this.#options;
    if (this.#known.size >= this.#forgetAt) this.#forgetUnused();
    const known: Known<Counted> = {
      stored: nothing(),
      estimate: nothing(),
      admitted: { count: 0, bytes: 0 },
      unstored: { count: 0, bytes: 0 },
      countedAtMs,
      usedAtMs: nowMs(),
      counting: undefined,
    };
    this.#known.set(key, known);
    return known;
  }

  #forgetUnused(): void {
    const nowMs = this.#options.nowMs();
    for (const [key, { usedAtMs, unstored, counting }] of this.#known) {
      const isNeeded = unstored.count > 0 || counting !== undefined || this.#toCount.has(key);
      if (!isNeeded && Math.abs(nowMs - usedAtMs) > unusedMs) this.#known.delete(key);
    }
    this.#forgetAt = Math.max(forgetAtLeast, 2 * this.#known.size);
  }

  #count(key: string, known: Known<Counted>, request: Request): Promise<void> {
    known.counting ??= this.#recount(key, known, request).finally(() => {
      known.counting = undefined;
    });
    return known.counting;
  }

  async #recount(key: string, known: Known<Counted>, request: Request): Promise<void> {
    const { countStored, nowMs } = this.#options;
    const { admitted } = known;
    const before = { ...admitted };
    const unstored = { ...known.unstored };
    const stored = await countStored(key, request);
    known.stored = stored;
    known.estimate = {
      ...stored,
      count: stored.count + unstored.count + admitted.count - before.count,
      bytes: stored.bytes + unstored.bytes + admitted.bytes - before.bytes,
    };
    known.countedAtMs = nowMs();
  }

  #countSoon(key: string, request: Request): void {
    this.#toCount.set(key, request);
    this.#counting ??= this.#countAll().finally(() => {
      this.#counting = undefined;
    });
  }

  async #countAll(): Promise<void> {
    const { nowMs } = this.#options;
    for (const [key, request] of this.#toCount) {
      const known = this.#known.get(key);
      const begunMs = nowMs();
      try {
        if (known !== undefined) await this.#count(key, known, request);
      } catch {
        // The store is unavailable. The next request for the key counts again.
      }
      this.#toCount.delete(key);
      const restMs = (nowMs() - begunMs) * restFactor;
      if (this.#toCount.size > 0) await new Promise<void>((resolve) => setTimeout(resolve, restMs).unref());
    }
  }
}
