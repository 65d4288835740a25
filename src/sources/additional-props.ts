import type { PropDefinition } from '#components/component-shape.ts';
import { CallerError } from '#lib/errors.ts';
import { countText } from '#lib/units.ts';
import type { CallOutcome } from '#runner/call-outcome.ts';
import type { UserCall } from '#runner/runner.ts';
import { hookError } from './hook-error.ts';

/** A user waits for the answer of a component about its props, while they create or change something. */
export const askDeadlineMsMax = 30_000;

/** Twenty thousand took a second of the loop that serves everyone. The largest objects of services have some hundreds of fields. */
const additionalPropsMax = 2_000;

/**
 * Asks a component which props it wants in addition to its static ones, or instead of them, in a process that ends with it.
 * Returns JSON of definitions by name: those it returned, and the static ones it changed in place. Throws as `hookError`
 * says when it does not finish.
 */
export async function askAdditionalProps(
  configurableProps: readonly PropDefinition[],
  code: {
    call: (call: UserCall) => Promise<CallOutcome>;
    /** Ends its process. */
    forget: () => Promise<void>;
    redact: (text: string) => string;
  },
): Promise<string> {
  const previous = definitionsByName(configurableProps);
  const outcome = await code.call({ kind: 'additionalProps', previous }).finally(() => code.forget());
  if (outcome.status !== 'finished' || outcome.result === undefined)
    throw hookError('additionalProps', outcome, code.redact);
  return readAdditionalProps(outcome.result, previous);
}

export function definitionsByName(definitions: readonly PropDefinition[]): Record<string, PropDefinition> {
  return Object.fromEntries(definitions.map((definition) => [definition.name, definition]));
}

/**
 * From the result of a call of kind `additionalProps` that was given `previous`; answers what `askAdditionalProps` does. Throws CallerError
 * `invalid_component` for too many.
 */
export function readAdditionalProps(
  result: string,
  previous: Readonly<Record<string, PropDefinition>>,
): string {
  const { props, previous: changed } = JSON.parse(result) as Record<
    'props' | 'previous',
    Record<string, PropDefinition>
  >;
  const count = Object.keys(props).length;
  if (count > additionalPropsMax)
    throw new CallerError(
      'invalid_component',
      `additionalProps: found ${countText(count)} props, expected at most ${countText(additionalPropsMax)}`,
      { parameter: 'additionalProps' },
    );
  const inPlace = Object.entries(changed).filter(
    ([name, definition]) => JSON.stringify(definition) !== JSON.stringify(previous[name]),
  );
  return JSON.stringify({ ...Object.fromEntries(inPlace), ...props });
}

/**
 * Throws what stopped `additionalProps`: when the code failed on a value that does not fit the definition it has, or that
 * is missing (`problem`), that is what the caller can fix.
 */
export function throwCause(error: unknown, problem: CallerError | undefined): never {
  throw error instanceof CallerError && error.code === 'hook_failed' ? (problem ?? error) : error;
}
