import {
  hasSecretForm,
  isOpenAuthField,
  isSecretHeader,
  isSecretName,
  isSecretParameter,
  rangesByForm,
  saysMore,
  type TextRange,
} from './secret-forms.ts';
import { blanked, depthMax, expressionsIn, filler, JsonPart, JsonReader, partsOf } from './text-parts.ts';

/**
 * Secrets that stand in clear in props: the importer moves them into secret variables, and the command line masks them in files. Both have this
 * file (`src/imports`, `cli`), because they share no code; a test compares them.
 */
export interface ClearSecret {
  value: string;
  /** The place of the secret, by names: `httpRequest.headers.Authorization`. */
  place: string;
  /** The same as a path: `httpRequest.headers[0].value`. */
  path: string;
  /** The quote around a secret in an expression. The replacement is then an expression too, and replaces the literal with its quotes. */
  quote: string;
}

export interface SecretHandler {
  /** The replacement. */
  replace(secret: ClearSecret): string;
  /** Called with the place of a text that may be or contain a secret, but is not replaced. */
  onUnsure(place: string): void;
}

type Loose = Record<string, unknown>;
type Section = 'header' | 'parameter' | 'body' | 'authentication';

/** The place of a text in the props. */
interface Place {
  place: string;
  path: string;
  /** The key of the text, or the `name` in the same object. */
  name: string;
  section?: Section | undefined;
  isInRequest: boolean;
  /** True for a user name without a password beside it: it is an API key. */
  isKey?: boolean;
}

interface Leaf extends Place {
  text: string;
  /** Offset in the JSON text that contains it. */
  start: number;
}

interface FoundRange extends TextRange {
  quote: string;
}

/** How many characters around a secret in an expression are searched for its quotes. */
const literalMax = 2_000;
/** The props with all secrets in clear replaced. A value without secrets is returned as it is. */
export function replaceSecrets(props: Loose, handler: SecretHandler): Loose {
  const leaves: Leaf[] = [];
  addLeaves(leaves, props, { place: '', path: '', name: '', isInRequest: false }, 0);
  const texts = leaves.map((leaf) => replaceIn(leaf, handler));
  if (leaves.every(({ text }, index) => text === texts[index])) return props;
  return withTexts(props, texts.values(), 0) as Loose;
}

/** The value with other texts, in the order in which `addLeaves` finds them. */
function withTexts(value: unknown, texts: Iterator<string>, depth: number): unknown {
  if (depth > depthMax) return value;
  if (typeof value === 'string') return texts.next().value;
  if (Array.isArray(value)) return value.map((item) => withTexts(item, texts, depth + 1));
  if (!isRecord(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, withTexts(inner, texts, depth + 1)]),
  );
}

/** Adds the texts of a value, each with its place. */
function addLeaves(leaves: Leaf[], value: unknown, at: Place, depth: number): void {
  if (depth > depthMax) return;
  if (typeof value === 'string') leaves.push({ ...at, text: value, start: 0 });
  else if (value instanceof JsonPart) leaves.push({ ...at, text: value.text, start: value.start });
  else if (Array.isArray(value))
    for (const [index, item] of value.entries()) {
      const name = isRecord(item) ? textOf(item.name) : '';
      addLeaves(
        leaves,
        item,
        {
          ...at,
          place: joined(at.place, name === '' ? String(index) : shown(name, index)),
          path: `${at.path}[${index}]`,
        },
        depth + 1,
      );
    }
  else if (isRecord(value)) addRecord(leaves, value, at, depth);
}

function addRecord(leaves: Leaf[], record: Loose, at: Place, depth: number): void {
  const isInRequest = at.isInRequest || isHttpRequest(record);
  const pairName = textOf(record.name) || (Object.hasOwn(record, 'value') ? textOf(record.key) : '');
  const hasPassword = ['password', 'token'].some((field) => textOf(record[field]).trim() !== '');
  for (const [index, [key, value]] of Object.entries(record).entries()) {
    const isPair = key === 'value' && pairName !== '';
    // The value of an option is stored together with its label.
    const isWrapped = key === '__lv' || (key === 'value' && at.path.endsWith('.__lv'));
    addLeaves(
      leaves,
      value,
      {
        place: isPair ? at.place : joined(at.place, shown(key, index)),
        path: joined(at.path, key),
        name: isPair ? pairName : isWrapped ? at.name : key,
        // The name of a header is never a secret.
        section:
          (key === 'name' || key === 'key') && 'value' in record
            ? undefined
            : (sectionOf(key, isInRequest) ?? at.section),
        isInRequest,
        isKey: at.section === 'authentication' && /^user(?:name)?$/.test(key) && !hasPassword,
      },
      depth + 1,
    );
  }
}

