import type { Clock } from '#lib/clock.ts';

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
