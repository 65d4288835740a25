import type { ComponentShape } from '#components/component-shape.ts';
import type { ComponentOwner, ComponentResolver } from '#registry/resolve-component.ts';
import type { ComponentTable } from '#storage/tables/component-tables.ts';
import { requireRunnable } from './configure-step.ts';
import { explainForeignCode, explainForeignComponent } from './foreign-steps.ts';
import type { StepInput } from './step-input.ts';

/** The component that a step runs, built if need be. Throws what is wrong with its code, or with the name of its component. */
export function resolveStep(
  resolver: Pick<ComponentResolver, 'resolve' | 'resolveText'>,
  { code, component = '' }: Pick<StepInput, 'code' | 'component'>,
  owner: ComponentOwner,
): Promise<ComponentTable> {
  if (code === undefined)
    return explainForeignComponent(component, async () =>
      runnable(await resolver.resolveText(component, owner)),
    );
  return explainForeignCode(code, async () =>
    runnable(await resolver.resolve({ component_code: code }, owner)),
  );
}

function runnable(component: ComponentTable): ComponentTable {
  requireRunnable(JSON.parse(component.shape) as ComponentShape);
  return component;
}
