import { type EmitStore, type EventRouter, emitEvents } from '#events/emit-event.ts';
import type { StoredEvent } from '#events/event.ts';
import { recordOutcome } from '#health/outcome-store.ts';
import { insertNewJobs } from '#jobs/job-store.ts';
import { deleteJobsOf, lockJobOf } from '#jobs/run-job-store.ts';
import type { Clock } from '#lib/clock.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { RunState, RunTable } from '#storage/tables/workflow-tables.ts';
import { carriedTrace } from '#telemetry/span.ts';
import { findWorkflow } from '#workflows/definitions/workflow-store.ts';
import { forgetRuns } from './forget-run-store.ts';
import { sendJobs } from './queue-sends.ts';
import { isTerminal } from './run.ts';
import { runContextJson } from './run-context.ts';
import { emittedEvent, errorEventOf, errorJson } from './run-events.ts';
import { runFailure } from './run-failure.ts';
import { dropSends, markEmitted, sendsOfRun } from './run-send-store.ts';
import type { StepError } from './run-step.ts';
import { lockRun, updateRunQuery } from './run-store.ts';

interface EndRunOptions {
  store: EmitStore & Pick<Store, 'transaction' | 'lockRows'>;
  router: EventRouter;
  clock: Clock;
}

interface RunEnd {
  state: RunState;
  reason: string | null;
  failure?: { error: StepError; platformVersion: string };
  notice?: string;
}

/**
 * Ends a run from outside its steps: cancelled by a user, quarantined, or without a deployment that can be loaded. The node that
 * runs it finds its job gone at the next record and drops its work. Returns the events that were stored; undefined
 * when there was nothing to end.
 */
export async function endRunOutside(
  options: EndRunOptions,
  end: RunEnd & { runId: string },
): Promise<StoredEvent[] | undefined> {
  const { store } = options;
  return store.transaction(async (tx) => {
    await lockJobOf(store, tx, end.runId);
    const run = await lockRun(store, tx, end.runId);
    await deleteJobsOf(tx, [end.runId]);
    if (run === undefined || isTerminal(run)) return undefined;
    return endLockedRun(options, tx, run, end);
  });
}

/** The same in the caller's transaction, which has locked the job and then the run, and continues. */
export async function endLockedRun(
  { store, router, clock }: EndRunOptions,
  tx: Tx,
  run: RunTable,
  end: RunEnd,
): Promise<StoredEvent[]> {
  await deleteJobsOf(tx, [run.id]);
  const nowMs = clock.now();
  const { failure } = end;
  const error = failure === undefined ? null : errorJson(undefined, failure.error, nowMs);
  const ended = { state: end.state, reason: end.reason, error, ended_at_ms: nowMs };
  await tx.executeQuery(
    updateRunQuery(tx, run.id, { ...ended, wait_kind: null, wait_until_ms: null, resumption: null }),
  );
  const why = runFailure({ state: end.state, error });
  if (why !== undefined)
    await recordOutcome(store, tx, {
      subjectId: run.workflow_id,
      ownerId: run.owner_id,
      failure: why,
      atMs: nowMs,
    });
  const events = [];
  if (end.state === 'cancelled') await dropSends(tx, run.id, nowMs);
  else {
    // The sends of its finished steps are carried out, like those of a run that failed in a step.
    const sends = await sendsOfRun(tx, run.id);
    const jobs = sendJobs(run, sends, nowMs);
    await insertNewJobs(store, tx, jobs);
    if (jobs.length > 0) await store.notify(tx, 'millrace_jobs', '');
    for (const { kind, payload } of sends) if (kind === 'emit') events.push(emittedEvent(payload));
    if (events.length > 0) await markEmitted(tx, [run.id], nowMs);
  }
  if (end.notice !== undefined) await store.notify(tx, 'millrace_jobs', end.notice);
  if (failure !== undefined && error !== null) {
    const workflow = await findWorkflow(tx, run.workflow_id);
    const context = runContextJson(run, {
      workflowName: workflow?.name ?? null,
      projectId: workflow?.project_id ?? null,
      platformVersion: failure.platformVersion,
      isTest: false,
    });
    events.push(errorEventOf(run, context, error));
  }
  const emission = { emitterId: run.workflow_id, hops: run.hops, events, ...carriedTrace() };
  const [emitted] =
    events.length === 0 ? [] : await emitEvents(store, tx, { emissions: [emission], router, nowMs });
  if (run.no_store === 1) await forgetRuns(tx, [run.id]);
  return emitted?.accepted === true ? emitted.stored : [];
}
