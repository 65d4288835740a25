import { type ResolvedProp, resolveProp } from './prop-definitions.ts';
import { makeApp } from './user-context.ts';

type Loose = Record<string, unknown>;
// biome-ignore lint/complexity/noBannedTypes: functions of a component take and return anything
type AnyFunction = Function;

/** What is asked of a prop, as the service sends it. */
export interface OptionsRequest {
  prop: string;
  page: number;
  prevContext: Loose;
  query: string;
}

/** Where the options of a prop come from. */
interface Found {
  options: unknown;
  /** The app whose definition has them; undefined: the component's own. */
  app: Loose | undefined;
  /** Third elements of the propDefinitions on the way, the component's first. */
  extras: unknown[];
}

/** Definitions that refer to each other; more is a circle. */
const chainMax = 10;

/**
 * What the options of a prop answer, as they are. A function of the component's own sees the component as `this`, one that
 * came by `propDefinition` the app, with its account. Both are given `page`, `prevContext`, `query` and what the third
 * element of `propDefinition` makes of the values so far; one of the component's own the values too.
 */
export async function askOptions(
  definition: unknown,
  request: OptionsRequest,
  component: {
    props: readonly [name: string, definition: ResolvedProp][];
    /** Its definitions of props, as exported. */
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
    // Own options too are given what the reference makes of the values.
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

/** The values so far by prop, as `this` has them. */
function configuredProps(
  props: readonly [name: string, definition: ResolvedProp][],
  values: Loose,
  context: Loose,
): Loose {
  const configured: Loose = { ...values };
  for (const [name] of props) if (context[name] !== undefined) configured[name] = context[name];
  return configured;
}

/** The app with the account that the component's prop of this app has. */
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

/** Definitions that `additionalProps` left or answered: what it answered wins. */
export function definitionAmong(name: string, returned: unknown, previous: Loose): unknown {
  if (isObject(returned) && Object.hasOwn(returned, name)) return returned[name];
  return Object.hasOwn(previous, name) ? previous[name] : undefined;
}

/** Those with a type that is known, by name: what is wrong with another is told where it is asked for. */
export function usableDefinitions(definitions: unknown): Loose {
  const usable: Loose = {};
  if (!isObject(definitions)) return usable;
  for (const name of Object.keys(definitions)) {
    try {
      usable[name] = resolveProp(name, definitions[name]);
    } catch {
      // Not there for `this`.
    }
  }
  return usable;
}

function isObject(value: unknown): value is Loose {
  return typeof value === 'object' && value !== null;
}
