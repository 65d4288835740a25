import type { Component, Workflow, WorkflowSettings, WorkflowStep, WorkflowTrigger } from '#sdk';
import { blockInput } from './block-draft.ts';
import { type BlockKind, ownFields, type StepNode, treeOf } from './blocks.ts';
import { ruleDraft } from './rule-draft.ts';
import { newKey, type PartDraft, type StepDraft } from './step-draft.ts';

export type TriggerKind = 'http' | 'timer' | 'email' | 'source' | 'on_failure';

export interface TriggerDraft {
  key: string;
  /** The id of an existing trigger; null: it is new. */
  id: string | null;
  type: TriggerKind;
  /** As the API takes them. Of a trigger that is there, what is shown; it is sent only when it was changed. */
  props: Record<string, unknown>;
  /** The name of a source, or of the component from which one is made. */
  name: string | null;
  isChanged: boolean;
}

export interface WorkflowDraft {
  name: string;
  triggers: TriggerDraft[];
  steps: StepDraft[];
  settings: WorkflowSettings;
}

/** The defaults of the service. */
export const usualSettings: WorkflowSettings = {
  timeout_seconds: null,
  memory_mb: 256,
  auto_retry: false,
  concurrency: null,
  throttle: null,
  queue_size: 100,
  isolated: false,
  flow_control: null,
};

export function draftOf({ name, triggers, steps, settings }: Workflow): WorkflowDraft {
  return {
    name,
    triggers: triggers.map(triggerDraftOf),
    steps: treeOf(steps).map(stepDraftOf),
    settings: { ...(settings ?? usualSettings) },
  };
}

/** `node`: a step of an answer, with the steps in it. */
function stepDraftOf({ step, parts }: StepNode<WorkflowStep>): StepDraft {
  const { id, namespace, disabled, block, timeout_seconds, retries } = step;
  const common = {
    key: id,
    namespace,
    disabled,
    note: step.note ?? '',
    ...(timeout_seconds === null ? {} : { timeoutSeconds: timeout_seconds }),
    ...(retries === null ? {} : { retries }),
  };
  if (block !== null) {
    const fields = ownFields(block);
    return {
      ...common,
      code: null,
      component: null,
      props: {},
      definitions: [],
      block: {
        kind: block.block as BlockKind,
        fields: fields.if === undefined ? fields : { ...fields, if: ruleDraft(fields.if) },
        parts: parts.map(
          ({ nodes, ...part }, index): PartDraft => ({
            ...part,
            ...(part.if === undefined ? {} : { if: ruleDraft(part.if) }),
            key: `${id} ${index}`,
            steps: nodes.map(stepDraftOf),
          }),
        ),
      },
    };
  }
  const saved = step.savedComponent;
  const key = step.component_key ?? saved?.key ?? null;
  return {
    ...common,
    code: step.code_raw,
    component:
      step.code_raw === null
        ? {
            ref:
              step.component_key === null
                ? (saved?.id ?? '')
                : `${step.component_key}@${saved?.version ?? ''}`,
            name: key ?? saved?.id ?? 'a component',
            version: saved?.version ?? '',
            code: saved?.code ?? null,
          }
        : null,
    props: JSON.parse(step.configured_props_json ?? '{}') as Record<string, unknown>,
    definitions: saved?.configurableProps ?? [],
  };
}

function triggerDraftOf(trigger: WorkflowTrigger): TriggerDraft {
  const { id, type } = trigger;
  const common = { key: id, id, type, name: null, isChanged: false };
  switch (trigger.type) {
    case 'http':
      return { ...common, props: { custom_response: trigger.custom_response, auth: trigger.auth } };
    case 'timer':
      return {
        ...common,
        props:
          trigger.cron === null
            ? { interval_seconds: trigger.interval_seconds }
            : { cron: trigger.cron, timezone: trigger.timezone },
      };
    case 'email':
    case 'on_failure':
      return { ...common, props: {} };
    case 'source':
      return { ...common, name: trigger.name, props: { source_id: id } };
  }
}

export function newTrigger(type: TriggerKind): TriggerDraft {
  const props: Record<TriggerKind, Record<string, unknown>> = {
    http: { custom_response: false, auth: { type: 'none' } },
    timer: { interval_seconds: 3600 },
    email: {},
    source: {},
    on_failure: {},
  };
  return { key: newKey(), id: null, type, props: props[type], name: null, isChanged: true };
}

export const firstCode = `export default defineComponent({
  async run({ steps, $ }) {
    return steps.trigger.event;
  },
});
`;

export function newStep(taken: readonly string[], begun: Partial<StepDraft> & { word: string }): StepDraft {
  const { word, ...rest } = begun;
  return {
    key: newKey(),
    namespace: freeName(word, taken),
    disabled: false,
    note: '',
    code: null,
    component: null,
    props: {},
    definitions: [],
    ...rest,
  };
}

/** A step that runs an action. */
export function actionStep(taken: readonly string[], component: Component): StepDraft {
  const { key = '', id, version, code, configurable_props } = component;
  const name = key === '' ? id : key;
  return newStep(taken, {
    word: key === '' ? 'step' : (key.split('/').at(-1) ?? key),
    component: { ref: key === '' ? id : `${key}@${version}`, name, version, code },
    definitions: configurable_props,
  });
}

function freeName(word: string, taken: readonly string[]): string {
  const name =
    word
      .replaceAll(/[^A-Za-z0-9_]+/g, '_')
      .replace(/^(?=\d)/, '_')
      .slice(0, 60) || 'step';
  for (let count = 1; ; count += 1) {
    const candidate = count === 1 ? name : `${name}_${count}`;
    if (!taken.includes(candidate)) return candidate;
  }
}

/** A draft as the API takes it. */
export function definitionOf({ name, triggers, steps, settings }: WorkflowDraft) {
  return {
    settings: { name: name.trim(), ...settings },
    triggers: triggers.map(({ id, type, props, isChanged }) => ({
      ...(id === null ? { type, props } : { id }),
      ...(id !== null && isChanged ? { props } : {}),
    })),
    steps: steps.map(stepInputOf),
  };
}

/** The fields of a step as the API takes them, with the steps in it. */
export interface StepInput extends Record<string, unknown> {
  namespace: string;
}

export function stepInputOf(step: StepDraft): StepInput {
  const { namespace, disabled, note, code, component, props, block, timeoutSeconds, retries } = step;
  return {
    namespace,
    ...(block === undefined
      ? { ...(code === null ? { component: component?.ref ?? '' } : { code }), props }
      : blockInput({ ...step, block }, stepInputOf)),
    ...(disabled ? { disabled } : {}),
    // A draft that was kept in the browser by an earlier version has none.
    ...(note ? { note } : {}),
    ...(timeoutSeconds === undefined ? {} : { timeout_seconds: timeoutSeconds }),
    ...(retries === undefined ? {} : { retries }),
  };
}

/** The trigger or setting that an answer is about: `triggers[2].props` is { list: 'triggers', index: 2, field: 'props' }. */
export function placeOf(
  parameter: unknown,
): { list: 'triggers' | 'settings'; index: number; field: string } | undefined {
  const match = /^triggers\[(\d+)\]\.?(.*)$/.exec(String(parameter ?? ''));
  if (match !== null) return { list: 'triggers', index: Number(match[1]), field: match[2] ?? '' };
  const setting = /^settings\.?(.*)$/.exec(String(parameter ?? ''));
  return setting === null ? undefined : { list: 'settings', index: 0, field: setting[1] ?? '' };
}
