import { type ConfiguredProps, isRecord } from '#components/validate-props.ts';
import { invalidAt, quoted, refuseNul, refuseUnknownFields } from './at-parameter.ts';
import {
  type BlockDefinition,
  type BlockKind,
  type BranchDefinition,
  blockKinds,
  isStructured,
  onErrors,
  positionsIn,
  type StepRange,
} from './block-definition.ts';
import { checkRule, type RuleInput, ruleProp } from './rule-input.ts';
import type { BlockInput, BranchInput, StepInput } from './step-input.ts';
import type { StepDefinition } from './workflow-definition.ts';

const fieldsOf: Readonly<Record<BlockKind, readonly (keyof BlockInput)[]>> = {
  if: ['branches', 'on_error', 'error_steps'],
  switch: ['value', 'branches', 'on_error', 'error_steps'],
  parallel: ['branches', 'on_error', 'error_steps'],
  map: ['items', 'concurrency', 'steps', 'on_error', 'error_steps'],
  filter: ['if', 'otherwise', 'reason'],
  delay: ['seconds'],
  end: ['reason'],
  call: ['workflow', 'event'],
};

/** Every field that only blocks have. */
export const blockFieldNames: readonly string[] = [...new Set(Object.values(fieldsOf).flat())];

const commonFields: readonly string[] = [
  'namespace',
  'block',
  'disabled',
  'note',
  'timeout_seconds',
  'retries',
];

/** Blocks within one another. */
export const blockDepthMax = 10;
const branchesMax = 100;
const concurrencyMax = 100;
const concurrencyDefault = 10;
const slugPattern = /^[A-Za-z0-9_-]{1,100}$/;

/** Checks what is special about a block; the steps in it are checked by the caller. */
export function checkBlock(input: StepInput, at: string, kind: BlockKind): void {
  refuseUnknownFields(input, [...commonFields, ...fieldsOf[kind]], at);
  const { branches, items, concurrency, otherwise, on_error: onError, error_steps: errorSteps } = input;
  if (kind === 'if' || kind === 'switch' || kind === 'parallel') checkBranches(branches, at, kind);
  if (kind === 'filter') checkRule(input.if, `${at}.if`);
  if (kind === 'map' && items === undefined)
    throw missing(`${at}.items`, 'a list, or an expression that gives one');
  if (kind === 'switch' && input.value === undefined)
    throw missing(`${at}.value`, 'an expression, whose value is compared with the cases');
  if (kind === 'delay' && input.seconds === undefined)
    throw missing(`${at}.seconds`, 'a number, or an expression that gives one');
  if (kind === 'call') {
    if (input.workflow === undefined) throw missing(`${at}.workflow`, 'the id of a workflow, p_…');
    refuseNul(input.workflow, `${at}.workflow`);
  }
  refuseNul(input.reason, `${at}.reason`);
  if (
    concurrency !== undefined &&
    !(Number.isInteger(concurrency) && concurrency >= 1 && concurrency <= concurrencyMax)
  )
    throw invalidAt(
      `${at}.concurrency`,
      `expected a whole number from 1 to ${concurrencyMax}, found ${quoted(concurrency)}`,
    );
  if (otherwise !== undefined && otherwise !== 'end' && otherwise !== 'leave')
    throw invalidAt(`${at}.otherwise`, `expected "end" or "leave", found ${quoted(otherwise)}`);
  if (onError !== undefined && !onErrors.includes(onError))
    throw invalidAt(`${at}.on_error`, `expected one of ${onErrors.join(', ')}, found ${quoted(onError)}`);
  if (errorSteps !== undefined && onError !== 'branch')
    throw invalidAt(`${at}.error_steps`, 'these steps run only with on_error: "branch"');
  if (errorSteps === undefined && onError === 'branch')
    throw missing(`${at}.error_steps`, 'the steps that run after a failure');
}

/** The kind of a step that is a block; undefined for another step. */
export function blockKindOf({ block }: StepInput, at: string): BlockKind | undefined {
  if (block === undefined) return undefined;
  if ((blockKinds as readonly unknown[]).includes(block)) return block;
  throw invalidAt(`${at}.block`, `expected one of ${blockKinds.join(', ')}, found ${quoted(block)}`);
}

