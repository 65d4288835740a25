import type { ComponentShape, PropDefinition } from '#components/component-shape.ts';
import { CallerError } from '#lib/errors.ts';
import type { ComponentTable } from '#storage/tables/component-tables.ts';
import type { SourceTable } from '#storage/tables/source-tables.ts';
import { mergedDefinitions } from './deployment.ts';

/** Throws `invalid_component` for components of other types. */
export function shapeOfSource(component: ComponentTable): ComponentShape {
  const shape = JSON.parse(component.shape) as ComponentShape;
  if (shape.type !== 'source') {
    throw new CallerError(
      'invalid_component',
      `component ${component.id} is of type ${shape.type}: only sources can be deployed`,
      {
        parameter: 'component_id',
      },
    );
  }
  return shape;
}

export function definitionsOf(component: ComponentTable, source: SourceTable): PropDefinition[] {
  return mergedDefinitions(JSON.parse(component.shape) as ComponentShape, source.dynamic_props);
}

/** True when a hook of this name runs when a source with this component is (or was) active. */
export function hasHook(
  source: Pick<SourceTable, 'state'>,
  component: ComponentTable,
  hook: ComponentShape['hooks'][number],
): boolean {
  return source.state === 'active' && shapeOfSource(component).hooks.includes(hook);
}
