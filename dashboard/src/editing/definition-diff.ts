import type { Deployment, WorkflowStep } from '#sdk';
import { partFields, partsOf } from './block-draft.ts';
import { blockName, ownFields, type Part, partName, type StepNode, treeOf } from './blocks.ts';
import { ruleDraft } from './rule-draft.ts';
import type { PartDraft, StepDraft } from './step-draft.ts';
import type { TriggerDraft, WorkflowDraft } from './workflow-draft.ts';

/** What is compared of a step. */
export interface ComparedStep {
  namespace: string;
  disabled: boolean;
  note: string;
  /** `custom code`, the component with its version, or the kind of block. */
  made: string;
  code: string;
  props: Record<string, unknown>;
  /** What is not a prop: fields of a block, its branches, retries and time limit. */
  fields?: Record<string, unknown>;
  /** The list of steps that it is in, in words; left out: it is in no block. */
  within?: string;
}

/** What is compared of a definition. */
export interface Compared {
  steps: readonly ComparedStep[];
  /** Each in words; undefined: triggers are not a part of it. */
  triggers?: readonly { key: string; text: string }[];
  settings: Readonly<Record<string, unknown>>;
}

export interface ValueChange {
  name: string;
  /** As JSON; undefined: it was not there. */
  before: string | undefined;
  after: string | undefined;
}

export interface StepChange {
  namespace: string;
  kind: 'added' | 'removed' | 'changed';
  /** Positions from 1. */
  moved: { from: number; to: number } | undefined;
  disabled: boolean | undefined;
  note: { before: string; after: string } | undefined;
  made: { before: string; after: string } | undefined;
  code: { before: string; after: string } | undefined;
  /** In words; empty: in no block. */
  within: { before: string; after: string } | undefined;
  props: ValueChange[];
  fields: ValueChange[];
}

export interface Changes {
  steps: StepChange[];
  triggers: { kind: 'added' | 'removed' | 'changed'; text: string }[];
  settings: ValueChange[];
}

export function hasChanges({ steps, triggers, settings }: Changes): boolean {
  return steps.length + triggers.length + settings.length > 0;
}

export function compare(before: Compared, after: Compared): Changes {
  return {
    steps: stepChanges(before.steps, after.steps),
    triggers: triggerChanges(before.triggers ?? [], after.triggers ?? []),
    settings: valueChanges(before.settings, after.settings),
  };
}

function stepChanges(before: readonly ComparedStep[], after: readonly ComparedStep[]): StepChange[] {
  const moved = movedNames(
    before.map(({ namespace }) => namespace),
    after.map(({ namespace }) => namespace),
  );
  const changes: StepChange[] = [];
  for (const [index, step] of after.entries()) {
    const from = before.findIndex(({ namespace }) => namespace === step.namespace);
    const was = before[from];
    if (was === undefined) {
      changes.push(whole(step, 'added'));
      continue;
    }
    const change: StepChange = {
      namespace: step.namespace,
      kind: 'changed',
      moved: moved.has(step.namespace) ? { from: from + 1, to: index + 1 } : undefined,
      disabled: was.disabled === step.disabled ? undefined : step.disabled,
      note: changed(was.note, step.note),
      made: changed(was.made, step.made),
      code: changed(was.code, step.code),
      within: changed(was.within ?? '', step.within ?? ''),
      props: valueChanges(was.props, step.props),
      fields: valueChanges(was.fields ?? {}, step.fields ?? {}),
    };
    const { moved: isMoved, disabled, note, made, code, within, props, fields } = change;
    if (
      [isMoved, disabled, note, made, code, within].some((one) => one !== undefined) ||
      props.length + fields.length > 0
    )
      changes.push(change);
  }
  for (const step of before)
    if (!after.some(({ namespace }) => namespace === step.namespace)) changes.push(whole(step, 'removed'));
  return changes;
}

function changed(before: string, after: string): { before: string; after: string } | undefined {
  return before === after ? undefined : { before, after };
}

function whole(step: ComparedStep, kind: 'added' | 'removed'): StepChange {
  const isNew = kind === 'added';
  const { within = '', fields = {} } = step;
  const values = isNew ? valueChanges({}, step.props) : valueChanges(step.props, {});
  return {
    namespace: step.namespace,
    kind,
    moved: undefined,
    disabled: undefined,
    note: undefined,
    made: { before: isNew ? '' : step.made, after: isNew ? step.made : '' },
    // A block has none.
    code: isNew ? changed('', step.code) : changed(step.code, ''),
    within: within === '' ? undefined : { before: isNew ? '' : within, after: isNew ? within : '' },
    props: values,
    fields: isNew ? valueChanges({}, fields) : valueChanges(fields, {}),
  };
}

