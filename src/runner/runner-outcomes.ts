import type { CallOutcome, CallStatus, UserCodeError } from './call-outcome.ts';
import { type CallAnswer, notStarted, serviceError } from './process-end.ts';
import type { DescribeOutcome } from './runner.ts';

/** An outcome of a call that reached no process. */
export function ended(status: CallStatus, error: UserCodeError): CallOutcome {
  return { status, error, emits: [], dbSets: {}, logs: [], logsDropped: 0, durationMs: 0 };
}

/** Several calls may have waited for the same failed load; none may see what another does with its outcome. */
export function copyOutcome(outcome: CallOutcome): CallOutcome {
  return { ...outcome, emits: [], dbSets: {}, logs: [...outcome.logs] };
}

/** The answer to `describe`, read from the outcome of its call. */
export function asDescription(answer: CallAnswer): DescribeOutcome {
  if (answer === notStarted) {
    return {
      status: 'cancelled',
      error: serviceError('the process ended before it took the call up', 'exited'),
      logs: [],
    };
  }
  if (answer.status === 'finished')
    return { status: 'described', shape: answer.result ?? '{}', logs: answer.logs };
  return { status: answer.status, error: answer.error ?? serviceError('', 'unknown'), logs: answer.logs };
}

/** Nothing is known of a call because of what others did, or may have done, in its process. */
export function wasTakenDown(outcome: CallOutcome): boolean {
  return outcome.shared === true || (outcome.status === 'cancelled' && outcome.error?.code === 'bystander');
}

/** A call that ended as its process did, and whose doing that was. */
export function isOwnDoing({ status, shared }: CallOutcome): boolean {
  return shared !== true && status !== 'finished' && status !== 'threw' && status !== 'cancelled';
}
