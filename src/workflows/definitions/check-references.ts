import { namedSteps } from '#flow-control/named-steps.ts';
import { Pauses } from '#lib/pauses.ts';
import { invalidAt } from './at-parameter.ts';
import { stepListsOf } from './block-input.ts';
import type { StepInput } from './step-input.ts';

/**
 * Refuses expressions that name a step of the workflow that cannot have run before: one in another branch, in a block that has
 * ended, or later. Definitions without blocks are not looked at: existing workflows may name a later step on purpose, and read undefined.
 */
export async function checkReferences(steps: readonly StepInput[]): Promise<void> {
  if (!steps.some(({ block }) => block !== undefined)) return;
  const names = new Set<string>();
  addNames(steps, names);
  await checkList(steps, 'steps', { names, seen: new Set(), pauses: new Pauses() });
}

interface Scope {
  /** Every step of the workflow. */
  names: ReadonlySet<string>;
  /** Those whose exports can be there. */
  seen: ReadonlySet<string>;
  pauses: Pauses;
}

function addNames(steps: readonly StepInput[], names: Set<string>): void {
  for (const step of steps) {
    names.add(step.namespace);
    for (const inner of stepListsOf(step, '')) addNames(inner.steps, names);
  }
}

async function checkList(steps: readonly StepInput[], at: string, scope: Scope): Promise<void> {
  const seen = new Set(scope.seen);
  for (const [index, step] of steps.entries()) {
    const place = `${at}[${index}]`;
    for (const placed of textsIn(ownFields(step), place)) {
      checkText(placed, { ...scope, seen });
      await scope.pauses.pause();
    }
    for (const inner of stepListsOf(step, place))
      await checkList(inner.steps, inner.at, { ...scope, seen: new Set([...seen, step.namespace]) });
    seen.add(step.namespace);
  }
}

/** The fields of a step without those of the steps in it: what is evaluated before these run. */
export function ownFields(step: StepInput): object {
  const { steps: _steps, error_steps: _onError, branches, code: _code, note: _note, ...own } = step;
  if (branches === undefined) return own;
  return { ...own, branches: branches.map(({ steps: _inner, ...branch }) => branch) };
}

interface PlacedText {
  text: string;
  at: string;
}

function* textsIn(value: unknown, at: string): Generator<PlacedText> {
  if (typeof value === 'string') yield { text: value, at };
  if (typeof value !== 'object' || value === null) return;
  for (const [key, item] of Object.entries(value))
    yield* textsIn(item, Array.isArray(value) ? `${at}[${key}]` : `${at}.${key}`);
}

function checkText({ text, at }: PlacedText, { names, seen }: Scope): void {
  for (const name of namedSteps(text))
    if (names.has(name) && !seen.has(name))
      throw invalidAt(
        at,
        `the expression names steps.${name}, which cannot have run before: it comes later, is in another branch, or is in a block that has ended`,
      );
}
