import { CallerError } from '#lib/errors.ts';
import { isDeeperThan } from '#lib/json-depth.ts';
import { bytesText, countText } from '#lib/units.ts';
import { isOption, isRecord, unwrapChoice, unwrapDataStore, unwrapId } from './chosen-value.ts';
import type { PropDefinition } from './component-shape.ts';
import { isIdProp, isPlatformProp } from './prop-types.ts';

/** Largest value of one prop, as JSON (component contract, 1.3). */
const valueBytesMax = 64 * 1024;
/** Objects and arrays within one another in a value that is given as JSON text: as many as in the body of a request. */
const textDepthMax = 500;

export type ConfiguredProps = Record<string, unknown>;

/**
 * Checks values against definitions and returns them as they are stored: options chosen from a list are unwrapped,
 * platform props are left out, null counts as absent, and JSON text of an object or array is parsed: forms and
 * language models give these so. Throws `invalid_prop` naming `configured_props.<name>`.
 * Timers and accounts are checked by the callers that know schedules and accounts. With `expressions` a value of any type
 * but `app` and `dir` may be the text of an expression, `{{…}}`, also inside arrays: what it gives is known only when it runs. So is
 * JSON text that is JSON only when its expressions are evaluated.
 */
export function validateProps(
  definitions: readonly PropDefinition[],
  values: ConfiguredProps,
  options: { unknown: 'refuse' | 'keep' | 'drop'; expressions?: boolean },
): ConfiguredProps {
  const { kept, problem } = checkProps(definitions, values, options);
  if (problem !== undefined) throw problem;
  return kept;
}

/**
 * The same for definitions that are not final: code that computes the props (`additionalProps`) may give one
 * another type, or need no value. Those that do not fit, or are not known, are kept as they are, and `problem` is what
 * `validateProps` would throw. Throws only for a value that is too large for any prop.
 */
export function draftProps(
  definitions: readonly PropDefinition[],
  values: ConfiguredProps,
  options: { expressions?: boolean } = {},
): { values: ConfiguredProps; problem: CallerError | undefined } {
  const { kept, problem } = checkProps(definitions, values, { ...options, unknown: 'keep' });
  return { values: kept, problem };
}

function checkProps(
  definitions: readonly PropDefinition[],
  values: ConfiguredProps,
  options: { unknown: 'refuse' | 'keep' | 'drop'; expressions?: boolean },
): { kept: ConfiguredProps; problem: CallerError | undefined } {
  const kept: ConfiguredProps = {};
  let problem: CallerError | undefined;
  const byName = new Map(definitions.map((definition) => [definition.name, definition]));
  for (const name of Object.keys(values)) {
    if (byName.get(name)?.type !== 'alert') refuseLarge(name, values[name]);
    if (byName.has(name)) continue;
    if (options.unknown === 'refuse') problem ??= unknownProp(name, definitions);
    if (options.unknown === 'keep') kept[name] = values[name];
  }
  for (const definition of definitions) {
    if (isPlatformProp(definition.type)) continue;
    const { name } = definition;
    const given = Object.hasOwn(values, name) ? values[name] : undefined;
    try {
      const value = checkedValue(definition, given, options.expressions === true);
      if (value !== undefined) kept[name] = value;
    } catch (error) {
      if (!(error instanceof CallerError)) throw error;
      problem ??= error;
      if (given !== undefined && given !== null) kept[name] = given;
    }
  }
  return { kept, problem };
}

function unknownProp(name: string, definitions: readonly PropDefinition[]): CallerError {
  const names = definitions
    .filter((definition) => !isPlatformProp(definition.type))
    .map((definition) => definition.name);
  return propError(
    name,
    `the component has no such prop; it has ${names.length === 0 ? 'none' : names.join(', ')}`,
  );
}

function refuseLarge(name: string, value: unknown): void {
  const bytes = Buffer.byteLength(JSON.stringify(value) ?? '');
  if (bytes > valueBytesMax)
    throw propError(
      name,
      `a value may have ${bytesText(valueBytesMax)} of JSON, found ${countText(bytes)} bytes`,
    );
}

function isRequired(definition: PropDefinition): boolean {
  // A user cannot fill in what a form does not show, or shows locked.
  if (definition.optional === true || definition.hidden === true || definition.disabled === true)
    return false;
  if (definition.default !== undefined) return false;
  if (definition.type === '$.interface.timer')
    return definition.static === undefined && definition.intervalSeconds === undefined;
  // The catalogue entry of an app determines if it needs an account. A missing account is an error when it is used.
  return definition.type !== 'app' && definition.type !== 'data_store' && definition.type !== 'dir';
}

