/** How long a lane whose jobs came through other nodes continues to go through the store after the last one. */
export const throughOthersMs = 10_000;

/** Lanes whose requests come to other nodes too: all of their jobs go through the store, where they are in order. */
export class LanesThroughOthers {
  readonly #untilMs = new Map<string, number>();
  readonly #nowMs: () => number;

  /** `nowMs`: a clock that never steps, for tests to turn. */
  constructor({ nowMs = () => performance.now() }: { nowMs?: () => number } = {}) {
    this.#nowMs = nowMs;
  }

  add(lane: string): void {
    this.#untilMs.set(lane, this.#nowMs() + throughOthersMs);
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
