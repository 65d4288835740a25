import { compileFunction } from 'node:vm';
import { toJsonText } from './json-text.ts';
import { observeUnset } from './unset-variables.ts';

/** Values that expressions can name in addition to globals. */
export interface ExpressionScope {
  steps: unknown;
  /** `steps.trigger.event` */
  event: unknown;
  /** Called with each environment variable that an expression reads without testing it, and that is not set. */
  onUnset: (name: string) => void;
}

type Compiled = (steps: unknown, event: unknown) => unknown;

/** A part of a text: a literal, or an expression with its source and its compiled form (or the reason why it does not compile). */
type Part = string | { text: string; run: Compiled | undefined; error?: unknown };

const opening = '{{';
const closing = '}}';
/** Maximum texts that are kept compiled. Beyond it, the oldest is removed. */
const compiledMax = 1000;
/** Maximum attempts beyond the first `}}` to find the ends of the expressions in one text. */
const endsMax = 500;
/** Maximum size of an object's JSON inside a text. */
const interpolatedBytesMax = 6 * 1024 * 1024;
const depthMax = 64;
const shownCharactersMax = 200;

const compiledTexts = new Map<string, Part[]>();
const endsOfTexts = new Map<string, number | undefined>();

/** An expression in the value of a prop has failed. */
export class ExpressionError extends Error {
  override name = 'ExpressionError';
}

/** True when any text in a value contains `{{`. */
export function holdsExpression(value: unknown, depth = 0): boolean {
  if (typeof value === 'string') return value.includes(opening);
  if (typeof value !== 'object' || value === null || depth > depthMax) return false;
  return Object.values(value).some((item) => holdsExpression(item, depth + 1));
}

/**
 * Evaluates every expression in the texts of a value, at any depth of objects and arrays; keys stay unchanged. A text that is one expression
 * becomes its value; in other texts a value becomes text. `path` names the prop. Throws an `ExpressionError` with the prop and the expression.
 */
export function evaluateValue(value: unknown, path: string, scope: ExpressionScope, depth = 0): unknown {
  if (typeof value === 'string') return value.includes(opening) ? evaluateText(value, path, scope) : value;
  if (typeof value !== 'object' || value === null || depth > depthMax) return value;
  if (Array.isArray(value))
    return value.map((item, i) => evaluateValue(item, `${path}[${i}]`, scope, depth + 1));
  const entries = Object.entries(value).map(([key, item]) => [
    key,
    evaluateValue(item, `${path}.${key}`, scope, depth + 1),
  ]);
  return Object.fromEntries(entries);
}

/**
 * The same, but a text is evaluated when it is first read, so that the rule of one branch may rely on those of the branches before it. JSON of
 * the result is JSON of the value as it was given.
 */
export function deferValue(value: unknown, path: string, scope: ExpressionScope, depth = 0): unknown {
  if (typeof value !== 'object' || value === null || depth > depthMax) return value;
  const deferred: object = Array.isArray(value) ? [] : {};
  for (const [key, item] of Object.entries(value)) {
    const place = Array.isArray(value) ? `${path}[${key}]` : `${path}.${key}`;
    if (typeof item !== 'string' || !item.includes(opening))
      defineValue(deferred, key, deferValue(item, place, scope, depth + 1));
    else
      Object.defineProperty(deferred, key, {
        configurable: true,
        enumerable: true,
        get: () => {
          const evaluated = evaluateText(item, place, scope);
          defineValue(deferred, key, evaluated);
          return evaluated;
        },
      });
  }
  Object.defineProperty(deferred, 'toJSON', { value: () => value });
  return deferred;
}

function defineValue(object: object, key: string, value: unknown): void {
  Object.defineProperty(object, key, { configurable: true, enumerable: true, writable: true, value });
}

/** True when a text is exactly one expression, whose value keeps its type. In other texts values become text. */
export function isOneExpression(text: string): boolean {
  const parts = partsOf(text);
  return parts.length === 1 && typeof parts[0] !== 'string';
}

/** Evaluates one expression, given without its braces. */
export function evaluateExpression(expression: string, path: string, scope: ExpressionScope): unknown {
  const parts = partsOf(`${opening}${expression}${closing}`);
  const [part] = parts;
  if (parts.length !== 1 || part === undefined || typeof part === 'string')
    throw invalid(path, expression, new SyntaxError('this is no single expression'));
  return evaluatePart(part, path, scope);
}

function evaluateText(text: string, path: string, scope: ExpressionScope): unknown {
  const parts = partsOf(text);
  const [first] = parts;
  if (parts.length === 1 && first !== undefined && typeof first !== 'string')
    return evaluatePart(first, path, scope);
  let joined = '';
  for (const part of parts)
    joined += typeof part === 'string' ? part : asText(evaluatePart(part, path, scope));
  return joined;
}

