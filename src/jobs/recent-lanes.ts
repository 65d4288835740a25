/** How long something about a lane that concerns other nodes counts after it was seen last. */
export const recentMs = 10_000;

/** Lanes of which something was seen within the last seconds. */
export class RecentLanes {
  readonly #untilMs = new Map<string, number>();
  readonly #forMs: number;
  readonly #nowMs: () => number;

  /** `nowMs`: a clock that never steps, for tests to turn. */
  constructor({
    forMs = recentMs,
    nowMs = () => performance.now(),
  }: { forMs?: number; nowMs?: () => number } = {}) {
    this.#forMs = forMs;
    this.#nowMs = nowMs;
  }

  add(lane: string): void {
    this.#untilMs.set(lane, this.#nowMs() + this.#forMs);
  }

  has(lane: string): boolean {
    const untilMs = this.#untilMs.get(lane);
    if (untilMs === undefined) return false;
    if (this.#nowMs() < untilMs) return true;
    this.#untilMs.delete(lane);
    return false;
  }

  forgetOld(): void {
    for (const lane of this.#untilMs.keys()) this.has(lane);
  }
}
