import type { RunDetail, RunStep, WorkflowStep } from '#sdk';
import { type BlockKind, isStructured, type PartNode, type StepNode, treeOf } from './blocks.ts';

/** A step as the page of a run shows it. The version of the run may be unknown: then there is only its record. */
export interface ShownStep {
  namespace: string;
  step: WorkflowStep | undefined;
}

export type ShownNode = StepNode<ShownStep>;

/** The tries of a step, in order. `iteration`: the items of the maps around it, as the API writes them. */
export type FindTries = (position: number, iteration: string) => readonly RunStep[];

const none: readonly RunStep[] = [];

export function triesOf(run: Pick<RunDetail, 'steps'>): FindTries {
  const found = new Map<string, RunStep[]>();
  for (const record of run.steps) {
    const key = `${record.position} ${record.iteration}`;
    const tries = found.get(key);
    if (tries === undefined) found.set(key, [record]);
    else tries.push(record);
  }
  return (position, iteration) => found.get(`${position} ${iteration}`) ?? none;
}

/** The steps of the version that was run, as a tree; without it, those that were recorded. */
export function shownSteps(
  run: Pick<RunDetail, 'steps'>,
  steps: readonly WorkflowStep[] | undefined,
): ShownNode[] {
  if (steps !== undefined) return treeOf(steps).map(shownNode);
  const names = new Map(run.steps.map(({ position, namespace }) => [position, namespace]));
  return [...names]
    .sort(([a], [b]) => a - b)
    .map(([position, namespace]) => ({ step: { namespace, step: undefined }, position, parts: [] }));
}

function shownNode({ step, position, parts }: StepNode<WorkflowStep>): ShownNode {
  return {
    step: { namespace: step.namespace, step },
    position,
    parts: parts.map((part) => ({ ...part, nodes: part.nodes.map(shownNode) })),
  };
}

export function kindOf({ step }: ShownNode): BlockKind | undefined {
  return step.step?.block?.block as BlockKind | undefined;
}

interface Decision {
  branch?: string | null;
  branches?: string[];
  items?: unknown[];
  passed?: boolean;
}

/** What a block has decided; undefined: it has not. */
function decisionOf(node: ShownNode, iteration: string, tries: FindTries): Decision | undefined {
  const all = tries(node.position, iteration);
  if (all.at(-1)?.state === 'caught') return undefined;
  // A failed attempt of a block comes after its decision.
  const decided = all.findLast(({ state }) => state === 'succeeded');
  return decided === undefined ? undefined : ((decided.exports ?? {}) as Decision);
}

/** The items of a map; undefined: they are not known yet. */
export function itemsOf(
  node: ShownNode,
  iteration: string,
  tries: FindTries,
): readonly unknown[] | undefined {
  return decisionOf(node, iteration, tries)?.items;
}

export function itemIteration(iteration: string, index: number): string {
  return iteration === '' ? String(index) : `${iteration}-${index}`;
}

/** True when the run took a part of a block; undefined: that is not decided. */
export function isTaken(
  node: ShownNode,
  part: PartNode<ShownStep>,
  { iteration, tries }: { iteration: string; tries: FindTries },
): boolean | undefined {
  const decision = decisionOf(node, iteration, tries);
  if (decision === undefined) return undefined;
  if (part.kind === 'each') return true;
  if (part.kind === 'branch') return decision.branches?.includes(part.slug) ?? decision.branch === part.slug;
  // No record says that a block has failed, but its steps after an error have records.
  return part.nodes.some(({ position }) => tries(position, iteration).length > 0) || undefined;
}

/** True when steps that follow each other have ended, one way or another. */
export function isSequenceOver(nodes: readonly ShownNode[], iteration: string, tries: FindTries): boolean {
  for (const node of nodes) {
    if (node.step.step?.disabled === true) continue;
    const last = tries(node.position, iteration).at(-1);
    if (last?.state === 'caught') return true;
    if (last?.state !== 'succeeded') return false;
    const hasLeft = kindOf(node) === 'filter' && (last.exports as Decision | null)?.passed === false;
    if (hasLeft) return true;
    if (!isBlockOver(node, iteration, tries)) return false;
  }
  return true;
}