function asText(value: unknown): string {
  if (value === undefined || value === null) return '';
  if (typeof value === 'object') return toJsonText(value, interpolatedBytesMax, 'a value in a text') ?? '';
  return String(value);
}

function evaluatePart(part: Exclude<Part, string>, path: string, scope: ExpressionScope): unknown {
  const { text, run } = part;
  if (run === undefined) throw invalid(path, text, part.error);
  const unset = new Set<string>();
  try {
    const value = observeUnset(
      (name) => unset.add(name),
      () => run(scope.steps, scope.event),
    );
    for (const name of unset) if (!testsVariable(text, name)) scope.onUnset(name);
    return value;
  } catch (error) {
    const names = [...unset].join(', ');
    throw failure(path, text, error, names === '' ? '' : ` (not set: ${names})`);
  }
}

/** True if an expression tests the variable itself: `process.env.NAME ?? 'default'`, a comparison, a condition. */
function testsVariable(expression: string, name: string): boolean {
  if (!/^\w+$/.test(name)) return false;
  const read = `process\\s*\\??\\.\\s*env\\s*(?:\\?\\.)?\\.?\\s*(?:${name}\\b|\\[\\s*['"\`]${name}['"\`]\\s*\\])`;
  const test = '\\s*\\)*\\s*(?:\\?\\?|\\?(?!\\.)|\\|\\||&&|[!=]==?)';
  return new RegExp(`!\\s*${read}|${read}${test}`).test(expression);
}

function failure(path: string, expression: string, cause: unknown, note = ''): ExpressionError {
  return new ExpressionError(
    `prop ${path}: the expression {{${shownExpression(expression)}}} failed: ${messageOf(cause)}${note}`,
    { cause },
  );
}

/** The compiler may name the parenthesis that follows the expression, which its author has not written. */
function invalid(path: string, expression: string, cause: unknown): ExpressionError {
  const message = messageOf(cause);
  const why = message === "Unexpected token ')'" && !expression.includes(')') ? 'it ends too early' : message;
  return new ExpressionError(
    `prop ${path}: the expression {{${shownExpression(expression)}}} is not valid JavaScript: ${why}`,
    { cause },
  );
}

function shownExpression(expression: string): string {
  return expression.length > shownCharactersMax ? `${expression.slice(0, shownCharactersMax)}…` : expression;
}

function messageOf(cause: unknown): string {
  return typeof cause === 'object' && cause !== null && 'message' in cause
    ? String(cause.message)
    : `thrown: ${String(cause)}`;
}

/** The index after the `}}` of the expression whose `{{` is at `at`; undefined when no `}}` follows. */
export function endOfExpression(text: string, at: number): number | undefined {
  const find = (): number | undefined => compileAt(text, at + opening.length, { left: endsMax })?.end;
  return cached(endsOfTexts, `${at} ${text}`, find);
}

function partsOf(text: string): Part[] {
  return cached(compiledTexts, text, () => compileText(text));
}

function cached<T>(cache: Map<string, T>, key: string, make: () => T): T {
  const known = cache.get(key);
  if (known !== undefined) return known;
  const made = make();
  if (cache.size >= compiledMax) {
    for (const oldest of cache.keys()) {
      cache.delete(oldest);
      break;
    }
  }
  cache.set(key, made);
  return made;
}

function compileText(text: string): Part[] {
  const parts: Part[] = [];
  const tries = { left: endsMax };
  let at = 0;
  for (;;) {
    const start = text.indexOf(opening, at);
    const found = start === -1 ? undefined : compileAt(text, start + opening.length, tries);
    if (found === undefined) break;
    if (start > at) parts.push(text.slice(at, start));
    parts.push(found.part);
    at = found.end;
  }
  if (at < text.length) parts.push(text.slice(at));
  return parts;
}

/**
 * Compiles the expression that begins at `start`. It ends at the first `}}` up to which the text compiles, so braces in texts, templates,
 * regular expressions and comments need no own parser. Undefined when no `}}` follows.
 */
function compileAt(
  text: string,
  start: number,
  tries: { left: number },
): { part: Part; end: number } | undefined {
  const firstEnd = text.indexOf(closing, start);
  if (firstEnd === -1) return undefined;
  let firstError: unknown;
  for (let end = firstEnd; end !== -1; end = text.indexOf(closing, end + 1)) {
    const expression = text.slice(start, end);
    try {
      const run = compile(expression);
      return { part: { text: expression, run }, end: end + closing.length };
    } catch (error) {
      if (end === firstEnd) firstError = error;
    }
    tries.left -= 1;
    if (tries.left < 0) break;
  }
  return {
    part: { text: text.slice(start, firstEnd), run: undefined, error: firstError },
    end: firstEnd + closing.length,
  };
}

function compile(expression: string): Compiled {
  // The newline ends a comment at the end of the expression.
  const run = compileFunction(`return (${expression}\n);`, ['steps', 'event'], { filename: 'expression' });
  return (steps, event) => run.call(undefined, steps, event);
}
