import { publicProp } from './prop-definitions.ts';

type Loose = Record<string, unknown>;

const hookNames = ['deploy', 'activate', 'deactivate'] as const;

/** An object with one of these keys is a component. */
const componentKeys = [
  'run',
  'props',
  'methods',
  'hooks',
  'key',
  'additionalProps',
  'propDefinitions',
  'type',
  'name',
];

/**
 * Returns the component that a bundle exports, without the wrappers that bundlers and CommonJS put around a default export. Throws when there
 * is none.
 */
export function unwrapComponent(exported: unknown): Loose {
  let value = exported;
  for (let depth = 0; depth < 3 && isObject(value) && isObject(value.default); depth += 1)
    value = value.default;
  if (!isObject(value) || !componentKeys.some((key) => key in value)) {
    const found =
      value === null
        ? 'null'
        : Array.isArray(value)
          ? 'an array'
          : isObject(value)
            ? describeKeys(value)
            : typeof value;
    throw new TypeError(
      `the code exports no component: expected an object with props and run as the default export (or module.exports), found ${found}`,
    );
  }
  if (value.run !== undefined && typeof value.run !== 'function') {
    throw new TypeError(`run of a component must be a function, found ${typeof value.run}`);
  }
  return value;
}

function describeKeys(value: Loose): string {
  const keys = Object.keys(value);
  return keys.length === 0 ? 'an object without keys' : `an object with ${keys.slice(0, 5).join(', ')}`;
}

/** The `ComponentShape` of a component. Reads every getter once. The caller reports what a getter throws. */
export function describeComponent(component: Loose): Loose {
  const type = component.type === 'app' || component.type === 'action' ? component.type : 'source';
  const hooks = isObject(component.hooks) ? component.hooks : {};
  const shape: Loose = { type };
  for (const key of ['key', 'name', 'version', 'description', 'dedupe'] as const) {
    const value = component[key];
    if (typeof value === 'string') shape[key] = value;
    else if (typeof value === 'number') shape[key] = String(value);
  }
  if (shape.dedupe !== undefined && !['unique', 'greatest', 'last'].includes(String(shape.dedupe))) {
    throw new TypeError(`dedupe must be unique, greatest or last, found ${JSON.stringify(shape.dedupe)}`);
  }
  shape.hooks = hookNames.filter((name) => typeof hooks[name] === 'function');
  shape.hasRun = typeof component.run === 'function';
  shape.hasAdditionalProps = typeof component.additionalProps === 'function';
  shape.hasSampleEmit = component.sampleEmit !== undefined && component.sampleEmit !== null;
  if (isObject(component.annotations)) shape.annotations = component.annotations;
  if (type === 'app' && typeof component.app === 'string') shape.app = component.app;
  const props = component.props;
  if (props !== undefined && props !== null && !isObject(props))
    throw new TypeError('props of a component must be an object');
  shape.configurableProps = isObject(props)
    ? Object.keys(props).map((name) => publicProp(name, props[name]))
    : [];
  return shape;
}

function isObject(value: unknown): value is Loose {
  return typeof value === 'object' && value !== null;
}
