import { CallerError, UnavailableError } from '#lib/errors.ts';
import type { CallOutcome } from '#runner/call-outcome.ts';

/**
 * The error for the caller when a hook (or additionalProps) did not finish: `hook_failed` with its error and last lines
 * when the code is at fault, UnavailableError `overloaded` when the service could not run it to its end.
 */
export function hookError(
  hook: string,
  outcome: CallOutcome,
  redact: (text: string) => string,
): CallerError | UnavailableError {
  if (outcome.status === 'cancelled')
    return new UnavailableError(
      'overloaded',
      `${hook}: ${outcome.error?.message ?? 'the call was cancelled'}`,
    );
  const name = redact(outcome.error?.name ?? outcome.status);
  const message = redact(outcome.error?.message ?? outcome.status);
  return new CallerError('hook_failed', `${hook}: ${name}: ${message}`, {
    hook,
    reason: outcome.status,
    error: { name, message, stack: redact(outcome.error?.stack ?? '') },
    logs: outcome.logs.slice(-20).map((line) => ({ ...line, message: redact(line.message) })),
  });
}
