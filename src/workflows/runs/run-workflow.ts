import type { EventAllowance, EventRouter } from '#events/emit-event.ts';
import type { EventBus } from '#events/event-bus.ts';
import type { OutcomeRecorder } from '#health/outcome-store.ts';
import type { JobPayloads } from '#jobs/job-kinds.ts';
import type { JobHandler } from '#jobs/job-registry.ts';
import { type LeasedJob, settleJobs } from '#jobs/job-store.ts';
import { blamesMax } from '#jobs/retry-schedule.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError, toError, UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Runner } from '#runner/runner.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Store } from '#storage/store.ts';
import type { RunTable } from '#storage/tables/workflow-tables.ts';
import { isConcurrent } from '#workflows/definitions/block-definition.ts';
import type { LoadedDeployment } from '#workflows/definitions/loaded-deployment.ts';
import { RunEngine } from './advance-run.ts';
import { retriedBlocksOf } from './block-attempts.ts';
import { endRunOutside } from './end-run.ts';
import { LiveRun, type RunSurroundings } from './live-run.ts';
import { RunLostError, type RunObservers } from './live-run-records.ts';
import { postponeRuns } from './postpone-run-store.ts';
import { walkRecorded } from './recorded-result.ts';
import { type FollowedRun, isTerminal, type NewRun, type RunReply, type TurnEnd } from './run.ts';
import { cancelNotice, wakeNotice } from './run-notices.ts';
import { sendsOfRun } from './run-send-store.ts';
import { endRunSpan } from './run-span.ts';
import type { StepRunner } from './run-step.ts';
import { endedStepsOf, lastTriesOf, recordedOf } from './run-step-store.ts';
import { findRun, markRunning } from './run-store.ts';
import { type Arrival, RunTurns, type SettingsOf } from './run-turns.ts';
import { waitsOfRun } from './run-wait-store.ts';

/** Keeps the answer of a run whose request had an idempotency key. */
export interface AnswerKeeper {
  record(
    key: { id: string; jobId: string; ownerId: string },
    answer: RunReply,
    options: { isPrivate: boolean },
  ): Promise<unknown>;
}

/** A caller that waits for the answer of a run. */
interface Waiter {
  resolve: (reply: RunReply) => void;
  reject: (error: Error) => void;
}

/**
 * Does the jobs `run_workflow`: loads a run, lets it wait for its turn, has the engine advance it, and answers the caller that waits
 * for it in this process. After a crash the job is queued again when the lease of the lost node has run out, on SQLite at once
 * (`recoverExpired` in `jobs/node-store.ts`). The run continues after its last recorded step (`run-states.md`); a step that was under way has
 * no record, and runs again.
 */
export class WorkflowRuns implements JobHandler {
  readonly #store: Store;
  readonly #bus: EventBus;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #router: EventRouter;
  readonly #runner: Pick<Runner, 'releaseScratch'>;
  readonly #deployments: { get(deploymentId: string): Promise<LoadedDeployment> };
  readonly #engine: RunEngine;
  readonly #turns: RunTurns;
  readonly #markRunning: BatchWrite<BegunJob, void>;
  readonly #postpone: BatchWrite<BegunJob & { runAtMs: number }, void>;
  readonly #dropJob: BatchWrite<BegunJob, void>;
  readonly #surroundings: RunSurroundings;
  readonly #observers: RunObservers;
  readonly #keptAnswers: AnswerKeeper;
  /** Runs that were just made here: they need not be read. */
  readonly #expected = new Map<string, NewRun>();
  readonly #waiters = new Map<string, Waiter>();
  readonly #followers = new Map<
    string,
    { resolve: (run: FollowedRun) => void; reject: (error: Error) => void }
  >();
  readonly #live = new Map<string, LiveRun>();
  /** Runs by the signal that stops them: that of the pool, another one after a lost lease. */
  readonly #stoppable = new WeakMap<AbortSignal, Set<LiveRun>>();

