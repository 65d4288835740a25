/**
 * Keys of which something may wait in the store that no claim has seen yet: what is newer goes behind it. Each key has the
 * number of its mark, so that a claim forgets only what was marked before the claim began.
 */
export class ClaimMarks {
  readonly #marks = new Map<string, number>();
  #newest = 0;

  mark(key: string): void {
    this.#newest += 1;
    this.#marks.set(key, this.#newest);
  }

  has(key: string): boolean {
    return this.#marks.has(key);
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