/** Text that is one expression and nothing else: what it gives may be of any type. */
export function isExpression(value: unknown): boolean {
  return typeof value === 'string' && /^\s*\{\{[\s\S]*\}\}\s*$/.test(value);
}

/** The value as it is kept; undefined for none. */
function checkedValue(definition: PropDefinition, given: unknown, expressions: boolean): unknown {
  const { name, type } = definition;
  let value = unwrapChoice(given, definition.withLabel === true);
  if (isIdProp(type)) value = unwrapId(value);
  if (type === 'data_store') value = unwrapDataStore(value);
  if (value === undefined || value === null) {
    if (isRequired(definition)) throw propError(name, `a value is required (${describe(definition)})`);
    return undefined;
  }
  if (definition.withLabel === true && isRecord(value)) return value;
  if (expressions && type !== 'app' && type !== 'dir' && isExpression(value)) return value;
  if (typeof value === 'string' && isStructured(type) && /^\s*[[{]/.test(value)) {
    const parsed = parsedText(name, value);
    // Evaluated, and then parsed, when it runs.
    if (parsed === undefined && expressions && value.includes('{{')) return value;
    value = parsed ?? value;
  }
  if (type.endsWith('[]')) {
    if (!Array.isArray(value))
      throw propError(name, `expected an array (${type}), or JSON text of one, found ${found(value)}`);
    for (const [index, item] of value.entries()) {
      if (definition.withLabel === true && isRecord(item)) continue;
      if (expressions && isExpression(item)) continue;
      checkItem(definition, type.slice(0, -2), item, `${name}[${index}]`);
    }
    return value;
  }
  checkItem(definition, type, value, name);
  return value;
}

/** Types whose values are objects or arrays. `any` is not among them: of that a text is a value like others. */
function isStructured(type: string): boolean {
  return type === 'object' || type === 'http_request' || type.endsWith('[]');
}

/** The object or array that a JSON text holds; undefined when it is JSON of neither. */
function parsedText(name: string, text: string): object | undefined {
  if (isDeeperThan(text, textDepthMax))
    throw propError(name, `the value is nested more than ${textDepthMax} levels deep`);
  try {
    return JSON.parse(text) as object;
  } catch {
    return undefined;
  }
}

function checkItem(definition: PropDefinition, type: string, value: unknown, name: string): void {
  const expect = (matches: boolean, expected: string) => {
    if (!matches) throw propError(name, `expected ${expected}, found ${found(value)}`);
  };
  if (isOption(definition, type, value)) return;
  if (isIdProp(type)) {
    expect(typeof value === 'string' && value !== '', 'an id, or { value } with one');
    return;
  }
  switch (type) {
    case 'string':
      expect(typeof value === 'string', 'a string');
      break;
    case 'integer':
      expect(Number.isSafeInteger(value), 'an integer');
      checkRange(definition, value as number, name);
      break;
    case 'number':
      expect(typeof value === 'number' && Number.isFinite(value), 'a number');
      checkRange(definition, value as number, name);
      break;
    case 'boolean':
      expect(typeof value === 'boolean', 'true or false');
      break;
    case 'dir':
      expect(
        value === true ||
          isStash(value) ||
          (isRecord(value) && (value.id === undefined || isStash(value.id))),
        'true, or the id of a file stash',
      );
      break;
    case 'object':
      expect(typeof value === 'object', 'an object, or JSON text of one');
      break;
    case 'http_request':
      expect(isRecord(value), 'an object with the url of the request, or JSON text of one');
      break;
    case 'app':
      expect(
        isRecord(value) && (value.authProvisionId === undefined || typeof value.authProvisionId === 'string'),
        'an object with authProvisionId, the id of a connected account',
      );
      break;
  }
}

/** The rest of the text is checked by the service when files of it are requested. */
function isStash(value: unknown): boolean {
  return typeof value === 'string' && value !== '';
}

function checkRange(definition: PropDefinition, value: number, name: string): void {
  if (typeof definition.min === 'number' && value < definition.min)
    throw propError(name, `expected at least ${definition.min}, found ${value}`);
  if (typeof definition.max === 'number' && value > definition.max)
    throw propError(name, `expected at most ${definition.max}, found ${value}`);
}

export function propError(name: string, message: string): CallerError {
  const parameter = `configured_props.${name}`;
  return new CallerError('invalid_prop', `${parameter}: ${message}`, { parameter });
}

function describe(definition: PropDefinition): string {
  return definition.label === undefined ? definition.type : `${definition.label}, ${definition.type}`;
}

function found(value: unknown): string {
  if (Array.isArray(value)) return 'an array';
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}

export { isRecord };
