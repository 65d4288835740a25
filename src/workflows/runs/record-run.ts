import {
  appendEvents,
  type EmitStore,
  type EventAllowance,
  type EventRouter,
  emittedCount,
  lockEmittersOf,
  prefetchSubscribers,
} from '#events/emit-event.ts';
import type { Outcome, OutcomeRecorder } from '#health/outcome-store.ts';
import { insertNewJobs, settleJobsQuery } from '#jobs/job-store.ts';
import { heldJobsQuery, resetAttemptsQuery } from '#jobs/run-job-store.ts';
import type { Clock } from '#lib/clock.ts';
import { addUsage } from '#metering/usage-store.ts';
import { ensureComponentDbs, mergeComponentDbs } from '#sources/source-store.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { RunTable } from '#storage/tables/workflow-tables.ts';
import { refuseGone } from './refuse-gone.ts';
import { runFailure } from './run-failure.ts';
import type { NextState, RecordResult, RunRecord } from './run-record.ts';
import { insertSends } from './run-send-store.ts';
import { insertSteps } from './run-step-store.ts';
import { insertRuns } from './run-store.ts';
import { firstWaits, wakeAnswered } from './wake-answered.ts';
import { writeNextStates } from './write-next-states.ts';

/**
 * Promise 4: each finished step is recorded, with everything it caused, before the next one starts; and only by who
 * holds the run's job, so that two workers never advance one run. Changes of many runs that arrive together are one commit.
 */
export function recordRuns(options: {
  store: EmitStore & Pick<Store, 'ask' | 'notify'>;
  node: string;
  router: EventRouter;
  clock: Clock;
  outcomes: OutcomeRecorder;
  allowance?: EventAllowance;
  /** True when other nodes were there a moment ago. */
  hasOthers: () => boolean;
}): BatchWrite<RunRecord, RecordResult> {
  const { store, node, router, clock, outcomes, hasOthers, allowance } = options;
  return {
    name: 'record-runs',
    endsWork: true,
    ownerOf: ({ run }) => run.owner_id,
    bytes: recordBytes,
    async run(tx, records) {
      const nowMs = clock.now();
      if (hasOthers())
        await refuseGone(
          tx,
          records.flatMap(({ unpersisted }) =>
            unpersisted === undefined ? [] : [unpersisted.run.workflow_id],
          ),
        );
      const fenced = records.filter((record) => record.unpersisted === undefined);
      const ending = fenced.filter((record) => record.next.kind === 'end');
      const going = fenced.filter((record) => record.next.kind !== 'end');
      const emissions = records.flatMap(({ next }) => (next.kind === 'end' ? next.emissions : []));
      const prefetch = prefetchSubscribers(router, emissions);
      const { settled, holding, emitters, subscribers } = await store.ask(tx, {
        settled:
          ending.length === 0
            ? undefined
            : settleJobsQuery(store, tx, { node, jobs: ending.map(({ job }) => job) }),
        holding:
          going.length === 0
            ? undefined
            : heldJobsQuery(store, tx, { node, ids: going.map(({ job }) => job.id) }),
        emitters: emissions.length === 0 ? undefined : lockEmittersOf(store, tx, emissions),
        subscribers: prefetch?.query,
      });
      const prefetched = prefetch && { prefetch, rows: subscribers };
      const settledIds = new Set(settled.map(({ id }) => id));
      const heldAttempts = new Map(holding.map(({ id, attempts }) => [id, attempts]));
      const isHeld = ({ job, next, unpersisted }: RunRecord) =>
        unpersisted !== undefined ||
        (next.kind === 'end' ? settledIds.has(job.id) : heldAttempts.get(job.id) === job.attempts);
      const held = records.filter(isHeld);
      const parkedUntil = await firstWaits(tx, held, nowMs);
      await writeRows(store, tx, held, parkedUntil, nowMs);
      const heldEmissions = held.flatMap(({ next }) => (next.kind === 'end' ? next.emissions : []));
      const emitted = await appendEvents(store, tx, {
        emissions: heldEmissions,
        emitters,
        router,
        prefetched,
        allowance,
        nowMs,
      });
      const resultOf = new Map(heldEmissions.map((emission, index) => [emission, emitted[index]]));
      const resultsOf = ({ next }: RunRecord) =>
        (next.kind === 'end' ? next.emissions : []).flatMap((emission) => {
          const result = resultOf.get(emission);
          return result?.accepted === true ? [result] : [];
        });
      await outcomes.record(
        tx,
        held.flatMap((record) => {
          const excess = resultsOf(record).find(({ overLimit }) => overLimit !== undefined);
          return outcomeOf(record, excess?.overLimit, nowMs);
        }),
      );
      await addUsage(
        store,
        tx,
        held.flatMap((record) =>
          record.usage === undefined
            ? []
            : [{ ...record.usage, events: emittedCount(resultsOf(record).flatMap(({ stored }) => stored)) }],
        ),
      );
      const woken = await wakeAnswered(store, tx, held, nowMs);
      const heldSet = new Set(held);
      return records.map((record): RecordResult => {
        if (!heldSet.has(record)) return { held: false };
        const stored = resultsOf(record).flatMap((result) => result.stored);
        const untilMs = parkedUntil.get(record.run.id);
        const result = { held: true, stored, woken: woken.has(record) } as const;
        return untilMs === undefined ? result : { ...result, untilMs };
      });
    },
  };
}

