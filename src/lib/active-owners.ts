/** Several owners are taken to have something to do for so long after one of them had and then another. */
const othersMs = 2_000;

/** Tells work of one owner from that of several. Work of an owner that is alone needs no bounds for the sake of others. */
export class ActiveOwners {
  readonly #nowMs: () => number;
  #latest: string | undefined;
  /** When one owner was last followed by another. */
  #severalAtMs = Number.NEGATIVE_INFINITY;

  constructor({ nowMs = () => performance.now() }: { nowMs?: () => number } = {}) {
    this.#nowMs = nowMs;
  }

  /** Notes that this owner has something to do now. */
  note(ownerId: string): void {
    if (this.#latest !== undefined && this.#latest !== ownerId) this.#severalAtMs = this.#nowMs();
    this.#latest = ownerId;
  }

  get areSeveral(): boolean {
    return this.#nowMs() - this.#severalAtMs < othersMs;
  }
}
