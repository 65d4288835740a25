import type { EventAllowance, EventRouter } from '#events/emit-event.ts';
import type { EventBus } from '#events/event-bus.ts';
import type { OutcomeRecorder } from '#health/outcome-store.ts';
import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import { usageOf } from '#metering/invocation-usage.ts';
import type { HttpReply } from '#runner/call-outcome.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Store } from '#storage/store.ts';
import type { RunSendTable, RunState, RunStepTable } from '#storage/tables/workflow-tables.ts';
import type { LoadedStep } from '#workflows/definitions/loaded-deployment.ts';
import type { LiveRun } from './live-run.ts';
import { sendJobs } from './queue-sends.ts';
import { recordRuns } from './record-run.ts';
import type { Stop } from './run.ts';
import { emissionsOf, errorJson } from './run-events.ts';
import type { RecordResult, RunRecord } from './run-record.ts';
import { endRunSpan } from './run-span.ts';
import type { StepError, StepPlace, StepResult } from './run-step.ts';
import type { Strand } from './strand.ts';

/** Callbacks of the engine. */
export interface RunObservers {
  /** A run of this workflow has ended: there may be more than are kept. */
  ended(workflowId: string): void;
  /** A run waits until then, epoch ms; it may be over at once. */
  parked(untilMs: number): void;
  /** A `call` block waits for the end of the run that it has begun. */
  callWaits(
    called: { runId: string; workflowId: string },
    caller: { runId: string; position: number; iteration: string },
  ): void;
}

export interface LiveRunRecordsOptions {
  store: Store;
  bus: EventBus;
  router: EventRouter;
  outcomes: OutcomeRecorder;
  /** Absent: what is emitted is not limited. */
  allowance?: EventAllowance;
  hasOthers: () => boolean;
  clock: Clock;
  logger: Logger;
  node: string;
  observers: RunObservers;
  /** The reply for the caller that waits for it. */
  onReply: (runId: string, reply: HttpReply) => void;
}

type RecordPart = Omit<RunRecord, 'run' | 'job' | 'unpersisted'>;
type HeldRecord = Extract<RecordResult, { held: true }>;

/** Another node holds the run, or it was cancelled: what is under way here is dropped. */
export class RunLostError extends Error {
  override name = 'RunLostError';
}

/** What the engine writes of the runs that advance here: one commit for each step, wait and end, stored only if this node still holds the run. */
export class LiveRunRecords {
  readonly #store: Store;
  readonly #bus: EventBus;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #write: BatchWrite<RunRecord, RecordResult>;
  readonly #observers: RunObservers;
  readonly #onReply: (runId: string, reply: HttpReply) => void;

  constructor(options: LiveRunRecordsOptions) {
    this.#store = options.store;
    this.#bus = options.bus;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#write = recordRuns(options);
    this.#observers = options.observers;
    this.#onReply = options.onReply;
  }

  /** The run waits in the store. No caller keeps a connection open for so long, and after it the reply is no longer known. */
  park(live: LiveRun, untilMs: number): Stop {
    if (live.response !== undefined) this.#onReply(live.run.id, live.response);
    this.#observers.parked(untilMs);
    return 'parked';
  }

  /** Ends the run with an error. */
  fail(
    live: LiveRun,
    failed: { row?: RunStepTable; position: number; result?: StepResult; error: StepError },
  ): Promise<Stop> {
    const { row, position, result, error } = failed;
    const text = errorJson(row, error, this.#clock.now());
    return this.end(live, {
      state: 'failed',
      error: text,
      position,
      ...(row === undefined ? {} : { row }),
      ...(result === undefined ? {} : { result }),
    });
  }

  /** Stores how the run ended, with its last step and what is to be sent; says so to those who wait for it. */
  async end(
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
    if (live.isEnding) throw new RunLostError('another step of the run ends it');
    live.isEnding = true;
    const { state, error = null, reason = null, position = live.deployment.steps.length, row, result } = end;
    const step = row === undefined ? undefined : live.deployment.steps[row.position];
    const effects = step === undefined || result === undefined ? {} : this.effectsOf(live, step, result);
    const nowMs = this.#clock.now();
    const isSent = state !== 'cancelled';
    live.endState = state;
    if (error !== null) live.errorMessage = (JSON.parse(error) as StepError).msg;
    const jobs = isSent ? sendJobs(run, live.sends, nowMs) : [];
    const { stored } = await this.record(live, undefined, {
      ...effects,
      ...(row === undefined ? {} : { step: row }),
      usage: this.usageOf(live),
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
    endRunSpan({ state, error });
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

  /** Throws `RunLostError` when the run is no longer this node's to record, or another strand ends it. */
  record(live: LiveRun, strand: Strand | undefined, part: RecordPart): Promise<HeldRecord> {
    if (live.isEnding && part.next.kind !== 'end')
      return Promise.reject(new RunLostError('another step of the run has ended it'));
    // The first record after a lost node resets `attempts`, which the other records are checked against.
    const isAlone = strand?.parent === undefined || live.job.attempts === 1;
    return isAlone ? this.#commit(live, part) : live.inTurn(() => this.#commit(live, part));
  }

  /** One commit. */
  async #commit(live: LiveRun, part: RecordPart): Promise<HeldRecord> {
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
    if (part.step !== undefined) {
      live.count(part.step);
      live.records += 1;
      live.recordedBytes += part.step.exports.length + part.step.logs.length;
    }
    const result = await submitted;
    if (!result.held) throw new RunLostError('another node has the run, or it was ended');
    if (job.attempts > 1 && part.next.kind === 'go-on') job.attempts = 1;
    return result;
  }

  /** What a step left to be stored beside its record. */
  effectsOf(live: LiveRun, step: LoadedStep, result: StepResult): Pick<RunRecord, 'sends' | 'stepDb'> {
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

  rowOf(live: LiveRun, { strand, step, position, result }: StepPlace & { result: StepResult }): RunStepTable {
    const { run } = live;
    return {
      run_id: run.id,
      owner_id: run.owner_id,
      workflow_id: run.workflow_id,
      position,
      iteration: strand.iteration,
      attempt: strand.attempt,
      try: live.tryAt(position, strand),
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
  usageOf(live: LiveRun) {
    return usageOf(live.run.owner_id, this.#clock.now(), {
      invocations: live.main.waited === null ? 1 : 0,
      computeMs: Math.ceil(live.segmentMs),
      memoryMb: live.deployment.settings.memoryMb,
      workflowRun: true,
    });
  }
}
