import type { CallStatus, HttpReply, UserCodeError } from './call-outcome.ts';
import type { CallRecord } from './call-record.ts';
import { type CallAnswer, type EndReason, notStarted, serviceError, statusOfEnd } from './process-end.ts';
import type { CallOptions } from './runner.ts';

/** A call, or the load of a bundle, that a process has been given. */
export interface PendingCall {
  record: CallRecord;
  deploymentId: string;
  resolve: (answer: CallAnswer) => void;
  /** By the timer of its process. */
  sentAtMs: number;
  deadlineMs: number;
  /** Takes the deadline away. */
  stopDeadline: () => void;
  /** Asked to say `started`, and has not yet; counts watch ticks since. */
  unstartedTicks: number | undefined;
  /** Processor time of the process at the first of them. */
  unstartedCpuMs?: number | undefined;
  /** Decided by the service (deadline, cancel); told once the process is gone and its last frames are read. */
  decided?: { status: CallStatus; error: UserCodeError; shared?: boolean };
  /** Evaluating the bundle: whatever ends it is a load failure. */
  isLoad: boolean;
  isStep: boolean;
  onRespond: ((reply: HttpReply) => void) | undefined;
  onRefused: CallOptions['onRefused'];
  onHostCall: CallOptions['onHostCall'];
  stopListening: (() => void) | undefined;
}

/** How a process ended. */
export interface ProcessEnd {
  /** Undefined: by itself. */
  reason: EndReason | undefined;
  detail: string;
  /** Whose doing it was; undefined: of one of those in it, or of none. */
  culprit: PendingCall | undefined;
  /** It was the doing of code that an ended call left behind. */
  isStray: boolean;
  /** Several calls were in it, or code of several deployments: each may be to blame. */
  shared: boolean;
  /** When, by its timer. */
  atMs: number;
}

/** What the end of its process means for a call. */
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
  const nobodyKnown = end.culprit === undefined && !end.isStray && end.shared && isBlame(status);
  // Code whose evaluation may be innocent is evaluated again, elsewhere.
  if (pending.isLoad && nobodyKnown) return notStarted;
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
  if (nobodyKnown) outcome.shared = true;
  return outcome;
}

/** Statuses that say that a call did something to its process. */
function isBlame(status: CallStatus): boolean {
  return status === 'exited' || status === 'out_of_memory' || status === 'limit_exceeded';
}
