import {
  appendEvents,
  type Emission,
  type EmitStore,
  type EventRouter,
  lockEmittersOf,
  prefetchSubscribers,
} from '#events/emit-event.ts';
import type { StoredEvent } from '#events/event.ts';
import type { Outcome, OutcomeRecorder } from '#health/outcome-store.ts';
import { insertNewJobs, settleJobsQuery } from '#jobs/job-store.ts';
import { heldJobsQuery, parkJobQuery, resetAttemptsQuery } from '#jobs/run-job-store.ts';
import type { Clock } from '#lib/clock.ts';
import type { UsageRow } from '#metering/invocation-usage.ts';
import { addUsage } from '#metering/usage-store.ts';
import { ensureComponentDbs, mergeComponentDbs } from '#sources/source-store.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { JobTable } from '#storage/tables/job-tables.ts';
import type {
  RunSendTable,
  RunState,
  RunStepTable,
  RunTable,
  RunWaitTable,
  WaitKind,
} from '#storage/tables/workflow-tables.ts';
import { forgetRuns } from './forget-run-store.ts';
import { refuseGone } from './refuse-gone.ts';
import type { RunResumption } from './run.ts';
import { runFailure } from './run-failure.ts';
import {
  clearResumeQuery,
  deleteResumeQuery,
  dropSends,
  insertRuns,
  insertSends,
  insertSteps,
  markEmitted,
  updateBegunRunsQuery,
  updateRunQuery,
  waitingResumesOf,
} from './run-store.ts';
import { answerWaitQuery, deleteWaitQuery, firstWaitOf, putWaitQuery } from './run-wait-store.ts';

/** One change of one run, by the node that runs it. */
export interface RunRecord {
  run: Pick<RunTable, 'id' | 'owner_id' | 'workflow_id' | 'deployment_id' | 'no_store'>;
  /** The job as it is held; its `attempts` is the fence. */
  job: { id: string; attempts: number };
  /** Rows that are not in the store yet: written by this change, and nothing is to be fenced. */
  unpersisted?: { run: RunTable; job: JobTable };
  step?: RunStepTable;
  /** State of `$.service.db` that a step set: its id and JSON text by key. */
  stepDb?: { stepId: string; sets: Record<string, string> };
  /** What its steps have asked to be sent when it ends; kept with the step. */
  sends?: readonly RunSendTable[];
  /** It lost its node before: a finished step is progress, and losses count from zero. */
  resetsAttempts?: boolean;
  usage?: UsageRow;
  next: NextState;
}

export type NextState =
  /** The next step follows; `clears` what the run waited for before. `answered`: the wait of a branch that is over. */
  | { kind: 'go-on'; clears: boolean; answered?: Pick<RunWaitTable, 'position' | 'iteration'> }
  /** A branch waits, and others may run. */
  | { kind: 'branch-wait'; clears: boolean; wait: RunWaitTable }
  | {
      kind: 'wait';
      waitKind: WaitKind;
      untilMs: number;
      position: number;
      failures: number;
      resumption: RunResumption | null;
    }
  | {
      kind: 'end';
      state: RunState;
      position: number;
      error: string | null;
      reason: string | null;
      emissions: readonly Emission[];
      /** Sends whose time has come. */
      jobs: readonly JobTable[];
      /** Among `emissions` is what its steps sent by `$.send.emit`. */
      emits: boolean;
    };

export type RecordResult =
  | {
      held: true;
      stored: StoredEvent[];
      /** The wait is over already. */
      woken: boolean;
      /** When the first branch of a parked run continues, epoch ms. */
      untilMs?: number;
    }
  /** Another node has the run, or it was cancelled or removed: nothing of it may be stored. */
  | { held: false };

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
  /** True when other nodes were there a moment ago. */
  hasOthers: () => boolean;
}): BatchWrite<RunRecord, RecordResult> {
  const { store, node, router, clock, outcomes, hasOthers } = options;
  return {
    name: 'record-runs',
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
      await outcomes.record(
        tx,
        held.flatMap((record) => outcomeOf(record, nowMs)),
      );
      const heldEmissions = held.flatMap(({ next }) => (next.kind === 'end' ? next.emissions : []));
      const emitted = await appendEvents(store, tx, {
        emissions: heldEmissions,
        emitters,
        router,
        prefetched,
        nowMs,
      });
      const woken = await wakeAnswered(store, tx, held, nowMs);
      const storedOf = new Map(heldEmissions.map((emission, index) => [emission, emitted[index]]));
      const heldSet = new Set(held);
      return records.map((record): RecordResult => {
        if (!heldSet.has(record)) return { held: false };
        const stored = (record.next.kind === 'end' ? record.next.emissions : []).flatMap((emission) => {
          const result = storedOf.get(emission);
          return result?.accepted === true ? result.stored : [];
        });
        const untilMs = parkedUntil.get(record.run.id);
        const result = { held: true, stored, woken: woken.has(record) } as const;
        return untilMs === undefined ? result : { ...result, untilMs };
      });
    },
  };
}

/** How a run ended, for the health of its workflow. A run that was cancelled says nothing. */
function outcomeOf({ run, next }: RunRecord, atMs: number): Outcome[] {
  if (next.kind !== 'end') return [];
  const failure = runFailure(next);
  if (failure === undefined) return [];
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
  tx: Parameters<BatchWrite<RunRecord, RecordResult>['run']>[0],
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
  await addUsage(
    store,
    tx,
    records.flatMap(({ usage }) => (usage === undefined ? [] : [usage])),
  );
}

/** A run that ends in the same commit as it arrives is inserted as it ends. */
function withEnd(run: RunTable, next: NextState, nowMs: number): RunTable {
  if (next.kind !== 'end') return run;
  const { state, position, error, reason } = next;
  return { ...run, state, position, error, reason, ended_at_ms: nowMs };
}

async function writeNextStates(
  store: EmitStore,
  tx: Parameters<BatchWrite<RunRecord, RecordResult>['run']>[0],
  records: readonly RunRecord[],
  parkedUntil: ReadonlyMap<string, number>,
  nowMs: number,
): Promise<void> {
  const gone: string[] = [];
  const plainlyEnded: string[] = [];
  for (const { run, next, unpersisted } of records) {
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

/**
 * When the first branch of each run that is parked now continues, epoch ms. It is read with the job locked: an answer to a wait that
 * came until now is in it.
 */
async function firstWaits(
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
async function wakeAnswered(
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
