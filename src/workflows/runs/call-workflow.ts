import { createHash } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { findKey, keptMs } from '#idempotency/idempotency-key-store.ts';
import type { RequestKey } from '#idempotency/request-key.ts';
import { lockJobOf, wakeJob } from '#jobs/run-job-store.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError, toError, UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { RunTable } from '#storage/tables/workflow-tables.ts';
import { RunLostError } from './live-run-records.ts';
import { type FollowedRun, isTerminal, type RunTrigger } from './run.ts';
import type { CallPlace } from './run-host-calls.ts';
import { wakeNotice } from './run-notices.ts';
import { findRun, lockRun } from './run-store.ts';
import { answerWaitQuery, findWait } from './run-wait-store.ts';
import type { WorkflowRuns } from './run-workflow.ts';
import type { RunStarter } from './start-run.ts';

/** A `call` block that waits in the store. */
interface CallWait {
  runId: string;
  position: number;
  iteration: string;
}

/** How often a run on another node, or one that waits for its turn, is looked at. */
const pollMs = 1_000;

/**
 * Runs workflows for `call` blocks. Of one try of a block there is one run, whatever happens to its caller: the run has an
 * idempotency key, written with it, so that a caller that continues after a crash finds it and waits for it.
 */
export class WorkflowCalls {
  readonly #store: Store;
  readonly #db: Db;
  readonly #logger: Logger;
  readonly #onJobs: () => void;
  readonly #clock: Clock;
  readonly #starter: () => Pick<RunStarter, 'start' | 'startAndFollow'>;
  readonly #runs: () => Pick<WorkflowRuns, 'recordedResult' | 'wake'>;
  /** Callers that wait for runs of a workflow, by its id. */
  readonly #waiting = new Map<string, Set<() => void>>();

  /** Callers whose wait is in the store, by the workflow and the run that they wait for. */
  readonly #parked = new Map<string, Map<string, CallWait>>();

  constructor(options: {
    store: Store;
    clock: Clock;
    logger: Logger;
    starter: () => Pick<RunStarter, 'start' | 'startAndFollow'>;
    runs: () => Pick<WorkflowRuns, 'recordedResult' | 'wake'>;
    /** A job is due. */
    onJobs: () => void;
  }) {
    this.#store = options.store;
    this.#db = options.store.read;
    this.#logger = options.logger;
    this.#onJobs = options.onJobs;
    this.#clock = options.clock;
    this.#starter = options.starter;
    this.#runs = options.runs;
  }

  /** Resolves when the run has ended, or waits. `signal`: the caller no longer waits. */
  async call(trigger: RunTrigger, place: CallPlace, signal: AbortSignal): Promise<FollowedRun> {
    const key = keyOf(trigger, place);
    const known = place.calledRunId ?? (await this.#runOf(key));
    const runId = known ?? (await this.#start(trigger, key));
    return typeof runId === 'string' ? this.#untilOver(runId, signal) : runId;
  }

  /** A caller waits in the store until the run that it began has ended. It looks by itself now and then; here it is woken at once. */
  waits(called: { runId: string; workflowId: string }, caller: CallWait): void {
    const callers = this.#parked.get(called.workflowId) ?? new Map<string, CallWait>();
    callers.set(called.runId, caller);
    this.#parked.set(called.workflowId, callers);
    this.#look(called.workflowId, new Map([[called.runId, caller]]));
  }

  /** A run of this workflow has ended here. */
  ended(workflowId: string): void {
    for (const wake of this.#waiting.get(workflowId) ?? []) wake();
    const callers = this.#parked.get(workflowId);
    if (callers !== undefined) this.#look(workflowId, callers);
  }

  #look(workflowId: string, callers: ReadonlyMap<string, CallWait>): void {
    this.#wakeCallers(workflowId, callers).catch((error: unknown) => {
      // They look by themselves.
      this.#logger.warn({ workflow: workflowId, error: toError(error).message }, 'call.wake-failed');
    });
  }

