/** The observers of an event: its publisher need not know them, and may exist before them. */
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
