import { endOfExpression } from './expressions.ts';

/** `this.<prop>` of type `sql`. `executeQueryAdapter` of the app turns it into the argument of `executeQuery`. */
export interface SqlProp {
  app?: unknown;
  query: string;
  params: unknown[];
  /** The same as `params`, under the name that older components read. */
  values: unknown[];
}

/** Evaluates the text between `{{` and `}}`. */
export type Evaluate = (expressionText: string) => unknown;

type Loose = Record<string, unknown>;

/** `value` is `{ app, query, params }`, the same as `{ value: … }`, or the query alone. */
export function makeSql(value: unknown): SqlProp {
  const { query, params, ...rest } = opened(value);
  const list = Array.isArray(params) ? params : [];
  return { ...rest, query: typeof query === 'string' ? query : '', params: list, values: list };
}

/**
 * Evaluates the expressions in an `sql` prop. A value never becomes a part of the query's text: each `{{expression}}` of the query becomes a
 * placeholder (`$1` for PostgreSQL, else `?`) and its value one of `params`. A quoted text with an expression, as in `'%{{steps.a.name}}%'`,
 * becomes one placeholder with the whole text as its value. If the query is a single expression, its value is the query, because the author
 * wants the SQL from there.
 *
 * Throws an Error for an expression where no value is allowed (inside a quoted name, for example), and when there are fewer params than `?`.
 * `auth` is `{ app }` of the prop's definition.
 */
export function sqlValue(value: unknown, auth: unknown, evaluate: Evaluate): Loose {
  const { query, params, ...rest } = opened(value);
  const given = paramsOf(params, evaluate);
  if (typeof query !== 'string' || !query.includes('{{')) return { ...rest, query, params: given };
  const whole = onlyExpression(query);
  if (whole !== undefined) return { ...rest, query: whole === '' ? '' : evaluate(whole), params: given };
  const app = isObject(auth) && typeof auth.app === 'string' ? auth.app : rest.app;
  const dialect = dialectOf(typeof app === 'string' ? app : '');
  return { ...rest, ...new QueryScan(query, given, dialect, evaluate).run() };
}

interface Dialect {
  /** True: placeholders `$1`, `$2`, … name their parameter. False: each `?` uses the next one. */
  numbered: boolean;
  backslashEscapes: boolean;
  /** True: `"…"` is a text and not a name. */
  doubleQuotedText: boolean;
  hashComments: boolean;
  dollarQuotes: boolean;
}

function dialectOf(app: string): Dialect {
  const isPostgres = /postgres|redshift|cockroach|neon|supabase|timescale/.test(app);
  const isMysql = /mysql|mariadb|planetscale|singlestore/.test(app);
  const isSnowflake = app.includes('snowflake');
  return {
    numbered: isPostgres,
    backslashEscapes: isMysql || isSnowflake,
    doubleQuotedText: isMysql,
    hashComments: isMysql,
    dollarQuotes: isPostgres || isSnowflake,
  };
}

/** Scans a query once. It distinguishes texts, quoted names and comments, because an expression has another meaning in each. */
class QueryScan {
  readonly #query: string;
  readonly #given: unknown[];
  readonly #dialect: Dialect;
  readonly #evaluate: Evaluate;
  readonly #params: unknown[] = [];
  #taken = 0;
  #text = '';
  #at = 0;

  constructor(query: string, given: unknown[], dialect: Dialect, evaluate: Evaluate) {
    this.#query = query;
    this.#given = given;
    this.#dialect = dialect;
    this.#evaluate = evaluate;
    if (dialect.numbered) this.#params.push(...given);
  }

