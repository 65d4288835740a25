import type { StepDefinition } from '#sdk';

export type BlockKind = NonNullable<StepDefinition['block']>;

/** The blocks of control flow, in the order in which they are offered, each with what it does in one sentence. */
export const blocks: Readonly<Record<BlockKind, { name: string; text: string }>> = {
  if: { name: 'If', text: 'Takes the first branch whose rule is met.' },
  switch: { name: 'Switch', text: 'Takes the first branch whose case is the value.' },
  parallel: { name: 'Parallel', text: 'Takes every branch whose rule is met, all at the same time.' },
  map: { name: 'Map', text: 'Runs its steps once for each item of a list.' },
  filter: {
    name: 'Filter',
    text: 'Continues when its rule is met, otherwise ends the run or leaves the block around it.',
  },
  delay: { name: 'Delay', text: 'Waits before the next step, up to a year.' },
  end: { name: 'End', text: 'Ends the run without an error.' },
  call: { name: 'Call a workflow', text: 'Runs another workflow and returns what its last step returned.' },
};

export const blockKinds = Object.keys(blocks) as readonly BlockKind[];

export function blockName(kind: string): string {
  return blocks[kind as BlockKind]?.name ?? kind;
}

/** True for a block that takes branches by rules or cases. */
export function hasBranches(kind: BlockKind): boolean {
  return kind === 'if' || kind === 'switch' || kind === 'parallel';
}

/** True for a block that has steps in it. */
export function isStructured(kind: BlockKind): boolean {
  return hasBranches(kind) || kind === 'map';
}

/** A list of steps in a block: a branch, what runs for each item of a map, or what runs after an error. */
export interface Part {
  kind: 'branch' | 'each' | 'error';
  /** Empty, except for a branch. */
  slug: string;
  /** A rule. A branch without one is taken always, or when no other is. */
  if?: unknown;
  /** The value of a switch with which this branch is taken. */
  case?: unknown;
}

export function partName({ kind, slug }: Pick<Part, 'kind' | 'slug'>): string {
  if (kind === 'branch') return `branch ${slug}`;
  return kind === 'each' ? 'for each item' : 'after an error';
}

/** A step of an answer or of a template, with the steps in it. */
export interface StepNode<T> {
  step: T;
  /** Its position among all steps, from 0. */
  position: number;
  parts: PartNode<T>[];
}

export interface PartNode<T> extends Part {
  nodes: StepNode<T>[];
}

type Listed = { namespace: string; block: Record<string, unknown> | null };

/** What an answer says of a block: its steps are names. */
interface BlockView {
  branches?: { slug: string; if?: unknown; case?: unknown; steps: string[] }[];
  steps?: string[];
  error_steps?: string[];
}

/** The steps of an answer, a list in which blocks stand before what is in them, as a tree. */
export function treeOf<T extends Listed>(steps: readonly T[]): StepNode<T>[] {
  const positions = new Map(steps.map(({ namespace }, position) => [namespace, position]));
  const inside = new Set<string>();
  const nodeAt = (position: number, step: T): StepNode<T> => {
    const { branches = [], steps: each, error_steps: error } = (step.block ?? {}) as BlockView;
    const nodes = (names: readonly string[]) =>
      names.flatMap((name) => {
        inside.add(name);
        const at = positions.get(name);
        const found = at === undefined ? undefined : steps[at];
        return at === undefined || found === undefined ? [] : [nodeAt(at, found)];
      });
    return {
      step,
      position,
      parts: [
        ...branches.map(({ steps: names, ...branch }) => ({
          kind: 'branch' as const,
          ...branch,
          nodes: nodes(names),
        })),
        ...(each === undefined ? [] : [{ kind: 'each' as const, slug: '', nodes: nodes(each) }]),
        ...(error === undefined ? [] : [{ kind: 'error' as const, slug: '', nodes: nodes(error) }]),
      ],
    };
  };
  const roots: StepNode<T>[] = [];
  for (const [position, step] of steps.entries())
    if (!inside.has(step.namespace)) roots.push(nodeAt(position, step));
  return roots;
}

/** The steps of a template as a tree. */
export function definitionTree(steps: readonly StepDefinition[]): StepNode<StepDefinition>[] {
  let position = 0;
  const nodesOf = (list: readonly StepDefinition[]): StepNode<StepDefinition>[] =>
    list.map((step) => {
      const here = position;
      position += 1;
      const inner = (part: Part, given: unknown): PartNode<StepDefinition> => ({
        ...part,
        nodes: nodesOf((given ?? []) as readonly StepDefinition[]),
      });
      const { branches = [], steps: each, error_steps: error } = step;
      return {
        step,
        position: here,
        parts: [
          ...branches.map(({ steps: given, slug = '', ...rest }) =>
            inner({ kind: 'branch', slug, ...rest }, given),
          ),
          ...(each === undefined ? [] : [inner({ kind: 'each', slug: '' }, each)]),
          ...(error === undefined ? [] : [inner({ kind: 'error', slug: '' }, error)]),
        ],
      };
    });
  return nodesOf(steps);
}

/** All steps of a template, a block before the steps in it. */
export function allDefinitions(steps: readonly StepDefinition[]): StepDefinition[] {
  const listed = ({ step, parts }: StepNode<StepDefinition>): StepDefinition[] => [
    step,
    ...parts.flatMap((part) => part.nodes.flatMap(listed)),
  ];
  return definitionTree(steps).flatMap(listed);
}

/** The fields of a block without the steps in it, and without its branches. */
export function ownFields(block: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { block: _kind, branches: _branches, steps: _steps, error_steps: _errorSteps, ...fields } = block;
  return fields;
}
