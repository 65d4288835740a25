import type { StepHeader } from '#runner/protocol.ts';
import type { CallEffects } from './call-effects.ts';
import { syncIn } from './file-prop.ts';
import type { HostCallFunction } from './host-calls.ts';
import { jsonParse } from './primordials.ts';
import type { ResolvedProp } from './prop-definitions.ts';
import { makeStepContext } from './step-context.ts';
import type { StepProps } from './step-props.ts';
import { StepReply } from './step-reply.ts';
import { type DbSnapshot, makeUserContext } from './user-context.ts';

type Loose = Record<string, unknown>;

/**
 * Runs one step to its end: evaluates its props, calls `run({ steps, $ })`, keeps the returned value. Rejects with the error of its code or of an
 * expression. The effects before that are in `effects`.
 */
export async function runStep(options: {
  component: Loose;
  props: readonly [string, ResolvedProp][];
  stepProps: StepProps;
  values: Loose;
  header: StepHeader;
  stepsText: string;
  /** `$.context` */
  context: Loose;
  db: DbSnapshot;
  effects: CallEffects;
  hostCall: HostCallFunction;
  replyBytesMax: number;
}): Promise<void> {
  const { component, props, stepProps, values, header, context, db, effects, hostCall } = options;
  const { resumeUrl, cancelUrl, deadlineMs, byItself = false } = header;
  const work = effects.startStep(header.scratch, context);
  const steps = jsonParse(options.stepsText) as Loose;
  // Without a workflow there is nothing that expressions could name, and a text that looks like one may come from another user.
  if (!byItself)
    stepProps.evaluate(values, { steps, event: (steps.trigger as Loose | undefined)?.event }, (message) =>
      effects.logLine('warn', message),
    );
  work.input = stepProps.input(values);
  const instance = makeUserContext({ component, props, values, db, effects, hostCall });
  const reply = new StepReply(effects, options.replyBytesMax);
  const $ = makeStepContext({
    ...{ effects, work, reply, hostCall, context, deadlineMs, resumeUrl, cancelUrl, byItself },
  });
  const { run } = component;
  if (typeof run !== 'function') throw new TypeError('the component of this step has no run');
  const syncOut = await syncIn(props, values, hostCall);
  const returned: unknown = await run.call(instance, { steps, $ });
  const { settled } = reply;
  if (settled !== undefined) await settled;
  await syncOut();
  work.return(returned);
  effects.finishWithText(undefined);
}
