/** What is expected is the largest seen, forgotten slowly: small ones between large ones hide nothing. */
const keptPart = 0.9;

/** Bytes that the next one of each kind is expected to move, by what those before it moved. Only kinds that move much are remembered. */
export class ExpectedBytes {
  readonly #much: number;
  readonly #kindsMax: number;
  readonly #expected = new Map<string, number>();

  /** `much`: less is taken for nothing. */
  constructor({ much, kindsMax }: { much: number; kindsMax: number }) {
    this.#much = much;
    this.#kindsMax = kindsMax;
  }

  of(kind: string): number {
    return this.#expected.get(kind) ?? 0;
  }

  /** `expected`: what was expected of this one when it began. */
  saw(kind: string, { moved, expected }: { moved: number; expected: number }): void {
    const known = this.of(kind);
    // One that began before others of its kind moved much tells nothing about what came after it.
    const bytes = Math.max(moved, known > expected ? known : expected * keptPart);
    if (bytes < this.#much) this.#expected.delete(kind);
    else if (this.#expected.has(kind) || this.#expected.size < this.#kindsMax)
      this.#expected.set(kind, bytes);
  }

  forget(kind: string): void {
    this.#expected.delete(kind);
  }
}
