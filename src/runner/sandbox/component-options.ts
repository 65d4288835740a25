import { type ResolvedProp, resolveProp } from './prop-definitions.ts';
import { makeApp } from './user-context.ts';

type Loose = Record<string, unknown>;
// biome-ignore lint/complexity/noBannedTypes: functions of a component take and return anything
type AnyFunction = Function;

/** A request for the options of a prop, as the service sends it. */
export interface OptionsRequest {
  prop: string;
  page: number;
  prevContext: Loose;
  query: string;
}

/** The source of the options of a prop. */
interface Found {
  options: unknown;
  /** The app whose definition has the options. Undefined: the component itself. */
  app: Loose | undefined;
  /** Third elements of the propDefinitions on the way, the component's first. */
  extras: unknown[];
}

/** Maximum definitions that refer to each other. A longer chain is a circle. */
const chainMax = 10;

/**
 * Returns the options of a prop unchanged. In a function of the component, `this` is the component. In one from `propDefinition`, `this` is the
 * app with its account. Both get `page`, `prevContext`, `query` and what the third element of `propDefinition` makes of the values so far;
 * a function of the component also gets these values.
 */
export async function askOptions(
  definition: unknown,
  request: OptionsRequest,
  component: {
    props: readonly [name: string, definition: ResolvedProp][];
    /** Definitions of its props, as exported. */
    exported: Loose;
    values: Loose;
    /** `this` of its methods. */
    context: Loose;
  },
): Promise<unknown> {
  const { prop, page, prevContext, query } = request;
  const { options, app, extras } = findOptions(definition);
  if (typeof options !== 'function') {
    if (Array.isArray(options)) return page === 0 ? options : [];
    throw new TypeError(`prop ${prop} has no options to choose from`);
  }
  const configured = configuredProps(component.props, component.values, component.context);
  let extra: Loose = {};
  for (const one of extras) {
    const made = typeof one === 'function' ? await one({ ...configured, ...extra }) : one;
    if (typeof made === 'object' && made !== null) extra = { ...extra, ...made };
  }
  const args = { page, prevContext, query, ...extra };
  if (app === undefined) return (options as AnyFunction).call(component.context, { ...configured, ...args });
  return (options as AnyFunction).call(appInstance(app, component), args);
}

function findOptions(definition: unknown): Found {
  const extras: unknown[] = [];
  let app: Loose | undefined;
  let current = definition;
  for (let depth = 0; depth < chainMax && isObject(current); depth += 1) {
    const reference = Array.isArray(current.propDefinition) ? (current.propDefinition as unknown[]) : [];
    // Options in the same definition also get what the reference makes of the values.
    if (reference[2] !== undefined) extras.push(reference[2]);
    if (current.options !== undefined && current.options !== null)
      return { options: current.options, app, extras };
    const [referred, name] = reference;
    if (!isObject(referred)) break;
    app = referred;
    const definitions = app.propDefinitions;
    current =
      isObject(definitions) && Object.hasOwn(definitions, String(name))
        ? definitions[String(name)]
        : undefined;
  }
  return { options: undefined, app, extras };
}

/** The values so far by prop, in the form that `this` has. */
function configuredProps(
  props: readonly [name: string, definition: ResolvedProp][],
  values: Loose,
  context: Loose,
): Loose {
  const configured: Loose = { ...values };
  for (const [name] of props) if (context[name] !== undefined) configured[name] = context[name];
  return configured;
}

/** The app with the account that the component's prop for the same app has. */
function appInstance(
  app: Loose,
  { props, exported, values, context }: Parameters<typeof askOptions>[2],
): unknown {
  const apps = props.filter(([, { type }]) => type === 'app');
  const same = apps.find(([name]) => exported[name] === app);
  if (same !== undefined) return context[same[0]];
  const named = apps.find(([, definition]) => definition.app === app.app);
  return makeApp(app, named === undefined ? undefined : values[named[0]]);
}

/** A definition that `additionalProps` returned or left in `previous`. The returned one wins. */
export function definitionAmong(name: string, returned: unknown, previous: Loose): unknown {
  if (isObject(returned) && Object.hasOwn(returned, name)) return returned[name];
  return Object.hasOwn(previous, name) ? previous[name] : undefined;
}

/** Definitions with a known type, by name. An invalid one causes an error only where it is needed. */
export function usableDefinitions(definitions: unknown): Loose {
  const usable: Loose = {};
  if (!isObject(definitions)) return usable;
  for (const name of Object.keys(definitions)) {
    try {
      usable[name] = resolveProp(name, definitions[name]);
    } catch {
      // `this` has no such prop.
    }
  }
  return usable;
}

function isObject(value: unknown): value is Loose {
  return typeof value === 'object' && value !== null;
}
