import type { EventRouter } from '#events/emit-event.ts';
import type { EventBus } from '#events/event-bus.ts';
import type { OutcomeRecorder } from '#health/outcome-store.ts';
import type { JobPayloads } from '#jobs/job-kinds.ts';
import type { JobHandler } from '#jobs/job-registry.ts';
import { type LeasedJob, requeueJob, settleJobs } from '#jobs/job-store.ts';
import { blamesMax, retryDelayMs } from '#jobs/retry-schedule.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { usageOf } from '#metering/invocation-usage.ts';
import type { CallOutcome, HttpReply, UserCodeError } from '#runner/call-outcome.ts';
import type { HostCall, HostCallAnswer, Runner, UserCall } from '#runner/runner.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Store } from '#storage/store.ts';
import type { SourceTable } from '#storage/tables/source-tables.ts';
import type { Deployment } from './deployment.ts';
import { unknownEndpoint } from './endpoint-errors.ts';
import { endOfInvocation, failureText, type InvocationLimits, isProcessCrash } from './invocation-end.ts';
import { errorEvent } from './outcome-events.ts';
import { both, type ReplyWaiter } from './reply-waiter.ts';
import { type InvocationEnd, type SettleResult, settleInvocations } from './settle-invocation.ts';
import type { Lane, SourceLanes } from './source-lanes.ts';
import type { SourceReplies } from './source-replies.ts';
import { findSource, readComponentDb } from './source-store.ts';

/** Answers the host calls of a source: data stores and files of its owner. */
export type SourceHostCalls = (ownerId: string, hostCall: HostCall) => Promise<HostCallAnswer>;

/** Keeps the reply of a run whose request had an idempotency key. */
export interface ReplyKeeper {
  recorder(key: { id: string; jobId: string; ownerId: string }, options: { isPrivate: boolean }): ReplyWaiter;
}

/** Maximum outcomes of one source that wait for the store while its next run is under way. */
const unsettledMax = 64;
/** Runs sources: jobs of kind `run_source`, and the hooks of a deployment. */
export class SourceRuns implements JobHandler {
  readonly #store: Store;
  readonly #runner: Runner;
  readonly #bus: EventBus;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #node: string;
  readonly #limits: InvocationLimits;
  readonly #settle: BatchWrite<InvocationEnd, SettleResult>;
  readonly #lanes: SourceLanes;
  readonly #replies: SourceReplies;
  readonly #hostCalls: SourceHostCalls;
  readonly #kept: ReplyKeeper;
  readonly #waiters = new Map<string, ReplyWaiter>();

  constructor(options: {
    store: Store;
    runner: Runner;
    bus: EventBus;
    router: EventRouter;
    outcomes: OutcomeRecorder;
    clock: Clock;
    logger: Logger;
    node: string;
    lanes: SourceLanes;
    replies: SourceReplies;
    hostCalls: SourceHostCalls;
    keptReplies: ReplyKeeper;
    limits: InvocationLimits;
  }) {
    this.#store = options.store;
    this.#runner = options.runner;
    this.#bus = options.bus;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#node = options.node;
    this.#limits = options.limits;
    this.#settle = settleInvocations(options);
    this.#lanes = options.lanes;
    this.#replies = options.replies;
    this.#hostCalls = options.hostCalls;
    this.#kept = options.keptReplies;
  }

  /**
   * Must be called before the job is inserted, so that a fast run finds its waiter. `anywhere`: the run may be on another node.
   */
  awaitReply(jobId: string, waiter: ReplyWaiter, options: { anywhere?: boolean } = {}): void {
    this.#waiters.set(jobId, waiter);
    if (options.anywhere === true) this.#replies.await(jobId, waiter);
  }

  /** The job of a caller whose run may be on another node is on disk. */
  storedAnywhere(jobId: string): void {
    this.#replies.stored(jobId);
  }

  stopAwaiting(jobId: string): void {
    this.#waiters.delete(jobId);
    this.#replies.stopAwaiting(jobId);
  }

  async run(job: LeasedJob, signal: AbortSignal): Promise<void> {
    const payload = job.payload as JobPayloads['run_source'];
    const lane = this.#lanes.of(payload.source_id);
    lane.waiting += 1;
    this.#awaitElsewhere(job, payload);
    await lane.turns.enter();
    const leave = once(() => lane.turns.leave());
    try {
      if (job.unpersisted?.refused === true) return;
      await this.#runInTurn(lane, job, payload, signal, leave);
    } catch (error) {
      if (error instanceof UnavailableError) this.#waiters.get(job.id)?.interrupted();
      throw error;
    } finally {
      leave();
      lane.waiting -= 1;
      lane.idleSinceMs = this.#clock.now();
      this.#waiters.get(job.id)?.ended('the run ended without a response');
      this.#waiters.delete(job.id);
    }
  }

