interface Waiting {
  start: () => void;
}

/**
 * A few slots for many callers: each caller gets one slot at a time, and callers take turns, however many requests one of them
 * has. For work that cannot be cancelled and whose duration a stranger decides.
 */
export class FairQueue {
  readonly #slots: number;
  readonly #running = new Set<unknown>();
  /** Callers with waiting requests, in the order of their turns. */
  readonly #waiting = new Map<unknown, Waiting[]>();

  constructor(slots: number) {
    this.#slots = slots;
  }

  async run<T>(asker: unknown, work: () => Promise<T>): Promise<T> {
    await new Promise<void>((resolve) => {
      const queue = this.#waiting.get(asker) ?? [];
      queue.push({ start: resolve });
      this.#waiting.set(asker, queue);
      this.#next();
    });
    try {
      return await work();
    } finally {
      this.#running.delete(asker);
      this.#next();
    }
  }

  #next(): void {
    for (const [asker, queue] of this.#waiting) {
      if (this.#running.size >= this.#slots) return;
      if (this.#running.has(asker)) continue;
      // To the end of the turns, if it has more.
      this.#waiting.delete(asker);
      const first = queue.shift();
      if (queue.length > 0) this.#waiting.set(asker, queue);
      this.#running.add(asker);
      first?.start();
    }
  }
}
