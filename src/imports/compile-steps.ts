import type { ComponentBuilder } from '#components/build-component.ts';
import { must } from '#lib/assert.ts';
import { CallerError } from '#lib/errors.ts';
import { type FlatStep, flattenSteps } from '#workflows/definitions/block-input.ts';
import type { MappedWorkflow } from './map-workflow.ts';
import { replaceStep } from './nest-steps.ts';
import { isPlaceholder, repairSteps } from './repair-steps.ts';

/** Steps of one workflow that are compiled at the same time; the builder has a share for each owner. */
const compiledAtOnce = 2;

export interface CompileOptions {
  builder: Pick<ComponentBuilder, 'join'>;
  ownerId: string;
}

/** Joins code with the files of its workflow that it imports. Code that cannot be joined is replaced by a step that fails with the reason. */
export async function joinFiles(mapped: MappedWorkflow, options: CompileOptions): Promise<MappedWorkflow> {
  let joined = mapped;
  for (const { step, path } of mapped.entries) {
    const files: Readonly<Record<string, string>> = { ...mapped.files, [path]: codeOf(joined, step) };
    const read = async (file: string) => {
      const text = Object.hasOwn(files, file) ? files[file] : undefined;
      return text === undefined ? null : { text };
    };
    joined = await orReplaced(joined, step, async (current) => {
      const { code } = await options.builder.join(
        { kind: 'stored', packageId: mapped.oldId, path, read },
        { ownerId: options.ownerId },
      );
      const { at, input } = stepOf(current, step);
      return { ...current, steps: replaceStep(current.steps, at, [{ ...input, code }]) };
    });
  }
  return joined;
}

/**
 * Compiles the code steps of a workflow for a dry run. Code that a deployment would refuse is replaced, as in the import itself.
 *
 * `known` has code that was compiled before, with its error. After `untilMs` (`performance.now`) no further step is compiled; `left` counts the
 * steps that remain.
 */
export async function compileSteps(
  mapped: MappedWorkflow,
  { builder, ownerId }: CompileOptions,
  { known, untilMs }: { known: Map<string, CallerError | null>; untilMs: number },
): Promise<{ mapped: MappedWorkflow; left: number }> {
  const isJoined = new Set(mapped.entries.map(({ step }) => step));
  const steps = flattenSteps(mapped.steps).flatMap(({ input: { code } }, step) =>
    code === undefined || isPlaceholder(code) || isJoined.has(step) ? [] : [{ step, code }],
  );
  const waiting = [...new Set(steps.map(({ code }) => code))].filter((code) => !known.has(code)).values();
  const compileNext = async (): Promise<void> => {
    for (const code of waiting) {
      if (performance.now() > untilMs) return;
      known.set(code, await errorOf(() => builder.join({ kind: 'code', code }, { ownerId })));
    }
  };
  await Promise.all(Array.from({ length: compiledAtOnce }, compileNext));
  let compiled = mapped;
  for (const { step, code } of steps) {
    const error = known.get(code);
    if (error != null)
      compiled = await orReplaced(compiled, step, async () => {
        throw error;
      });
  }
  return { mapped: compiled, left: steps.filter(({ code }) => !known.has(code)).length };
}

async function errorOf(work: () => Promise<unknown>): Promise<CallerError | null> {
  try {
    await work();
    return null;
  } catch (error) {
    if (error instanceof CallerError) return error;
    throw error;
  }
}

/** The result of `work` on the workflow. If the code of the step is refused, the workflow with that step replaced. */
async function orReplaced(
  mapped: MappedWorkflow,
  step: number,
  work: (mapped: MappedWorkflow) => Promise<MappedWorkflow>,
): Promise<MappedWorkflow> {
  try {
    return await work(mapped);
  } catch (error) {
    if (!(error instanceof CallerError)) throw error;
    const parameter = `${stepOf(mapped, step).at}.code`;
    const repaired = repairSteps(
      mapped.steps,
      new CallerError(error.code, `${parameter}: ${error.message}`, { parameter }),
    );
    if (repaired === undefined) throw error;
    const { steps, finding } = repaired;
    return { ...mapped, steps, findings: [...mapped.findings, finding] };
  }
}

function stepOf({ steps }: MappedWorkflow, step: number): FlatStep {
  return must(flattenSteps(steps)[step], 'a step');
}

function codeOf(mapped: MappedWorkflow, step: number): string {
  return stepOf(mapped, step).input.code ?? '';
}
