import { definitionAmong } from './component-options.ts';
import type { ResolvedProp } from './prop-definitions.ts';

type Loose = Record<string, unknown>;
type Props = readonly (readonly [name: string, definition: ResolvedProp])[];

/** True when `additionalProps` added an app to the props. Such apps came as JSON, so they have no methods. */
export function hasAddedApps(component: Loose, props: Props): boolean {
  return props.some(([name, definition]) => isAddedApp(component, name, definition));
}

/** Returns the props with the added apps as `additionalProps` has just returned them, or left them in `previous`. */
export function withAddedApps(
  component: Loose,
  props: Props,
  answer: { returned: unknown; previous: Loose },
): [string, ResolvedProp][] {
  return props.map(([name, definition]) => {
    const written = isAddedApp(component, name, definition)
      ? definitionAmong(name, answer.returned, answer.previous)
      : undefined;
    return [
      name,
      typeof written === 'object' && written !== null ? { ...written, ...definition } : definition,
    ];
  });
}

function isAddedApp({ props }: Loose, name: string, { type }: ResolvedProp): boolean {
  return type === 'app' && !(typeof props === 'object' && props !== null && Object.hasOwn(props, name));
}
