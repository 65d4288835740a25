import type { EventRouter } from '#events/emit-event.ts';
import type { EventBus } from '#events/event-bus.ts';
import type { OutcomeRecorder } from '#health/outcome-store.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { usageOf } from '#metering/invocation-usage.ts';
import type { HttpReply, StepFlow } from '#runner/call-outcome.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Store } from '#storage/store.ts';
import type { RunSendTable, RunState, RunStepTable, WaitKind } from '#storage/tables/workflow-tables.ts';
import type { LoadedDeployment, LoadedStep } from '#workflows/definitions/loaded-deployment.ts';
import type { LiveRun } from './live-run.ts';
import { sendJobs } from './queue-sends.ts';
import { type NextState, type RecordResult, type RunRecord, recordRuns } from './record-run.ts';
import { emissionsOf, errorJson } from './run-events.ts';
import { retryWaitMs, withAttempt } from './run-retries.ts';
import type { StepError, StepResult, StepRunner } from './run-step.ts';
import { stepsOfRun } from './run-store.ts';

/** Callbacks of the engine. */
export interface RunObservers {
  /** A run of this workflow has ended: there may be more than are kept. */
  ended(workflowId: string): void;
  /** A run waits until then, epoch ms; it may be over at once. */
  parked(untilMs: number): void;
}

/** Why a run stops here for now. */
export type Stop = 'ended' | 'parked';

/** Another node holds the run, or it was cancelled: what is under way here is dropped. */
export class RunLostError extends Error {
  override name = 'RunLostError';
}

/**
 * The engine: from the recorded steps of a run to its next one. The only place, beside `end-run.ts` and `resume-by-link.ts`,
 * where a run changes its state; the states are drawn in run-states.md.
 */
export class RunEngine {
  readonly #store: Store;
  readonly #bus: EventBus;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #steps: StepRunner;
  readonly #deployments: { get(deploymentId: string): Promise<LoadedDeployment> };
  readonly #write: BatchWrite<RunRecord, RecordResult>;
  readonly #observers: RunObservers;
  readonly #mayRun: (ownerId: string) => boolean;
  readonly #onReply: (runId: string, reply: HttpReply) => void;

  constructor(options: {
    store: Store;
    bus: EventBus;
    router: EventRouter;
    outcomes: OutcomeRecorder;
    hasOthers: () => boolean;
    clock: Clock;
    logger: Logger;
    node: string;
    steps: StepRunner;
    deployments: { get(deploymentId: string): Promise<LoadedDeployment> };
    observers: RunObservers;
    /** False when the owner has used up a quota that is enforced. */
    mayRun: (ownerId: string) => boolean;
    /** The reply for the caller that waits for it. */
    onReply: (runId: string, reply: HttpReply) => void;
  }) {
    this.#store = options.store;
    this.#bus = options.bus;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#steps = options.steps;
    this.#deployments = options.deployments;
    this.#write = recordRuns(options);
    this.#observers = options.observers;
    this.#mayRun = options.mayRun;
    this.#onReply = options.onReply;
  }

  /** From the first step that is not recorded to the end, or to a wait. Throws `RunLostError`, `UnavailableError`. */
  async advance(live: LiveRun): Promise<Stop> {
    if (!this.#mayRun(live.run.owner_id) && live.waited === null)
      return this.#fail(live, { position: 0, error: quotaUsedUp });
    if (live.waited?.kind === 'suspend' || live.waited?.resumption.cancelled === true) {
      const stop = await this.#afterSuspension(live, live.waited);
      if (stop !== undefined) return stop;
    }
    for (;;) {
      const next = live.next();
      if (next === undefined) return this.#end(live, { state: 'succeeded' });
      const refused = await this.#renewCredentials(live);
      if (refused !== undefined) return this.#fail(live, { position: next.position, error: refused });
      const step = live.stepAt(next.position);
      const result = await this.#steps.run(
        live,
        { ...next, step },
        {
          signal: live.abort.signal,
          onRespond: (reply) => this.#onReply(live.run.id, reply),
        },
      );
      if (live.isEnded) throw new RunLostError('the run was ended');
      const stop = await this.#apply(live, { step, position: next.position, result });
      if (stop !== undefined) return stop;
    }
  }

