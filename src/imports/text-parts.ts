/**
 * The parts of a text that may hold expressions or be JSON, each with its place. The importer and the command line both have this file
 * (`src/imports`, `cli`), because they share no code.
 */

/** A part of a text: from `start` to `end`, which is not part of it. */
export interface TextPart {
  start: number;
  end: number;
}

/** Maximum of records and lists within one another. */
export const depthMax = 64;
/** Maximum characters that are searched for the ends of the expressions of one text. */
const searchedMax = 1_000_000;
/** What stands in place of an expression while a text is searched. */
export const filler = '\0';

/** Where expressions stand, with their braces: each ends where its braces and quotes are closed. */
export function expressionsIn(text: string): TextPart[] {
  const found: TextPart[] = [];
  const budget = { left: searchedMax };
  for (let start = text.indexOf('{{'); start !== -1; start = text.indexOf('{{', found.at(-1)?.end ?? start)) {
    const first = text.indexOf('}}', start + 2);
    if (first === -1) break;
    found.push({ start, end: closingOf(text, start + 2, budget) ?? first + 2 });
  }
  return found;
}

/** The index after the `}}` that closes an expression; undefined: its braces or quotes are not closed. */
function closingOf(text: string, from: number, budget: { left: number }): number | undefined {
  let depth = 0;
  for (let at = from; at < text.length && budget.left > 0; at += 1) {
    budget.left -= 1;
    const character = text[at] ?? '';
    if (`'"\``.includes(character)) {
      at += 1;
      while (at < text.length && text[at] !== character) at += text[at] === '\\' ? 2 : 1;
    } else if (character === '{') depth += 1;
    else if (character === '}') {
      if (depth === 0) return text[at + 1] === '}' ? at + 2 : undefined;
      depth -= 1;
    }
  }
  return undefined;
}

/** The text with a filler in place of its expressions. */
export function blanked(text: string, expressions: readonly TextPart[]): string {
  const parts: string[] = [];
  let at = 0;
  for (const { start, end } of expressions) {
    parts.push(text.slice(at, start).replaceAll(filler, ' '), filler.repeat(end - start));
    at = end;
  }
  return parts.join('') + text.slice(at).replaceAll(filler, ' ');
}

/** The parts of a range that are no expressions, which are blanked. */
export function partsOf(literal: string, from: number, to: number): TextPart[] {
  return [...literal.slice(from, to).matchAll(/[^\0]+/g)].map(({ index, 0: part }) => ({
    start: from + index,
    end: from + index + part.length,
  }));
}

/** A text within a text of JSON. */
export class JsonPart {
  readonly text: string;
  readonly start: number;

  constructor(text: string, start: number) {
    this.text = text;
    this.start = start;
  }
}

/** Reads JSON as far as it goes; texts are kept with their places, as they are written. */
export class JsonReader {
  readonly #text: string;
  /** JSON in a text of JSON has escaped quotes. */
  readonly #quote: '"' | '\\"';
  #at = 0;

  constructor(text: string) {
    this.#text = text;
    this.#quote = /^\s*[[{]\s*\\"/.test(text) ? '\\"' : '"';
  }

  read(depth = 0): unknown {
    const next = this.#next();
    if (this.#text.startsWith(this.#quote, this.#at)) return this.#string();
    if (depth > depthMax || (next !== '{' && next !== '[')) return this.#skip();
    this.#at += 1;
    const entries: [string, unknown][] = [];
    while (!['', '}', ']'].includes(this.#next())) {
      const before = this.#at;
      const first = this.read(depth + 1);
      if (next === '{' && this.#next() === ':') {
        this.#at += 1;
        entries.push([first instanceof JsonPart ? first.text : '', this.read(depth + 1)]);
      } else entries.push([String(entries.length), first]);
      if (this.#next() === ',') this.#at += 1;
      if (this.#at === before) break;
    }
    this.#at += 1;
    return next === '[' ? entries.map(([, value]) => value) : Object.fromEntries(entries);
  }

  /** The next character that is no space; '': the end. */
  #next(): string {
    while (/\s/.test(this.#text[this.#at] ?? '')) this.#at += 1;
    return this.#text[this.#at] ?? '';
  }

  #string(): JsonPart {
    const start = this.#at + this.#quote.length;
    let end = start;
    while (end < this.#text.length && !this.#text.startsWith(this.#quote, end))
      end += this.#text[end] === '\\' ? 2 : 1;
    this.#at = end + this.#quote.length;
    return new JsonPart(this.#text.slice(start, end), start);
  }

  /** A number, a constant, or an expression. */
  #skip(): undefined {
    while (!/^[\s,:\]}]?$/.test(this.#text[this.#at] ?? '')) this.#at += 1;
    return undefined;
  }
}