/** The lists of steps in a block, each with its place in the request. */
export function stepListsOf(input: StepInput, at: string): { at: string; steps: readonly StepInput[] }[] {
  const lists: { at: string; steps: unknown }[] = [
    ...(input.branches ?? []).map((branch, index) => ({
      at: `${at}.branches[${index}].steps`,
      steps: branch.steps ?? [],
    })),
    ...(input.steps === undefined ? [] : [{ at: `${at}.steps`, steps: input.steps }]),
    ...(input.error_steps === undefined ? [] : [{ at: `${at}.error_steps`, steps: input.error_steps }]),
  ];
  for (const list of lists)
    if (!Array.isArray(list.steps) || !list.steps.every(isRecord))
      throw invalidAt(list.at, `expected a list of steps, found ${quoted(list.steps)}`);
  return lists as { at: string; steps: readonly StepInput[] }[];
}

/** Key of the component that decides in a block. */
export function blockComponent(kind: BlockKind): string {
  return `control_flow-${kind}`;
}

/** The props of that component. */
export function blockProps(input: StepInput, kind: BlockKind): ConfiguredProps {
  const { value, items, seconds, reason, otherwise, workflow, event } = input;
  switch (kind) {
    case 'if':
    case 'parallel':
      return {
        branches: (input.branches ?? []).map(({ slug, if: rule }) =>
          rule === undefined ? { slug } : { slug, if: ruleProp(rule) },
        ),
      };
    case 'switch':
      return {
        value,
        branches: (input.branches ?? []).map((branch) =>
          branch.case === undefined ? { slug: branch.slug } : { slug: branch.slug, case: branch.case },
        ),
      };
    case 'map':
      return { items };
    case 'filter':
      return {
        rule: { if: ruleProp(input.if as RuleInput) },
        ...(otherwise === undefined ? {} : { otherwise }),
        ...(reason === undefined ? {} : { reason }),
      };
    case 'delay':
      return { seconds };
    case 'end':
      return reason === undefined ? {} : { reason };
    case 'call':
      return { workflow, ...(event === undefined ? {} : { event }) };
  }
}

/** The fields of a block as a request gives them, without the steps in it. `props`: those of the component. */
export function blockFields(
  { kind, onError, concurrency }: BlockDefinition,
  props: ConfiguredProps,
): BlockInput & { branches?: Omit<BranchInput, 'steps'>[] } {
  const { rule, ...given } = props as { rule?: { if: RuleInput } } & BlockInput;
  return {
    block: kind,
    ...given,
    ...(rule === undefined ? {} : { if: rule.if }),
    ...(kind === 'map' ? { concurrency } : {}),
    ...(isStructured(kind) ? { on_error: onError } : {}),
  };
}

/**
 * The steps of a definition as a request gives them, each block with the steps in it. `toInput` makes the input of one
 * step without those in it; undefined: the step is left out, with all that is in it.
 */
export function nestSteps(
  steps: readonly Pick<StepDefinition, 'block'>[],
  toInput: (position: number) => StepInput | undefined,
  range: StepRange = { from: 0, to: steps.length },
): StepInput[] {
  const nested: StepInput[] = [];
  for (const position of positionsIn(steps, range)) {
    const input = toInput(position);
    if (input === undefined) continue;
    const block = steps[position]?.block;
    const inside = (part: StepRange) => nestSteps(steps, toInput, part);
    const [body] = block?.branches ?? [];
    const { branches } = input;
    nested.push({
      ...input,
      ...(branches === undefined
        ? {}
        : {
            branches: branches.map((branch, index) => {
              const part = block?.branches[index];
              return part === undefined ? branch : { ...branch, steps: inside(part) };
            }),
          }),
      ...(block?.kind === 'map' && body !== undefined ? { steps: inside(body) } : {}),
      ...(block === undefined || block.error === null ? {} : { error_steps: inside(block.error) }),
    });
  }
  return nested;
}