  /** Runs before a step whose tokens ended while the steps before it ran. An error: new ones cannot be had. */
  async #renewCredentials(live: LiveRun): Promise<StepError | undefined> {
    const { id, freshUntilMs } = live.deployment;
    if (freshUntilMs === null || freshUntilMs > this.#clock.now()) return undefined;
    try {
      live.deployment = await this.#deployments.get(id);
      return undefined;
    } catch (error) {
      if (!(error instanceof CallerError)) throw error;
      return { code: 'ConfigurationError', msg: error.message, stack: '' };
    }
  }

  /** Records what a step did and decides what follows; undefined: the next step. */
  async #apply(
    live: LiveRun,
    done: { step: LoadedStep; position: number; result: StepResult },
  ): Promise<Stop | undefined> {
    const { step, position, result } = done;
    const { flow } = result;
    const row = this.#stepRow(live, done);
    if (result.status === 'failed')
      return this.#fail(live, { row, position, result, error: result.error ?? unknownError });
    if (flow?.kind === 'rerun') {
      const before =
        live.waited?.kind === 'rerun' && live.waited.position === position
          ? live.waited.resumption.run
          : undefined;
      const runs = before?.runs ?? 1;
      if (runs <= flow.maxRetries) {
        const run = { runs: runs + 1, context: JSON.parse(live.deployment.redact(flow.context)) as unknown };
        const waits = { kind: 'rerun', ms: flow.ms, position, resumption: { run } } as const;
        return this.#wait(live, { ...row, state: 'waiting' }, result, waits);
      }
    }
    if (flow?.kind === 'suspend')
      return this.#wait(live, { ...row, state: 'waiting' }, result, {
        kind: 'suspend',
        ms: flow.ms,
        position,
        resumption: null,
      });
    live.finished(position, row);
    if (flow?.kind === 'delay')
      return this.#wait(live, row, result, { kind: 'delay', ms: flow.ms, position, resumption: null });
    if (flow?.kind === 'exit')
      return this.#end(live, { state: 'succeeded', reason: exitReason(live, flow), row, result, position });
    if (live.next() === undefined) return this.#end(live, { state: 'succeeded', row, result, position });
    await this.#record(live, {
      ...this.#effectsOf(live, step, result),
      step: row,
      next: { kind: 'go-on', clears: live.waited !== null || live.failures > 0 },
    });
    live.waited = null;
    live.failures = 0;
    return undefined;
  }

  /** A suspended step that was resumed is finished with what came; one that was not in time ends the run. */
  async #afterSuspension(live: LiveRun, waited: NonNullable<LiveRun['waited']>): Promise<Stop | undefined> {
    const { resumption, position } = waited;
    if (resumption.cancelled === true)
      return this.#end(live, { state: 'cancelled', reason: 'cancelled by its URL', position });
    if (resumption.request === undefined) {
      const reason = 'it was suspended and not resumed in time';
      return this.#end(live, { state: 'cancelled', reason, position });
    }
    const tries = (await stepsOfRun(this.#store.read, live.run.id)).filter(
      (row) => row.position === position,
    );
    const last = tries.at(-1);
    if (last === undefined)
      throw new Error(`run ${live.run.id} waits at step ${position}, which has no record`);
    const data = live.deployment.redact(JSON.stringify(resumption.request));
    const exports =
      last.exports === '{}'
        ? `{"$resume_data":${data}}`
        : `${last.exports.slice(0, -1)},"$resume_data":${data}}`;
    const nowMs = this.#clock.now();
    const row: RunStepTable = {
      ...last,
      try: last.try + 1,
      state: 'succeeded',
      exports,
      logs: '[]',
      ended_at_ms: nowMs,
    };
    live.finished(position, row);
    if (live.next() === undefined) return this.#end(live, { state: 'succeeded', row, position });
    await this.#record(live, { step: row, next: { kind: 'go-on', clears: true } });
    live.waited = null;
    live.failures = 0;
    return undefined;
  }

  async #fail(
    live: LiveRun,
    failed: { row?: RunStepTable; position: number; result?: StepResult; error: StepError },
  ): Promise<Stop> {
    const { row, position, result, error } = failed;
    const failures = live.failures + 1;
    const waitMs =
      live.deployment.settings.autoRetry && row !== undefined && result?.isFinal === false
        ? retryWaitMs(failures)
        : undefined;
    if (waitMs !== undefined && row !== undefined && result !== undefined) {
      live.failures = failures;
      const before = live.waited?.position === position ? live.waited.resumption : null;
      // What woke a try before is no matter of this one, but for what `$.flow.rerun` gave it.
      const resumption = before?.run === undefined ? null : before;
      const kind = resumption === null ? 'retry' : 'rerun';
      const retryAtMs = this.#clock.now() + waitMs;
      const exports = withAttempt(row, { retryAtMs, ...this.#steps.linksOf(live, row) });
      return this.#wait(live, { ...row, exports }, result, { kind, ms: waitMs, position, resumption });
    }
    const text = errorJson(row, error, this.#clock.now());
    return this.#end(live, {
      state: 'failed',
      error: text,
      position,
      ...(row === undefined ? {} : { row }),
      ...(result === undefined ? {} : { result }),
    });
  }

  async #wait(
    live: LiveRun,
    row: RunStepTable,
    result: StepResult,
    wait: {
      kind: WaitKind;
      ms: number;
      position: number;
      resumption: Extract<NextState, { kind: 'wait' }>['resumption'];
    },
  ): Promise<Stop> {
    const untilMs = this.#clock.now() + wait.ms;
    const step = live.deployment.steps[wait.position];
    const { position, resumption } = wait;
    const { woken } = await this.#record(live, {
      ...(step === undefined ? {} : this.#effectsOf(live, step, result)),
      step: row,
      usage: this.#usageOf(live),
      next: { kind: 'wait', waitKind: wait.kind, untilMs, position, failures: live.failures, resumption },
    });
    // No caller keeps a connection open for as long as the wait may take, and after it the reply is no longer known.
    if (live.response !== undefined) this.#onReply(live.run.id, live.response);
    this.#observers.parked(woken ? this.#clock.now() : untilMs);
    return 'parked';
  }

  async #end(
    live: LiveRun,
    end: {
      state: RunState;
      reason?: string;
      error?: string;
      position?: number;
      row?: RunStepTable;
      result?: StepResult;
    },
  ): Promise<Stop> {
    const { run } = live;
    const { state, error = null, reason = null, position = live.deployment.steps.length, row, result } = end;
    const step = row === undefined ? undefined : live.deployment.steps[row.position];
    const effects = step === undefined || result === undefined ? {} : this.#effectsOf(live, step, result);
    const nowMs = this.#clock.now();
    const isSent = state !== 'cancelled';
    live.endState = state;
    if (error !== null) live.errorMessage = (JSON.parse(error) as StepError).msg;
    const jobs = isSent ? sendJobs(run, live.sends, nowMs) : [];
    const { stored } = await this.#record(live, {
      ...effects,
      ...(row === undefined ? {} : { step: row }),
      usage: this.#usageOf(live),
      next: {
        kind: 'end',
        state,
        position,
        error,
        reason,
        emissions: emissionsOf(live, { error, isSent }),
        jobs,
        emits: isSent && live.sends.some(({ kind }) => kind === 'emit'),
      },
    });
    this.#bus.publish(stored);
    if (jobs.length > 0) this.#observers.parked(nowMs);
    if (live.response !== undefined) this.#onReply(live.run.id, live.response);
    this.#logger[state === 'succeeded' ? 'debug' : 'info'](
      { run: run.id, workflow: run.workflow_id, owner: run.owner_id, state, attempt: live.job.attempts },
      'run.ended',
    );
    this.#observers.ended(run.workflow_id);
    return 'ended';
  }

  /** One commit. Throws `RunLostError` when the run is no longer this node's to record. */
  async #record(
    live: LiveRun,
    part: Omit<RunRecord, 'run' | 'job' | 'unpersisted'>,
  ): Promise<Extract<RecordResult, { held: true }>> {
    const { job, run } = live;
    const rows = live.unpersisted;
    live.unpersisted = undefined;
    const inPlace = rows !== undefined && job.unpersisted?.cancelWrite() === true;
    const submitted = this.#store.writes.submit(this.#write, {
      run,
      job: { id: job.id, attempts: job.attempts },
      ...(inPlace ? { unpersisted: rows } : {}),
      ...(job.attempts > 1 ? { resetsAttempts: true } : {}),
      ...part,
    });
    if (inPlace) job.unpersisted?.settledBy(submitted);
    const result = await submitted;
    if (!result.held) throw new RunLostError('another node has the run, or it was ended');
    if (job.attempts > 1 && part.next.kind === 'go-on') job.attempts = 1;
    return result;
  }

  /** What a step left to be stored beside its record. */
  #effectsOf(live: LiveRun, step: LoadedStep, result: StepResult): Pick<RunRecord, 'sends' | 'stepDb'> {
    const { run } = live;
    const sends = result.sends.map(({ kind, payload }) => {
      const send: RunSendTable = {
        run_id: run.id,
        number: live.sends.length + 1,
        owner_id: run.owner_id,
        workflow_id: run.workflow_id,
        kind,
        payload,
        state: 'queued',
        result: null,
        created_at_ms: result.endedAtMs,
        ended_at_ms: null,
      };
      live.sends.push(send);
      return send;
    });
    const hasDb = Object.keys(result.dbSets).length > 0;
    return {
      ...(sends.length === 0 ? {} : { sends }),
      ...(hasDb ? { stepDb: { stepId: step.id, sets: result.dbSets } } : {}),
    };
  }

  #stepRow(
    live: LiveRun,
    { step, position, result }: { step: LoadedStep; position: number; result: StepResult },
  ): RunStepTable {
    const { run } = live;
    return {
      run_id: run.id,
      owner_id: run.owner_id,
      workflow_id: run.workflow_id,
      position,
      try: live.tryAt(position),
      step_id: step.id,
      namespace: step.namespace,
      state: result.status === 'finished' ? 'succeeded' : 'failed',
      input: result.input,
      exports: result.exports,
      logs: result.logs,
      error: result.error === undefined ? null : JSON.stringify(result.error),
      started_at_ms: result.startedAtMs,
      ended_at_ms: result.endedAtMs,
    };
  }

  /** A part of a run counts as it ends, with at least one credit. */
  #usageOf(live: LiveRun) {
    return usageOf(live.run.owner_id, this.#clock.now(), {
      invocations: live.waited === null ? 1 : 0,
      computeMs: Math.ceil(live.segmentMs),
      memoryMb: live.deployment.settings.memoryMb,
      workflowRun: true,
    });
  }
}

const unknownError: StepError = { code: 'Error', msg: '', stack: '' };
const quotaUsedUp: StepError = {
  code: 'Quota Exceeded',
  msg: 'the daily quota of the owner is used up; it is reset at 00:00 UTC',
  stack: '',
};

function exitReason(live: LiveRun, flow: Extract<StepFlow, { kind: 'exit' }>): string {
  if (flow.reason === null) return 'a step ended the workflow';
  // PostgreSQL has no NUL in text.
  return live.deployment.redact(flow.reason).replaceAll('\0', '');
}
