import { CompiledQuery } from 'kysely';

/**
 * SQL texts of one statement, by the shape that they differ in (the dialect, how many values a list has). Building a
 * statement costs more than executing it, so hot paths build each shape once and fill in the values of each call.
 */
export class StatementTexts {
  readonly #texts = new Map<string, string>();

  /** `parameters` in the order in which the text names them; `build` is called for a new shape, with any values. */
  query<R>(shape: string, parameters: readonly unknown[], build: () => CompiledQuery<R>): CompiledQuery<R> {
    let text = this.#texts.get(shape);
    if (text === undefined) {
      text = build().sql;
      this.#texts.set(shape, text);
    }
    return CompiledQuery.raw(text, [...parameters]) as CompiledQuery<R>;
  }
}
