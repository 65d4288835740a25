/** Time enters as an argument, so that tests can step it (also backwards). */
export interface Clock {
  /** Epoch milliseconds. */
  now(): number;
}

export const systemClock: Clock = { now: () => Date.now() };

/** A clock that a test sets and steps by hand. */
export class TestClock implements Clock {
  #nowMs: number;

  constructor(nowMs = 1_800_000_000_000) {
    this.#nowMs = nowMs;
  }

  now(): number {
    return this.#nowMs;
  }

  set(nowMs: number): void {
    this.#nowMs = nowMs;
  }

  step(byMs: number): void {
    this.#nowMs += byMs;
  }
}

/** Epoch seconds, the unit of integer timestamps in the API. */
export function epochSeconds(ms: number): number {
  return Math.floor(ms / 1000);
}