  constructor(options: {
    store: Store;
    bus: EventBus;
    router: EventRouter;
    outcomes: OutcomeRecorder;
    hasOthers: () => boolean;
    clock: Clock;
    logger: Logger;
    node: string;
    runner: Pick<Runner, 'releaseScratch'>;
    deployments: { get(deploymentId: string): Promise<LoadedDeployment> };
    steps: StepRunner;
    surroundings: RunSurroundings;
    observers: RunObservers;
    keptAnswers: AnswerKeeper;
    /** False when the owner has used up a quota that is enforced. */
    mayRun: (ownerId: string) => boolean;
    /** Absent: what is emitted is not limited. */
    allowance?: EventAllowance;
    settingsOf: SettingsOf;
  }) {
    this.#store = options.store;
    this.#bus = options.bus;
    this.#router = options.router;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#runner = options.runner;
    this.#deployments = options.deployments;
    this.#surroundings = options.surroundings;
    this.#observers = options.observers;
    this.#keptAnswers = options.keptAnswers;
    this.#turns = new RunTurns({
      db: options.store.read,
      clock: options.clock,
      settingsOf: options.settingsOf,
    });
    this.#engine = new RunEngine({
      ...options,
      onReply: (runId, reply) => this.#waiters.get(runId)?.resolve({ kind: 'responded', reply }),
    });
    this.#markRunning = markRunningWrite(options);
    this.#postpone = postponeWrite(options);
    this.#dropJob = dropWrite(options);
    options.store.onNotify((channel, payload) => {
      if (channel !== 'millrace_jobs') return;
      if (payload.startsWith(cancelNotice)) this.abandon(payload.slice(cancelNotice.length));
      if (payload.startsWith(wakeNotice)) this.wake(payload.slice(wakeNotice.length));
    });
  }

  /** The rows of a run that is about to be handed to the pool of this process. */
  expect(made: NewRun): void {
    this.#expected.set(made.run.id, made);
  }

  /** Must be called before the run is handed to the pool. */
  awaitReply(runId: string): Promise<RunReply> {
    return new Promise((resolve, reject) => this.#waiters.set(runId, { resolve, reject }));
  }

  /** Must be called before the run is handed to the pool. Rejects when the run was interrupted. */
  follow(runId: string): Promise<FollowedRun> {
    return new Promise((resolve, reject) => this.#followers.set(runId, { resolve, reject }));
  }

  stopFollowing(runId: string): void {
    this.#followers.delete(runId);
  }

  /** What a run has left, by its records: JSON of the exports of its steps. Throws a CallerError when its deployment cannot be loaded. */
  async recordedResult(run: RunTable): Promise<Pick<FollowedRun, 'result' | 'lastNamespace'>> {
    const deployment = await this.#deployments.get(run.deployment_id);
    const live = new LiveRun({
      ...{ run, deployment, unpersisted: undefined, sends: [], surroundings: this.#surroundings },
      job: {
        ...{ id: run.id, kind: 'run_workflow', ownerId: run.owner_id, lane: null, attempts: 1, bytes: 0 },
        payload: { run_id: run.id, workflow_id: run.workflow_id },
        createdAtMs: run.created_at_ms,
      },
      steps: await endedStepsOf(this.#store.read, run.id, retriedBlocksOf(deployment.steps)),
    });
    await walkRecorded(live);
    return { result: live.resultJson(), lastNamespace: live.lastNamespace };
  }

  stopAwaiting(runId: string): void {
    this.#waiters.delete(runId);
  }

  /** Stops what this process does for a run that was ended from outside. */
  abandon(runId: string): void {
    const live = this.#live.get(runId);
    if (live === undefined) return;
    live.isEnded = true;
    live.abort.abort();
  }

  /** A wait of a branch was answered while others of the run may be under way here. */
  wake(runId: string): void {
    this.#live.get(runId)?.waits.wake();
  }

  /** As `abandon`, for all runs of a workflow that was removed. */
  abandonWorkflow(workflowId: string): void {
    for (const [runId, live] of this.#live) if (live.run.workflow_id === workflowId) this.abandon(runId);
  }

  async run(job: LeasedJob, signal: AbortSignal): Promise<void> {
    const payload = job.payload as JobPayloads['run_workflow'];
    const { run_id: runId, workflow_id: workflowId } = payload;
    const made = this.#expected.get(runId);
    this.#expected.delete(runId);
    let state: TurnEnd = 'unknown';
    // A run that a request, a mail or a timer started in this process does not wait for its turn.
    const arrival = isOrdered(made)
      ? this.#turns.arrive(workflowId)
      : { before: undefined, passed: () => undefined };
    try {
      const run = made?.run ?? (await findRun(this.#store.read, runId));
      if (run === undefined || isTerminal(run)) {
        await this.#drop(job, 'the run has ended, or was removed');
        return;
      }
      if (payload.key_id !== undefined) this.#keepAnswer(run, job, payload.key_id);
      state = await this.#runInTurn(run, job, made, arrival, signal);
    } catch (error) {
      const wasEnded = this.#live.get(runId)?.isEnded === true;
      // A run that follows one that a user ended learns that from its state.
      if (!(wasEnded && (error instanceof UnavailableError || error instanceof RunLostError)))
        this.#followers.get(runId)?.reject(error instanceof RunLostError ? wentElsewhere() : toError(error));
      // Its step was cut off because a user ended the run: there is nothing to continue.
      if (error instanceof UnavailableError && wasEnded) {
        await this.#drop(job, 'the run was ended');
        state = 'cancelled';
        endRunSpan({ state, error: null });
        return;
      }
      if (error instanceof UnavailableError) this.#waiters.get(runId)?.reject(error);
      if (error instanceof RunLostError) {
        this.#logger.info({ run: runId }, 'run.lease-lost');
        state = 'cancelled';
        if (wasEnded) endRunSpan({ state: 'cancelled', error: null });
        if (!wasEnded) this.#waiters.get(runId)?.reject(wentElsewhere());
        return;
      }
      throw error;
    } finally {
      arrival.passed();
      const live = this.#live.get(runId);
      // Its own: after a lost lease another attempt of the run may be here.
      if (live?.job === job) this.#live.delete(runId);
      this.#followers.get(runId)?.resolve({
        runId,
        state,
        result: live?.resultJson() ?? '{}',
        lastNamespace: live?.lastNamespace,
        message: live?.errorMessage ?? '',
      });
      this.#followers.delete(runId);
      this.#waiters.get(runId)?.resolve({ kind: 'ended', waits: state === 'parked', state });
      this.#waiters.delete(runId);
    }
  }

  /** For a run whose caller no longer waits in this process. An interrupted run answers later. */
  #keepAnswer(run: RunTable, { id: jobId, ownerId }: LeasedJob, keyId: string): void {
    if (this.#waiters.has(run.id)) return;
    const { promise, resolve, reject } = Promise.withResolvers<RunReply>();
    const isPrivate = run.no_store === 1;
    promise.then(
      (answer) => this.#keptAnswers.record({ id: keyId, jobId, ownerId }, answer, { isPrivate }),
      () => {},
    );
    this.#waiters.set(run.id, { resolve, reject });
  }

  async quarantined(job: LeasedJob): Promise<void> {
    const { run_id: runId, workflow_id: workflowId } = job.payload as JobPayloads['run_workflow'];
    const error = {
      code: 'InternalFailure',
      msg: `the service ended ${blamesMax} times while nothing but this run was under way there; it will not be run again`,
      stack: '',
    };
    const stored = await endRunOutside(
      { store: this.#store, router: this.#router, clock: this.#clock },
      { runId, state: 'quarantined', reason: null, failure: { error, ...this.#surroundings } },
    );
    if (stored === undefined) return;
    this.#bus.publish(stored);
    this.#observers.ended(workflowId);
  }

  async #runInTurn(
    run: RunTable,
    job: LeasedJob,
    made: NewRun | undefined,
    arrival: Arrival,
    signal: AbortSignal,
  ): Promise<TurnEnd> {
    const live = await this.#liveOf(run, job, made);
    if (live instanceof CallerError) return this.#refuse(run, job, live);
    this.#live.set(run.id, live);
    const stoppable = this.#stopWith(signal, live);
    try {
      const turn = await this.#turns.take(live, arrival);
      if (turn.kind === 'later') {
        await this.#requeue(job, turn.atMs);
        return 'parked';
      }
      try {
        return await this.#begin(live, made);
      } finally {
        turn.done();
      }
    } finally {
      stoppable.delete(live);
    }
  }

  async #begin(live: LiveRun, made: NewRun | undefined): Promise<TurnEnd> {
    const { job, run } = live;
    if (job.unpersisted?.refused === true) return 'refused';
    if (made === undefined)
      void this.#store.writes.submitLazily(this.#markRunning, begunJob(job)).catch(() => {});
    const stop = await this.#engine.advance(live);
    if (live.usedScratch) this.#runner.releaseScratch(live.deployment.id, run.id);
    return stop === 'parked' ? stop : live.endState;
  }

  /** Everything of the run; a CallerError when its deployment cannot be loaded (an account was deleted). */
  async #liveOf(run: RunTable, job: LeasedJob, made: NewRun | undefined): Promise<LiveRun | CallerError> {
    const { read } = this.#store;
    let deployment: LoadedDeployment;
    try {
      deployment = await this.#deployments.get(run.deployment_id);
    } catch (error) {
      if (error instanceof CallerError) return error;
      throw error;
    }
    const isNew = made !== undefined;
    const retried = retriedBlocksOf(deployment.steps);
    return new LiveRun({
      run,
      job,
      deployment,
      unpersisted: job.unpersisted === undefined ? undefined : made,
      steps: isNew ? [] : await endedStepsOf(read, run.id, retried),
      sends: isNew ? [] : await sendsOfRun(read, run.id),
      ...(isNew || !(hasBranches(deployment) || retried.length > 0)
        ? {}
        : { waits: await waitsOfRun(read, run.id), recorded: await recordedOf(read, run.id) }),
      ...(isNew || retried.length === 0 ? {} : { lastTries: await lastTriesOf(read, run.id) }),
      now: () => this.#clock.now(),
      isNew,
      surroundings: this.#surroundings,
    });
  }

  /** Aborts the step under way when the pool stops. One listener for all: a combined signal per run costs far more. */
  #stopWith(signal: AbortSignal, live: LiveRun): Set<LiveRun> {
    const known = this.#stoppable.get(signal);
    const runs = known ?? new Set();
    runs.add(live);
    if (signal.aborted) live.abort.abort();
    if (known !== undefined) return runs;
    this.#stoppable.set(signal, runs);
    signal.addEventListener('abort', () => {
      for (const one of runs) one.abort.abort();
    });
    return runs;
  }

  /** Its deployment cannot be loaded: what it was configured with is gone. */
  async #refuse(run: RunTable, job: LeasedJob, cause: CallerError): Promise<TurnEnd> {
    // What a removed workflow leaves is removed batch by batch, and the pool is sometimes faster.
    const goneId = cause.code === 'not_found' ? cause.details?.id : undefined;
    if (goneId === run.workflow_id || goneId === run.deployment_id) {
      await job.unpersisted?.write();
      await this.#store.writes.submit(this.#dropJob, begunJob(job));
      return 'cancelled';
    }
    await job.unpersisted?.write();
    const error = { code: 'ConfigurationError', msg: cause.message, stack: '' };
    const failure = { error, ...this.#surroundings };
    const ended = { runId: run.id, state: 'failed', reason: null, failure } as const;
    const stored = await endRunOutside(
      { store: this.#store, router: this.#router, clock: this.#clock },
      ended,
    );
    if (stored !== undefined) this.#bus.publish(stored);
    endRunSpan({ state: 'failed', error: JSON.stringify(error) });
    this.#observers.ended(run.workflow_id);
    return 'failed';
  }

  async #requeue(job: LeasedJob, runAtMs: number): Promise<void> {
    await job.unpersisted?.write();
    await this.#store.writes.submit(this.#postpone, { ...begunJob(job), runAtMs });
  }

  async #drop(job: LeasedJob, reason: string): Promise<void> {
    this.#logger.info({ job: job.id, reason }, 'run.job-dropped');
    await job.unpersisted?.write();
    await this.#store.writes.submit(this.#dropJob, begunJob(job));
  }
}

/** True when a run may have to wait for its turn, which is unknown for a run that was not read yet. */
function isOrdered(made: NewRun | undefined): boolean {
  return made === undefined || made.run.source_type === 'COMPONENT' || made.run.source_type === 'WORKFLOW';
}

/** True when steps of its runs can wait beside others. */
function hasBranches({ steps }: LoadedDeployment): boolean {
  return steps.some(({ block }) => block !== undefined && isConcurrent(block.kind));
}

function wentElsewhere(): UnavailableError {
  return new UnavailableError(
    'overloaded',
    'the run was interrupted before its response; it continues on another node, or was ended',
  );
}

/** A job as it was claimed: `attempts` is the fence. */
interface BegunJob {
  id: string;
  ownerId: string;
  attempts: number;
}

function begunJob({ id, ownerId, attempts }: LeasedJob): BegunJob {
  return { id, ownerId, attempts };
}

function markRunningWrite(options: { store: Store; node: string; clock: Clock }): BatchWrite<BegunJob, void> {
  const { store, node, clock } = options;
  return {
    name: 'mark-running',
    ownerOf: ({ ownerId }) => ownerId,
    async run(tx, jobs) {
      await markRunning(store, tx, { node, jobs, nowMs: clock.now() });
      return jobs.map(() => undefined);
    },
  };
}

/** Jobs without a run to continue. Together, because those of a removed workflow come by the hundred. */
function dropWrite({ store, node }: { store: Store; node: string }): BatchWrite<BegunJob, void> {
  return {
    name: 'drop-run-jobs',
    endsWork: true,
    ownerOf: ({ ownerId }) => ownerId,
    async run(tx, jobs) {
      await settleJobs(store, tx, { node, jobs });
      return jobs.map(() => undefined);
    },
  };
}

function postponeWrite(options: {
  node: string;
  clock: Clock;
}): BatchWrite<BegunJob & { runAtMs: number }, void> {
  const { node, clock } = options;
  return {
    name: 'postpone-runs',
    endsWork: true,
    ownerOf: ({ ownerId }) => ownerId,
    async run(tx, jobs) {
      await postponeRuns(tx, node, jobs, clock.now());
      return jobs.map(() => undefined);
    },
  };
}