/** The names in both that are not in their longest common subsequence. */
function movedNames(before: readonly string[], after: readonly string[]): Set<string> {
  const positions = after.map((name) => before.indexOf(name)).filter((position) => position !== -1);
  // longest[i]: the longest increasing row that ends with positions[i].
  const longest: number[][] = [];
  for (const [index, position] of positions.entries()) {
    let best: number[] = [];
    for (let earlier = 0; earlier < index; earlier += 1) {
      const row = longest[earlier] ?? [];
      if ((positions[earlier] ?? 0) < position && row.length > best.length) best = row;
    }
    longest.push([...best, position]);
  }
  const kept = new Set(longest.reduce<number[]>((best, row) => (row.length > best.length ? row : best), []));
  return new Set(positions.filter((one) => !kept.has(one)).map((position) => before[position] ?? ''));
}

function triggerChanges(
  before: readonly { key: string; text: string }[],
  after: readonly { key: string; text: string }[],
): Changes['triggers'] {
  const changes: Changes['triggers'] = [];
  for (const { key, text } of after) {
    const was = before.find((one) => one.key === key);
    if (was === undefined) changes.push({ kind: 'added', text });
    else if (was.text !== text) changes.push({ kind: 'changed', text: `${was.text} becomes ${text}` });
  }
  for (const { key, text } of before)
    if (!after.some((one) => one.key === key)) changes.push({ kind: 'removed', text });
  return changes;
}

function valueChanges(
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
): ValueChange[] {
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names]
    .map((name) => ({ name, before: jsonOf(before[name]), after: jsonOf(after[name]) }))
    .filter((change) => change.before !== change.after);
}