  async #wakeCallers(workflowId: string, callers: ReadonlyMap<string, CallWait>): Promise<void> {
    for (const [calledId, caller] of [...callers]) {
      const run = await findRun(this.#db, calledId);
      if (run !== undefined && !isTerminal(run)) continue;
      const parked = this.#parked.get(workflowId);
      parked?.delete(calledId);
      if (parked?.size === 0) this.#parked.delete(workflowId);
      await this.#store.transaction((tx) => this.#wakeCaller(tx, caller));
      this.#runs().wake(caller.runId);
      this.#onJobs();
    }
  }

  /** Has a caller look now. */
  async #wakeCaller(tx: Tx, { runId, position, iteration }: CallWait): Promise<void> {
    const nowMs = this.#clock.now();
    const job = await lockJobOf(this.#store, tx, runId);
    const run = await lockRun(this.#store, tx, runId);
    if (job === undefined || run === undefined) return;
    const branch = await findWait(tx, { run_id: runId, position, iteration });
    if (branch?.kind === 'call')
      await tx.executeQuery(answerWaitQuery(tx, branch, { resumption: branch.resumption ?? '{}', nowMs }));
    else if (run.wait_kind !== 'call') return;
    if (job.state === 'queued') await wakeJob(tx, runId, nowMs);
    await this.#store.notify(tx, 'millrace_jobs', job.state === 'queued' ? '' : `${wakeNotice}${runId}`);
  }

  async #runOf(key: RequestKey): Promise<string | undefined> {
    return (await findKey(this.#db, key.id, this.#clock.now() - keptMs))?.job_id;
  }

  /** The outcome of a new run that this node runs; the id of one that is to be waited for. */
  async #start(trigger: RunTrigger, key: RequestKey): Promise<FollowedRun | string> {
    const starter = this.#starter();
    if (trigger.flowControl !== null) await starter.start(trigger, key);
    else {
      try {
        const followed = await starter.startAndFollow(trigger, key);
        if (followed !== undefined) return followed;
      } catch (error) {
        // If its rows were stored, it continues later, or on another node.
        const isGoingOn = error instanceof UnavailableError || error instanceof RunLostError;
        if (!isGoingOn || (await this.#runOf(key)) === undefined) throw error;
      }
    }
    const runId = await this.#runOf(key);
    if (runId === undefined)
      throw new UnavailableError('overloaded', 'the run of the called workflow was not stored');
    return runId;
  }

  async #untilOver(runId: string, signal: AbortSignal): Promise<FollowedRun> {
    for (;;) {
      const run = await findRun(this.#db, runId);
      if (run === undefined)
        throw new CallerError('not_found', `run ${runId} of the called workflow was removed`);
      if (isTerminal(run) || run.state === 'waiting') return this.#outcomeOf(run);
      await this.#someTime(run.workflow_id, signal);
    }
  }

  async #outcomeOf(run: RunTable): Promise<FollowedRun> {
    const { msg = '' } = JSON.parse(run.error ?? '{}') as { msg?: string };
    return {
      runId: run.id,
      state: run.state === 'waiting' ? 'parked' : run.state,
      ...(await this.#runs().recordedResult(run)),
      message: msg,
    };
  }

  /** Until a run of the workflow ends here, or for a while. Throws when the caller no longer waits. */
  async #someTime(workflowId: string, signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiting = this.#waiting.get(workflowId) ?? new Set();
    waiting.add(resolve);
    this.#waiting.set(workflowId, waiting);
    const over = new AbortController();
    try {
      await Promise.race([
        promise,
        setTimeout(pollMs, undefined, { signal: AbortSignal.any([signal, over.signal]), ref: false }),
      ]);
    } finally {
      over.abort();
      waiting.delete(resolve);
      if (waiting.size === 0) this.#waiting.delete(workflowId);
    }
  }
}

function keyOf(trigger: RunTrigger, { runId, position, iteration, try: number }: CallPlace): RequestKey {
  // No endpoint key or id of a caller begins so.
  const id = createHash('sha256')
    .update(`call\n${runId}\n${position}\n${iteration}\n${number}`)
    .digest('base64url');
  return { id, ownerId: trigger.ownerId, subjectId: trigger.workflowId, requestDigest: '' };
}
