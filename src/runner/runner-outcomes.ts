import type { CallOutcome, CallStatus, UserCodeError } from './call-outcome.ts';
import { type CallAnswer, notStarted, serviceError } from './process-end.ts';
import type { DescribeOutcome } from './runner.ts';

/** The outcome of a call that reached no process. */
export function ended(status: CallStatus, error: UserCodeError): CallOutcome {
  return { status, error, emits: [], dbSets: {}, logs: [], logsDropped: 0, durationMs: 0 };
}

/** Copies an outcome. Several calls may wait for the same failed load, and none may see changes by another. */
export function copyOutcome(outcome: CallOutcome): CallOutcome {
  return { ...outcome, emits: [], dbSets: {}, logs: [...outcome.logs] };
}

/** The result of `describe`, read from the outcome of its call. */
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

/** True when a call has no result of its own because other calls ended its process, or may have. */
export function wasTakenDown(outcome: CallOutcome): boolean {
  return outcome.shared === true || (outcome.status === 'cancelled' && outcome.error?.code === 'bystander');
}

/** True when a call ended with its process, and caused that. */
export function isOwnDoing({ status, shared }: CallOutcome): boolean {
  return shared !== true && status !== 'finished' && status !== 'threw' && status !== 'cancelled';
}