/** The same steps with each of them, and those in blocks, replaced. */
export function mapSteps(
  steps: readonly StepInput[],
  replace: (step: StepInput) => StepInput | undefined,
): StepInput[] {
  return steps.flatMap((before) => {
    const step = replace(before);
    if (step === undefined) return [];
    const { branches, steps: inner, error_steps: onError } = step;
    return [
      {
        ...step,
        ...(branches === undefined
          ? {}
          : {
              branches: branches.map((branch) => ({
                ...branch,
                steps: mapSteps(branch.steps ?? [], replace),
              })),
            }),
        ...(inner === undefined ? {} : { steps: mapSteps(inner, replace) }),
        ...(onError === undefined ? {} : { error_steps: mapSteps(onError, replace) }),
      },
    ];
  });
}

/** A step of a request at its position, in the order of the definition. */
export interface FlatStep {
  /** Its place in the request, such as `steps[2].branches[0].steps[1]`. */
  at: string;
  input: StepInput;
  block: BlockDefinition | undefined;
}

/** All steps of a request, a block before the steps in it. They were checked. */
export function flattenSteps(steps: readonly StepInput[], at = 'steps'): FlatStep[] {
  const flat: FlatStep[] = [];
  addSteps(flat, steps, at);
  return flat;
}

function addSteps(flat: FlatStep[], steps: readonly StepInput[], at: string): { from: number; to: number } {
  const from = flat.length;
  for (const [index, input] of steps.entries()) {
    const place = `${at}[${index}]`;
    const kind = blockKindOf(input, place);
    const one: FlatStep = { at: place, input, block: undefined };
    flat.push(one);
    if (kind === undefined) continue;
    const branches: BranchDefinition[] = (input.branches ?? []).map((branch, number) => ({
      slug: branch.slug ?? '',
      ...addSteps(flat, branch.steps ?? [], `${place}.branches[${number}].steps`),
    }));
    if (kind === 'map')
      branches.push({ slug: 'each', ...addSteps(flat, input.steps ?? [], `${place}.steps`) });
    const error =
      input.error_steps === undefined ? null : addSteps(flat, input.error_steps, `${place}.error_steps`);
    one.block = {
      kind,
      branches,
      error,
      onError: input.on_error ?? 'fail',
      concurrency: input.concurrency ?? concurrencyDefault,
      ...(input.timeout_seconds === undefined || !isStructured(kind)
        ? {}
        : { timeoutSeconds: input.timeout_seconds }),
      end: flat.length,
    };
  }
  return { from, to: flat.length };
}

function checkBranches(branches: unknown, at: string, kind: BlockKind): void {
  const place = `${at}.branches`;
  if (branches === undefined) throw missing(place, 'a list of branches, each { slug, steps }');
  if (!Array.isArray(branches) || branches.length === 0 || branches.length > branchesMax)
    throw invalidAt(place, `expected a list of 1 to ${branchesMax} branches, found ${quoted(branches)}`);
  const seen = new Set<string>();
  const decides = kind === 'switch' ? 'case' : 'if';
  for (const [index, branch] of branches.entries()) {
    const here = `${place}[${index}]`;
    if (!isRecord(branch))
      throw invalidAt(here, `expected a branch, { slug, steps }, found ${quoted(branch)}`);
    refuseUnknownFields(branch, ['slug', decides, 'steps'], here);
    const { slug } = branch;
    if (slug === undefined) throw missing(`${here}.slug`, 'the name of the branch');
    if (typeof slug !== 'string' || !slugPattern.test(slug) || slug === '__proto__')
      throw invalidAt(
        `${here}.slug`,
        `expected at most 100 letters, digits, dashes and underscores, found ${quoted(slug)}`,
      );
    if (seen.has(slug))
      throw invalidAt(`${here}.slug`, `another branch of the block is called ${quoted(slug)}`);
    seen.add(slug);
    if (branch[decides] === undefined) {
      if (kind !== 'parallel' && index < branches.length - 1)
        throw missing(
          `${here}.${decides}`,
          'only the last branch, which is taken when no other is, has none',
        );
    } else if (kind !== 'switch') checkRule(branch.if, `${here}.if`);
  }
}

function missing(at: string, what: string) {
  return invalidAt(at, `required: ${what}`, 'missing_parameter');
}
