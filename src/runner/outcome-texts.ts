import type { CallOutcome } from './call-outcome.ts';

/** Every text that user code caused, apart from a returned value and keys of `db`: what is searched for secrets before it is stored or shown. */
export function textsOfOutcome({ emits, logs, error, step }: CallOutcome): string[] {
  const texts: (string | null | undefined)[] = [];
  for (const { name, event, id, summary } of emits) texts.push(name, event, id, summary);
  for (const { message } of logs) texts.push(message);
  if (error !== undefined)
    texts.push(error.name, error.message, `${error.name}: ${error.message}`, error.stack);
  if (step !== undefined) {
    texts.push(step.exports, step.input);
    for (const { payload } of step.sends) texts.push(payload);
    if (step.flow?.kind === 'rerun') texts.push(step.flow.context);
    if (step.flow?.kind === 'exit') texts.push(step.flow.reason);
  }
  return texts.filter((text) => typeof text === 'string');
}
