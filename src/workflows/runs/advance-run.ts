import { must } from '#lib/assert.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { HttpReply, StepFlow } from '#runner/call-outcome.ts';
import type { Store } from '#storage/store.ts';
import type { RunStepTable } from '#storage/tables/workflow-tables.ts';
import { redactLarge } from '#vault/redact-large.ts';
import { isStructured, positionsIn } from '#workflows/definitions/block-definition.ts';
import type { LoadedDeployment, LoadedStep } from '#workflows/definitions/loaded-deployment.ts';
import type { LiveRun } from './live-run.ts';
import {
  LiveRunRecords,
  type LiveRunRecordsOptions,
  RunLostError,
  type RunObservers,
} from './live-run-records.ts';
import { type EndedStep, isTerminal, type RunResumption, type Stop } from './run.ts';
import {
  type AttemptEnd,
  type ExpiredBlock,
  type FailedAttempt,
  SequenceRunner,
  type StepEnd,
  type StepTurns,
  timeError,
} from './run-blocks.ts';
import { quotaUsedUp, tooMuch } from './run-limits.ts';
import type { RunRecord } from './run-record.ts';
import { ownRetryWaitMs, retryWaitMs, withAttempt } from './run-retries.ts';
import type { StepError, StepPlace, StepResult, StepRunner } from './run-step.ts';
import { lastTryOf } from './run-step-store.ts';
import { findRun } from './run-store.ts';
import { isAnswered, isUnanswered, StepWaits, stopped, type Wait } from './step-waits.ts';
import type { Strand, StrandWait } from './strand.ts';

/** A step that is to run next. `isCaught`: a block around it says what follows when it fails. */
type NextStep = StepPlace & { isCaught: boolean };

/** How a try of a step ended; `waits`: its strand continues at that time (epoch ms), or when the wait is answered. */
type TryEnd = StepEnd | Wait;
/**
 * The engine runs the next step of a run, starting from its recorded steps. After a crash a run comes here by the job of the dead node, which
 * `jobs/worker-pool.ts` queues again and `run-workflow.ts` takes. This is the only place, beside `end-run.ts` and `resume-by-link.ts`,
 * where a run changes its state; the states are drawn in run-states.md.
 */
export class RunEngine {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #steps: StepRunner;
  readonly #deployments: { get(deploymentId: string): Promise<LoadedDeployment> };
  readonly #records: LiveRunRecords;
  readonly #waits: StepWaits;
  readonly #mayRun: (ownerId: string) => boolean;
  readonly #onReply: (runId: string, reply: HttpReply) => void;
  readonly #callWaits: RunObservers['callWaits'];
  readonly #sequences: SequenceRunner;

