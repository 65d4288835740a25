import type { EmitStore } from '#events/emit-event.ts';
import { parkJobQuery } from '#jobs/run-job-store.ts';
import type { Tx } from '#storage/store.ts';
import type { RunStepTable } from '#storage/tables/workflow-tables.ts';
import { clearResumeQuery, deleteResumeQuery, waitingResumesOf } from './resume-request-store.ts';
import type { RunResumption } from './run.ts';
import type { RunRecord } from './run-record.ts';
import { updateRunQuery } from './run-store.ts';
import { answerWaitQuery, firstWaitOf } from './run-wait-store.ts';

/**
 * When the first branch of each run that is parked now continues, epoch ms. It is read with the job locked: an answer to a wait that
 * came until now is in it.
 */
export async function firstWaits(
  tx: Tx,
  records: readonly RunRecord[],
  nowMs: number,
): Promise<Map<string, number>> {
  const parked = new Map<string, number>();
  for (const { run, next } of records)
    if (next.kind === 'wait' && next.waitKind === 'branches')
      parked.set(run.id, (await firstWaitOf(tx, run.id)) ?? nowMs);
  return parked;
}

/**
 * Waits whose resume or cancel request came before them are over at once. A step that failed and is tried again does not wait for an
 * answer: it can be cancelled only. After the rows of the runs are locked.
 */
export async function wakeAnswered(
  store: EmitStore,
  tx: Tx,
  records: readonly RunRecord[],
  nowMs: number,
): Promise<Set<RunRecord>> {
  const waits = new Map(
    records.flatMap((record) => {
      const { run, step, next } = record;
      if (step === undefined || (next.kind !== 'wait' && next.kind !== 'branch-wait')) return [];
      return [[waitKey({ ...step, run_id: run.id }), record] as const];
    }),
  );
  const woken = new Set<RunRecord>();
  if (waits.size === 0) return woken;
  const runIds = new Set([...waits.values()].map(({ run }) => run.id));
  for (const resume of await waitingResumesOf(tx, [...runIds])) {
    const { run_id, kind, request } = resume;
    const record = waits.get(waitKey(resume));
    if (record === undefined) continue;
    const { next } = record;
    const isRetry =
      next.kind === 'wait'
        ? next.waitKind === 'retry'
        : next.kind === 'branch-wait' && next.wait.kind === 'retry';
    // The resumption of a step that then failed does not count: the link stays valid for the wait until the next try.
    if (isRetry && kind === 'resume') {
      await store.defer(tx, deleteResumeQuery(tx, run_id, resume));
      continue;
    }
    await store.defer(tx, clearResumeQuery(tx, run_id, resume));
    const answer =
      kind === 'cancel' ? { cancelled: true } : { request: JSON.parse(request ?? 'null') as unknown };
    if (next.kind === 'branch-wait') {
      const before = next.wait.resumption === null ? {} : (JSON.parse(next.wait.resumption) as RunResumption);
      const resumption = JSON.stringify({ ...before, ...answer });
      await store.defer(tx, answerWaitQuery(tx, next.wait, { resumption, nowMs }));
    } else if (next.kind === 'wait') {
      const resumption = JSON.stringify({ ...next.resumption, ...answer });
      await store.defer(tx, updateRunQuery(tx, run_id, { resumption }));
      await store.defer(tx, parkJobQuery(tx, { id: run_id, runAtMs: nowMs, nowMs }));
    }
    woken.add(record);
  }
  return woken;
}

/** Names a try of a step that waits. */
function waitKey(wait: Pick<RunStepTable, 'run_id' | 'position' | 'iteration' | 'try'>): string {
  return `${wait.run_id} ${wait.position} ${wait.iteration} ${wait.try}`;
}
