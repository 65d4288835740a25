import type { Outcome } from '#health/outcome-store.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { RunState, SendKind, SendState } from '#storage/tables/workflow-tables.ts';
import type { SendOutcome } from './run-send.ts';

/** A send whose outcome is recorded in this transaction. */
export interface EndedSend {
  runId: string;
  number: number;
  outcome: SendOutcome;
  nowMs: number;
}

/** Locks the runs of sends that end, so that one of two that end at the same moment is the last one. After their jobs, as every change does. */
export async function lockRunsOf(
  store: Pick<Store, 'lockRows'>,
  tx: Tx,
  runIds: readonly string[],
): Promise<void> {
  if (runIds.length === 0) return;
  await store
    .lockRows(
      tx
        .selectFrom('runs')
        .select('id')
        .where('id', 'in', [...new Set(runIds)])
        .orderBy('id'),
    )
    .execute();
}

/**
 * What sends say about the health of their workflows, once they are recorded as ended: each failure is one of the workflow, and the last send of a
 * run that succeeded is the success of the run, if none of its sends failed. The end of a run with sends records no success, so that a
 * workflow whose every send fails is not healthy in between. Sends of deleted workflows say nothing.
 */
export async function outcomesOfSends(tx: Tx, ended: readonly EndedSend[]): Promise<Outcome[]> {
  if (ended.length === 0) return [];
  const rows = await tx
    .selectFrom('run_sends')
    .innerJoin('workflows', 'workflows.id', 'run_sends.workflow_id')
    .leftJoin('runs', 'runs.id', 'run_sends.run_id')
    .select([
      'run_sends.run_id',
      'run_sends.number',
      'run_sends.kind',
      'run_sends.state',
      'run_sends.workflow_id',
      'run_sends.owner_id',
      'runs.state as run_state',
      'runs.deployment_id',
    ])
    .where('run_sends.run_id', 'in', [...new Set(ended.map(({ runId }) => runId))])
    .execute();
  const ofRun = Map.groupBy(rows, ({ run_id }) => run_id);
  return ended.flatMap(({ runId, number, outcome, nowMs }): Outcome[] => {
    const sends = ofRun.get(runId) ?? [];
    const send = sends.find((one) => one.number === number);
    if (send === undefined) return [];
    const failure = outcome.state === 'failed' ? failureOf(send.kind, outcome) : null;
    if (failure === null && !isWholeSuccess(send.run_state, sends)) return [];
    return [
      {
        subjectId: send.workflow_id,
        ownerId: send.owner_id,
        failure,
        atMs: nowMs,
        ...(send.deployment_id === null ? {} : { version: send.deployment_id }),
      },
    ];
  });
}

/** Runs of which nothing is kept have recorded their success when they ended. */
function isWholeSuccess(state: RunState | null, sends: readonly { state: SendState }[]): boolean {
  return state === 'succeeded' && sends.every((send) => send.state === 'sent');
}

function failureOf(kind: SendKind, { result }: SendOutcome): string {
  const reason = result.error ?? (result.status === undefined ? 'failed' : `answered ${result.status}`);
  return `a run ended, but what it sends failed: ${kind}: ${reason}`;
}