  constructor(
    options: LiveRunRecordsOptions & {
      steps: StepRunner;
      deployments: { get(deploymentId: string): Promise<LoadedDeployment> };
      /** False when the owner has used up a quota that is enforced. */
      mayRun: (ownerId: string) => boolean;
    },
  ) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#steps = options.steps;
    this.#deployments = options.deployments;
    this.#records = new LiveRunRecords(options);
    this.#waits = new StepWaits({ store: options.store, clock: options.clock, records: this.#records });
    this.#mayRun = options.mayRun;
    this.#onReply = options.onReply;
    this.#callWaits = options.observers.callWaits;
    const turns: StepTurns = {
      run: (live, at, wait) =>
        at.strand.parent === undefined
          ? this.#tryStep(live, at).then(stepEnd)
          : this.#runInBranch(live, at, wait),
      failAttempt: (live, at) => inStrand(live, at.strand, () => this.#failAttempt(live, at)),
      expire: (live, at) => inStrand(live, at.strand, () => this.#expire(live, at)),
      fail: (live, position, error) => this.#records.fail(live, { position, error }),
    };
    this.#sequences = new SequenceRunner(turns, () => options.clock.now());
  }

  /** From the first step that is not recorded to the end, or to a wait. Throws `RunLostError`, `UnavailableError`. */
  async advance(live: LiveRun): Promise<Stop> {
    const { main } = live;
    // A quota refuses what begins. A run that has begun ends, also when its node died and the quota was used up meanwhile.
    if (!live.hasBegun && main.waited === null && !this.#mayRun(live.run.owner_id))
      return this.#records.fail(live, { position: 0, error: quotaUsedUp });
    // A wait without an answer is passed over here: the time of its block may be over, which is checked when the walk reaches it.
    if (isAnswered(main) && !isUnanswered(main.waited)) {
      const { position } = main.waited;
      const end = await this.#afterSuspension(live, main, main.waited, isLast(live, main, position));
      if (end.kind === 'stopped') return end.stop;
      if (end.kind === 'done') live.record(end.row);
    }
    const whole = { from: 0, to: live.deployment.steps.length };
    const end = await this.#sequences.run(live, main, whole, false);
    if (end.kind !== 'stopped') return this.#records.end(live, { state: 'succeeded' });
    return end.stop === 'branches' ? this.#waits.parkBranches(live) : end.stop;
  }

  /** Implements `StepTurns.run` for branches, which wait here for a while before the run is parked. */
  async #runInBranch(
    live: LiveRun,
    at: NextStep,
    wait: (StrandWait & { failures: number }) | undefined,
  ): Promise<StepEnd> {
    const { strand } = at;
    let end: TryEnd;
    if (wait === undefined) end = await live.waits.during(() => this.#tryStep(live, at));
    else {
      strand.waited = wait;
      strand.failures = wait.failures;
      end = { kind: 'waits', untilMs: wait.untilMs };
    }
    while (end.kind === 'waits') {
      if (!(await this.#waits.waitHere(live, strand, end.untilMs)))
        return { kind: 'stopped', stop: 'branches' };
      const deadline = strand.waited !== null && isUnanswered(strand.waited) && strand.deadline?.expired;
      if (deadline) return { kind: 'expired', deadline };
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
    const answered = isAnswered(strand) && strand.waited.position === position;
    const deadline = strand.deadline?.expired;
    if (deadline !== undefined && !(answered && !isUnanswered(strand.waited)))
      return { kind: 'expired', deadline };
    if (answered) return this.#afterSuspension(live, strand, strand.waited, false);
    const called = strand.calledAt(position);
    if (called !== undefined) {
      const run = await findRun(this.#store.read, called.runId);
      if (run !== undefined && !isTerminal(run)) return this.#waitForCalled(live, at, called);
    }
    const refused = tooMuch(live) ?? (await this.#renewCredentials(live));
    if (refused !== undefined)
      return { kind: 'stopped', stop: await this.#records.fail(live, { position, error: refused }) };
    const result = await this.#steps.run(live, at, {
      signal: strand.deadline?.signal ?? live.abort.signal,
      onRespond: (reply) => this.#onReply(live.run.id, reply),
    });
    if (live.isEnded) throw new RunLostError('the run was ended');
    return this.#apply(live, { ...at, step, result });
  }

  /** Loads the deployment again if its tokens expired during the run. Returns an error if there are no new ones. */
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
    const row = this.#records.rowOf(live, done);
    const deadline = strand.deadline?.expired;
    if (result.isCutOff === true && deadline !== undefined) {
      await this.#goOn(live, strand, { step: row });
      return { kind: 'expired', deadline };
    }
    if (result.status === 'failed') return this.#applyFailure(live, done, row);
    if (result.waitsFor !== undefined) {
      const called = { ...result.waitsFor, sinceMs: result.startedAtMs };
      const summary = JSON.stringify({ $summary: `Waits for run ${called.runId}` });
      return this.#waitForCalled(live, done, called, { ...row, state: 'waiting', exports: summary });
    }
    if (flow?.kind === 'rerun') {
      const before =
        strand.waited?.kind === 'rerun' && strand.waited.position === position
          ? strand.waited.resumption.run
          : undefined;
      const runs = before?.runs ?? 1;
      if (runs <= flow.maxRetries) {
        const run = { runs: runs + 1, context: JSON.parse(flow.context) as unknown };
        const waits = { kind: 'rerun', ms: flow.ms, position, resumption: { run } } as const;
        return this.#waits.begin(live, strand, { ...row, state: 'waiting' }, result, waits);
      }
    }
    if (flow?.kind === 'suspend')
      return this.#waits.begin(live, strand, { ...row, state: 'waiting' }, result, {
        kind: 'suspend',
        ms: flow.ms,
        position,
        resumption: null,
      });
    if (flow?.kind === 'delay') {
      strand.finished(row);
      return this.#waits.begin(live, strand, row, result, {
        kind: 'delay',
        ms: flow.ms,
        position,
        resumption: null,
      });
    }
    const endsHere = flow?.kind === 'exit';
    if (endsHere || isLast(live, strand, position)) {
      strand.finished(row);
      const reason = endsHere ? { reason: exitReason(flow) } : {};
      return stopped(await this.#records.end(live, { state: 'succeeded', ...reason, row, result, position }));
    }
    await this.#goOn(live, strand, { ...this.#records.effectsOf(live, step, result), step: row });
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
      // Of the wait before, only the context of `$.flow.rerun` is kept. A further try of a `call` begins a run of its own.
      const resumption = before?.run === undefined ? null : withoutCalled(before);
      const kind = resumption === null ? 'retry' : 'rerun';
      const retryAtMs = this.#clock.now() + waitMs;
      const exports = withAttempt(row, { retryAtMs, ...this.#steps.linksOf(live, row) });
      const wait = { kind, ms: waitMs, position, resumption } as const;
      return this.#waits.begin(live, strand, { ...row, exports }, result, wait);
    }
    if (isCaught) {
      const caught: RunStepTable = { ...row, state: 'caught' };
      await this.#goOn(live, strand, { ...this.#records.effectsOf(live, step, result), step: caught });
      return { kind: 'done', row: caught };
    }
    const error = result.error ?? unknownError;
    return stopped(await this.#records.fail(live, { row, position, result, error }));
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
    await this.#records.record(live, strand, {
      ...part,
      next: { kind: 'go-on', clears, ...(answered === undefined ? {} : { answered }) },
    });
    if (clears) live.main.waited = null;
    strand.waited = null;
    strand.failures = 0;
  }

  /** Implements `StepTurns.expire`. The record has what the block decided, so that a run that continues finds the block ended. */
  async #expire(
    live: LiveRun,
    { strand, step, position, block, row, isCaught }: ExpiredBlock,
  ): Promise<StepEnd> {
    const endedAtMs = this.#clock.now();
    const error: StepError = { ...timeError(step, block), stack: '', ofBlock: true };
    const result: StepResult = { ...blockFailure(error, row, endedAtMs), exports: row.exports };
    const failed = { ...this.#records.rowOf(live, { strand, step, position, result }), try: row.try + 1 };
    if (!isCaught) return stopped(await this.#records.fail(live, { row: failed, position, error }));
    const caught: RunStepTable = { ...failed, state: 'caught' };
    const { iteration } = strand;
    const over = { from: position, to: block.end, iteration };
    const clears = live.main.waited !== null;
    await this.#records.record(live, strand, { step: caught, next: { kind: 'go-on', clears, over } });
    if (clears) live.main.waited = null;
    strand.waited = null;
    strand.failures = 0;
    live.forgetWaitsIn(over);
    return { kind: 'done', row: caught };
  }

  /**
   * A `call` block waits until the run that it has begun has ended, at most as long as its own time limit says. The wait is in the store;
   * `row`: the try that began that run.
   */
  async #waitForCalled(
    live: LiveRun,
    at: NextStep,
    called: NonNullable<RunResumption['called']>,
    row?: RunStepTable,
  ): Promise<TryEnd> {
    const { strand, step, position } = at;
    const nowMs = this.#clock.now();
    const limitMs = step.timeoutSeconds === undefined ? undefined : step.timeoutSeconds * 1000;
    const leftMs = limitMs === undefined ? Number.POSITIVE_INFINITY : called.sinceMs + limitMs - nowMs;
    if (leftMs <= 0) {
      const msg = `run ${called.runId}, which was called, did not end within ${step.timeoutSeconds} seconds`;
      const began = { started_at_ms: called.sinceMs };
      const result = blockFailure({ code: 'Timeout', msg, stack: '' }, began, nowMs);
      return this.#applyFailure(live, { ...at, result }, this.#records.rowOf(live, { ...at, result }));
    }
    const before = strand.waited?.position === position ? strand.waited.resumption.run : undefined;
    const run =
      row === undefined ? before : { runs: (before?.runs ?? 1) + 1, context: before?.context ?? null };
    const { iteration } = strand;
    const end = await this.#waits.begin(live, strand, row, undefined, {
      kind: 'call',
      ms: Math.min(callPollMs(nowMs - called.sinceMs), leftMs),
      position,
      resumption: { ...(run === undefined ? {} : { run }), called },
    });
    // Only after the commit, and once more: the other run may have ended meanwhile.
    this.#callWaits(called, { runId: live.run.id, position, iteration });
    return end;
  }

