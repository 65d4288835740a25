import { bytesText } from '#lib/units.ts';
import { inputBytesMax } from '#runner/protocol.ts';
import {
  deferValue,
  ExpressionError,
  type ExpressionScope,
  evaluateExpression,
  evaluateValue,
  holdsExpression,
  isOneExpression,
} from './expressions.ts';
import { asObject } from './http-request-prop.ts';
import { TooLargeError, toJsonText } from './json-text.ts';
import { byteLength, jsonParse, jsonStringify } from './primordials.ts';
import type { ResolvedProp } from './prop-definitions.ts';
import { sqlValue } from './sql-prop.ts';

type Loose = Record<string, unknown>;
type Evaluate = (value: unknown, name: string, definition: ResolvedProp, scope: ExpressionScope) => unknown;

const mask = '••••••••';
/** Maximum size of the JSON of one reported value. */
const toldBytesMax = 64 * 1024;
/** Maximum size of a value that is reported in part. For a larger one the JSON costs too much. */
const measuredBytesMax = 1024 * 1024;
/** Room for the note about a value that is left out. */
const noteBytes = 100;

/** Functions for types of props whose values are not simply searched for expressions. */
const evaluateType: Record<string, Evaluate> = {
  sql: (value, name, definition, scope) =>
    sqlValue(value, definition.auth, (expression) => evaluateExpression(expression, name, scope)),
  // Fields that the value does not set come from the default.
  http_request: (value, name, definition, scope) => {
    const byDefault = asObject(definition.default);
    if (typeof value !== 'string') return evaluateValue({ ...byDefault, ...asObject(value) }, name, scope);
    // The result of an expression is not evaluated again: it may be data with braces in it.
    const given = asObject(evaluatePlain(value, name, definition, scope));
    const rest = Object.entries(byDefault).filter(([field]) => !Object.hasOwn(given, field));
    return { ...asObject(evaluateValue(Object.fromEntries(rest), name, scope)), ...given };
  },
};

const evaluatePlain: Evaluate = (value, name, { type }, scope) => {
  const evaluated = evaluateValue(value, name, scope);
  const isStructured = type === 'object' || type === 'http_request' || type.endsWith('[]');
  // The value of a single expression keeps its type.
  const isText = typeof value === 'string' && typeof evaluated === 'string' && !isOneExpression(value);
  return isStructured && isText ? parseText(evaluated, name) : evaluated;
};

/** Parses the object or array in a text whose expressions were evaluated. */
function parseText(text: string, name: string): unknown {
  try {
    const parsed: unknown = jsonParse(text);
    if (typeof parsed === 'object' && parsed !== null) return parsed;
  } catch {
    // The error follows.
  }
  // The message leaves out the text, because the values of its expressions may be secret.
  throw new ExpressionError(
    `prop ${name}: with its expressions evaluated, the text is no JSON of an object or array`,
  );
}

/** True when the values of a type may hold expressions. Values of accounts, stores and interfaces are not texts of the workflow's author. */
function isEvaluated(type: string): boolean {
  return !isPlumbing(type) && type !== 'data_store' && type !== 'dir';
}

function isPlumbing(type: string): boolean {
  return type === 'app' || type === 'alert' || type.startsWith('$.');
}

/** The same rule as in components/validate-props.ts: users cannot fill in props that a form does not show, or shows locked. */
function isRequired(definition: ResolvedProp): boolean {
  const { optional, hidden, disabled } = definition;
  return optional !== true && hidden !== true && disabled !== true && definition.default === undefined;
}

/** The props of a step: finds those with expressions once, and evaluates them for each call. */
export class StepProps {
  readonly #props: readonly [string, ResolvedProp][];
  readonly #evaluated: [string, ResolvedProp][];
  /** JSON of the reported props. Without expressions it is always the same. */
  #input: string | undefined;