  /** Adds the waiters of a reply for a caller on another node, and of one that is kept for repeated requests. */
  #awaitElsewhere(job: LeasedJob, { reply_to, key_id, is_private }: JobPayloads['run_source']): void {
    const waiters: ReplyWaiter[] = [];
    if (reply_to !== undefined && reply_to !== this.#node)
      waiters.push(this.#replies.waiterAt(reply_to, job.id));
    // The caller's node keeps the reply too, but may be lost.
    if (key_id !== undefined && !this.#waiters.has(job.id))
      waiters.push(
        this.#kept.recorder(
          { id: key_id, jobId: job.id, ownerId: job.ownerId },
          { isPrivate: is_private === true },
        ),
      );
    const [waiter, other] = waiters;
    if (waiter !== undefined) this.#waiters.set(job.id, other === undefined ? waiter : both(waiter, other));
  }

  async quarantined(job: LeasedJob): Promise<void> {
    const payload = job.payload as JobPayloads['run_source'];
    const source = await findSource(this.#store.read, payload.source_id);
    if (source === undefined) return;
    const error = {
      name: 'QuarantinedInvocation',
      message: `this invocation took its process down ${blamesMax} times and will not be run again`,
      stack: '',
    };
    const { event: originalEvent, tick } = payload;
    await this.#failOutside(source, error, { redact: (text) => text, originalEvent, tick });
  }

  /** Runs a hook and stores its emits, db writes and logs. If it threw, only its logs and the error are stored. */
  async runHook(
    deployment: Deployment,
    hook: 'deploy' | 'activate' | 'deactivate',
  ): Promise<CallOutcome | { status: 'absent' }> {
    if (!deployment.shape.hooks.includes(hook)) return { status: 'absent' };
    const { source } = deployment;
    const lane = this.#lanes.of(source.id);
    const db = await readComponentDb(this.#store.read, source.id);
    const outcome = await this.call(deployment, { kind: 'hook', hook }, db);
    // No process was free, or the service is stopping: the hook did not run, so nothing is stored or counted.
    if (outcome.status === 'cancelled') return outcome;
    const end = endOfInvocation(deployment, outcome, {
      ...{ db: lane.db, limits: this.#limits, nowMs: this.#clock.now() },
      ...{ originalEvent: undefined, hops: 0, isStale: () => false },
    });
    const result = await this.#store.writes.submit(this.#settle, end);
    if (result.settled) this.#bus.publish(result.stored);
    // Concurrent runs (a vendor's verification request) see from now on what the hook has set.
    if (lane.db !== undefined) lane.db = { ...lane.db, ...end.dbSets };
    this.#logger.info(
      {
        source: source.id,
        hook,
        status: outcome.status,
        ms: Math.round(outcome.durationMs),
        events: end.emission.events.length,
      },
      'source.hook-ended',
    );
    return outcome;
  }

  /** Calls the code of a deployment, and stores nothing. */
  call(
    deployment: Deployment,
    call: UserCall,
    db: Record<string, string>,
    options: {
      onRespond?: (reply: HttpReply) => void;
      signal?: AbortSignal;
      deadlineMsMax?: number;
      alone?: boolean;
    } = {},
  ): Promise<CallOutcome> {
    const { source, bundle, props, dynamicProps } = deployment;
    const { deadlineMsMax = this.#limits.deadlineMs, alone = false, ...callOptions } = options;
    return this.#runner.call(
      {
        deploymentId: source.id,
        ownerId: source.owner_id,
        trustDomain: deployment.trustDomain,
        isolated: source.isolated === 1,
        bundle,
        revision: deployment.revision,
        call,
        props,
        ...(dynamicProps === undefined ? {} : { dynamicProps }),
        db,
        deadlineMs: Math.min(this.#limits.deadlineMs, deadlineMsMax),
        ...(alone ? { alone } : {}),
      },
      { ...callOptions, onHostCall: (hostCall) => this.#hostCalls(source.owner_id, hostCall) },
    );
  }

  /** Emits events of a source that no run caused. */
  async emitOutside(
    source: Pick<SourceTable, 'id' | 'owner_id'>,
    events: InvocationEnd['emission']['events'],
    outcome: Pick<InvocationEnd, 'run' | 'tick'> = {},
  ): Promise<void> {
    const result = await this.#store.writes.submit(this.#settle, {
      sourceId: source.id,
      emission: { emitterId: source.id, hops: 0, events },
      dbSets: {},
      usage: usageOf(source.owner_id, this.#clock.now(), { invocations: 0, computeMs: 0, memoryMb: 0 }),
      isStale: () => false,
      ...outcome,
    });
    if (result.settled) this.#bus.publish(result.stored);
  }

  /** Reports an error that the code of a source threw after its runs. It belongs to no run. */
  async unattributedError(sourceId: string, error: UserCodeError): Promise<void> {
    const deployment = await this.#lanes.deploymentOf(this.#lanes.of(sourceId));
    if (deployment === undefined) return;
    const { source, redact } = deployment;
    await this.#failOutside(source, error, { redact, originalEvent: undefined });
  }

  /** Emits an error without a run on `$errors`, and marks the source as failing. */
  async #failOutside(
    source: SourceTable,
    error: UserCodeError,
    options: {
      redact: (text: string) => string;
      originalEvent: string | undefined;
      tick?: InvocationEnd['tick'] | undefined;
    },
  ): Promise<void> {
    const event = errorEvent(error, { ...options, nowMs: this.#clock.now() });
    const run = { failure: failureText(error, options.redact), revision: String(source.revision) };
    const { tick } = options;
    await this.emitOutside(source, [event], { run, ...(tick === undefined ? {} : { tick }) });
  }

  async #runInTurn(
    lane: Lane,
    job: LeasedJob,
    payload: JobPayloads['run_source'],
    signal: AbortSignal,
    endTurn: () => void,
  ): Promise<void> {
    let deployment: Deployment | undefined;
    try {
      deployment = await this.#lanes.deploymentOf(lane);
    } catch (error) {
      if (!(error instanceof CallerError)) throw error;
      await this.#refuseRun(lane, job, payload, error);
      return;
    }
    if (deployment === undefined) {
      await this.#dropJob(job);
      return;
    }
    const db = await this.#lanes.dbOf(lane);
    const epoch = lane.epoch;
    const waiter = this.#waiters.get(job.id);
    waiter?.started();
    const outcome = await this.call(
      deployment,
      { kind: 'run', ...(payload.event === undefined ? {} : { event: payload.event }) },
      db,
      {
        signal,
        // A job whose process ended runs alone, so that the job at fault is found.
        alone: (job.blames ?? 0) > 0,
        ...(waiter === undefined ? {} : { onRespond: (reply) => waiter.respond(reply) }),
      },
    );
    // Not a fault of the code, and not counted: the service is stopping, the source changed, or no process was free.
    if (outcome.status === 'cancelled') {
      throw new UnavailableError('overloaded', outcome.error?.message ?? 'the run was cancelled');
    }
    waiter?.ended(replyReason(outcome));
    if (isProcessCrash(outcome) && (job.blames ?? 0) + 1 < blamesMax) {
      await this.#runAgainLater(lane, job, outcome);
      return;
    }
    if (job.unpersisted?.refused === true) {
      // The store refused the job while it ran. Its state is dropped: the next run starts from what is stored.
      this.#logger.warn({ source: lane.sourceId, job: job.id }, 'source.run-refused');
      return;
    }
    const end = endOfInvocation(deployment, outcome, {
      ...{ db: lane.db, limits: this.#limits, nowMs: this.#clock.now() },
      originalEvent: payload.event,
      hops: payload.hops,
      isStale: () => lane.epoch !== epoch,
      isRun: true,
      tick: payload.tick,
    });
    // Undefined: it was dropped while the code ran, and the next run reads it from the store.
    if (lane.db !== undefined) lane.db = { ...lane.db, ...end.dbSets };
    const lasting = job.lane === lane.sourceId ? { ...end, lane: job.lane } : end;
    const settled = endJob(job, lasting, (jobEnd) => this.#settleEnd(lane, job, deployment, outcome, jobEnd));
    lane.unsettled.add(settled);
    const forgetSettled = () => lane.unsettled.delete(settled);
    settled.then(forgetSettled, forgetSettled);
    if (lane.unsettled.size >= unsettledMax)
      await Promise.race([...lane.unsettled].map((promise) => promise.catch(() => {})));
    endTurn();
    await settled;
  }

  async #settleEnd(
    lane: Lane,
    job: LeasedJob,
    deployment: Deployment,
    outcome: CallOutcome,
    end: InvocationEnd,
  ): Promise<void> {
    let result: SettleResult;
    try {
      result = await this.#store.writes.submit(this.#settle, end);
    } catch (error) {
      // Later runs of this lane saw state that is not on disk, so none of their outcomes may be stored.
      lane.epoch += 1;
      lane.db = undefined;
      throw error;
    }
    if (!result.settled) {
      lane.epoch += 1;
      lane.db = undefined;
      if (result.reason === 'removed') return;
      if (result.reason === 'taken' && end.job !== undefined) {
        this.#logger.warn({ source: lane.sourceId, job: job.id }, 'source.run-taken-over');
        return;
      }
      throw new Error('an earlier run of this source could not be stored');
    }
    this.#bus.publish(result.stored);
    const level = outcome.status === 'finished' ? 'debug' : 'info';
    this.#logger[level](
      {
        source: lane.sourceId,
        owner: deployment.source.owner_id,
        job: job.id,
        attempt: job.attempts,
        status: outcome.status,
        ms: Math.round(outcome.durationMs),
        events: result.stored.length,
        error: outcome.error === undefined ? undefined : deployment.redact(outcome.error.name),
      },
      'source.run-ended',
    );
  }

  /** The process ended during the run: nothing is stored, and the invocation runs again after a pause. */
  async #runAgainLater(lane: Lane, job: LeasedJob, outcome: CallOutcome): Promise<void> {
    await job.unpersisted?.write();
    const nowMs = this.#clock.now();
    this.#logger.warn(
      { source: lane.sourceId, job: job.id, attempt: job.attempts, status: outcome.status },
      'source.process-ended',
    );
    await this.#store.transaction((tx) =>
      requeueJob(tx, this.#node, job, {
        state: 'queued',
        runAtMs: nowMs + retryDelayMs((job.blames ?? 0) + 1, Math.random),
        nowMs,
        error: outcome.error?.message ?? outcome.status,
        blamed: true,
      }),
    );
  }