/** With the keys of objects in one order, so that only values count. */
function jsonOf(value: unknown): string | undefined {
  return JSON.stringify(value, (_key, part: unknown) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}

/** A sentence for each difference. */
export function sentencesOf({ steps, triggers, settings }: Changes): string[] {
  return [
    ...triggers.map(({ kind, text }) => `Trigger ${kind}: ${text}.`),
    ...steps.map(({ namespace, kind, moved, disabled, note, made, code, within, props, fields }) => {
      if (kind !== 'changed') return `Step ${namespace} is ${kind === 'added' ? 'new' : 'gone'}.`;
      const parts = [
        made === undefined ? undefined : `${made.before} became ${made.after}`,
        code === undefined ? undefined : 'code',
        props.length === 0 ? undefined : 'props',
        fields.length === 0 ? undefined : fields.map(({ name }) => name).join(', '),
        note === undefined ? undefined : 'note',
        disabled === undefined ? undefined : disabled ? 'now disabled' : 'no longer disabled',
        movedWords(moved, within),
      ].filter((part) => part !== undefined);
      return `Step ${namespace} changed: ${parts.join(', ')}.`;
    }),
    ...settings.map(
      ({ name, before, after }) => `Setting ${name}: ${before ?? 'nothing'} became ${after ?? 'nothing'}.`,
    ),
  ];
}

/** Where a step was moved to, in words. */
export function movedWords(moved: StepChange['moved'], within: StepChange['within']): string | undefined {
  if (within !== undefined)
    return within.after === '' ? `moved out of ${within.before}` : `moved into ${within.after}`;
  return moved === undefined ? undefined : `moved from place ${moved.from} to ${moved.to}`;
}

export function comparedDeployment({ steps, settings }: Pick<Deployment, 'steps' | 'settings'>): Compared {
  return { steps: treeOf(steps).flatMap((node) => comparedNode(node)), settings: { ...settings } };
}

function comparedNode({ step, parts }: StepNode<WorkflowStep>, within?: string): ComparedStep[] {
  const { namespace, disabled, block, timeout_seconds, retries } = step;
  const key = step.component_key ?? step.savedComponent?.key ?? step.savedComponent?.id ?? 'a component';
  const common = {
    namespace,
    disabled,
    note: step.note ?? '',
    ...(within === undefined ? {} : { within }),
    fields: {
      ...(timeout_seconds === null ? {} : { 'time limit': timeout_seconds }),
      ...(retries === null ? {} : { retries }),
      ...(block === null ? {} : blockFields(ownFields(block), parts)),
    },
  };
  return [
    block === null
      ? {
          ...common,
          made: step.code_raw === null ? `${key} ${step.savedComponent?.version ?? ''}` : 'custom code',
          code: step.code_raw ?? step.savedComponent?.code ?? '',
          props: JSON.parse(step.configured_props_json ?? '{}') as Record<string, unknown>,
        }
      : { ...common, made: madeOf(String(block.block)), code: '', props: {} },
    ...parts.flatMap((part) => part.nodes.flatMap((node) => comparedNode(node, placeName(part, namespace)))),
  ];
}

export function comparedDraft(draft: WorkflowDraft): Compared {
  return {
    steps: draft.steps.flatMap((step) => comparedStep(step)),
    triggers: draft.triggers.map((trigger) => ({ key: trigger.key, text: triggerText(trigger) })),
    settings: { name: draft.name.trim(), ...draft.settings },
  };
}

function comparedStep(step: StepDraft, within?: string): ComparedStep[] {
  const { namespace, disabled, note, code, component, props, block, timeoutSeconds, retries } = step;
  const parts: readonly PartDraft[] = partsOf(step);
  return [
    {
      namespace,
      disabled,
      note: note ?? '',
      ...(within === undefined ? {} : { within }),
      made:
        block !== undefined
          ? madeOf(block.kind)
          : code === null
            ? `${component?.name ?? ''} ${component?.version ?? ''}`
            : 'custom code',
      code: code ?? component?.code ?? '',
      props,
      fields: {
        ...(timeoutSeconds === undefined ? {} : { 'time limit': timeoutSeconds }),
        ...(retries === undefined ? {} : { retries }),
        ...(block === undefined ? {} : blockFields(block.fields, parts)),
      },
    },
    ...parts.flatMap((part) =>
      part.steps.flatMap((inner) => comparedStep(inner, placeName(part, namespace))),
    ),
  ];
}

function madeOf(kind: string): string {
  return `block ${blockName(kind)}`;
}

function placeName(part: Part, namespace: string): string {
  return `${namespace}, ${partName(part)}`;
}

/** The fields of a block and of its branches, each by a name that a reader knows. */
function blockFields(
  { on_error, if: decides, ...fields }: Readonly<Record<string, unknown>>,
  parts: readonly Part[],
): Record<string, unknown> {
  const branches = parts.filter(({ kind }) => kind === 'branch');
  return {
    ...fields,
    ...(decides === undefined ? {} : { rule: ruleDraft(decides) }),
    // The default is not worth a word.
    ...(on_error === undefined || on_error === 'fail' ? {} : { 'on error': on_error }),
    ...(branches.length === 0 ? {} : { branches: branches.map(({ slug }) => slug) }),
    ...Object.fromEntries(
      branches.map((branch) => {
        const { slug, ...given } = partFields(branch);
        const rule = 'if' in given ? { if: ruleDraft(given.if) } : given;
        return [`branch ${String(slug)}`, Object.keys(rule).length === 0 ? 'no rule' : rule];
      }),
    ),
  };
}

/** A trigger in a few words. */
export function triggerText({ type, props, name }: TriggerDraft): string {
  const { auth, custom_response, cron, timezone, interval_seconds, component, source_id } = props as {
    auth?: { type?: string; token?: string };
    custom_response?: boolean;
    cron?: string;
    timezone?: string;
    interval_seconds?: number;
    component?: string;
    source_id?: string;
  };
  switch (type) {
    case 'http': {
      const who =
        auth?.type === 'oauth'
          ? 'with an access token of an API client'
          : auth?.type === 'static_bearer_token'
            ? `with ${auth.token === undefined ? 'its' : 'a new'} bearer token`
            : 'from any caller that knows the endpoint URL';
      return `HTTP request ${who}${custom_response === true ? '; a step answers' : ''}`;
    }
    case 'timer':
      return cron === undefined
        ? `timer every ${interval_seconds ?? '?'} s`
        : `timer with cron ${cron}, ${timezone ?? 'UTC'}`;
    case 'email':
      return 'mail to an address of its own';
    case 'on_failure':
      return 'failed runs of other workflows';
    case 'source':
      return source_id === undefined
        ? `new source of ${name ?? component ?? 'a component'} ${JSON.stringify(props.configured_props ?? {})}`
        : `source ${name ?? source_id}`;
  }
}
