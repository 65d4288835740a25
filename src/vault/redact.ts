import { SecretMatcher } from './secret-matcher.ts';

/** The values that a redactor replaces. */
export interface SecretSet {
  secrets: readonly string[];
  /** Those that were marked as secret one by one. */
  marked: readonly string[];
}

/** Replaces secrets in a text. */
export interface Redactor {
  (text: string): string;
  /** The values that it replaces, one set after the other; absent: not known. Large texts are searched for them in a thread (redact-large.ts). */
  readonly sets?: readonly SecretSet[];
}

/** Shorter values are words and numbers that appear everywhere; redacting them would redact other text too. */
const secretCharactersMin = 8;
/** Minimum for values that were marked as secret one by one. */
const shortSecretCharactersMin = 4;

/** Texts are searched for so many beginnings one by one, which is the fastest. */
const hintsSearchedMax = 32;

const replacement = '[redacted]';

/**
 * A function that replaces every occurrence of the secrets in a text by "[redacted]": as they are, JSON-escaped, as
 * `util.inspect` and `console.log` write strings and Buffers, base64 (at any alignment, so also inside `Basic …`) and as URLs and `URL` write it. Each line of 8
 * or more characters of a secret with several lines is a secret too, but for the header lines of a PEM. Occurrences that overlap become one. JSON text
 * stays valid JSON. The beginning of a secret is hidden too where the text was cut there ("found \"abcdefgh…"). Takes time linear in the text, and nearly none where no secret occurs. Values of fewer than 8
 * characters are left alone, but those of `shortSecrets` from 4 characters on. A short one is left alone in the names of JSON
 * objects and within longer numbers, such as times.
 */
export function makeRedactor(
  secretValues: readonly string[],
  shortSecrets: readonly string[] = [],
): Redactor {
  const values = [...secretValues, ...shortSecrets].filter((value) => value.length >= secretCharactersMin);
  const shorts = shortSecrets.filter(
    (value) => value.length >= shortSecretCharactersMin && value.length < secretCharactersMin,
  );
  if (values.length + shorts.length === 0) return Object.assign((text: string) => text, { sets: [] });
  // All are built when first needed: most runs of most sources never print a secret.
  const hints = lazily(() =>
    hintsOf([
      ...patternsOf(values.map(beginningOf)),
      ...linePatternsOf(values, beginningOf),
      ...shortPatternsOf(shorts),
    ]),
  );
  const hintMatcher = lazily(() => new SecretMatcher(hints()));
  const secrets = lazily(() => secretsFor(values, shorts));
  const mayHold = (text: string): boolean =>
    hints().length <= hintsSearchedMax
      ? hints().some((hint) => text.includes(hint))
      : hintMatcher().matches(text);
  const redact = (given: string): string => {
    const text = given.includes(excerptMark) ? withoutExcerpts(given, [...values, ...shorts]) : given;
    return mayHold(text) ? redactText(text, secrets()) : text;
  };
  return Object.assign(redact, { sets: [{ secrets: secretValues, marked: shortSecrets }] });
}

/** Both, one after the other. */
export function bothRedactors(one: Redactor, other: Redactor): Redactor {
  const sets = one.sets === undefined || other.sets === undefined ? undefined : [...one.sets, ...other.sets];
  const both = (text: string) => other(one(text));
  return sets === undefined ? both : Object.assign(both, { sets });
}

function secretsFor(values: readonly string[], shorts: readonly string[]): Secrets {
  const long = [...patternsOf(values), ...linePatternsOf(values)];
  const short = shortPatternsOf(shorts);
  return {
    all: new SecretMatcher([...long, ...short]),
    long: short.length === 0 ? undefined : new SecretMatcher(long),
    short: new Set(short),
    beginnings: lazily(() => beginningsOf(long)),
  };
}

function lazily<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}