function sectionOf(key: string, isInRequest: boolean): Section | undefined {
  const plain = key.toLowerCase().replaceAll(/[^a-z]/g, '');
  if (/^(?:http|request|custom|extra)?headers?$/.test(plain)) return 'header';
  if (!isInRequest) return undefined;
  if (/^(?:params|parameters|query|qs|queryparam(?:eter)?s|querystring|searchparams)$/.test(plain))
    return 'parameter';
  if (/^(?:body|data|json|form|formdata|payload)$/.test(plain)) return 'body';
  return /^(?:auth|authentication)$/.test(plain) ? 'authentication' : undefined;
}

function isHttpRequest(value: Loose): boolean {
  return (
    textOf(value.url) !== '' &&
    ['method', 'headers', 'auth', 'params', 'body'].some((field) => Object.hasOwn(value, field))
  );
}

function replaceIn(leaf: Leaf, { replace, onUnsure }: SecretHandler): string {
  const { text, place, path } = leaf;
  const { ranges, isUnsure } = rangesIn(leaf);
  if (isUnsure) onUnsure(place);
  const parts: string[] = [];
  let at = 0;
  for (const { start, end, label, quote } of ranges) {
    const value = quote === '' ? text.slice(start, end) : text.slice(start + 1, end - 1);
    const put = replace({ value, place: label === '' ? place : joined(place, label), path, quote });
    parts.push(text.slice(at, start), put);
    at = end;
  }
  return parts.join('') + text.slice(at);
}

/** Secrets in a text, in their order and none within another. */
function rangesIn(leaf: Place & { text: string }): { ranges: FoundRange[]; isUnsure: boolean } {
  const { text } = leaf;
  // Masked already.
  if (text.trim() === '' || text.includes('••••')) return { ranges: [], isUnsure: false };
  const expressions = expressionsIn(text);
  const literal = blanked(text, expressions);
  const found: FoundRange[] = [
    ...(isSecretHere(leaf) ? named(literal, leaf) : []),
    ...(isUrl(leaf) ? urlRanges(literal) : []),
    ...(leaf.section === 'body' ? bodyRanges(literal) : []),
    ...rangesByForm(literal).map((range) => ({ ...range, quote: '' })),
  ].flatMap((range) => withoutExpressions(literal, range));
  let isUnsure =
    leaf.section === undefined && isSecretName(leaf.name) && saysMore(literal.replaceAll(filler, ''));
  const json = jsonRanges(literal, leaf);
  found.push(...json.ranges);
  for (const { start, end } of expressions) {
    const inside = literalsIn(text, start, end);
    found.push(...inside.ranges);
    if (inside.isUnsure) isUnsure = true;
  }
  const ranges = apart(found);
  const isUnsafe = /^\s*(?:select|insert|update|delete|with|merge|call|create|alter)\s/i.test(text);
  if (
    ranges.length > 0 &&
    (isUnsafe ||
      literal.includes('{{') ||
      ranges.some(({ start, quote }) => quote === '' && text[start - 1] === '{'))
  )
    return { ranges: [], isUnsure: true };
  return { ranges, isUnsure: ranges.length === 0 && (isUnsure || json.isUnsure) };
}

function isSecretHere({ name, section, text, isKey = false }: Place & { text: string }): boolean {
  switch (section) {
    case 'header':
      return isSecretHeader(name, text);
    case 'parameter':
      return isSecretParameter(name, text);
    case 'body':
      return isSecretName(name);
    case 'authentication':
      return isKey || !isOpenAuthField(name);
    case undefined:
      return false;
  }
}

