import { EarlierJobFirst } from '#jobs/failed-attempts.ts';
import type { JobPayloads } from '#jobs/job-kinds.ts';
import type { JobHandler } from '#jobs/job-registry.ts';
import type { LeasedJob } from '#jobs/job-store.ts';
import { blamesMax } from '#jobs/retry-schedule.ts';
import type { WorkerPool } from '#jobs/worker-pool.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError, toError, UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { CallOutcome, HttpReply, UserCodeError } from '#runner/call-outcome.ts';
import { textsOfOutcome } from '#runner/outcome-texts.ts';
import type { HostCall, HostCallAnswer, Runner, UserCall } from '#runner/runner.ts';
import type { Store } from '#storage/store.ts';
import { redactorOfTexts } from '#vault/redact-large.ts';
import type { Deployment } from './deployment.ts';
import { endOfInvocation, type InvocationLimits, isProcessCrash } from './invocation-end.ts';
import { ReplaceableRuns } from './replaceable-runs.ts';
import { both, type ReplyWaiter } from './reply-waiter.ts';
import { RunEnds, type RunEndsOptions } from './run-ends.ts';
import { replacedNotice } from './source-flow-target.ts';
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
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #node: string;
  readonly #limits: InvocationLimits;
  readonly #ends: RunEnds;
  readonly #lanes: SourceLanes;
  readonly #replies: SourceReplies;
  readonly #hostCalls: SourceHostCalls;
  readonly #kept: ReplyKeeper;
  readonly #pool: Pick<WorkerPool, 'rests' | 'fails'>;
  readonly #onFlowEnded: (sourceId: string) => void;
  readonly #waiters = new Map<string, ReplyWaiter>();
  readonly #replaceable = new ReplaceableRuns();

  constructor(
    options: RunEndsOptions & {
      runner: Runner;
      lanes: SourceLanes;
      replies: SourceReplies;
      hostCalls: SourceHostCalls;
      keptReplies: ReplyKeeper;
      pool: Pick<WorkerPool, 'rests' | 'fails'>;
      /** A run under flow control has ended: its place may be free. */
      onFlowEnded: (sourceId: string) => void;
    },
  ) {
    this.#store = options.store;
    this.#runner = options.runner;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#node = options.node;
    this.#limits = options.limits;
    this.#ends = new RunEnds(options);
    this.#lanes = options.lanes;
    this.#replies = options.replies;
    this.#hostCalls = options.hostCalls;
    this.#kept = options.keptReplies;
    this.#pool = options.pool;
    this.#onFlowEnded = options.onFlowEnded;
    options.store.onNotify((channel, notice) => {
      if (channel === 'millrace_jobs' && notice.startsWith(replacedNotice))
        this.replaced(notice.slice(replacedNotice.length));
    });
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

  /** Stops the code of a run whose job was removed. What it has caused is not stored. */
  replaced(jobId: string): void {
    this.#replaceable.replace(jobId);
  }

  async run(job: LeasedJob, signal: AbortSignal): Promise<void> {
    const payload = job.payload as JobPayloads['run_source'];
    if (payload.flow === undefined) return this.#run(job, signal);
    const replaced = this.#replaceable.begin(job.id);
    try {
      await this.#run(job, AbortSignal.any([signal, replaced]));
    } finally {
      this.#replaceable.end(job.id);
      this.#onFlowEnded(payload.source_id);
    }
  }

  async #run(job: LeasedJob, signal: AbortSignal): Promise<void> {
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
      this.#pool.fails(job, toError(error));
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
    await this.#ends.failOutside(source, error, { redact: (text) => text, originalEvent, tick });
  }

  /** Runs a hook, for `msMax` at most, and stores its emits, db writes and logs. If it threw, only its logs and the error are stored. */
  async runHook(
    deployment: Deployment,
    hook: 'deploy' | 'activate' | 'deactivate',
    { msMax }: { msMax?: number } = {},
  ): Promise<CallOutcome | { status: 'absent' }> {
    if (!deployment.shape.hooks.includes(hook)) return { status: 'absent' };
    const { source } = deployment;
    const lane = this.#lanes.of(source.id);
    const db = await readComponentDb(this.#store.read, source.id);
    const limit = msMax === undefined ? {} : { deadlineMsMax: msMax };
    const outcome = await this.call(deployment, { kind: 'hook', hook }, db, limit);
    // No process was free, or the service is stopping: the hook did not run, so nothing is stored or counted.
    if (outcome.status === 'cancelled') return outcome;
    const redact = await redactorOfTexts(source.owner_id, deployment.redact, textsOfOutcome(outcome));
    const end = endOfInvocation(deployment, outcome, {
      ...{ db: lane.db, limits: this.#limits, redact, nowMs: this.#clock.now() },
      ...{ originalEvent: undefined, hops: 0, isStale: () => false },
    });
    await this.#ends.settleWithoutJob(end);
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
  emitOutside(...given: Parameters<RunEnds['emitOutside']>): Promise<void> {
    return this.#ends.emitOutside(...given);
  }

  /** Reports an error that the code of a source threw after its runs. It belongs to no run. */
  async unattributedError(sourceId: string, error: UserCodeError): Promise<void> {
    const deployment = await this.#lanes.deploymentOf(this.#lanes.of(sourceId));
    if (deployment === undefined) return;
    const { source, redact } = deployment;
    await this.#ends.failOutside(source, error, { redact, originalEvent: undefined });
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
      await this.#ends.refuseRun(lane, job, payload, error);
      return;
    }
    if (deployment === undefined) {
      await this.#ends.dropJob(job);
      return;
    }
    const db = await this.#lanes.dbOf(lane);
    // A run before this one has failed when it was waiting for its turn here.
    if (job.lane === lane.sourceId && this.#pool.rests(lane.sourceId))
      throw new EarlierJobFirst('an earlier run of this source is tried again first');
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
      await this.#ends.runAgainLater(lane, job, outcome);
      return;
    }
    const redact = await redactorOfTexts(job.ownerId, deployment.redact, [
      ...textsOfOutcome(outcome),
      ...(outcome.error === undefined || payload.event === undefined ? [] : [payload.event]),
    ]);
    if (job.unpersisted?.refused === true) {
      // The store refused the job while it ran. Its state is dropped: the next run starts from what is stored.
      this.#logger.warn({ source: lane.sourceId, job: job.id }, 'source.run-refused');
      return;
    }
    const end = endOfInvocation(deployment, outcome, {
      ...{ db: lane.db, limits: this.#limits, redact, nowMs: this.#clock.now() },
      originalEvent: payload.event,
      hops: payload.hops,
      isStale: () => lane.epoch !== epoch,
      isRun: true,
      tick: payload.tick,
    });
    // Undefined: it was dropped while the code ran, and the next run reads it from the store.
    if (lane.db !== undefined) lane.db = { ...lane.db, ...end.dbSets };
    const settled = this.#ends.settleRun(lane, job, { deployment, outcome, end });
    lane.unsettled.add(settled);
    const forgetSettled = () => lane.unsettled.delete(settled);
    settled.then(forgetSettled, forgetSettled);
    if (lane.unsettled.size >= unsettledMax)
      await Promise.race([...lane.unsettled].map((promise) => promise.catch(() => {})));
    endTurn();
    await settled;
  }
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