  constructor(props: readonly [string, ResolvedProp][], valuesText: string) {
    this.#props = props;
    const values = valuesText.includes('{{') ? (jsonParse(valuesText) as Loose) : {};
    this.#evaluated = props.filter(
      ([name, { type, default: byDefault }]) =>
        isEvaluated(type) &&
        ((Object.hasOwn(values, name) && holdsExpression(values[name])) || holdsExpression(byDefault)),
    );
  }

  /**
   * Replaces values that hold expressions. A value of undefined counts as absent, and the default is evaluated. An environment
   * variable that is not set fails a required prop, and is reported to `warn` for others.
   */
  evaluate(values: Loose, given: Omit<ExpressionScope, 'onUnset'>, warn: (message: string) => void): void {
    for (const [name, definition] of this.#evaluated) {
      if (definition.lazy === true) {
        const onUnset = (variable: string) =>
          warn(`prop ${name}: the environment variable ${variable} is not set`);
        values[name] = deferValue(values[name], name, { ...given, onUnset });
        continue;
      }
      const own = evaluateType[definition.type] ?? evaluatePlain;
      const unset = new Set<string>();
      const scope: ExpressionScope = { ...given, onUnset: (variable) => unset.add(variable) };
      let value = values[name] === undefined ? undefined : own(values[name], name, definition, scope);
      if (value === undefined && holdsExpression(definition.default))
        value = own(definition.default, name, definition, scope);
      for (const variable of unset) {
        const message = `prop ${name}: the environment variable ${variable} is not set`;
        if (isRequired(definition)) throw new ExpressionError(`${message}, and the prop is required`);
        if (definition.type === 'http_request' && isUrlOf(values[name], variable) && !hasUrl(value))
          throw new ExpressionError(`${message}, and the url of the request needs it`);
        warn(message);
      }
      if (value === undefined) delete values[name];
      else values[name] = value;
    }
  }

  /** JSON of the props that the step got, without accounts and secrets. Each value is cut to the maximum size. */
  input(values: Loose): string {
    if (this.#input !== undefined) return this.#input;
    const input = this.#tell(values);
    if (this.#evaluated.length === 0) this.#input = input;
    return input;
  }

  #tell(values: Loose): string {
    const entries: string[] = [];
    let bytesLeft = inputBytesMax - 2;
    for (const [name, definition] of this.#props) {
      if (isPlumbing(definition.type)) continue;
      const value = values[name] === undefined ? definition.default : values[name];
      const told = definition.secret === true && value !== undefined ? jsonStringify(mask) : tellValue(value);
      if (told === undefined) continue;
      const key = jsonStringify(name);
      let entry = `${key}:${told}`;
      if (byteLength(entry) + 1 > bytesLeft) entry = `${key}:"[left out: the props are too large]"`;
      bytesLeft -= byteLength(entry) + 1;
      if (bytesLeft < 0) break;
      entries.push(entry);
    }
    return `{${entries.join(',')}}`;
  }
}

/** True when the url of a request, as it was given, names a variable. */
function isUrlOf(given: unknown, variable: string): boolean {
  const { url } = asObject(given);
  return String(url ?? given).includes(variable);
}

function hasUrl(request: unknown): boolean {
  return URL.canParse(String(asObject(request).url ?? '').trim());
}

/** JSON of a value, or of the beginning of its text with a note. */
function tellValue(value: unknown): string | undefined {
  try {
    const text = toJsonText(value, measuredBytesMax, 'a prop');
    if (text === undefined || byteLength(text) <= toldBytesMax) return text;
    return beginningOf(typeof value === 'string' ? value : text, byteLength(text));
  } catch (error) {
    if (!(error instanceof TooLargeError)) return jsonStringify('[this value has no JSON]');
    if (typeof value === 'string') return beginningOf(value, value.length);
    return jsonStringify(`… [left out: more than ${bytesText(measuredBytesMax)} of JSON]`);
  }
}

function beginningOf(text: string, bytes: number): string {
  let characters = toldBytesMax - noteBytes;
  for (;;) {
    const told = jsonStringify(`${text.slice(0, characters)}… [cut: ${bytes} bytes of JSON]`);
    if (byteLength(told) <= toldBytesMax) return told;
    // A character may need six bytes of JSON.
    characters = Math.floor(characters / 2);
  }
}