function isBlockOver(node: ShownNode, iteration: string, tries: FindTries): boolean {
  return node.parts.every((part) => {
    if (part.kind === 'each')
      return (itemsOf(node, iteration, tries) ?? []).every((_, index) =>
        isSequenceOver(part.nodes, itemIteration(iteration, index), tries),
      );
    return isTaken(node, part, { iteration, tries }) !== true || isSequenceOver(part.nodes, iteration, tries);
  });
}

/** How a block stands that has decided, and whose steps have not all ended. Undefined: it has no steps in it, or all have ended. */
export function unfinishedState(
  node: ShownNode,
  iteration: string,
  tries: FindTries,
): 'waiting' | 'running' | undefined {
  const isDecided = decisionOf(node, iteration, tries) !== undefined;
  if (!isDecided || isBlockOver(node, iteration, tries)) return undefined;
  const states = node.parts.flatMap((part) => {
    if (part.kind === 'each')
      return (itemsOf(node, iteration, tries) ?? []).map((_, index) =>
        itemState(part.nodes, itemIteration(iteration, index), tries),
      );
    return isTaken(node, part, { iteration, tries }) === true
      ? [itemState(part.nodes, iteration, tries)]
      : [];
  });
  return states.includes('waiting') && !states.includes('running') ? 'waiting' : 'running';
}

export type ItemState = 'failed' | 'caught' | 'waiting' | 'running' | 'succeeded' | 'not reached';

/** How an item of a map stands: the worst of its steps, those of maps in it included. */
export function itemState(nodes: readonly ShownNode[], iteration: string, tries: FindTries): ItemState {
  const states = new Set<ItemState>();
  collect(nodes, iteration, tries, states);
  for (const state of ['failed', 'waiting', 'caught'] as const) if (states.has(state)) return state;
  if (nodes.every(({ step }) => step.step?.disabled === true)) return 'succeeded';
  if (states.size === 0) return 'not reached';
  return isSequenceOver(nodes, iteration, tries) ? 'succeeded' : 'running';
}

function collect(
  nodes: readonly ShownNode[],
  iteration: string,
  tries: FindTries,
  states: Set<ItemState>,
): void {
  for (const node of nodes) {
    const last = tries(node.position, iteration).at(-1);
    if (last === undefined) continue;
    states.add(last.state);
    for (const part of node.parts) {
      if (part.kind !== 'each') collect(part.nodes, iteration, tries, states);
      else
        for (const index of (itemsOf(node, iteration, tries) ?? []).keys())
          collect(part.nodes, itemIteration(iteration, index), tries, states);
    }
  }
}

/** The steps from which a run can be restarted: what comes before them has ended, and their branch was taken. */
export function stepsToRestartFrom(run: Pick<RunDetail, 'steps'>, steps: readonly WorkflowStep[]): string[] {
  const tries = triesOf(run);
  const names: string[] = [];
  addRestarts(treeOf(steps).map(shownNode), '', tries, names);
  return names;
}

/** Adds names, and returns false at the first step that has not ended. `iteration`: undefined in a map. */
function addRestarts(
  nodes: readonly ShownNode[],
  iteration: string | undefined,
  tries: FindTries,
  names: string[],
): boolean {
  for (const node of nodes) {
    if (node.step.step?.disabled === true) continue;
    names.push(node.step.namespace);
    if (iteration === undefined) continue;
    if (tries(node.position, iteration).at(-1)?.state !== 'succeeded') return false;
    const kind = kindOf(node);
    if (kind === undefined || !isStructured(kind)) continue;
    for (const part of node.parts) {
      if (part.kind === 'error' || isTaken(node, part, { iteration, tries }) !== true) continue;
      addRestarts(part.nodes, part.kind === 'each' ? undefined : iteration, tries, names);
    }
    if (!isBlockOver(node, iteration, tries)) return false;
  }
  return true;
}