/** How a run ended, for the health of its workflow. A run that was cancelled says nothing. */
function outcomeOf({ run, next }: RunRecord, overLimit: string | undefined, atMs: number): Outcome[] {
  if (next.kind !== 'end') return [];
  const ended = runFailure(next);
  if (ended === undefined) return [];
  const failure = ended ?? overLimit ?? null;
  // It succeeds when what it sends has been sent (`sends/send-health-store.ts`).
  if (failure === null && next.jobs.length > 0 && run.no_store === 0) return [];
  return [{ subjectId: run.workflow_id, ownerId: run.owner_id, atMs, failure, version: run.deployment_id }];
}

function recordBytes({ unpersisted, step, next, sends = [] }: RunRecord): number {
  let bytes = (unpersisted?.run.event.length ?? 0) + (step?.exports.length ?? 0) + (step?.input?.length ?? 0);
  bytes += step?.logs.length ?? 0;
  for (const { payload } of sends) bytes += payload.length;
  if (next.kind === 'end')
    for (const { events } of next.emissions) for (const { event } of events) bytes += event.length;
  return bytes;
}

async function writeRows(
  store: EmitStore & Pick<Store, 'notify'>,
  tx: Tx,
  records: readonly RunRecord[],
  parkedUntil: ReadonlyMap<string, number>,
  nowMs: number,
): Promise<void> {
  const isKept = (record: RunRecord) => record.run.no_store === 0 || record.next.kind !== 'end';
  const unpersisted = records.filter(({ unpersisted: rows }) => rows !== undefined);
  await insertRuns(
    store,
    tx,
    unpersisted
      .filter(isKept)
      .flatMap(({ unpersisted: rows, next }) => (rows === undefined ? [] : [withEnd(rows.run, next, nowMs)])),
  );
  await insertNewJobs(
    store,
    tx,
    unpersisted.flatMap(({ unpersisted: rows, next }) =>
      rows === undefined || next.kind === 'end' ? [] : [rows.job],
    ),
  );
  await insertSteps(
    store,
    tx,
    records.filter(isKept).flatMap(({ step }) => (step === undefined ? [] : [step])),
  );
  await insertSends(
    store,
    tx,
    records.flatMap(({ sends = [], ...record }) =>
      isKept(record) ? sends : sends.filter(({ kind }) => kind !== 'emit'),
    ),
  );
  const jobs = records.flatMap(({ next }) => (next.kind === 'end' ? next.jobs : []));
  if (jobs.length > 0) {
    await insertNewJobs(store, tx, jobs);
    await store.notify(tx, 'millrace_jobs', '');
  }
  const dbs = records.flatMap(({ run, stepDb }) =>
    stepDb === undefined ? [] : [{ ...stepDb, ownerId: run.owner_id }],
  );
  if (dbs.length > 0) {
    await ensureComponentDbs(
      tx,
      dbs.map(({ stepId, ownerId }) => ({ id: stepId, ownerId })),
    );
    const sets = new Map<string, Record<string, string>>();
    for (const { stepId, sets: set } of dbs) sets.set(stepId, { ...sets.get(stepId), ...set });
    await mergeComponentDbs(store, tx, sets);
  }
  const reset = records.filter(
    ({ resetsAttempts, next }) => resetsAttempts === true && next.kind === 'go-on',
  );
  if (reset.length > 0)
    await store.defer(
      tx,
      resetAttemptsQuery(
        tx,
        reset.map(({ job }) => job.id),
      ),
    );
  await writeNextStates(store, tx, records, parkedUntil, nowMs);
}

/** A run that ends in the same commit as it arrives is inserted as it ends. */
function withEnd(run: RunTable, next: NextState, nowMs: number): RunTable {
  if (next.kind !== 'end') return run;
  const { state, position, error, reason } = next;
  return { ...run, state, position, error, reason, ended_at_ms: nowMs };
}
