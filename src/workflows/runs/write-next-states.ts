import type { EmitStore } from '#events/emit-event.ts';
import { parkJobQuery } from '#jobs/run-job-store.ts';
import type { Tx } from '#storage/store.ts';
import { forgetRuns } from './forget-run-store.ts';
import type { RunRecord } from './run-record.ts';
import { dropSends, markEmitted } from './run-send-store.ts';
import { updateBegunRunsQuery, updateRunQuery } from './run-store.ts';
import { deleteWaitQuery, deleteWaitsInQuery, putWaitQuery } from './run-wait-store.ts';

/** Writes what the runs of a batch do next: each continues, waits, or has ended. `parkedUntil`: see `firstWaits`. */
export async function writeNextStates(
  store: EmitStore,
  tx: Tx,
  records: readonly RunRecord[],
  parkedUntil: ReadonlyMap<string, number>,
  nowMs: number,
): Promise<void> {
  const gone: string[] = [];
  const plainlyEnded: string[] = [];
  for (const { run, next, unpersisted } of records) {
    if (next.kind !== 'end' && next.over !== undefined)
      await store.defer(tx, deleteWaitsInQuery(tx, { runId: run.id, ...next.over }));
    if (next.kind === 'end') {
      if (run.no_store === 1) {
        if (unpersisted === undefined) gone.push(run.id);
      } else if (unpersisted === undefined) {
        const { state, position, error, reason } = next;
        // Nearly all runs: one statement for those of a batch.
        if (state === 'succeeded' && reason === null) plainlyEnded.push(run.id);
        else {
          const set = { state, position, error, reason, ended_at_ms: nowMs };
          await store.defer(tx, updateBegunRunsQuery(tx, [run.id], { ...set, ...cleared }, nowMs));
          if (state === 'cancelled') await dropSends(tx, run.id, nowMs);
        }
      }
    } else if (next.kind === 'go-on' || next.kind === 'branch-wait') {
      if (next.clears) await store.defer(tx, updateRunQuery(tx, run.id, { ...cleared, failures: 0 }));
      if (next.kind === 'branch-wait') await store.defer(tx, putWaitQuery(tx, next.wait));
      else if (next.answered !== undefined)
        await store.defer(tx, deleteWaitQuery(tx, { run_id: run.id, ...next.answered }));
    } else {
      const { waitKind, position, failures, resumption } = next;
      const untilMs = parkedUntil.get(run.id) ?? next.untilMs;
      await store.defer(
        tx,
        updateBegunRunsQuery(
          tx,
          [run.id],
          {
            state: 'waiting',
            wait_kind: waitKind,
            wait_until_ms: untilMs,
            position,
            failures,
            resumption: resumption === null ? null : JSON.stringify(resumption),
          },
          nowMs,
        ),
      );
      await store.defer(tx, parkJobQuery(tx, { id: run.id, runAtMs: untilMs, nowMs }));
    }
  }
  if (plainlyEnded.length > 0)
    await store.defer(
      tx,
      updateBegunRunsQuery(tx, plainlyEnded, { state: 'succeeded', ended_at_ms: nowMs, ...cleared }, nowMs),
    );
  const emitting = records.filter(({ run, next }) => next.kind === 'end' && next.emits && run.no_store === 0);
  if (emitting.length > 0)
    await markEmitted(
      tx,
      emitting.map(({ run }) => run.id),
      nowMs,
    );
  if (gone.length > 0) await forgetRuns(tx, gone);
}

const cleared = { wait_kind: null, wait_until_ms: null, resumption: null };
