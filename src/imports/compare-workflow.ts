import { findComponents } from '#components/component-store.ts';
import type { ConfiguredProps } from '#components/validate-props.ts';
import type { ComponentTable } from '#storage/tables/component-tables.ts';
import type { TriggerTable, WorkflowTable } from '#storage/tables/workflow-tables.ts';
import { makeRedactor } from '#vault/redact.ts';
import { blockComponent, blockProps, flattenSteps } from '#workflows/definitions/block-input.ts';
import { definitionsOfStep, sealedStep } from '#workflows/definitions/load-step.ts';
import type { StepInput } from '#workflows/definitions/step-input.ts';
import type { StepDefinition, WorkflowDefinition } from '#workflows/definitions/workflow-definition.ts';
import { viewSettings } from '#workflows/definitions/workflow-input.ts';
import { findDeployment } from '#workflows/definitions/workflow-store.ts';
import { addedTriggers } from './added-triggers.ts';
import { type CompareOptions, comparedProps } from './compared-props.ts';
import type { MappedWorkflow } from './map-workflow.ts';
import { type ComparedPart, changesBetween, noChanges, type ReportedChanges } from './report-changes.ts';

/** How a workflow that is here differs from the one that is imported. Secrets of both are opened to be compared, and never shown. */
export async function compareWorkflow(
  options: CompareOptions,
  workflow: WorkflowTable,
  { mapped, triggers }: { mapped: MappedWorkflow; triggers: readonly TriggerTable[] },
): Promise<ReportedChanges> {
  const deployment = await findDeployment(options.db, workflow.deployment_id);
  if (deployment === undefined) return noChanges;
  const definition = JSON.parse(deployment.definition) as WorkflowDefinition;
  const ids = new Set(definition.steps.map(({ componentId }) => componentId));
  const components = await findComponents(options.db, [...ids]);
  // Steps of blocks are compared as those beside them.
  const steps = flattenSteps(mapped.steps).map(({ input }) => input);
  const inputs = new Map(steps.map((step) => [step.namespace, step]));
  const here: ComparedPart[] = [];
  const known = new Map<string, ComparedPart>();
  const secrets = mapped.secrets.map(({ value }) => value);
  for (const step of definition.steps) {
    const component = components.get(step.componentId);
    const input = inputs.get(step.namespace);
    const props = await comparedProps(options, sealedStep(step, workflow.owner_id), {
      definitions: component === undefined ? [] : definitionsOfStep(component, step.dynamicProps),
      props: input === undefined ? {} : propsOf(input),
    });
    const { secretProps } = props;
    secrets.push(...props.secrets);
    here.push({ ...partHere(step, { component, input, props: props.here }), secretProps });
    if (input !== undefined) known.set(step.namespace, { ...partThere(input, props.there), secretProps });
  }
  const there = steps.map(
    (input) =>
      known.get(input.namespace) ?? { ...partThere(input, propsOf(input)), secretProps: [] as string[] },
  );
  const whole = wholeOf(workflow, definition, { mapped, triggers });
  return changesBetween([whole.here, ...here], [whole.there, ...there], makeRedactor(secrets));
}

/** Name, settings, and triggers that are added. What the import does not say stays as it is here. */
function wholeOf(
  { name }: Pick<WorkflowTable, 'name'>,
  { settings }: WorkflowDefinition,
  { mapped, triggers }: { mapped: MappedWorkflow; triggers: readonly TriggerTable[] },
): { here: ComparedPart; there: ComparedPart } {
  const { name: newName = name, ...wanted } = mapped.settings;
  const present: Readonly<Record<string, unknown>> = viewSettings(settings);
  const part = (fields: ComparedPart['fields']) => ({ place: '', fields, code: undefined, secretProps: [] });
  const added = addedTriggers(triggers, mapped).map(
    (trigger, at) => [`triggers.${triggers.length + at}`, trigger] as const,
  );
  return {
    here: part({
      name,
      settings: Object.fromEntries(Object.keys(wanted).map((key) => [key, present[key]])),
    }),
    there: part({ name: newName, settings: wanted, ...Object.fromEntries(added) }),
  };
}

type PartOfStep = Omit<ComparedPart, 'secretProps'>;

function partHere(
  { namespace, origin, note, retries, timeoutSeconds, block, disabled, ...step }: StepDefinition,
  {
    component,
    input,
    props,
  }: { component: ComponentTable | undefined; input: StepInput | undefined; props: ConfiguredProps },
): PartOfStep {
  const isCode = origin === 'code';
  return {
    place: placeOf(namespace),
    code: isCode ? component?.code : undefined,
    fields: {
      ...(isCode ? {} : { component: nameOf(step, component, input?.component) }),
      ...(disabled ? { disabled } : {}),
      ...(note === undefined ? {} : { note }),
      ...(retries === undefined ? {} : { retries }),
      ...(timeoutSeconds === undefined ? {} : { timeout_seconds: timeoutSeconds }),
      ...(block === undefined ? {} : { block: block.kind }),
      props,
    },
  };
}

function partThere(
  { namespace, code, component, block, disabled, note }: StepInput,
  props: ConfiguredProps,
): PartOfStep {
  return {
    ...{ place: placeOf(namespace), code },
    fields: {
      ...(component === undefined ? {} : { component }),
      ...(block === undefined ? {} : { component: blockComponent(block) }),
      ...(disabled === true ? { disabled } : {}),
      ...(note === undefined || note === '' ? {} : { note }),
      ...(block === undefined ? {} : { block }),
      props,
    },
  };
}

/** What decides in a block is its props, as those of its component. */
function propsOf(input: StepInput): ConfiguredProps {
  return input.block === undefined ? (input.props ?? {}) : blockProps(input, input.block);
}

function placeOf(namespace: string): string {
  return `steps.${namespace}`;
}

/** As the import names it: by its key with or without a version, or by its id. */
function nameOf(
  { componentKey, componentId }: Pick<StepDefinition, 'componentKey' | 'componentId'>,
  component: ComponentTable | undefined,
  wanted = '',
): string {
  if (componentKey === null || wanted.startsWith('sc_')) return componentId;
  return wanted.includes('@') && component !== undefined
    ? `${componentKey}@${component.version}`
    : componentKey;
}