  /** Implements `StepTurns.failAttempt`: one commit with the wait, and the end of what still waits in the block. */
  async #failAttempt(live: LiveRun, at: FailedAttempt): Promise<AttemptEnd> {
    const { strand, step, position, block, row, failures, waitMs, error } = at;
    const nowMs = this.#clock.now();
    const where = error.index === undefined ? error.namespace : `${error.namespace}, item ${error.index}`;
    const msg = error.namespace === step.namespace ? error.msg : `${where}: ${error.msg}`;
    const result = blockFailure({ code: error.code, msg, stack: '', ofBlock: true }, row, nowMs);
    const failed = { ...this.#records.rowOf(live, { strand, step, position, result }), try: row.try + 1 };
    const exports = withAttempt(failed, { retryAtMs: nowMs + waitMs, ...this.#steps.linksOf(live, failed) });
    strand.failures = failures;
    const over = { from: position, to: block.end, iteration: strand.iteration };
    const wait = { kind: 'retry', ms: waitMs, position, resumption: null, over } as const;
    const end = await this.#waits.begin(live, strand, { ...failed, exports }, result, wait);
    live.forgetWaitsIn(over);
    if (end.kind !== 'waits') return end;
    const waited = must(strand.waited, `the wait of block ${step.namespace}`);
    return { kind: 'waits', wait: { ...waited, untilMs: end.untilMs, failures } };
  }

  /** A delay of a branch is over: its step was recorded before. */
  async #afterDelay(live: LiveRun, { strand, position }: NextStep): Promise<TryEnd> {
    const row = must(live.recordedAt(position, strand), `the record of step ${position}`);
    await this.#goOn(live, strand, {});
    return { kind: 'done', row };
  }

  /** Finishes a suspended step with the data of its resume request. Without one in time, the run is cancelled. */
  async #afterSuspension(
    live: LiveRun,
    strand: Strand,
    waited: StrandWait,
    endsRun: boolean,
  ): Promise<StepEnd> {
    const { resumption, position } = waited;
    if (resumption.cancelled === true)
      return stopped(
        await this.#records.end(live, { state: 'cancelled', reason: 'cancelled by its URL', position }),
      );
    if (resumption.request === undefined) {
      const reason = 'it was suspended and not resumed in time';
      return stopped(await this.#records.end(live, { state: 'cancelled', reason, position }));
    }
    const last = await lastTryOf(this.#store.read, live.run.id, { position, iteration: strand.iteration });
    if (last === undefined)
      throw new Error(`run ${live.run.id} waits at step ${position}, which has no record`);
    const { redact } = live.deployment;
    const data = await redactLarge(live.run.owner_id, redact, JSON.stringify(resumption.request));
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
      return stopped(await this.#records.end(live, { state: 'succeeded', row, position }));
    }
    await this.#goOn(live, strand, { step: row });
    return { kind: 'done', row };
  }
}

/**
 * Time until a waiting `call` checks whether its run has ended, in ms: a tenth of its wait, from 5 s to 5 min. Most ends are reported at once by
 * the node on which the run ends; the check finds those that were not.
 */
function callPollMs(waitedMs: number): number {
  return Math.min(Math.max(waitedMs / 10, 5_000), 300_000);
}

function withoutCalled({ called: _called, ...resumption }: RunResumption): RunResumption {
  return resumption;
}

const unknownError: StepError = { code: 'Error', msg: '', stack: '' };
function exitReason(flow: Extract<StepFlow, { kind: 'exit' }>): string {
  if (flow.reason === null) return 'a step ended the workflow';
  // PostgreSQL has no NUL in text.
  return flow.reason.replaceAll('\0', '');
}

/** Does the work of a strand, during which the run is not parked. */
function inStrand<T>(live: LiveRun, strand: Strand, work: () => Promise<T>): Promise<T> {
  return strand.parent === undefined ? work() : live.waits.during(work);
}

/** True for the last step of a run: its record and the end of the run can be one write. */
function isLast({ deployment: { steps } }: LiveRun, strand: Strand, position: number): boolean {
  if (strand.parent !== undefined) return false;
  const step = steps[position];
  if (step?.block !== undefined && isStructured(step.block.kind)) return false;
  const whole = positionsIn(steps, { from: 0, to: steps.length });
  return (
    whole.includes(position) && whole.every((other) => other <= position || steps[other]?.disabled === true)
  );
}

/** How long until a failed step is tried again, in ms; undefined: it is not. */
function retryAfter(
  live: LiveRun,
  step: LoadedStep,
  result: StepResult,
  failures: number,
): number | undefined {
  const { retries } = step;
  if (retries !== undefined) return ownRetryWaitMs(retries, failures);
  return live.deployment.settings.autoRetry && !result.isFinal ? retryWaitMs(failures) : undefined;
}

/** The result of a failed block. It began when its decision was recorded. */
function blockFailure(
  error: StepError,
  { started_at_ms: startedAtMs }: Pick<EndedStep, 'started_at_ms'>,
  endedAtMs: number,
): StepResult {
  return {
    ...{ status: 'failed', error, isFinal: true, exports: '{}', input: null, logs: '[]' },
    ...{ flow: undefined, sends: [], dbSets: {}, startedAtMs, endedAtMs },
  };
}

/** The main strand of a run does not wait in memory: the run is parked. */
function stepEnd(end: TryEnd): StepEnd {
  return end.kind === 'waits' ? stopped('parked') : end;
}
