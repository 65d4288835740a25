import { type BlockKind, hasBranches, type Part, partName } from './blocks.ts';
import { type BlockDraft, newKey, type PartDraft, type StepDraft } from './step-draft.ts';

/** A list of steps: of the workflow (undefined), or of a part by its key. */
export type ListKey = string | undefined;

const firstRule = { value: '{{steps.trigger.event.body}}', condition: 'EXISTS' };
const delaySecondsUsual = 60;

export function newPart(part: Part): PartDraft {
  return { key: newKey(), ...part, steps: [] };
}

export function newBlock(kind: BlockKind): BlockDraft {
  const branch = (slug: string, more: Partial<Part> = {}) => newPart({ kind: 'branch', slug, ...more });
  const block = (fields: Record<string, unknown>, ...parts: PartDraft[]) => ({ kind, fields, parts });
  switch (kind) {
    case 'if':
      return block({}, branch('yes', { if: firstRule }), branch('no'));
    case 'switch':
      return block({}, branch('first', { case: '' }), branch('other'));
    case 'parallel':
      return block({}, branch('first'), branch('second'));
    case 'map':
      return block({}, newPart({ kind: 'each', slug: '' }));
    case 'filter':
      return block({ if: firstRule });
    case 'delay':
      return block({ seconds: delaySecondsUsual });
    default:
      return block({});
  }
}

/** The parts that are deployed. */
export function partsOf({ block }: Pick<StepDraft, 'block'>): readonly PartDraft[] {
  if (block === undefined) return [];
  return block.parts.filter(({ kind }) => kind !== 'error' || block.fields.on_error === 'branch');
}

/** The fields of a part as the API takes them, without its steps. */
export function partFields({ slug, if: rule, case: wanted }: Part): Record<string, unknown> {
  return {
    slug,
    ...(rule === undefined ? {} : { if: rule }),
    ...(wanted === undefined ? {} : { case: wanted }),
  };
}

/** A block as the API takes it. `inputOf` makes the input of a step in it. */
export function blockInput<T>(step: StepDraft & { block: BlockDraft }, inputOf: (step: StepDraft) => T) {
  const { kind, fields } = step.block;
  const parts = partsOf(step);
  const stepsOf = (wanted: Part['kind']) =>
    parts.find((part) => part.kind === wanted)?.steps.map((inner) => inputOf(inner));
  return {
    block: kind,
    ...fields,
    ...(hasBranches(kind)
      ? {
          branches: parts
            .filter((part) => part.kind === 'branch')
            .map((part) => ({ ...partFields(part), steps: part.steps.map((inner) => inputOf(inner)) })),
        }
      : {}),
    ...(kind === 'map' ? { steps: stepsOf('each') ?? [] } : {}),
    ...(fields.on_error === 'branch' ? { error_steps: stepsOf('error') ?? [] } : {}),
  };
}

/** All steps, a block before the steps in it. */
export function allSteps(steps: readonly StepDraft[]): StepDraft[] {
  return steps.flatMap((step) => [step, ...partsOf(step).flatMap((part) => allSteps(part.steps))]);
}

/** Every name that a step has, also one that is not deployed as it stands. */
export function namesIn(steps: readonly StepDraft[]): string[] {
  return steps.flatMap(({ namespace, block }) => [
    namespace,
    ...(block?.parts ?? []).flatMap((part) => namesIn(part.steps)),
  ]);
}

/** The same steps with one list replaced, wherever it is. */
export function changeList(
  steps: readonly StepDraft[],
  list: ListKey,
  change: (steps: readonly StepDraft[]) => StepDraft[],
): StepDraft[] {
  if (list === undefined) return change(steps);
  return inBlocks(steps, (part) =>
    part.key === list ? change(part.steps) : changeList(part.steps, list, change),
  );
}

/** The same steps with one changed, wherever it is. */
export function changeStep(
  steps: readonly StepDraft[],
  key: string,
  change: (step: StepDraft) => StepDraft,
): StepDraft[] {
  return inBlocks(
    steps.map((step) => (step.key === key ? change(step) : step)),
    (part) => changeStep(part.steps, key, change),
  );
}

