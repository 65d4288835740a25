import type { AttemptRecord } from '#delivery/delivery.ts';
import { unreachable } from '#lib/assert.ts';
import type { DeliveryReason, DeliveryState } from '#storage/tables/delivery-tables.ts';
import type { JobTable } from '#storage/tables/job-tables.ts';
import type { RunTable } from '#storage/tables/workflow-tables.ts';

const secondMs = 1000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;

/** Waits between attempts: eight attempts within about 35 hours, with jitter. */
const retryDelaysMs = [
  5 * secondMs,
  5 * minuteMs,
  30 * minuteMs,
  2 * hourMs,
  5 * hourMs,
  10 * hourMs,
  14 * hourMs,
] as const;

/** Attempts of one delivery at most, until a user has it delivered again. */
export const attemptsMax = retryDelaysMs.length + 1;

/** Each wait is longer by up to this part of it, so that deliveries that failed together do not come back together. */
const jitter = 0.2;
/** What a receiver may ask for at most. */
const retryAfterMaxMs = 24 * hourMs;

/** Work in this service that a delivery turns into: its rows are written in the transaction that calls it delivered. */
export interface Handover {
  job: JobTable;
  /** The run of the listening workflow that the job is for. */
  run?: RunTable;
  /** The rows are on disk. */
  stored(): void;
  /** They are not, and will not be: the delivery was cancelled, or taken over, meanwhile. */
  refused?(): void;
}

/** What one attempt came to. */
export type AttemptOutcome =
  /** The listener took it. */
  | { kind: 'delivered'; attempt: AttemptRecord; handover?: Handover }
  /** The listener did not take it, and may later. `retryAfterMs`: the delay that it asked for. */
  | { kind: 'failed'; attempt: AttemptRecord; retryAfterMs?: number }
  /** It says that it is gone for good. */
  | { kind: 'gone'; attempt: AttemptRecord }
  /** Nothing was sent: it is over, or held, for a reason that is not the receiver's. */
  | { kind: 'not-sent'; state: DeliveryState; reason: DeliveryReason }
  /** Nothing was sent, and the receiver is not to blame: the attempt is made later. */
  | { kind: 'postponed'; delayMs: number; reason?: DeliveryReason };

/** What follows from an outcome. */
export interface NextStep {
  state: DeliveryState;
  reason: DeliveryReason | null;
  attempts: number;
  /** When queued: from when on. */
  runAtMs: number;
  endedAtMs: number | null;
}

/** Pure: the state of a delivery after its attempt number `attempts` + 1. */
export function nextStep(
  outcome: AttemptOutcome,
  { attempts, nowMs, random }: { attempts: number; nowMs: number; random: () => number },
): NextStep {
  const ended = (state: DeliveryState, reason: DeliveryReason | null, made: number): NextStep => ({
    state,
    reason,
    attempts: made,
    runAtMs: nowMs,
    endedAtMs: nowMs,
  });
  switch (outcome.kind) {
    case 'delivered':
      return ended('delivered', null, attempts + 1);
    case 'gone':
      return ended('failed', 'receiver_gone', attempts + 1);
    case 'failed': {
      const delayMs = retryDelaysMs[attempts];
      if (delayMs === undefined) return ended('failed', 'attempts_exhausted', attempts + 1);
      const scheduledMs = Math.round(delayMs * (1 + random() * jitter));
      const askedMs = Math.min(outcome.retryAfterMs ?? 0, retryAfterMaxMs);
      return queuedAgain(attempts + 1, nowMs + Math.max(scheduledMs, askedMs));
    }
    case 'postponed':
      return queuedAgain(attempts, nowMs + outcome.delayMs, outcome.reason);
    case 'not-sent': {
      const { state, reason } = outcome;
      if (state === 'held') return { state, reason, attempts, runAtMs: nowMs, endedAtMs: null };
      return ended(state, reason, attempts);
    }
    default:
      return unreachable(outcome);
  }
}

function queuedAgain(attempts: number, runAtMs: number, reason: DeliveryReason | null = null): NextStep {
  return { state: 'queued', reason, attempts, runAtMs, endedAtMs: null };
}

/** The wait that a `Retry-After` field asks for (RFC 9110, section 10.2.3): seconds, or a date. */
export function retryAfterMs(field: string | undefined, nowMs: number): number | undefined {
  if (field === undefined) return undefined;
  const text = field.trim();
  if (/^\d{1,9}$/.test(text)) return Number(text) * secondMs;
  const dateMs = Date.parse(text);
  return Number.isNaN(dateMs) ? undefined : Math.max(0, dateMs - nowMs);
}
