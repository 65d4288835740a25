import type { Run, RunDetail } from '#sdk';

export type RunStateName = Run['state'];
/** A step has one state that no run has. */
type StepStateName = RunDetail['steps'][number]['state'];

/** Name and tone of each state. */
const looks: Readonly<Record<RunStateName | StepStateName, { name: string; look: string }>> = {
  queued: { name: 'Queued', look: 'off' },
  running: { name: 'Running', look: 'busy' },
  waiting: { name: 'Waiting', look: 'busy' },
  succeeded: { name: 'Succeeded', look: 'good' },
  failed: { name: 'Failed', look: 'bad' },
  caught: { name: 'Failed, handled', look: 'off' },
  cancelled: { name: 'Cancelled', look: 'off' },
  quarantined: { name: 'In quarantine', look: 'bad' },
  not_triggered: { name: 'Not run', look: 'off' },
};

/** States of runs that a list can be filtered by. */
export const runStates = Object.keys(looks).filter((state) => state !== 'caught') as readonly RunStateName[];

export function stateName(state: RunStateName | StepStateName): string {
  return looks[state]?.name ?? state;
}

export function RunState({ state }: { state: RunStateName | StepStateName }) {
  return <span className={`state ${looks[state]?.look ?? 'off'}`}>{stateName(state)}</span>;
}

/** How long the run took, or has taken until now, waits included. Undefined: it has not started. */
export function tookMs(
  { started_at, ended_at }: { started_at: string | null; ended_at: string | null },
  nowMs: number,
): number | undefined {
  if (started_at === null) return undefined;
  return Math.max(0, (ended_at === null ? nowMs : Date.parse(ended_at)) - Date.parse(started_at));
}

const triggers: Readonly<Record<Run['source_type'], string>> = {
  HTTP: 'a request',
  TIMER: 'a timer',
  EMAIL: 'a mail',
  COMPONENT: 'an event of a source',
  WORKFLOW: 'another workflow',
  SDK: 'a user',
};

/** What started a run, in words. */
export function triggerName(sourceType: Run['source_type']): string {
  return triggers[sourceType] ?? sourceType;
}

/** How many sends of a run failed, which may have succeeded; nothing when none did. */
export function FailedSends({ count }: { count: number }) {
  if (count === 0) return null;
  return <span className="state bad">{count === 1 ? '1 send failed' : `${count} sends failed`}</span>;
}
