import type { CallStatus, HttpReply, UserCodeError } from './call-outcome.ts';
import type { CallRecord } from './call-record.ts';
import { type CallAnswer, type EndReason, notStarted, serviceError, statusOfEnd } from './process-end.ts';
import type { CallOptions } from './runner.ts';

/** A call, or the load of a bundle, that was sent to a process. */
export interface PendingCall {
  record: CallRecord;
  deploymentId: string;
  resolve: (answer: CallAnswer) => void;
  /** Time of the process's timer. */
  sentAtMs: number;
  deadlineMs: number;
  /** Cancels the deadline. */
  stopDeadline: () => void;
  /** Set when the process has to confirm with `started`: the number of watchdog ticks without that. Undefined otherwise. */
  unstartedTicks: number | undefined;
  /** Processor time of the process at the first tick. */
  unstartedCpuMs?: number | undefined;
  /** The outcome that the service decided (deadline, cancel). It is answered when the process has ended and its last frames are read. */
  decided?: { status: CallStatus; error: UserCodeError; shared?: boolean };
  /** True for the evaluation of a bundle. Whatever ends it is a load failure. */
  isLoad: boolean;
  isStep: boolean;
  onRespond: ((reply: HttpReply) => void) | undefined;
  onRefused: CallOptions['onRefused'];
  onHostCall: CallOptions['onHostCall'];
  onMoved: ((bytes: number) => void) | undefined;
  stopListening: (() => void) | undefined;
}

/** How a process ended. */
export interface ProcessEnd {
  /** Undefined when the process ended by itself. */
  reason: EndReason | undefined;
  detail: string;
  /** The call that caused the end. Undefined when that is not known, or when no call did. */
  culprit: PendingCall | undefined;
  /** True when code caused it that an ended call had left behind. */
  isStray: boolean;
  /** True when several calls, or code of several deployments, were in it. Each may be to blame. */
  shared: boolean;
  /** Time of the process's timer. */
  atMs: number;
}

/** Returns the answer to a call whose process has ended. */
export function answerAtEnd(pending: PendingCall, end: ProcessEnd): CallAnswer {
  const { record } = pending;
  const durationMs = end.atMs - pending.sentAtMs;
  if (pending.decided !== undefined) {
    const { status, error, shared } = pending.decided;
    const outcome = record.end(status, error, durationMs);
    if (shared === true) outcome.shared = true;
    return outcome;
  }
  let status = statusOfEnd(end.reason);
  const isCulpritUnknown = end.culprit === undefined && !end.isStray && end.shared && isBlame(status);
  // The bundle may not be to blame, so it is evaluated again in another process.
  if (pending.isLoad && isCulpritUnknown) return notStarted;
  const unstarted = pending.unstartedTicks !== undefined;
  if (unstarted && end.reason !== 'protocol' && (isBlame(status) || end.reason === 'cancelled'))
    return notStarted;
  if (status === 'exited' && pending.isLoad) status = 'load_failed';
  const ownDoing = !end.isStray && (end.culprit === undefined || end.culprit === pending);
  if (!ownDoing || end.reason === 'cancelled') {
    if (pending.isLoad) return notStarted;
    const error = serviceError('another call in the same process ended the process', 'bystander');
    return record.end('cancelled', error, durationMs);
  }
  const outcome = record.end(status, serviceError(end.detail, end.reason ?? 'exited'), durationMs);
  if (isCulpritUnknown) outcome.shared = true;
  return outcome;
}

/** True for a status that means that a call harmed its process. */
function isBlame(status: CallStatus): boolean {
  return status === 'exited' || status === 'out_of_memory' || status === 'limit_exceeded';
}
