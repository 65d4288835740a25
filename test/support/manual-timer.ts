import type { RunnerTimer } from '#runner/runner-timer.ts';
import { waitFor } from './wait-for.ts';

interface Waiting {
  atMs: number;
  /** The delay of a time-out, or the period of an interval. */
  ms: number;
  isRepeated: boolean;
  callback: () => void;
}

/** Time that passes when a test says so: what should happen at a deadline is waited for by no test, and happens to no other. */
export class ManualTimer implements RunnerTimer {
  readonly #waiting = new Set<Waiting>();
  readonly #stepMs: number;
  #nowMs = 0;

  /** Every reading of the time comes `stepMs` after the one before. */
  constructor({ stepMs = 0 }: { stepMs?: number } = {}) {
    this.#stepMs = stepMs;
  }

  nowMs(): number {
    this.#nowMs += this.#stepMs;
    return this.#nowMs;
  }

  after(ms: number, callback: () => void): () => void {
    return this.#add({ atMs: this.#nowMs + ms, ms, isRepeated: false, callback });
  }

  every(ms: number, callback: () => void): () => void {
    return this.#add({ atMs: this.#nowMs + ms, ms, isRepeated: true, callback });
  }

  /** Calls what is due within the next `ms`, in the order in which it is due. */
  advance(ms: number): void {
    const untilMs = this.#nowMs + ms;
    for (;;) {
      const [next] = [...this.#waiting].filter(({ atMs }) => atMs <= untilMs).sort((a, b) => a.atMs - b.atMs);
      if (next === undefined) break;
      this.#nowMs = Math.max(this.#nowMs, next.atMs);
      if (next.isRepeated) next.atMs += next.ms;
      else this.#waiting.delete(next);
      next.callback();
    }
    this.#nowMs = Math.max(this.#nowMs, untilMs);
  }

  /** Waits until something is to be called after exactly `ms`, such as a deadline that was given to a call. */
  async started(ms: number): Promise<void> {
    await waitFor(() => [...this.#waiting].some((one) => !one.isRepeated && one.ms === ms), {
      what: `something that is to happen after ${ms} ms`,
    });
  }

  /** Calls `begin`, and advances by `ms` when that calls its argument, or ends. Returns its result. */
  async passWhenTold<T>(ms: number, begin: (tell: () => void) => Promise<T>): Promise<T> {
    const told = Promise.withResolvers<void>();
    const outcome = begin(told.resolve);
    await Promise.race([told.promise, outcome]);
    this.advance(ms);
    return outcome;
  }

  #add(one: Waiting): () => void {
    this.#waiting.add(one);
    return () => this.#waiting.delete(one);
  }
}
