import { flattenSteps } from '#workflows/definitions/block-input.ts';
import type { StepInput } from '#workflows/definitions/step-input.ts';
import type { ForeignStep } from './project.ts';

/** The steps of a workflow with those of blocks in their blocks. `foreign`: where each of them stands; both in one order. */
export function nestSteps(
  steps: readonly StepInput[],
  foreign: readonly Pick<ForeignStep, 'inside'>[],
): StepInput[] {
  const childrenOf = Map.groupBy(steps.keys(), (at) => foreign[at]?.inside?.block);
  const nested = (at: number): StepInput => {
    const step = steps[at] as StepInput;
    const children = childrenOf.get(at) ?? [];
    const inBranch = (branch: number) =>
      children.filter((child) => foreign[child]?.inside?.branch === branch).map(nested);
    if (step.branches !== undefined)
      return {
        ...step,
        branches: step.branches.map((branch, index) => ({ ...branch, steps: inBranch(index) })),
      };
    return step.steps === undefined ? step : { ...step, steps: inBranch(0) };
  };
  return (childrenOf.get(undefined) ?? []).map(nested);
}

/** The steps with the one at a place, such as `steps[2].branches[0].steps[1]`, replaced by others. */
export function replaceStep(
  steps: readonly StepInput[],
  place: string,
  by: readonly StepInput[],
  at = 'steps',
): StepInput[] {
  return steps.flatMap((step, index) => {
    const here = `${at}[${index}]`;
    if (here === place) return by;
    if (!place.startsWith(`${here}.`)) return [step];
    const inside = (list: readonly StepInput[] | undefined, name: string) =>
      replaceStep(list ?? [], place, by, `${here}.${name}`);
    const { branches, steps: inner, error_steps: onError } = step;
    return [
      {
        ...step,
        ...(branches === undefined
          ? {}
          : {
              branches: branches.map((branch, number) => ({
                ...branch,
                steps: inside(branch.steps, `branches[${number}].steps`),
              })),
            }),
        ...(inner === undefined ? {} : { steps: inside(inner, 'steps') }),
        ...(onError === undefined ? {} : { error_steps: inside(onError, 'error_steps') }),
      },
    ];
  });
}

/** The step at a place; undefined: there is none. */
export function stepAt(steps: readonly StepInput[], place: string): StepInput | undefined {
  return flattenSteps(steps).find(({ at }) => at === place)?.input;
}
