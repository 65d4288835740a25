import type { PayloadReader } from '#runner/protocol.ts';
import type { CallEffects } from './call-effects.ts';
import { fromJsonText } from './json-text.ts';
import { byteLength, jsonParse } from './primordials.ts';
import { type ResolvedProp, resolveProp } from './prop-definitions.ts';

type Loose = Record<string, unknown>;
// biome-ignore lint/complexity/noBannedTypes: methods of a component take and return anything
type AnyFunction = Function;

/** What user code sees as `this`: every prop by its type, its methods bound, `$emit`. Made anew for each call. */
export function makeUserContext(options: {
  component: Loose;
  props: readonly [name: string, definition: ResolvedProp][];
  values: Loose;
  db: DbSnapshot;
  effects: CallEffects;
}): Loose {
  const { component, props, values, db, effects } = options;
  const context: Loose = {};
  bindMethods(component.methods, context);
  for (const [name, definition] of props) {
    if (definition.type === 'alert') continue;
    const value = values[name];
    context[name] = makeProp(name, definition, value === undefined ? definition.default : value, db, effects);
  }
  // An arrow function: components take `$emit` off `this` and hand it around.
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
    for (const name of Object.keys(definitions)) resolved.set(name, resolveProp(name, definitions[name]));
  }
  return [...resolved];
}

function makeProp(
  name: string,
  definition: ResolvedProp,
  value: unknown,
  db: DbSnapshot,
  effects: CallEffects,
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
      return notYet(name, definition.type, ['open']);
    case 'data_store':
      return notYet(name, definition.type, ['get', 'set', 'setTtl', 'has', 'delete', 'keys', 'clear']);
    case 'http_request':
      return { ...(isObject(value) ? value : {}), ...notYet(name, definition.type, ['execute']) };
    default:
      return value;
  }
}

/** An app as a prop: its methods see the app itself as `this`, with the credentials in `$auth`. */
function makeApp(app: Loose, value: unknown): Loose {
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

function notYet(name: string, type: string, methods: string[]): Loose {
  const prop: Loose = {};
  for (const method of methods) {
    prop[method] = () => {
      throw new Error(`this.${name}.${method}: props of type ${type} are not available yet`);
    };
  }
  return prop;
}

/** The component db as it was when the call started. Values are read from the frame only when asked for. */
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

  /** What the component gets: synchronous, and a copy each time, since components change what they got and set it again. */
  forCall(effects: CallEffects): {
    type: string;
    get(key: unknown): unknown;
    set(key: unknown, value: unknown): void;
  } {
    effects.startDb(this.#bytes);
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