  run(): { query: string; params: unknown[] } {
    const query = this.#query;
    while (this.#at < query.length) {
      const character = query[this.#at] ?? '';
      const end = expressionAt(query, this.#at);
      if (end !== undefined) this.#expression(end);
      else if (character === "'" || (character === '"' && this.#dialect.doubleQuotedText))
        this.#quotedText(character);
      else if (character === '"' || character === '`')
        this.#verbatim(this.#endOfQuoted(character), 'a quoted name');
      else if (this.#isComment()) this.#comment();
      else if (character === '$' && this.#dialect.dollarQuotes && this.#dollarTag() !== undefined)
        this.#dollarQuoted();
      else if (character === '?' && !this.#dialect.numbered) this.#takeGiven();
      else this.#copy(1);
    }
    if (!this.#dialect.numbered) this.#params.push(...this.#given.slice(this.#taken));
    return { query: this.#text, params: this.#params };
  }

  #copy(length: number): void {
    this.#text += this.#query.slice(this.#at, this.#at + length);
    this.#at += length;
  }

  #expression(end: number): void {
    this.#placeholder(this.#evaluate(this.#query.slice(this.#at + 2, end - 2).trim()));
    this.#at = end;
  }

  #placeholder(value: unknown): void {
    this.#params.push(value === undefined ? null : value);
    this.#text += this.#dialect.numbered ? `$${this.#params.length}` : '?';
  }

  #takeGiven(): void {
    if (this.#taken >= this.#given.length) {
      throw new Error(`the query has more ? than there are params (${this.#given.length})`);
    }
    this.#params.push(this.#given[this.#taken]);
    this.#taken += 1;
    this.#copy(1);
  }

  #quotedText(quote: string): void {
    const end = this.#endOfQuoted(quote);
    const parts = splitExpressions(this.#query.slice(this.#at + 1, end - 1));
    if (parts.length === 1) {
      this.#copy(end - this.#at);
      return;
    }
    // The characters before the quote in E'…', N'…' and the like determine how the text is read.
    if (/[\w&]/.test(this.#query[this.#at - 1] ?? ''))
      throw new Error('an expression cannot stand in a text with a prefix before its quote');
    const texts = parts.map((part) =>
      part.isExpression ? textOf(this.#evaluate(part.text)) : this.#unescaped(part.text, quote),
    );
    this.#placeholder(texts.join(''));
    this.#at = end;
  }

  #unescaped(text: string, quote: string): string {
    const plain = text.replaceAll(quote + quote, quote);
    if (!this.#dialect.backslashEscapes) return plain;
    return plain.replaceAll(/\\(.)/gs, (whole, escaped: string) => {
      // These two keep their backslash in LIKE patterns.
      if (escaped === '%' || escaped === '_') return whole;
      return { n: '\n', r: '\r', t: '\t', b: '\b', '0': '\0', Z: '\x1a' }[escaped] ?? escaped;
    });
  }

  /** The index after the closing quote. Quotes inside an expression, doubled quotes and escaped ones do not close. */
  #endOfQuoted(quote: string): number {
    const query = this.#query;
    let at = this.#at + 1;
    while (at < query.length) {
      const end = expressionAt(query, at);
      if (end !== undefined) at = end;
      else if (query[at] === '\\' && this.#dialect.backslashEscapes && quote !== '`') at += 2;
      else if (query[at] !== quote) at += 1;
      else if (query[at + 1] === quote) at += 2;
      else return at + 1;
    }
    return query.length;
  }

  #verbatim(end: number, what: string): void {
    if (splitExpressions(this.#query.slice(this.#at, end)).length > 1)
      throw new Error(`an expression cannot stand in ${what} of a query: only values can be given`);
    this.#copy(end - this.#at);
  }

  #isComment(): boolean {
    const query = this.#query;
    return (
      query.startsWith('--', this.#at) ||
      query.startsWith('/*', this.#at) ||
      (this.#dialect.hashComments && query[this.#at] === '#')
    );
  }

  /** Copies a comment unchanged. Expressions in it are not evaluated. */
  #comment(): void {
    const closing = this.#query.startsWith('/*', this.#at) ? '*/' : '\n';
    const end = this.#query.indexOf(closing, this.#at + 1);
    this.#copy(end === -1 ? this.#query.length : end + closing.length - this.#at);
  }

  #dollarTag(): string | undefined {
    const tag = /\$(?:[A-Za-z_]\w*)?\$/y;
    tag.lastIndex = this.#at;
    return tag.exec(this.#query)?.[0];
  }

  #dollarQuoted(): void {
    const tag = this.#dollarTag() ?? '';
    const end = this.#query.indexOf(tag, this.#at + tag.length);
    this.#verbatim(end === -1 ? this.#query.length : end + tag.length, 'a dollar-quoted text');
  }
}

function paramsOf(params: unknown, evaluate: Evaluate): unknown[] {
  const list = typeof params === 'string' ? evaluateText(params, evaluate) : params;
  if (list === undefined || list === null || list === '') return [];
  if (!Array.isArray(list)) throw new Error(`params of a query are a list, found ${typeof list}`);
  return list.map((item) => {
    const value = typeof item === 'string' ? evaluateText(item, evaluate) : item;
    return value === undefined ? null : value;
  });
}

function evaluateText(text: string, evaluate: Evaluate): unknown {
  if (!text.includes('{{')) return text;
  const whole = onlyExpression(text);
  if (whole !== undefined) return evaluate(whole);
  return splitExpressions(text)
    .map((part) => (part.isExpression ? textOf(evaluate(part.text)) : part.text))
    .join('');
}

/** The expression of a text that contains nothing else. */
function onlyExpression(text: string): string | undefined {
  const trimmed = text.trim();
  if (expressionAt(trimmed, 0) !== trimmed.length) return undefined;
  return trimmed.slice(2, -2).trim();
}

function splitExpressions(text: string): { isExpression: boolean; text: string }[] {
  const parts: { isExpression: boolean; text: string }[] = [];
  let at = 0;
  for (let start = text.indexOf('{{'); start !== -1; start = text.indexOf('{{', at)) {
    const end = expressionAt(text, start);
    if (end === undefined) break;
    parts.push({ isExpression: false, text: text.slice(at, start) });
    parts.push({ isExpression: true, text: text.slice(start + 2, end - 2).trim() });
    at = end;
  }
  parts.push({ isExpression: false, text: text.slice(at) });
  return parts;
}

function expressionAt(text: string, at: number): number | undefined {
  return text.startsWith('{{', at) ? endOfExpression(text, at) : undefined;
}

function opened(value: unknown): Loose {
  if (typeof value === 'string') return { query: value };
  if (!isObject(value)) return {};
  return isObject(value.value) && value.query === undefined ? { ...value.value } : { ...value };
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

function isObject(value: unknown): value is Loose {
  return typeof value === 'object' && value !== null;
}
