/** A run whose first wait is over sooner is not parked: to load it again may cost more than to keep it. */
const parkedMsMin = 5_000;
/** Longest delay of a timer of Node.js. */
const timerMsMax = 2 ** 31 - 1;

/** `continue`: the wait of a strand is over, or may have been answered. `park`: the whole run waits from now on. */
export type Woken = 'continue' | 'park';

/**
 * The strands of a run that wait while others of it run a step here. When none does, all are told that the run is parked:
 * it then waits in the store, and another node may continue it.
 */
export class StrandWaits {
  readonly #now: () => number;
  readonly #waiting = new Set<{ untilMs: number; resolve: (how: Woken) => void }>();
  #running = 0;
  readonly #signal: AbortSignal;

  /** `signal`: the run ended, or this node gives it up. */
  constructor(now: () => number, signal: AbortSignal) {
    this.#now = now;
    this.#signal = signal;
  }

  /** Does the work of a strand, during which the run is not parked. */
  async during<T>(work: () => Promise<T>): Promise<T> {
    this.#running += 1;
    try {
      return await work();
    } finally {
      this.#running -= 1;
      // The strand may begin its next step before anything else happens.
      if (this.#running === 0 && this.#waiting.size > 0) setImmediate(() => this.#parkIfIdle());
    }
  }

  /** Resolves at the time (epoch ms), when `wake` is called, or with `park` when no other strand of the run is working here. */
  async until(untilMs: number): Promise<Woken> {
    if (this.#signal.aborted) return 'park';
    const { promise, resolve } = Promise.withResolvers<Woken>();
    const waiting = { untilMs, resolve };
    this.#waiting.add(waiting);
    const timer = setTimeout(
      () => resolve('continue'),
      Math.min(Math.max(untilMs - this.#now(), 0), timerMsMax),
    );
    const stop = () => resolve('park');
    this.#signal.addEventListener('abort', stop, { once: true });
    if (this.#running === 0) setImmediate(() => this.#parkIfIdle());
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#signal.removeEventListener('abort', stop);
      this.#waiting.delete(waiting);
    }
  }

  /** A wait may have been answered. */
  wake(): void {
    for (const { resolve } of this.#waiting) resolve('continue');
  }

  #parkIfIdle(): void {
    if (this.#running > 0) return;
    const nowMs = this.#now();
    const over = [...this.#waiting].filter(({ untilMs }) => untilMs <= nowMs);
    if (over.length > 0) for (const { resolve } of over) resolve('continue');
    else if ([...this.#waiting].every(({ untilMs }) => untilMs - nowMs >= parkedMsMin))
      for (const { resolve } of this.#waiting) resolve('park');
  }
}
