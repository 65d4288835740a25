/** Who wants to know of something: those who tell need not know them, and may be there before them. */
export class Observers<Told extends readonly unknown[]> {
  readonly #observers: ((...told: Told) => void)[] = [];

  observe(observer: (...told: Told) => void): void {
    this.#observers.push(observer);
  }

  /** Bound, so that it can be handed on as a function. */
  readonly tell = (...told: Told): void => {
    for (const observer of this.#observers) observer(...told);
  };
}
