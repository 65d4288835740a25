import type { EventRouter } from '#events/emit-event.ts';
import type { EventBus } from '#events/event-bus.ts';
import type { OutcomeRecorder } from '#health/outcome-store.ts';
import { must } from '#lib/assert.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import { countText } from '#lib/units.ts';
import { usageOf } from '#metering/invocation-usage.ts';
import type { HttpReply, StepFlow } from '#runner/call-outcome.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Store } from '#storage/store.ts';
import type { RunSendTable, RunState, RunStepTable, WaitKind } from '#storage/tables/workflow-tables.ts';
import { isStructured, positionsIn } from '#workflows/definitions/block-definition.ts';
import type { LoadedDeployment, LoadedStep } from '#workflows/definitions/loaded-deployment.ts';
import type { LiveRun } from './live-run.ts';
import { sendJobs } from './queue-sends.ts';
import { type RecordResult, type RunRecord, recordRuns } from './record-run.ts';
import type { RunResumption, Stop } from './run.ts';
import { emissionsOf, errorJson } from './run-events.ts';
import { retryWaitMs, withAttempt } from './run-retries.ts';
import { SequenceRunner, type StepEnd } from './run-sequence.ts';
import {
  payloadError,
  type StepError,
  type StepPlace,
  type StepResult,
  type StepRunner,
} from './run-step.ts';
import { lastTryOf } from './run-store.ts';
import { findWait } from './run-wait-store.ts';
import type { Strand, StrandWait } from './strand.ts';

/** Callbacks of the engine. */
export interface RunObservers {
  /** A run of this workflow has ended: there may be more than are kept. */
  ended(workflowId: string): void;
  /** A run waits until then, epoch ms; it may be over at once. */
  parked(untilMs: number): void;
}

/** A step that is to run next. `isCaught`: a block around it says what follows when it fails. */
type NextStep = StepPlace & { isCaught: boolean };

/** How a try of a step ended; `waits`: its strand continues at that time (epoch ms), or when the wait is answered. */
type TryEnd = StepEnd | { kind: 'waits'; untilMs: number };

