/**
 * Keys of which something may wait in the store that no claim has seen yet: what is newer goes behind it. Each key has the
 * number of its mark, so that a claim forgets only what was marked before the claim began.
 */
export class ClaimMarks {
  readonly #marks = new Map<string, number>();
  /** How much of each key is on its way to the store, where no claim can see it yet. */
  readonly #held = new Map<string, number>();
  #newest = 0;

  /** Something of this key is on its way to the store. The result is called once, when it is there or will never be. */
  hold(key: string): () => void {
    this.#held.set(key, (this.#held.get(key) ?? 0) + 1);
    return () => {
      const left = (this.#held.get(key) ?? 0) - 1;
      if (left > 0) this.#held.set(key, left);
      else this.#held.delete(key);
    };
  }

  mark(key: string): void {
    this.#newest += 1;
    this.#marks.set(key, this.#newest);
  }

  has(key: string): boolean {
    return this.#marks.has(key) || this.#held.has(key);
  }

  /** The newest mark; a claim asks for it before it begins. */
  get newest(): number {
    return this.#newest;
  }

  /** A claim has seen everything that was there at this mark. */
  forget(upTo: number): void {
    for (const [key, mark] of this.#marks) if (mark <= upTo) this.#marks.delete(key);
  }
}
