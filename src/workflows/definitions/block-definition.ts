/** Blocks with steps in them, and blocks that are one step each. */
const structuredKinds = ['if', 'switch', 'parallel', 'map'] as const;
export const blockKinds = [...structuredKinds, 'filter', 'delay', 'end', 'call'] as const;
export type BlockKind = (typeof blockKinds)[number];

/** What follows when a step in a block fails for good: the run fails, the block ends with the error, or its error branch runs. */
export const onErrors = ['fail', 'continue', 'branch'] as const;
export type OnError = (typeof onErrors)[number];

/** Steps by their positions in the definition: `from` to `to`, which is not part of it. */
export interface StepRange {
  from: number;
  to: number;
}

/** A branch of a block. The steps of a map are one branch with the slug `each`. */
export interface BranchDefinition extends StepRange {
  slug: string;
}

/** The part of a step that makes it a block. What decides in it (rules, items) is in the step's props. */
export interface BlockDefinition {
  kind: BlockKind;
  branches: BranchDefinition[];
  /** The steps of the error branch; null: there is none. */
  error: StepRange | null;
  onError: OnError;
  /** Items of a map whose steps run at the same time. */
  concurrency: number;
  /** Longest that the steps in it may take together, in seconds; absent: any time. */
  timeoutSeconds?: number;
  /** The position after the block and everything in it. */
  end: number;
}

/** A step of a definition, as far as its place among the others goes. */
interface MayBeBlock {
  block?: BlockDefinition;
}

/** The position of what follows a step in its own sequence. */
function positionAfter(steps: readonly MayBeBlock[], position: number): number {
  return steps[position]?.block?.end ?? position + 1;
}

/** The positions of the steps of a sequence, without those in its blocks. */
export function positionsIn(steps: readonly MayBeBlock[], { from, to }: StepRange): number[] {
  const positions: number[] = [];
  for (let position = from; position < to; position = positionAfter(steps, position))
    positions.push(position);
  return positions;
}

/** True for a block whose steps run at the same time. */
export function isConcurrent(kind: BlockKind): boolean {
  return kind === 'parallel' || kind === 'map';
}

/** True when a block has steps in it. */
export function isStructured(kind: BlockKind): boolean {
  return (structuredKinds as readonly BlockKind[]).includes(kind);
}
