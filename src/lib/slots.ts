/** At most `limit` at a time; who finds none free waits, first come, first served. */
export class Slots {
  #limit: number;
  #taken = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(limit: number) {
    this.#limit = limit;
  }

  async enter(): Promise<void> {
    if (this.#taken < this.#limit && this.#waiting.length === 0) this.#taken += 1;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  leave(): void {
    this.#taken -= 1;
    this.#admit();
  }

  set limit(limit: number) {
    this.#limit = limit;
    this.#admit();
  }

  #admit(): void {
    while (this.#taken < this.#limit) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      this.#taken += 1;
      next();
    }
  }
}