/** What is unchanged stays the same object, so that forms of other steps are not drawn again. */
function inBlocks(
  steps: readonly StepDraft[],
  change: (part: PartDraft) => readonly StepDraft[],
): StepDraft[] {
  return steps.map((step) => {
    const { block } = step;
    if (block === undefined || block.parts.length === 0) return step;
    const parts = block.parts.map((part) => {
      const inner = change(part);
      const isSame =
        inner.length === part.steps.length && inner.every((one, index) => one === part.steps[index]);
      return isSame ? part : { ...part, steps: [...inner] };
    });
    return parts.every((part, index) => part === block.parts[index])
      ? step
      : { ...step, block: { ...block, parts } };
  });
}

/** A list of steps, as a place for a step. */
export interface StepPlace {
  list: ListKey;
  /** In words. */
  name: string;
  /** Keys of the blocks around it. */
  within: readonly string[];
  steps: readonly StepDraft[];
}

/** Every list of steps of a workflow, in the order of the form. */
export function placesOf(steps: readonly StepDraft[]): StepPlace[] {
  const inner = (list: readonly StepDraft[], within: readonly string[]): StepPlace[] =>
    list.flatMap((step) =>
      partsOf(step).flatMap((part) => [
        {
          list: part.key,
          name: `${step.namespace}, ${partName(part)}`,
          within: [...within, step.key],
          steps: part.steps,
        },
        ...inner(part.steps, [...within, step.key]),
      ]),
    );
  return [{ list: undefined, name: 'the workflow itself', within: [], steps }, ...inner(steps, [])];
}

/** Takes a step, with all that is in it, out of its list and puts it to the end of another. */
export function moveStep(steps: readonly StepDraft[], key: string, to: ListKey): StepDraft[] {
  const places = placesOf(steps);
  const from = places.find((place) => place.steps.some((step) => step.key === key));
  const step = from?.steps.find((one) => one.key === key);
  const target = places.find(({ list }) => list === to);
  if (from === undefined || step === undefined || target === undefined || target.within.includes(key))
    return [...steps];
  const without = changeList(steps, from.list, (list) => list.filter((one) => one.key !== key));
  return changeList(without, to, (list) => [...list, step]);
}

/** What a step finds in `steps`, apart from the trigger. `within`: it is in that block, and sees what its branch or item is. */
export interface StepBefore {
  step: StepDraft;
  within?: PartDraft;
}

/** The steps whose exports a step sees: those before it in its own list, and before the blocks around it. */
export function stepsBefore(steps: readonly StepDraft[], key: string): StepBefore[] | undefined {
  const before: StepBefore[] = [];
  for (const step of steps) {
    if (step.key === key) return before;
    for (const part of partsOf(step)) {
      const inner = stepsBefore(part.steps, key);
      if (inner !== undefined) return [...before, { step, within: part }, ...inner];
    }
    before.push({ step });
  }
  return undefined;
}

const stepPlace = /^steps\[(\d+)\]/;
const innerPlace = /^\.(?:branches\[(\d+)\]\.steps|(steps|error_steps))\[(\d+)\]/;

/**
 * The step that an answer is about: `steps[2].branches[0].steps[1].props.amount` is about `props.amount` of the second step in
 * the first branch of the third step.
 */
export function stepAt(
  steps: readonly StepDraft[],
  parameter: unknown,
): { step: StepDraft; field: string } | undefined {
  let rest = String(parameter ?? '');
  const first = stepPlace.exec(rest);
  let step = first === null ? undefined : steps[Number(first[1])];
  rest = rest.slice(first?.[0].length ?? 0);
  while (step !== undefined) {
    const match = innerPlace.exec(rest);
    if (match === null) return { step, field: rest.replace(/^\./, '') };
    const [whole, branch, list, index] = match;
    const parts = partsOf(step);
    const part =
      branch === undefined
        ? parts.find(({ kind }) => kind === (list === 'steps' ? 'each' : 'error'))
        : parts.filter(({ kind }) => kind === 'branch')[Number(branch)];
    step = part?.steps[Number(index)];
    rest = rest.slice(whole.length);
  }
  return undefined;
}
