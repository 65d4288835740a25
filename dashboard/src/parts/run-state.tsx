/** Words of the API for runs and their steps, and how each is shown. */
const looks: Readonly<Record<string, { name: string; look: string }>> = {
  queued: { name: 'Queued', look: 'off' },
  running: { name: 'Running', look: 'busy' },
  waiting: { name: 'Waiting', look: 'busy' },
  succeeded: { name: 'Succeeded', look: 'good' },
  failed: { name: 'Failed', look: 'bad' },
  cancelled: { name: 'Cancelled', look: 'off' },
  quarantined: { name: 'In quarantine', look: 'bad' },
  not_triggered: { name: 'Not run', look: 'off' },
};

/** States of runs that a list can be narrowed to. */
export const runStates = Object.keys(looks);

export function stateName(state: string): string {
  return looks[state]?.name ?? state;
}

export function RunState({ state }: { state: string }) {
  return <span className={`state ${looks[state]?.look ?? 'off'}`}>{stateName(state)}</span>;
}

/** How long it took, or takes until now; undefined: it has not begun. Waits count. */
export function tookMs(
  { started_at, ended_at }: { started_at: string | null; ended_at: string | null },
  nowMs: number,
): number | undefined {
  if (started_at === null) return undefined;
  return Math.max(0, (ended_at === null ? nowMs : Date.parse(ended_at)) - Date.parse(started_at));
}

const triggers: Readonly<Record<string, string>> = {
  HTTP: 'a request',
  TIMER: 'a timer',
  EMAIL: 'a mail',
  COMPONENT: 'an event of a source',
  WORKFLOW: 'another workflow',
  SDK: 'a person',
};

/** What started a run, in words. */
export function triggerName(sourceType: string): string {
  return triggers[sourceType] ?? sourceType;
}
