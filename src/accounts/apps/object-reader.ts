import { CallerError } from '#lib/errors.ts';

/**
 * Reads one JSON object field by field and says exactly where something is wrong: `oauth.token_url: expected …`. Null is
 * the same as absent. Throws CallerError `missing_parameter`, `invalid_parameter` or `unknown_parameter`, whose
 * details.parameter is the place.
 */
export class ObjectReader {
  readonly place: string;
  readonly #value: Record<string, unknown>;
  readonly #read = new Set<string>();

  constructor(value: unknown, place: string) {
    this.place = place;
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw expected(place === '' ? 'body' : place, 'an object');
    }
    this.#value = value as Record<string, unknown>;
  }

  placeOf(key: string): string {
    return this.place === '' ? key : `${this.place}.${key}`;
  }

  /** The value, unchecked. */
  raw(key: string): unknown {
    this.#read.add(key);
    const value = Object.hasOwn(this.#value, key) ? this.#value[key] : undefined;
    return value === null ? undefined : value;
  }

  optionalText(key: string, max = 2_000): string | undefined {
    const value = this.raw(key);
    if (value === undefined) return undefined;
    if (typeof value !== 'string' || value.length > max) {
      throw expected(this.placeOf(key), `a text of at most ${max.toLocaleString('en')} characters`);
    }
    return value;
  }

  text(key: string, max?: number): string {
    const text = this.optionalText(key, max);
    if (text === undefined || text === '') throw missing(this.placeOf(key));
    return text;
  }

  flag(key: string, fallback: boolean): boolean {
    const value = this.raw(key) ?? fallback;
    if (typeof value !== 'boolean') throw expected(this.placeOf(key), 'true or false');
    return value;
  }

  choice<Choice extends string>(key: string, choices: readonly Choice[], fallback?: Choice): Choice {
    const value = this.raw(key) ?? fallback;
    if (value === undefined) throw missing(this.placeOf(key));
    const found = choices.find((choice) => choice === value);
    if (found === undefined) throw expected(this.placeOf(key), `one of ${choices.join(', ')}`);
    return found;
  }

  integer(key: string, range: { min: number; max: number }): number | undefined {
    const value = this.raw(key);
    if (value === undefined) return undefined;
    if (!Number.isInteger(value) || (value as number) < range.min || (value as number) > range.max) {
      throw expected(this.placeOf(key), `an integer from ${range.min} to ${range.max}`);
    }
    return value as number;
  }

  /** The items of an array, none when it is absent. */
  list<Item>(key: string, max: number, item: (value: unknown, place: string) => Item): Item[] {
    const value = this.raw(key) ?? [];
    if (!Array.isArray(value) || value.length > max) {
      throw expected(this.placeOf(key), `an array of at most ${max} items`);
    }
    return value.map((entry, index) => item(entry, `${this.placeOf(key)}[${index}]`));
  }

  /** An object of texts by name; empty when it is absent. */
  texts(key: string, max: number): Record<string, string> {
    const value = this.raw(key) ?? {};
    const place = this.placeOf(key);
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      throw expected(place, 'an object of texts');
    }
    const entries = Object.entries(value);
    if (entries.length > max) throw expected(place, `an object of at most ${max} texts`);
    for (const [name, text] of entries) {
      if (typeof text !== 'string' || text.length > 2_000) throw expected(`${place}.${name}`, 'a text');
    }
    return Object.fromEntries(entries) as Record<string, string>;
  }

  object(key: string): ObjectReader | undefined {
    const value = this.raw(key);
    return value === undefined ? undefined : new ObjectReader(value, this.placeOf(key));
  }

  /** Call it when everything was read: a field that was not read is a mistake. */
  end(): void {
    const unknown = Object.keys(this.#value).find((key) => !this.#read.has(key));
    if (unknown === undefined) return;
    const parameter = this.placeOf(unknown);
    throw new CallerError(
      'unknown_parameter',
      `${parameter}: no such field; here are ${[...this.#read].join(', ')}`,
      {
        parameter,
      },
    );
  }
}

export function expected(parameter: string, what: string): CallerError {
  return new CallerError('invalid_parameter', `${parameter}: expected ${what}`, { parameter });
}

export function missing(parameter: string): CallerError {
  return new CallerError('missing_parameter', `${parameter}: required`, { parameter });
}

/** For `list`: a text that is not empty. */
export function textItem(value: unknown, place: string): string {
  if (typeof value !== 'string' || value === '' || value.length > 500) {
    throw expected(place, 'a text of 1 to 500 characters');
  }
  return value;
}