/** The end of errors of JSON.parse that show a part of the text: `"sk-live-12"... is not valid JSON`. */
const excerptMark = 'is not valid JSON';
/** The excerpt in quotes, which have backslashes if the message is in JSON itself. */
const excerpt = /(\\{0,8}")((?:(?!\1).){4,60}?)\1((?:\.\.\.)? is not valid JSON)/g;

function withoutExcerpts(text: string, values: readonly string[]): string {
  return text.replace(excerpt, (all, quote: string, part: string, rest: string) =>
    values.some((value) => value.includes(part) || jsonEscaped(value).includes(part))
      ? `${quote}${replacement}${quote}${rest}`
      : all,
  );
}

/** The patterns for each kind of place. */
interface Secrets {
  /** Patterns for texts. */
  all: SecretMatcher;
  /** Patterns for the names of JSON objects and for parts of numbers; undefined: the same. */
  long: SecretMatcher | undefined;
  /** Texts of whole numbers. */
  short: ReadonlySet<string>;
  /** Built when first needed: few texts that hold a part of a secret were cut. */
  beginnings: () => Beginnings;
}

/** Finds the beginnings of patterns. */
interface Beginnings {
  matcher: SecretMatcher;
  /** By their first characters. */
  patterns: ReadonlyMap<string, readonly string[]>;
}

function beginningsOf(patterns: readonly string[]): Beginnings {
  const byBeginning = new Map<string, string[]>();
  for (const pattern of new Set(patterns)) {
    const beginning = pattern.slice(0, secretCharactersMin);
    byBeginning.set(beginning, [...(byBeginning.get(beginning) ?? []), pattern]);
  }
  return { matcher: new SecretMatcher([...byBeginning.keys()]), patterns: byBeginning };
}

/** What follows the place where a text was cut: an ellipsis, or a hash in long ids. The quote that was opened may be closed first. */
const cutMark = /(?:\\{0,8}["'`])?(?:\u2026|\.\.\.|#[0-9a-f]{64})/y;
/** Characters compared per character of the text; more are needed only where a long secret repeats itself. */
const comparedPerCharacter = 16;

/**
 * Messages show a value as far as there is room, and "…" for the rest. A secret that was cut there no longer matches a pattern, so its
 * beginning is looked for.
 */
function withoutCutSecrets(text: string, beginnings: () => Beginnings): string {
  if (!/\u2026|\.\.\.|#/.test(text)) return text;
  const { matcher, patterns } = beginnings();
  let budget = comparedPerCharacter * text.length;
  let out = '';
  let position = 0;
  for (const { start, end } of matcher.find(text)) {
    for (let at = Math.max(start, position); at + secretCharactersMin <= end && budget > 0; at += 1) {
      for (const pattern of patterns.get(text.slice(at, at + secretCharactersMin)) ?? []) {
        const length = sharedLength(text, at, pattern);
        budget -= length;
        cutMark.lastIndex = at + length;
        if (!cutMark.test(text)) continue;
        out += text.slice(position, at) + replacement;
        position = at + length;
        break;
      }
      if (position > at) break;
    }
  }
  return position === 0 ? text : out + text.slice(position);
}

/** The length of what stands in `text` from `at` on and in the beginning of `pattern`. */
function sharedLength(text: string, at: number, pattern: string): number {
  let length = secretCharactersMin;
  while (length < pattern.length && text[at + length] === pattern[length]) length += 1;
  return length;
}

/**
 * The strings in an account's credentials that have to be kept secret, for `makeRedactor`. Fields that say where or who
 * (host, user, an id, …) are not among them: a component that emits `https://gitlab.example.com/…` must still be able to.
 */
export function secretValues(credentials: Record<string, unknown>): string[] {
  return Object.entries(credentials).flatMap(([name, value]) => secretsIn(name, value));
}

const secretName = /key|secret|token|pass|credential|signature/i;
const publicName =
  /^(host|hostname|server|port|domain|subdomain|site|region|database|schema|user|username|user_name|email|account|tenant|workspace|instance|environment|oauth_uid|ca|ssl_verification_mode)$|(_id|host|domain)$/i;
const addressName = /(url|uri|endpoint)$/i;

function secretsIn(name: string, value: unknown): string[] {
  if (typeof value === 'object' && value !== null) {
    return Object.entries(value).flatMap(([key, item]) => secretsIn(Array.isArray(value) ? name : key, item));
  }
  if (typeof value !== 'string') return [];
  if (secretName.test(name)) return [value];
  if (publicName.test(name)) return [];
  return addressName.test(name) && isPlainAddress(value) ? [] : [value];
}

/** A host with a short path. Longer paths and queries may themselves be the secret, as in incoming webhooks. */
function isPlainAddress(value: string): boolean {
  const url = URL.parse(value.includes('://') ? value : `https://${value}`);
  if (url === null || url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '')
    return false;
  return url.pathname.split('/').every((part) => part.length < 16);
}

/** Every way a secret is looked for. */
function patternsOf(values: readonly string[]): string[] {
  const patterns = new Set<string>();
  for (const value of values) {
    const bytes = Buffer.from(value, 'utf8');
    const forms = [...writtenForms(value), ...urlForms(value), inspectedBytes(bytes)];
    if (value.length > inspectedMax) forms.push(...writtenForms(value.slice(0, inspectedMax)));
    for (const encoding of ['base64', 'base64url'] as const) {
      forms.push(bytes.toString(encoding), ...[0, 1, 2].map((offset) => base64Core(bytes, offset, encoding)));
    }
    for (const form of forms) if (form.length >= secretCharactersMin) patterns.add(form);
  }
  return [...patterns];
}

/** Short secrets are searched in fewer forms: parts of their base64 would be found everywhere. */
function shortPatternsOf(values: readonly string[]): string[] {
  const patterns = new Set<string>();
  for (const value of values) {
    const bytes = Buffer.from(value, 'utf8');
    const forms = [...writtenForms(value), ...urlForms(value), inspectedBytes(bytes)];
    for (const form of [...forms, bytes.toString('base64'), bytes.toString('base64url')]) patterns.add(form);
  }
  return [...patterns];
}

/**
 * Lines of all secrets together that are looked for in every form. Each costs about 0.1 ms for its forms, and all of them stand in the way of
 * every other call of the service: a variable of 5,500 lines took 1.1 s. Further lines are looked for as they are and as JSON has them.
 */
const linesInEveryFormMax = 1_000;

/** `util.inspect` cuts longer strings there. */
const inspectedMax = 10_000;
/** It shows so many bytes of a Buffer. */
const inspectedBytesMax = 50;

/** Bytes as `util.inspect` writes those of a Buffer. */
function inspectedBytes(bytes: Buffer): string {
  return bytes
    .subarray(0, inspectedBytesMax)
    .toString('hex')
    .replaceAll(/..(?=.)/g, '$& ');
}
/** Deeper values are rarely printed; then a line of fewer than 8 characters may show. */
const inspectedIndentMax = 16;
/** Says what follows, and is the same in every file. */
const headerLine = /^-----(BEGIN|END) [^-]*-----$/;

/**
 * The lines of secrets that have several: they are printed one by one by `split`, in YAML, in nested errors and by `util.inspect`, which
 * breaks long strings at line ends. A line that is too short to be looked for is hidden with those around it. `part` reduces a form to its
 * beginning.
 */
function linePatternsOf(values: readonly string[], part = (form: string) => form): string[] {
  const patterns = new Set<string>();
  let linesSeen = 0;
  for (const value of values) {
    // Environment files have keys in one line, with `\n` in it.
    const text = value.includes('-----BEGIN ') ? value.replaceAll('\\n', '\n') : value;
    const lines = text.split(/(?<=\n|\r(?!\n))/);
    if (lines.length === 1) continue;
    for (const line of lines) {
      const trimmed = line.trim();
      if (trimmed.length < secretCharactersMin || headerLine.test(trimmed)) continue;
      linesSeen += 1;
      for (const form of lineForms(part(trimmed), linesSeen)) patterns.add(form);
    }
    if (lines.every((line) => line.trim().length >= secretCharactersMin)) continue;
    const plain = text.trimEnd();
    const literals = lines.map(inspectedLiteral);
    for (let indent = 0; indent <= inspectedIndentMax; indent += 1) {
      const space = ' '.repeat(indent);
      const together = [plain.replaceAll('\n', `\n${space}`)];
      if (indent % 2 === 0) together.push(literals.join(` +\n${space}`).slice(1, -1));
      for (const form of together) patterns.add(part(form)).add(part(jsonEscaped(form)));
    }
  }
  return [...patterns].filter((form) => form.length >= secretCharactersMin);
}

function lineForms(line: string, number: number): string[] {
  return number > linesInEveryFormMax
    ? [line, jsonEscaped(line)]
    : [...writtenForms(line), ...urlForms(line)];
}

/** A text as programs write it: as it is, in JSON, in JSON within JSON, and as `util.inspect` writes it. */
function writtenForms(value: string): string[] {
  const inspected = inspectEscaped(value);
  // Texts with both kinds of quotes around them depend on what stands beside the secret.
  const forms = [value, jsonEscaped(value), inspected, inspected.replaceAll("'", "\\'")];
  return [...forms, ...forms.map(jsonEscaped)];
}

/** One of the literals in which `util.inspect` writes a long string, with its quotes. */
function inspectedLiteral(text: string): string {
  const inspected = inspectEscaped(text);
  if (!text.includes("'")) return `'${inspected}'`;
  if (!text.includes('"')) return `"${inspected}"`;
  if (!text.includes('`') && !text.includes('${')) return `\`${inspected}\``;
  return `'${inspected.replaceAll("'", "\\'")}'`;
}

const namedEscapes: Readonly<Record<string, string>> = {
  '\b': '\\b',
  '\t': '\\t',
  '\n': '\\n',
  '\f': '\\f',
  '\r': '\\r',
  '\\': '\\\\',
};

/** A string as `util.inspect` writes it between quotes that are not in it. */
function inspectEscaped(text: string): string {
  return text.replace(/[\p{Cc}\p{Cs}\\]/gu, (character) => {
    const code = character.charCodeAt(0);
    const named = namedEscapes[character];
    if (named !== undefined) return named;
    return code > 0xff ? `\\u${code.toString(16)}` : `\\x${code.toString(16).toUpperCase().padStart(2, '0')}`;
  });
}

/**
 * Short beginnings to look for first, with the machine's own fast search. A text that is JSON holds the patterns with
 * one more level of escapes.
 */
function hintsOf(patterns: readonly string[]): string[] {
  const begin = (text: string) => text.slice(0, secretCharactersMin);
  return [...new Set(patterns.flatMap((pattern) => [begin(pattern), begin(jsonEscaped(pattern))]))];
}

/** As much of a value as the first characters of all its forms depend on. */
function beginningOf(value: string): string {
  const length = 2 * secretCharactersMin;
  // A pair of surrogates stays whole.
  return value.slice(0, /[\ud800-\udbff]/.test(value.charAt(length - 1)) ? length + 1 : length);
}

function jsonEscaped(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

function urlForms(value: string): string[] {
  // Half a surrogate pair has no URL form.
  if (!value.isWellFormed()) return [];
  const encoded = encodeURIComponent(value);
  const form = new URLSearchParams([['', value]]).toString().slice(1);
  const forms = [encoded, form, encodeURI(value), ...placedForms(value)];
  return [...forms, ...forms.map(lowerEscapes)];
}

/** A text as `URL` writes it in each part of an address, which has escapes of its own, and no line ends and tabs. */
function placedForms(value: string): string[] {
  const { length } = value.replace(/[\t\n\r]/g, '');
  const url = new URL('https://host');
  url.password = value;
  url.pathname = `/${value}`;
  url.search = `?${value}`;
  url.hash = `#${value}`;
  const forms = [url.password, ...[url.pathname, url.search, url.hash].map((part) => part.slice(1))];
  // A path with `..` in it loses a part.
  return forms.filter((form) => form.length >= length && length > 0);
}

function lowerEscapes(text: string): string {
  return text.replace(/%[0-9A-F]{2}/g, (escaped) => escaped.toLowerCase());
}

/** The base64 characters that depend on `bytes` alone when `offset` (mod 3) bytes precede them. */
function base64Core(bytes: Buffer, offset: number, encoding: 'base64' | 'base64url'): string {
  const padded = Buffer.concat([Buffer.alloc(offset), bytes]);
  const first = Math.ceil((offset * 8) / 6);
  const end = Math.floor((padded.length * 8) / 6);
  return padded.toString(encoding).slice(first, end);
}

/** JSON is redacted string by string and number by number, so that no secret made of punctuation can break it. */
function redactText(text: string, secrets: Secrets): string {
  return isJson(text) ? redactJson(text, secrets) : redactPlain(text, secrets.all, secrets.beginnings);
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function redactJson(json: string, secrets: Secrets): string {
  const { all, long = all, beginnings } = secrets;
  let out = '';
  let position = 0;
  while (position < json.length) {
    const quote = json.indexOf('"', position);
    const between = json.slice(position, quote === -1 ? json.length : quote);
    out += redactNumbers(between, secrets);
    if (quote === -1) break;
    const end = endOfString(json, quote);
    const literal = json.slice(quote, end);
    const value: string = JSON.parse(literal);
    const isName = /^\s*:/.test(json.slice(end, end + 100));
    const redacted = redactPlain(value, isName ? long : all, beginnings);
    out += redacted === value ? literal : JSON.stringify(redacted);
    position = end;
  }
  return out;
}

function redactNumbers(between: string, { all, long = all, short, beginnings }: Secrets): string {
  return between.replace(/[-+.\deE]{4,}/g, (number) =>
    short.has(number) || redactPlain(number, long, beginnings) !== number ? `"${replacement}"` : number,
  );
}

/** The index after the closing quote of the string that starts at `quote`. */
function endOfString(json: string, quote: number): number {
  let index = quote + 1;
  while (json[index] !== '"') index += json[index] === '\\' ? 2 : 1;
  return index + 1;
}

function redactPlain(text: string, matcher: SecretMatcher, beginnings: () => Beginnings): string {
  let out = '';
  let position = 0;
  for (const { start, end } of matcher.find(text)) {
    out += text.slice(position, start) + replacement;
    position = end;
  }
  return withoutCutSecrets(position === 0 ? text : out + text.slice(position), beginnings);
}
