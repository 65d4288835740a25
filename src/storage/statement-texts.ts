import { CompiledQuery } from 'kysely';
import type { Dialect } from './dialect.ts';

/**
 * SQL texts of one statement, by the dialect and the shape that they differ in (how many values a list has). Building a
 * statement costs more than executing it, so hot paths build each shape once and fill in the values of each call.
 */
export class StatementTexts {
  readonly #texts = new Map<string, string>();

  /** `parameters` in the order in which the text names them; `build` is called for a new shape, with any values. */
  query<R>(
    dialect: Pick<Dialect, 'name'>,
    shape: string | number,
    parameters: readonly unknown[],
    build: () => CompiledQuery<R>,
  ): CompiledQuery<R> {
    const key = `${dialect.name} ${shape}`;
    let text = this.#texts.get(key);
    if (text === undefined) {
      text = build().sql;
      this.#texts.set(key, text);
    }
    return CompiledQuery.raw(text, [...parameters]) as CompiledQuery<R>;
  }
}
