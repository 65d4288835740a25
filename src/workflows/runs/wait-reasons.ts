import { placesOfRuns } from '#flow-control/view-queue.ts';
import type { Db } from '#storage/store.ts';
import type { RunTable } from '#storage/tables/workflow-tables.ts';
import type { RunError } from './run-events.ts';
import { type CurrentStep, currentStepsOf, waitingBranchesOf } from './wait-reason-store.ts';

type WaitingRun = Pick<RunTable, 'id' | 'state' | 'wait_kind' | 'wait_until_ms'>;

/** Characters of an error in a reason; the record of the step has all of it. */
const errorCharactersMax = 300;

/** Why runs are queued or wait, in words, by their ids. Those without a reason run, have ended, or begin as soon as a worker is free. */
export async function waitReasonsOf(db: Db, runs: readonly WaitingRun[]): Promise<Map<string, string>> {
  const queued = runs.filter(({ state }) => state === 'queued');
  const waiting = runs.filter(({ state, wait_kind }) => state === 'waiting' && wait_kind !== null);
  const reasons = new Map<string, string>();
  for (const [id, { reason }] of await placesOfRuns(db, idsOf(queued))) reasons.set(id, reason);
  const steps = new Map<string, CurrentStep>();
  for (const step of await currentStepsOf(db, idsOf(waiting))) steps.set(step.run_id, step);
  const branches = await waitingBranchesOf(
    db,
    idsOf(waiting.filter(({ wait_kind }) => wait_kind === 'branches')),
  );
  for (const run of waiting)
    reasons.set(run.id, waitReason(run, steps.get(run.id), branches.get(run.id) ?? 0));
  return reasons;
}

function waitReason(
  { wait_kind: kind, wait_until_ms: untilMs }: WaitingRun,
  step: CurrentStep | undefined,
  branches: number,
): string {
  const until = new Date(untilMs ?? 0).toISOString();
  const name = step === undefined ? 'its step' : `step ${step.namespace}`;
  switch (kind) {
    case 'delay':
      return `${name} delays it until ${until}`;
    case 'suspend':
      return `${name} waits for a request to its resume or cancel URL, until ${until} at the latest`;
    case 'rerun':
      return `${name} runs again at ${until}, or when a request to its resume URL comes`;
    case 'retry':
      return `${name} failed${errorOf(step)}; it is tried again at ${until}`;
    case 'call':
      return `${name} waits for the end of the run that it called`;
    default:
      return `${branches} ${branches === 1 ? 'branch waits' : 'branches wait'}; the first one continues at ${until}`;
  }
}

function errorOf(step: CurrentStep | undefined): string {
  if (step?.error == null) return '';
  const { code, msg } = JSON.parse(step.error) as RunError;
  const text = msg === '' ? code : msg;
  const shown = text.length > errorCharactersMax ? `${text.slice(0, errorCharactersMax)}…` : text;
  return ` with ${JSON.stringify(shown)}`;
}

function idsOf(runs: readonly { id: string }[]): string[] {
  return runs.map(({ id }) => id);
}