type RecordPart = Omit<RunRecord, 'run' | 'job' | 'unpersisted'>;
type HeldRecord = Extract<RecordResult, { held: true }>;

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
  readonly #sequences: SequenceRunner;

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
    this.#sequences = new SequenceRunner({
      run: (live, at, wait) => this.#runStep(live, at, wait),
      fail: (live, position, error) => this.#fail(live, { position, error }),
    });
  }

  /** From the first step that is not recorded to the end, or to a wait. Throws `RunLostError`, `UnavailableError`. */
  async advance(live: LiveRun): Promise<Stop> {
    const { main } = live;
    if (!this.#mayRun(live.run.owner_id) && main.waited === null)
      return this.#fail(live, { position: 0, error: quotaUsedUp });
    if (isAnswered(main)) {
      const { position } = main.waited;
      const end = await this.#afterSuspension(live, main, main.waited, isLast(live, main, position));
      if (end.kind === 'stopped') return end.stop;
      live.record(end.row);
    }
    const whole = { from: 0, to: live.deployment.steps.length };
    const end = await this.#sequences.run(live, main, whole, false);
    if (end.kind !== 'stopped') return this.#end(live, { state: 'succeeded' });
    return end.stop === 'branches' ? this.#parkBranches(live) : end.stop;
  }

  /** As `StepTurns` has it. */
  async #runStep(
    live: LiveRun,
    at: NextStep,
    wait: (StrandWait & { failures: number }) | undefined,
  ): Promise<StepEnd> {
    const { strand } = at;
    if (strand.parent === undefined) return stepEnd(await this.#tryStep(live, at));
    let end: TryEnd;
    if (wait === undefined) end = await live.waits.during(() => this.#tryStep(live, at));
    else {
      strand.waited = wait;
      strand.failures = wait.failures;
      end = { kind: 'waits', untilMs: wait.untilMs };
    }
    while (end.kind === 'waits') {
      if (!(await this.#waitHere(live, strand, end.untilMs))) return { kind: 'stopped', stop: 'branches' };
      end = await live.waits.during(() =>
        strand.waited?.kind === 'delay' && !isAnswered(strand)
          ? this.#afterDelay(live, at)
          : this.#tryStep(live, at),
      );
    }
    return end;
  }

  /** One try of a step, and what follows from it. */
  async #tryStep(live: LiveRun, at: NextStep): Promise<TryEnd> {
    const { strand, step, position } = at;
    if (isAnswered(strand) && strand.waited.position === position)
      return this.#afterSuspension(live, strand, strand.waited, false);
    const refused = tooMuch(live) ?? (await this.#renewCredentials(live));
    if (refused !== undefined)
      return { kind: 'stopped', stop: await this.#fail(live, { position, error: refused }) };
    const result = await this.#steps.run(live, at, {
      signal: live.abort.signal,
      onRespond: (reply) => this.#onReply(live.run.id, reply),
    });
    if (live.isEnded) throw new RunLostError('the run was ended');
    return this.#apply(live, { ...at, step, result });
  }

  /** True when the wait of a strand is over; false when the run is parked. */
  async #waitHere(live: LiveRun, strand: Strand, untilMs: number): Promise<boolean> {
    let until = untilMs;
    while (until > this.#clock.now()) {
      if ((await live.waits.until(until)) === 'park') return false;
      // It may have been answered meanwhile.
      const answered = await this.#readWait(live, strand);
      if (answered === undefined) return false;
      until = answered;
    }
    return true;
  }

  /** What the store says of a wait; its time (epoch ms), undefined when it is gone. */
  async #readWait(live: LiveRun, strand: Strand): Promise<number | undefined> {
    const { waited, iteration } = strand;
    if (waited === null) return undefined;
    const key = { run_id: live.run.id, position: waited.position, iteration };
    const row = await findWait(this.#store.read, key);
    if (row === undefined) return undefined;
    const resumption = row.resumption === null ? {} : (JSON.parse(row.resumption) as RunResumption);
    strand.waited = { ...waited, resumption, untilMs: row.until_ms };
    return row.until_ms;
  }

  /** Nothing else of the run is under way here: it waits until the first of its strands continues. */
  async #parkBranches(live: LiveRun): Promise<Stop> {
    const { untilMs } = await this.#record(live, live.main, {
      usage: this.#usageOf(live),
      next: {
        kind: 'wait',
        waitKind: 'branches',
        untilMs: this.#clock.now(),
        position: 0,
        failures: 0,
        resumption: null,
      },
    });
    if (live.response !== undefined) this.#onReply(live.run.id, live.response);
    this.#observers.parked(untilMs ?? this.#clock.now());
    return 'parked';
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

  /** Records what a step did and decides what follows. */
  async #apply(live: LiveRun, done: NextStep & { result: StepResult }): Promise<TryEnd> {
    const { strand, step, position, result } = done;
    const { flow } = result;
    const row = this.#stepRow(live, done);
    if (result.status === 'failed') return this.#applyFailure(live, done, row);
    if (flow?.kind === 'rerun') {
      const before =
        strand.waited?.kind === 'rerun' && strand.waited.position === position
          ? strand.waited.resumption.run
          : undefined;
      const runs = before?.runs ?? 1;
      if (runs <= flow.maxRetries) {
        const run = { runs: runs + 1, context: JSON.parse(live.deployment.redact(flow.context)) as unknown };
        const waits = { kind: 'rerun', ms: flow.ms, position, resumption: { run } } as const;
        return this.#wait(live, strand, { ...row, state: 'waiting' }, result, waits);
      }
    }
    if (flow?.kind === 'suspend')
      return this.#wait(live, strand, { ...row, state: 'waiting' }, result, {
        kind: 'suspend',
        ms: flow.ms,
        position,
        resumption: null,
      });
    if (flow?.kind === 'delay') {
      strand.finished(row);
      return this.#wait(live, strand, row, result, {
        kind: 'delay',
        ms: flow.ms,
        position,
        resumption: null,
      });
    }
    const endsHere = flow?.kind === 'exit';
    if (endsHere || isLast(live, strand, position)) {
      strand.finished(row);
      const reason = endsHere ? { reason: exitReason(live, flow) } : {};
      return stopped(await this.#end(live, { state: 'succeeded', ...reason, row, result, position }));
    }
    await this.#goOn(live, strand, { ...this.#effectsOf(live, step, result), step: row });
    return { kind: 'done', row };
  }

  /** A step that failed is tried again, or is an error that a block around it handles, or ends the run. */
  async #applyFailure(
    live: LiveRun,
    done: NextStep & { result: StepResult },
    row: RunStepTable,
  ): Promise<TryEnd> {
    const { strand, step, position, result, isCaught } = done;
    const failures = strand.failures + 1;
    const waitMs = retryAfter(live, step, result, failures);
    if (waitMs !== undefined) {
      strand.failures = failures;
      const before = strand.waited?.position === position ? strand.waited.resumption : null;
      // What woke a try before is no matter of this one, but for what `$.flow.rerun` gave it.
      const resumption = before?.run === undefined ? null : before;
      const kind = resumption === null ? 'retry' : 'rerun';
      const retryAtMs = this.#clock.now() + waitMs;
      const exports = withAttempt(row, { retryAtMs, ...this.#steps.linksOf(live, row) });
      const wait = { kind, ms: waitMs, position, resumption } as const;
      return this.#wait(live, strand, { ...row, exports }, result, wait);
    }
    if (isCaught) {
      const caught: RunStepTable = { ...row, state: 'caught' };
      await this.#goOn(live, strand, { ...this.#effectsOf(live, step, result), step: caught });
      return { kind: 'done', row: caught };
    }
    const error = result.error ?? unknownError;
    return stopped(await this.#fail(live, { row, position, result, error }));
  }

  /** The step is over, and the next one of its strand follows. */
  async #goOn(
    live: LiveRun,
    strand: Strand,
    part: Omit<RunRecord, 'run' | 'job' | 'unpersisted' | 'next'>,
  ): Promise<void> {
    const { waited, iteration } = strand;
    const isBranch = strand.parent !== undefined;
    const clears = live.main.waited !== null || (!isBranch && strand.failures > 0);
    const answered = isBranch && waited !== null ? { position: waited.position, iteration } : undefined;
    await this.#record(live, strand, {
      ...part,
      next: { kind: 'go-on', clears, ...(answered === undefined ? {} : { answered }) },
    });
    if (clears) live.main.waited = null;
    strand.waited = null;
    strand.failures = 0;
  }

  /** A delay of a branch is over: its step was recorded before. */
  async #afterDelay(live: LiveRun, { strand, position }: NextStep): Promise<TryEnd> {
    const row = must(live.recordedAt(position, strand.iteration), `the record of step ${position}`);
    await this.#goOn(live, strand, {});
    return { kind: 'done', row };
  }

  /** A suspended step that was resumed is finished with what came; one that was not in time ends the run. */
  async #afterSuspension(
    live: LiveRun,
    strand: Strand,
    waited: StrandWait,
    endsRun: boolean,
  ): Promise<StepEnd> {
    const { resumption, position } = waited;
    if (resumption.cancelled === true)
      return stopped(await this.#end(live, { state: 'cancelled', reason: 'cancelled by its URL', position }));
    if (resumption.request === undefined) {
      const reason = 'it was suspended and not resumed in time';
      return stopped(await this.#end(live, { state: 'cancelled', reason, position }));
    }
    const last = await lastTryOf(this.#store.read, live.run.id, { position, iteration: strand.iteration });
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
    if (endsRun) {
      live.main.finished(row);
      return stopped(await this.#end(live, { state: 'succeeded', row, position }));
    }
    await this.#goOn(live, strand, { step: row });
    return { kind: 'done', row };
  }

  /** Ends the run with an error. */
  #fail(
    live: LiveRun,
    failed: { row?: RunStepTable; position: number; result?: StepResult; error: StepError },
  ): Promise<Stop> {
    const { row, position, result, error } = failed;
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
    strand: Strand,
    row: RunStepTable,
    result: StepResult,
    wait: {
      kind: WaitKind;
      ms: number;
      position: number;
      resumption: RunResumption | null;
    },
  ): Promise<TryEnd> {
    const { run } = live;
    const untilMs = this.#clock.now() + wait.ms;
    const { kind, position, resumption } = wait;
    const { failures, iteration } = strand;
    const record = { ...this.#effectsOf(live, live.stepAt(position), result), step: row };
    if (strand.parent === undefined) {
      const { woken } = await this.#record(live, strand, {
        ...record,
        usage: this.#usageOf(live),
        next: { kind: 'wait', waitKind: kind, untilMs, position, failures, resumption },
      });
      // No caller keeps a connection open for as long as the wait may take, and after it the reply is no longer known.
      if (live.response !== undefined) this.#onReply(run.id, live.response);
      this.#observers.parked(woken ? this.#clock.now() : untilMs);
      return { kind: 'stopped', stop: 'parked' };
    }
    const { woken } = await this.#record(live, strand, {
      ...record,
      next: {
        kind: 'branch-wait',
        clears: live.main.waited !== null,
        wait: {
          run_id: run.id,
          owner_id: run.owner_id,
          position,
          iteration,
          kind,
          until_ms: untilMs,
          failures,
          resumption: resumption === null ? null : JSON.stringify(resumption),
        },
      },
    });
    live.main.waited = null;
    strand.waited = { kind, position, resumption: resumption ?? {}, untilMs };
    if (kind === 'delay') live.record(row);
    const until = woken ? await this.#readWait(live, strand) : untilMs;
    return { kind: 'waits', untilMs: until ?? untilMs };
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
    if (live.isEnding) throw new RunLostError('another step of the run ends it');
    live.isEnding = true;
    const { state, error = null, reason = null, position = live.deployment.steps.length, row, result } = end;
    const step = row === undefined ? undefined : live.deployment.steps[row.position];
    const effects = step === undefined || result === undefined ? {} : this.#effectsOf(live, step, result);
    const nowMs = this.#clock.now();
    const isSent = state !== 'cancelled';
    live.endState = state;
    if (error !== null) live.errorMessage = (JSON.parse(error) as StepError).msg;
    const jobs = isSent ? sendJobs(run, live.sends, nowMs) : [];
    const { stored } = await this.#record(live, undefined, {
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

  /** Throws `RunLostError` when the run is no longer this node's to record, or another strand ends it. */
  #record(live: LiveRun, strand: Strand | undefined, part: RecordPart): Promise<HeldRecord> {
    if (live.isEnding && part.next.kind !== 'end')
      return Promise.reject(new RunLostError('another step of the run has ended it'));
    // The first record after a node was lost changes what the others are compared with.
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
      live.records += 1;
      live.recordedBytes += part.step.exports.length + part.step.logs.length;
    }
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
    { strand, step, position, result }: NextStep & { result: StepResult },
  ): RunStepTable {
    const { run } = live;
    return {
      run_id: run.id,
      owner_id: run.owner_id,
      workflow_id: run.workflow_id,
      position,
      iteration: strand.iteration,
      try: strand.tryAt(position),
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
      invocations: live.main.waited === null ? 1 : 0,
      computeMs: Math.ceil(live.segmentMs),
      memoryMb: live.deployment.settings.memoryMb,
      workflowRun: true,
    });
  }
}

