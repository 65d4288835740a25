import type { TemplateTable } from '#storage/tables/workflow-tables.ts';
import { invalidAt, quoted } from './at-parameter.ts';
import { flattenSteps, mapSteps } from './block-input.ts';
import type { StepInput } from './step-input.ts';
import { layTriggerOver } from './trigger-input.ts';
import type { DefinitionInput, SettingsInput, TriggerInput } from './workflow-input.ts';

/** What a template holds: a definition as a request would give it, without what belongs to an owner. */
export interface TemplateDefinition {
  steps: StepInput[];
  triggers: TriggerInput[];
  /** Without name and activity. */
  settings: Omit<SettingsInput, 'name' | 'auto_deploy'>;
}

/**
 * A template with what a request gives laid over it: props of steps by namespace, props of triggers by index; what is
 * given wins. A trigger with a type replaces the template's at its index, or is added to them.
 */
export function layOverTemplate(
  template: Pick<TemplateTable, 'name' | 'definition'>,
  given: Required<Pick<DefinitionInput, 'steps' | 'triggers'>> & Pick<DefinitionInput, 'settings'>,
): DefinitionInput {
  const base = JSON.parse(template.definition) as TemplateDefinition;
  const overBy = new Map(given.steps.map((step) => [step.namespace, step]));
  const names = new Set(flattenSteps(base.steps).map(({ input }) => input.namespace));
  for (const [index, { namespace }] of given.steps.entries()) {
    if (names.has(namespace)) continue;
    throw invalidAt(
      `steps[${index}].namespace`,
      `the template has no step ${quoted(namespace)}; it has ${[...names].join(', ') || 'none'}`,
    );
  }
  const steps = mapSteps(base.steps, (step) => {
    const over = overBy.get(step.namespace);
    if (over === undefined) return step;
    return {
      ...step,
      ...(step.block === undefined ? { props: { ...step.props, ...over.props } } : {}),
      ...(over.disabled === undefined ? {} : { disabled: over.disabled }),
      ...(over.note === undefined ? {} : { note: over.note }),
    };
  });
  const triggers = [...base.triggers];
  for (const [index, trigger] of given.triggers.entries()) {
    if (trigger.id !== undefined)
      throw invalidAt(`triggers[${index}].id`, 'a new workflow has no triggers yet; leave the id out');
    const there = base.triggers[index];
    if (trigger.type !== undefined) triggers[index] = trigger;
    else if (there !== undefined) triggers[index] = layTriggerOver(there, trigger);
    else
      throw invalidAt(
        `triggers[${index}].type`,
        `required: the template has ${base.triggers.length} triggers, so this one is new`,
        'missing_parameter',
      );
  }
  const settings = { ...base.settings, ...given.settings };
  return { steps, triggers, settings: { ...settings, name: given.settings?.name ?? template.name } };
}
