import type { CallerError } from '#lib/errors.ts';
import { stepListsOf } from '#workflows/definitions/block-input.ts';
import { ownFields } from '#workflows/definitions/check-references.ts';
import type { StepInput } from '#workflows/definitions/step-input.ts';
import { fitValue } from './fit-value.ts';
import { outlineOf, placeholderCode } from './map-step.ts';
import { replaceStep, stepAt } from './nest-steps.ts';
import { byHand, checkIt, type Finding } from './project.ts';

/** The place of a step, the prop of it, and the place in its value, in the name of a parameter. */
const stepPlace =
  /^(steps\[\d+\](?:\.(?:branches\[\d+\]\.steps|steps|error_steps)\[\d+\])*)(?:\.props\.([^.[]+))?(.*)/s;

/**
 * The steps with the one that an error of a deployment names changed so that the rest can be deployed: a prop that its component has not is
 * left out, a value of another type becomes one of the type that is expected, and any other step becomes one that says what is wrong when it
 * runs. Undefined: the error names no step, or one that was replaced already.
 */
export function repairSteps(
  steps: readonly StepInput[],
  { message, details }: CallerError,
): { steps: StepInput[]; finding: Finding } | undefined {
  const parameter = typeof details.parameter === 'string' ? details.parameter : '';
  const [, at = '', prop, path = ''] = stepPlace.exec(parameter) ?? [];
  const step = at === '' ? undefined : stepAt(steps, at);
  if (step === undefined || isPlaceholder(step.code ?? '')) return undefined;
  const said = message.startsWith(`${parameter}: `) ? message.slice(parameter.length + 2) : message;
  // The value of a prop may be a secret.
  const why = prop === undefined ? said : said.replace(/, found [\s\S]*$/, '');
  const { namespace, props = {} } = step;
  if (step.block !== undefined)
    return {
      steps: replaceStep(steps, at, withoutBlock(step, why)),
      finding: byHand(
        `it is a block of control flow that cannot be deployed: ${why}; build it here, with its steps, which are kept, disabled`,
        namespace,
      ),
    };
  if (prop !== undefined && Object.hasOwn(props, prop) && why.includes('the component has no such prop')) {
    const { [prop]: _unknown, ...known } = props;
    const { props: _before, ...rest } = step;
    const kept = Object.keys(known).length === 0 ? rest : { ...rest, props: known };
    return {
      steps: replaceStep(steps, at, [kept]),
      finding: checkIt(`its prop ${prop} was left out: ${why}`, namespace),
    };
  }
  if (prop !== undefined && Object.hasOwn(props, prop)) {
    const fitted = fitValue(props[prop], { expected: why, path });
    if (fitted !== undefined)
      return {
        steps: replaceStep(steps, at, [{ ...step, props: { ...props, [prop]: fitted } }]),
        finding: checkIt(`its prop ${prop}${path} was of another type, and was converted: ${why}`, namespace),
      };
  }
  const what = prop === undefined ? why : `${prop}: ${why}`;
  const { disabled } = step;
  const original = step.code ?? `It ran ${step.component ?? ''} with ${outlineOf(props)}`;
  return {
    steps: replaceStep(steps, at, [placeholderOf(step, what, original)]),
    // What does not run needs nothing before the workflow works.
    finding:
      disabled === true
        ? checkIt(`it is disabled, and cannot be deployed as it is: ${what}`, namespace)
        : byHand(`it cannot be deployed, and throws when it runs: ${what}`, namespace),
  };
}

/** A step that says what is missing, and the steps of the block, which do not run without it. */
function withoutBlock(block: StepInput, why: string): StepInput[] {
  const inner = stepListsOf(block, '').flatMap(({ steps }) => steps);
  const original = `It was the block ${outlineOf({ ...ownFields(block) })}`;
  return [placeholderOf(block, why, original), ...inner.map((step) => ({ ...step, disabled: true }))];
}

function placeholderOf({ namespace, disabled, note }: StepInput, why: string, original: string): StepInput {
  return {
    ...{ namespace, code: placeholderCode(why, original) },
    ...(disabled === undefined ? {} : { disabled }),
    ...(note === undefined ? {} : { note }),
  };
}

const placeholderMark = 'throw new Error("Not imported: ';

/** True for code that stands for a step that could not be imported. */
export function isPlaceholder(code: string): boolean {
  return code.includes(placeholderMark);
}