/** Records of one run. */
const recordsMax = 100_000;
/** Exports and logs of one run, those included that no other step sees. A node that continues the run reads the exports. */
const recordedBytesMax = 24 * 1024 * 1024;

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

/** True when a wait is over and the step does not run again: it was suspended, or is cancelled. */
function isAnswered(strand: Strand): strand is Strand & { waited: StrandWait } {
  const { waited } = strand;
  return waited?.kind === 'suspend' || waited?.resumption.cancelled === true;
}

/** True when nothing follows a step, so that its record can be that of the end too. */
function isLast({ deployment: { steps } }: LiveRun, strand: Strand, position: number): boolean {
  if (strand.parent !== undefined) return false;
  const step = steps[position];
  if (step?.block !== undefined && isStructured(step.block.kind)) return false;
  const whole = positionsIn(steps, { from: 0, to: steps.length });
  return (
    whole.includes(position) && whole.every((other) => other <= position || steps[other]?.disabled === true)
  );
}

/** The error of a run that has too many records: maps in maps could have billions. */
function tooMuch({ records, recordedBytes }: LiveRun): StepError | undefined {
  if (records >= recordsMax)
    return {
      ...{ code: 'Function Payload Limit Exceeded', stack: '' },
      msg: `a run may have ${countText(recordsMax)} records of steps, those for each item of its maps included`,
    };
  return recordedBytes > recordedBytesMax
    ? { ...payloadError('those of all branches and items', recordedBytes, recordedBytesMax), stack: '' }
    : undefined;
}

/** How long until a failed step is tried again, in ms; undefined: it is not. */
function retryAfter(
  live: LiveRun,
  step: LoadedStep,
  result: StepResult,
  failures: number,
): number | undefined {
  const { retries } = step;
  if (retries !== undefined)
    return failures > retries.times ? undefined : retries.seconds * 1000 * 2 ** (failures - 1);
  return live.deployment.settings.autoRetry && !result.isFinal ? retryWaitMs(failures) : undefined;
}

function stopped(stop: Stop): StepEnd {
  return { kind: 'stopped', stop };
}

/** The run's own strand waits in the store only. */
function stepEnd(end: TryEnd): StepEnd {
  return end.kind === 'waits' ? stopped('parked') : end;
}