  /** The configuration of the source is no longer valid (a deleted account): the run ends with an error event. */
  async #refuseRun(
    lane: Lane,
    job: LeasedJob,
    payload: JobPayloads['run_source'],
    cause: CallerError,
  ): Promise<void> {
    const nowMs = this.#clock.now();
    const error = { name: 'ConfigurationError', message: cause.message, stack: '', code: cause.code };
    const end: InvocationEnd = {
      sourceId: lane.sourceId,
      emission: {
        emitterId: lane.sourceId,
        hops: payload.hops,
        events: [errorEvent(error, { redact: (text) => text, originalEvent: payload.event, nowMs })],
      },
      dbSets: {},
      usage: usageOf(job.ownerId, nowMs, { invocations: 1, computeMs: 0, memoryMb: this.#limits.memoryMb }),
      isStale: () => false,
      run: { failure: cause.message, revision: '' },
      ...(payload.tick === undefined ? {} : { tick: payload.tick }),
    };
    const result = await endJob(job, end, (jobEnd) => this.#store.writes.submit(this.#settle, jobEnd));
    if (result.settled) this.#bus.publish(result.stored);
  }

  /** The source was deleted. A request that was not acknowledged yet is refused. */
  async #dropJob(job: LeasedJob): Promise<void> {
    this.#logger.info({ job: job.id, reason: 'the source was deleted' }, 'source.run-dropped');
    if (job.unpersisted?.refuse(unknownEndpoint()) === true) return;
    await job.unpersisted?.write();
    await this.#store.transaction((tx) => settleJobs(this.#store, tx, { node: this.#node, jobs: [job] }));
  }
}

/** Stores the end of a job. If the row of the job is not written yet, the end is stored in its place. */
function endJob<T>(
  job: LeasedJob,
  end: InvocationEnd,
  store: (jobEnd: InvocationEnd) => Promise<T>,
): Promise<T> {
  if (job.unpersisted?.cancelWrite() !== true) {
    return store({ ...end, job: { id: job.id, attempts: job.attempts } });
  }
  const settled = store(end);
  job.unpersisted.settledBy(settled);
  return settled;
}

function once(work: () => void): () => void {
  let isDone = false;
  return () => {
    if (isDone) return;
    isDone = true;
    work();
  };
}

function replyReason(outcome: CallOutcome): string {
  if (outcome.status === 'finished') return 'the run ended without a response';
  return outcome.status === 'timed_out'
    ? 'the run reached its deadline without a response'
    : 'the run failed before it responded';
}
