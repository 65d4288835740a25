/** A rest is at most this long. */
const restMsMax = 1_000;

interface Waiting {
  start: () => void;
}

/**
 * A few slots for many callers: each caller gets one slot at a time (or `perAsker`), and callers take turns, however many requests one of them
 * has. For work that cannot be cancelled and whose duration a stranger decides.
 */
export class FairQueue {
  readonly #slots: number;
  readonly #perAsker: number;
  readonly #rest: () => number;
  readonly #restAfterMs: number;
  /** Slots in use, by asker. */
  readonly #running = new Map<unknown, number>();
  #runningCount = 0;
  /** Callers with waiting requests, in the order of their turns. */
  readonly #waiting = new Map<unknown, Waiting[]>();

  /**
   * `rest`: after work of `restAfterMs` or more, the slot of its asker stays taken for so many times as long, for others to have that time.
   */
  constructor(
    slots: number,
    {
      perAsker = 1,
      rest = () => 0,
      restAfterMs = 0,
    }: { perAsker?: number; rest?: () => number; restAfterMs?: number } = {},
  ) {
    this.#slots = slots;
    this.#perAsker = perAsker;
    this.#rest = rest;
    this.#restAfterMs = restAfterMs;
  }

  async run<T>(asker: unknown, work: () => Promise<T>): Promise<T> {
    await new Promise<void>((resolve) => {
      const queue = this.#waiting.get(asker) ?? [];
      queue.push({ start: resolve });
      this.#waiting.set(asker, queue);
      this.#next();
    });
    const startedMs = performance.now();
    try {
      return await work();
    } finally {
      this.#runningCount -= 1;
      const ms = performance.now() - startedMs;
      const restMs = ms < this.#restAfterMs ? 0 : Math.min(restMsMax, ms * this.#rest());
      if (restMs === 0) this.#leave(asker);
      else {
        setTimeout(() => this.#leave(asker), restMs).unref();
        this.#next();
      }
    }
  }

  #next(): void {
    for (const [asker, queue] of this.#waiting) {
      if (this.#runningCount >= this.#slots) return;
      const running = this.#running.get(asker) ?? 0;
      if (running >= this.#perAsker) continue;
      // To the end of the turns, if it has more.
      this.#waiting.delete(asker);
      const first = queue.shift();
      if (queue.length > 0) this.#waiting.set(asker, queue);
      this.#running.set(asker, running + 1);
      this.#runningCount += 1;
      first?.start();
    }
  }

  #leave(asker: unknown): void {
    const left = (this.#running.get(asker) ?? 1) - 1;
    if (left === 0) this.#running.delete(asker);
    else this.#running.set(asker, left);
    this.#next();
  }
}
