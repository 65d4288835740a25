import {
  closing,
  compileErrorOf,
  type ExpressionPart,
  messageOf,
  opening,
  type Part,
  partAt,
  partsOfText,
} from './expression-parts.ts';
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

/** Maximum texts that are kept compiled. Beyond it, the oldest is removed. */
const compiledMax = 1000;
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
    throw invalid(path, {
      ...{ text: expression, at: 0, run: undefined },
      error: new SyntaxError('this is no single expression'),
    });
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

function evaluatePart(part: ExpressionPart, path: string, scope: ExpressionScope): unknown {
  const { text, run } = part;
  if (run === undefined) throw invalid(path, part);
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

function invalid(path: string, part: ExpressionPart): ExpressionError {
  return new ExpressionError(
    `prop ${path}: the expression {{${shownExpression(part.text)}}} is not valid JavaScript: ${compileErrorOf(part)}`,
    { cause: part.error },
  );
}

function shownExpression(expression: string): string {
  return expression.length > shownCharactersMax ? `${expression.slice(0, shownCharactersMax)}…` : expression;
}

/** The index after the `}}` of the expression whose `{{` is at `at`; undefined when no `}}` follows. */
export function endOfExpression(text: string, at: number): number | undefined {
  const find = (): number | undefined => partAt(text, at + opening.length)?.end;
  return cached(endsOfTexts, `${at} ${text}`, find);
}

function partsOf(text: string): Part[] {
  return cached(compiledTexts, text, () => partsOfText(text));
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
