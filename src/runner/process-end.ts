import { unreachable } from '#lib/assert.ts';
import type { CallOutcome, CallStatus, UserCodeError } from './call-outcome.ts';

/** Why the service ended a process. Without one, the process ended by itself. */
export type EndReason =
  | 'retired'
  | 'forgotten'
  | 'closing'
  | 'deadline'
  | 'cancelled'
  | 'out_of_memory'
  | 'limit_exceeded'
  | 'protocol'
  /** It did not take a call up in time: because its own code kept it busy, or because the machine was. */
  | 'unresponsive'
  | 'overloaded'
  | 'boot_failed';

/** The process ended before it took the call up: nothing of it ran, so it may be given to another process. */
export const notStarted = Symbol('not started');
export type CallAnswer = CallOutcome | typeof notStarted;

/** What the end of a process means for the calls that were in it. */
export function statusOfEnd(reason: EndReason | undefined): CallStatus {
  switch (reason) {
    case 'out_of_memory':
    case 'limit_exceeded':
      return reason;
    case 'forgotten':
    case 'closing':
    case 'cancelled':
    case 'retired':
      return 'cancelled';
    case 'deadline':
    case 'protocol':
    case 'unresponsive':
    case 'overloaded':
    case 'boot_failed':
    case undefined:
      return 'exited';
    default:
      return unreachable(reason);
  }
}

/** An error that the service tells, not user code: no stack, a code to branch on. */
export function serviceError(message: string, code: string): UserCodeError {
  return { name: 'Error', message, stack: '', code };
}
