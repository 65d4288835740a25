import { unreachable } from '#lib/assert.ts';
import { epochSeconds } from '#lib/clock.ts';

export const healthStates = ['healthy', 'failing', 'paused', 'disabled', 'waiting', 'untested'] as const;
export type HealthState = (typeof healthStates)[number];

/** What has health. */
export const healthKinds = ['source', 'workflow', 'webhook', 'account'] as const;
export type HealthKind = (typeof healthKinds)[number];

/** As the API answers it. */
export interface Health {
  state: HealthState;
  /** Epoch seconds. */
  since: number | null;
  /** Why, in one sentence; null when it is healthy. */
  reason: string | null;
  /** Failures since the last success, those of tests that could not be made among them. */
  failures: number;
  /** Runs or deliveries that wait and should not have to. */
  waiting: number;
}

/** What the store says about one object (health-store.ts). */
export interface HealthRow {
  id: string;
  state: HealthState;
  since_ms: number | null;
  /** The last recorded failure. */
  reason: string | null;
  /**
   * What says more of the object: why a webhook is disabled, what an account failed with, whether a source is deploying, what the runs
   * of a workflow wait for.
   */
  note: string | null;
  failures: number;
  waiting: number;
}

/** Counted up to here: more is "at least so many". */
export const waitingCountedMax = 1000;

export function viewHealth(kind: HealthKind, row: HealthRow): Health {
  return {
    state: row.state,
    since: row.since_ms === null ? null : epochSeconds(row.since_ms),
    reason: reasonOf(kind, row),
    failures: row.failures,
    waiting: row.waiting,
  };
}

/** Health of an object that was just created. */
export function newHealth(kind: HealthKind): Health {
  return { state: 'untested', since: null, reason: untested[kind], failures: 0, waiting: 0 };
}

function reasonOf(kind: HealthKind, row: HealthRow): string | null {
  switch (row.state) {
    case 'healthy':
      return null;
    case 'failing':
      return row.reason ?? row.note;
    case 'paused':
      return pausedReason(kind, row.waiting);
    case 'disabled':
      return disabledReason(row);
    case 'waiting':
      return waitingReason(kind, row);
    case 'untested':
      return untested[kind];
    default:
      return unreachable(row.state);
  }
}

const untested: Readonly<Record<HealthKind, string>> = {
  source: 'it has not run since its code and props are these',
  workflow: 'no run has ended since these steps were deployed',
  webhook: 'nothing was delivered to this URL yet',
  account: 'its credentials were not tested yet',
};

function pausedReason(kind: HealthKind, waiting: number): string {
  if (kind !== 'webhook') return 'it is inactive';
  return waiting === 0 ? 'deliveries are held' : `${things(waiting, 'delivery is', 'deliveries are')} held`;
}

function disabledReason({ note, reason }: HealthRow): string {
  if (note === 'receiver_gone') return 'the receiver answered 410 Gone';
  if (note === 'only_failures')
    return `all deliveries failed for 5 days${reason === null ? '' : `; the last one: ${reason}`}`;
  return note ?? 'the service disabled it';
}

function waitingReason(kind: HealthKind, { waiting, note, reason }: HealthRow): string {
  if (kind === 'source' && note === 'deploying') return 'it is being deployed';
  if (kind === 'account') return `its last test or refresh could not be made: ${reason ?? note}`;
  if (kind === 'webhook')
    return `${things(waiting, 'delivery waits', 'deliveries wait')} for another attempt`;
  return waitingRuns(waiting, note);
}

/** `kind`: what they wait for, as far as it is known. */
function waitingRuns(count: number, kind: string | null): string {
  switch (kind) {
    case 'suspend':
      return things(
        count,
        'run is suspended until its resume URL is called',
        'runs are suspended until their resume URLs are called',
      );
    case 'delay':
      return things(count, 'run is delayed by a step', 'runs are delayed by a step');
    case 'rerun':
      return `${things(count, 'run waits', 'runs wait')} for a step to run again`;
    case 'begin':
      return `${things(count, 'run waits', 'runs wait')} to begin`;
    case 'branches':
      return `${things(count, 'run waits', 'runs wait')} in branches: each for a time, or for a request to its resume URL`;
    case 'retry':
      return `${things(count, 'run waits', 'runs wait')} to be tried again`;
    case 'several':
      return `${things(count, 'run waits', 'runs wait')}: to begin, to be tried again, or as a step said`;
    default:
      return `${things(count, 'run waits', 'runs wait')} to begin or to be tried again`;
  }
}

function things(count: number, one: string, many: string): string {
  if (count === 1) return `1 ${one}`;
  return `${count >= waitingCountedMax ? 'at least ' : ''}${count} ${many}`;
}
