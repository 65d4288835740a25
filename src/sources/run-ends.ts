import type { EventAllowance, EventRouter } from '#events/emit-event.ts';
import type { StoredEvent } from '#events/event.ts';
import type { EventBus } from '#events/event-bus.ts';
import type { OutcomeRecorder } from '#health/outcome-store.ts';
import { UncountedAttempt } from '#jobs/failed-attempts.ts';
import type { JobPayloads } from '#jobs/job-kinds.ts';
import { type LeasedJob, requeueJob, settleJobs } from '#jobs/job-store.ts';
import { retryDelayMs } from '#jobs/retry-schedule.ts';
import type { Clock } from '#lib/clock.ts';
import type { CallerError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { usageOf } from '#metering/invocation-usage.ts';
import type { CallOutcome, UserCodeError } from '#runner/call-outcome.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Store } from '#storage/store.ts';
import type { SourceTable } from '#storage/tables/source-tables.ts';
import { carriedTrace, currentSpan } from '#telemetry/span.ts';
import type { Deployment } from './deployment.ts';
import { unknownEndpoint } from './endpoint-errors.ts';
import { failureText, type InvocationLimits } from './invocation-end.ts';
import { errorEvent } from './outcome-events.ts';
import { type InvocationEnd, type SettleResult, settleInvocations } from './settle-invocation.ts';
import type { Lane } from './source-lanes.ts';
import { findSource } from './source-store.ts';

export interface RunEndsOptions {
  store: Store;
  bus: EventBus;
  router: EventRouter;
  outcomes: OutcomeRecorder;
  clock: Clock;
  logger: Logger;
  node: string;
  limits: InvocationLimits;
  /** Absent: what is emitted is not limited. */
  allowance?: EventAllowance;
}

/** A run whose code was called, with what it caused. */
interface CalledRun {
  deployment: Deployment;
  outcome: CallOutcome;
  end: InvocationEnd;
}

/** Stores how runs and hooks of sources end. What a run caused is stored with the end of its job, or not at all. */
export class RunEnds {
  readonly #store: Store;
  readonly #bus: EventBus;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #node: string;
  readonly #memoryMb: number;
  readonly #settle: BatchWrite<InvocationEnd, SettleResult>;

  constructor(options: RunEndsOptions) {
    this.#store = options.store;
    this.#bus = options.bus;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#node = options.node;
    this.#memoryMb = options.limits.memoryMb;
    this.#settle = settleInvocations(options);
  }

  /** The end of a run whose code was called. */
  settleRun(lane: Lane, job: LeasedJob, called: CalledRun): Promise<void> {
    const { deployment, outcome } = called;
    const lasting = job.lane === lane.sourceId ? { ...called.end, lane: job.lane } : called.end;
    return endJob(job, lasting, (jobEnd) => this.#settleEnd(lane, job, deployment, outcome, jobEnd));
  }

  /** The end of a hook, or of anything else that has no job. */
  async settleWithoutJob(end: InvocationEnd): Promise<void> {
    const result = await this.#store.writes.submit(this.#settle, end);
    if (result.settled) this.#bus.publish(result.stored);
  }

  /** Emits events of a source that no run caused. */
  async emitOutside(
    source: Pick<SourceTable, 'id' | 'owner_id'>,
    events: InvocationEnd['emission']['events'],
    outcome: Pick<InvocationEnd, 'run' | 'tick'> = {},
  ): Promise<void> {
    await this.settleWithoutJob({
      sourceId: source.id,
      emission: { emitterId: source.id, hops: 0, events, ...carriedTrace() },
      dbSets: {},
      usage: usageOf(source.owner_id, this.#clock.now(), { invocations: 0, computeMs: 0, memoryMb: 0 }),
      isStale: () => false,
      ...outcome,
    });
  }

  /** Emits an error without a run on `$errors`, and marks the source as failing. */
  async failOutside(
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
      if ((await findSource(this.#store.read, lane.sourceId)) === undefined) {
        await this.dropJob(job);
        return;
      }
      if (result.reason === 'taken' && end.job !== undefined) {
        this.#logger.warn({ source: lane.sourceId, job: job.id }, 'source.run-taken-over');
        return;
      }
      throw new UncountedAttempt('an earlier run of this source could not be stored');
    }
    noteOutcome(deployment, outcome, result.stored);
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
  async runAgainLater(lane: Lane, job: LeasedJob, outcome: CallOutcome): Promise<void> {
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
  async refuseRun(
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
        ...carriedTrace(),
        events: [errorEvent(error, { redact: (text) => text, originalEvent: payload.event, nowMs })],
      },
      dbSets: {},
      usage: usageOf(job.ownerId, nowMs, { invocations: 1, computeMs: 0, memoryMb: this.#memoryMb }),
      isStale: () => false,
      run: { failure: cause.message, revision: '' },
      ...(payload.tick === undefined ? {} : { tick: payload.tick }),
    };
    const result = await endJob(job, end, (jobEnd) => this.#store.writes.submit(this.#settle, jobEnd));
    if (result.settled) this.#bus.publish(result.stored);
  }

  /** The source was deleted. A request that was not acknowledged yet is refused. */
  async dropJob(job: LeasedJob): Promise<void> {
    this.#logger.info({ job: job.id, reason: 'the source was deleted' }, 'source.run-dropped');
    if (job.unpersisted?.refuse(unknownEndpoint()) === true) return;
    await job.unpersisted?.write();
    await this.#store.transaction((tx) => settleJobs(this.#store, tx, { node: this.#node, jobs: [job] }));
  }
}

/** Adds what a run came to to its span. */
function noteOutcome({ redact }: Deployment, outcome: CallOutcome, stored: readonly StoredEvent[]): void {
  const span = currentSpan();
  if (span === undefined) return;
  const { status, error } = outcome;
  if (error !== undefined) span.fail(failureText(error, redact));
  span.set({ 'millrace.run.state': status, 'millrace.run.events': stored.length });
  for (const { emit_id, channel } of stored)
    span.addEvent('event.emitted', { 'millrace.event.emit_id': emit_id, 'millrace.event.channel': channel });
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
