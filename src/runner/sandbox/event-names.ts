import { type ResolvedProp, resolveProp } from './prop-definitions.ts';

type Loose = Record<string, unknown>;

/**
 * Returns the `eventNames` of each apphook prop, by prop; null where there are none. Functions are called with the component as `this`. Functions
 * of props that additionalProps defined are not stored, so additionalProps is called again; `previous` is its argument.
 */
export async function eventNamesOf(options: {
  component: Loose;
  props: readonly [name: string, definition: ResolvedProp][];
  context: Loose;
  previous: Loose;
}): Promise<Loose> {
  const { component, props, context, previous } = options;
  const hooks = props.filter(([, definition]) => definition.type === '$.interface.apphook');
  const statics = isObject(component.props) ? component.props : {};
  const { additionalProps } = component;
  const isDynamic = hooks.some(([name]) => !(name in statics)) && typeof additionalProps === 'function';
  const returned: unknown = isDynamic ? await additionalProps.call(context, previous) : {};
  const dynamics = isObject(returned) ? returned : {};
  const answer: Loose = {};
  for (const [name, definition] of hooks) {
    const written = dynamics[name] ?? statics[name];
    const { eventNames } = written === undefined ? definition : resolveProp(name, written);
    const names: unknown = typeof eventNames === 'function' ? await eventNames.call(context) : eventNames;
    // A function that returns nothing names no events. Without the attribute there is nothing to choose from.
    answer[name] = names ?? (eventNames === undefined ? null : []);
  }
  return answer;
}

function isObject(value: unknown): value is Loose {
  return typeof value === 'object' && value !== null;
}
