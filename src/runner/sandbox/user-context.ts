import type { PayloadReader } from '#runner/protocol.ts';
import type { CallEffects } from './call-effects.ts';
import { makeDataStore } from './data-store-prop.ts';
import { makeDir } from './file-prop.ts';
import type { HostCallFunction } from './host-calls.ts';
import { makeHttpRequest } from './http-request-prop.ts';
import { fromJsonText } from './json-text.ts';
import { byteLength, jsonParse } from './primordials.ts';
import { type ResolvedProp, resolveProp } from './prop-definitions.ts';
import { makeSql } from './sql-prop.ts';

type Loose = Record<string, unknown>;
// biome-ignore lint/complexity/noBannedTypes: methods of a component take and return anything
type AnyFunction = Function;

/** `this` of user code: every prop by its type, bound methods, `$emit`. A new one is made for each call. */
export function makeUserContext(options: {
  component: Loose;
  props: readonly [name: string, definition: ResolvedProp][];
  values: Loose;
  db: DbSnapshot;
  effects: CallEffects;
  hostCall: HostCallFunction;
}): Loose {
  const { component, props, values, db, effects, hostCall } = options;
  const context: Loose = {};
  bindMethods(component.methods, context);
  for (const [name, definition] of props) {
    if (definition.type === 'alert') continue;
    const value = values[name];
    const given = value === undefined ? definition.default : value;
    context[name] = makeProp(name, definition, given, { db, effects, hostCall });
  }
  // An arrow function, because components take `$emit` off `this` and pass it on.
  context.$emit = (event: unknown, meta?: unknown): Promise<void> => {
    effects.emit(event, meta);
    return Promise.resolve();
  };
  return context;
}

/** Every prop of a component with its definition: the static ones, then those that additionalProps returned. */
export function resolveAllProps(component: Loose, dynamic: Loose): [string, ResolvedProp][] {
  const resolved = new Map<string, ResolvedProp>();
  const statics = component.props;
  for (const definitions of [
    typeof statics === 'object' && statics !== null ? (statics as Loose) : {},
    dynamic,
  ]) {
    for (const name of Object.keys(definitions)) {
      const definition = resolveProp(name, definitions[name]);
      const before = resolved.get(name);
      // Results of additionalProps came as JSON. The methods of an app are in its static definition.
      const isApp = definition.type === 'app' && before?.type === 'app';
      resolved.set(name, isApp ? { ...before, ...definition } : definition);
    }
  }
  return [...resolved];
}

function makeProp(
  name: string,
  definition: ResolvedProp,
  value: unknown,
  { db, effects, hostCall }: { db: DbSnapshot; effects: CallEffects; hostCall: HostCallFunction },
): unknown {
  switch (definition.type) {
    case 'app':
      return makeApp(definition, value);
    case '$.service.db':
      return db.forCall(effects);
    case '$.interface.http':
      return {
        type: definition.type,
        ...(isObject(value) ? value : {}),
        respond: (reply: unknown): void => effects.respond(reply),
      };
    case '$.interface.timer':
      return { type: definition.type, ...(isObject(value) ? value : {}) };
    case '$.interface.apphook':
      return { type: definition.type, ...(isObject(value) ? value : {}) };
    case 'dir':
      return makeDir(name, definition, value, hostCall);
    case 'data_store':
      return makeDataStore(name, value, hostCall);
    case 'http_request':
      return makeHttpRequest(name, definition.default, value);
    case 'sql':
      return makeSql(value);
    default:
      return definition.withLabel === true ? withLabel(value) : value;
  }
}

/** Code that requests labels reads `label` and `value`, also for values that were given without a label. */
function withLabel(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withLabel);
  if (value === undefined || value === null || isObject(value)) return value;
  return { label: String(value), value };
}

/**
 * Adds values without a known definition under their names, for props that additionalProps defined before or will define. Used by code that
 * determines which props exist.
 */
export function addUndefinedValues(
  context: Loose,
  props: readonly [name: string, definition: ResolvedProp][],
  values: Loose,
): Loose {
  const defined = new Set(props.map(([name]) => name));
  for (const name of Object.keys(values))
    if (!defined.has(name) && !Object.hasOwn(context, name)) context[name] = values[name];
  return context;
}

/** An app as a prop. In its methods `this` is the app itself, with the credentials in `$auth`. */
export function makeApp(app: Loose, value: unknown): Loose {
  const instance: Loose = {};
  for (const key of Object.keys(app)) {
    if (key !== 'methods' && key !== 'propDefinitions') instance[key] = app[key];
  }
  const given = isObject(value) ? value : {};
  instance.$auth = isObject(given.$auth) ? given.$auth : {};
  bindMethods(app.methods, instance);
  return instance;
}

function bindMethods(methods: unknown, target: Loose): void {
  if (!isObject(methods)) return;
  for (const name of Object.keys(methods)) {
    const method = methods[name];
    target[name] = typeof method === 'function' ? (method as AnyFunction).bind(target) : method;
  }
}

/** The component db at the start of the call. Values are read from the frame only when they are needed. */
export class DbSnapshot {
  readonly #values = new Map<string, Buffer | string>();
  readonly #bytes: number;

  /** `keys` is the JSON of `[key, length of its value][]`; the values come next in the payload. */
  constructor(keys: string | undefined, payload: PayloadReader) {
    let bytes = 0;
    const entries = keys === undefined ? [] : (jsonParse(keys) as [key: string, length: number][]);
    for (const [key, length] of entries) {
      this.#values.set(key, payload.bytes(length));
      bytes += length + key.length;
    }
    this.#bytes = bytes;
  }

  /** The db for a component. It is synchronous, and returns a new copy each time, because components change values and set them again. */
  forCall(effects: CallEffects): {
    type: string;
    get(key: unknown): unknown;
    set(key: unknown, value: unknown): void;
  } {
    effects.startDb({ bytes: this.#bytes, keys: this.#values.size });
    return {
      type: '$.service.db',
      get: (key) => {
        const stored = this.#values.get(String(key));
        if (stored === undefined) return undefined;
        return fromJsonText(typeof stored === 'string' ? stored : stored.toString('utf8'));
      },
      set: (key, value) => {
        const name = String(key);
        const before = this.#values.get(name);
        const length =
          before === undefined ? 0 : typeof before === 'string' ? byteLength(before) : before.length;
        this.#values.set(name, effects.setDb(name, value, length));
      },
    };
  }
}

function isObject(value: unknown): value is Loose {
  return typeof value === 'object' && value !== null;
}
