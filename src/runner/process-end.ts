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
  /** It did not begin a call in time, because its own code kept it busy. `overloaded`: because the machine was busy. */
  | 'unresponsive'
  | 'overloaded'
  | 'boot_failed';

/** The process ended before it began the call. Nothing of the call ran, so another process may run it. */
export const notStarted = Symbol('not started');
export type CallAnswer = CallOutcome | typeof notStarted;

/** Status of the calls that were in a process when it ended. */
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

/** An error of the service, not of user code: without a stack, with a code to branch on. */
export function serviceError(message: string, code: string): UserCodeError {
  return { name: 'Error', message, stack: '', code };
}