/** The whole text as one secret. In a text with expressions: the rest, if it is more than an authentication scheme such as `Bearer`. */
function named(literal: string, { name, section }: Place): FoundRange[] {
  // A text that holds a whole list of headers, or a whole body, is not one secret.
  if (section !== undefined && sectionOf(name, true) === section && /^\s*[[{]/.test(literal)) return [];
  if (!literal.includes(filler)) return [{ start: 0, end: literal.length, label: '', quote: '' }];
  return partsOf(literal, 0, literal.length)
    .filter(({ start, end }) => saysMore(literal.slice(start, end)))
    .map((part) => ({ ...part, label: '', quote: '' }));
}

function isUrl({ name, text }: Place & { text: string }): boolean {
  return /^\s*[a-z][\w+.-]*:\/\//i.test(text) || /(?:url|uri|endpoint)$/i.test(name);
}

/** Secrets in the query of a URL, and before its host. */
function urlRanges(literal: string): FoundRange[] {
  const ranges = pairRanges(literal, /([?&#](?:amp;)?)([^=&#\s]+)=([^&#\s]+)/g, isSecretParameter);
  const [whole = '', before = '', user = '', password] =
    /^(\s*[a-z][\w+.-]*:\/\/)([^/?#@\s:]*)(?::([^/?#@\s]*))?@/i.exec(literal) ?? [];
  if (whole === '') return ranges;
  const end = before.length + user.length;
  if (password === undefined || password === '')
    return [...ranges, { start: before.length, end, label: 'username', quote: '' }];
  return [...ranges, { start: end + 1, end: end + 1 + password.length, label: 'password', quote: '' }];
}

/** Secrets in a form, and in XML. */
function bodyRanges(literal: string): FoundRange[] {
  if (/^[\w.%[\]-]+=/.test(literal)) return pairRanges(literal, /(^|&)([^=&\s]+)=([^&\s]+)/g, isSecretName);
  return /^\s*</.test(literal) ? pairRanges(literal, /(<)([\w:.-]+)>([^<>]+)(?=<\/)/g, isSecretName) : [];
}

/** `pattern` has groups for what precedes a name, for the name, and for the value behind one more character. */
function pairRanges(
  literal: string,
  pattern: RegExp,
  isSecret: (name: string, value: string) => boolean,
): FoundRange[] {
  return [...literal.matchAll(pattern)].flatMap(
    ({ index, 1: before = '', 2: name = '', 3: value = '' }, nth) => {
      if (!isSecret(name, value)) return [];
      const start = index + before.length + name.length + 1;
      return [{ start, end: start + value.length, label: shown(name, nth), quote: '' }];
    },
  );
}

/** Secrets in JSON text: a body, headers, or a whole request. */
function jsonRanges(literal: string, leaf: Place): { ranges: FoundRange[]; isUnsure: boolean } {
  if (!/^\s*[[{]/.test(literal)) return { ranges: [], isUnsure: false };
  const value = new JsonReader(literal).read();
  const isRequest = isRecord(value) && isHttpRequest(value);
  if (!isRequest && leaf.section === undefined) return { ranges: [], isUnsure: false };
  const leaves: Leaf[] = [];
  addLeaves(leaves, value, { ...leaf, place: '', path: '' }, 0);
  const results = leaves.map((inner) => {
    const { ranges, isUnsure } = rangesIn(inner);
    const moved = ranges.map(({ start, end, label, quote }) => ({
      ...{ start: inner.start + start, end: inner.start + end, quote },
      label: label === '' ? inner.place : joined(inner.place, label),
    }));
    return { ranges: moved, isUnsure };
  });
  return {
    ranges: results.flatMap(({ ranges }) => ranges).flatMap((range) => withoutExpressions(literal, range)),
    isUnsure: results.some(({ isUnsure }) => isUnsure),
  };
}

/** Literals between `start` and `end` of an expression that have the form of a secret. */
function literalsIn(text: string, start: number, end: number): { ranges: FoundRange[]; isUnsure: boolean } {
  const inside = text.slice(start, end);
  const ranges: FoundRange[] = [];
  let isUnsure = false;
  for (const found of rangesByForm(inside)) {
    const head = inside.slice(Math.max(0, found.start - literalMax), found.start);
    const open = Math.max(...[`'`, '"', '`'].map((quote) => head.lastIndexOf(quote)));
    const quote = head[open] ?? '';
    const tail = inside.slice(found.end, found.end + literalMax);
    const close = quote === '' ? -1 : tail.indexOf(quote);
    const from = found.start - head.length + open;
    const to = found.end + close;
    const content = close === -1 ? '' : inside.slice(from + 1, to);
    const isKey =
      /[{,]\s*$/.test(head.slice(0, Math.max(open, 0)).slice(-20)) && /^\s*:/.test(tail.slice(close + 1));
    if (content === '' || isKey || /['"`\\\n]|\$\{|^[\s+]/.test(content)) isUnsure = true;
    else ranges.push({ start: start + from, end: start + to + 1, label: '', quote });
  }
  return { ranges, isUnsure };
}

/** The parts of a range outside of expressions. */
function withoutExpressions(literal: string, range: FoundRange): FoundRange[] {
  return partsOf(literal, range.start, range.end).map((part) => ({ ...range, ...part }));
}

/** The ranges in order. Of overlapping ranges, the one that begins first, or was found first, is kept. */
function apart(found: readonly FoundRange[]): FoundRange[] {
  const kept: FoundRange[] = [];
  for (const range of found.toSorted((one, other) => one.start - other.start))
    if (range.start >= (kept.at(-1)?.end ?? 0)) kept.push(range);
  return kept;
}

/** A name as it is shown in a message. A name that may itself be a secret, or is not a plain word, is replaced by its number. */
function shown(name: string, index: number): string {
  return /^[\w$.:[\]-]{1,100}$/.test(name) && !hasSecretForm(name) ? name : String(index);
}

function joined(place: string, name: string): string {
  return place === '' ? name : `${place}.${name}`;
}

function textOf(value: unknown): string {
  if (value instanceof JsonPart) return value.text;
  return typeof value === 'string' ? value : '';
}

function isRecord(value: unknown): value is Loose {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof JsonPart);
}
