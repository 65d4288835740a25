import { unreachable } from '#lib/assert.ts';
import { UnavailableError } from '#lib/errors.ts';
import { bytesText, countText } from '#lib/units.ts';
import type { CallOutcome, HttpReply, LogLine, StepFlow, StepSend } from '#runner/call-outcome.ts';
import { textsOfOutcome } from '#runner/outcome-texts.ts';
import type { HostCall, HostCallAnswer, Runner, StepCall } from '#runner/runner.ts';
import { wasTakenDown } from '#runner/runner-outcomes.ts';
import { readComponentDb } from '#sources/source-store.ts';
import type { Db } from '#storage/store.ts';
import type { LinkAction, RunTable } from '#storage/tables/workflow-tables.ts';
import { currentSpan, inSpan } from '#telemetry/span.ts';
import { redactorOfTexts } from '#vault/redact-large.ts';
import type { LoadedStep } from '#workflows/definitions/loaded-deployment.ts';
import type { LiveRun } from './live-run.ts';
import type { CallPlace, StepCaller } from './run-host-calls.ts';
import { linkPath, type WaitPlace } from './run-link.ts';
import { inStepSpan } from './run-span.ts';
import { StepSlots } from './step-slots.ts';
import type { Strand } from './strand.ts';

/** Event, exports and logs of one run together (component contract, 1.17). */
export const runDataBytesMax = 6 * 1024 * 1024;
/** A call that others took down with them is made so often beside others before it gets a process of its own. */
const sharedTriesMax = 3;
/** Seconds that a step may take where the workflow does not say (decisions, Workflows). */
const secondsOfHttpAndEmail = 30;
const secondsOfOthers = 60;

/** The failure of a step, as `$errors` and run records contain it; redacted. */
export interface StepError {
  code: string;
  msg: string;
  stack: string;
  /** True: the time of a block was over, or an attempt of it has failed. Of the first, what it decided is in the exports beside the error. */
  ofBlock?: true;
}

/** The outcome of one try of a step; texts are redacted. */
export interface StepResult {
  status: 'finished' | 'failed';
  error?: StepError;
  /** Timeouts and exhausted memory are not tried again: they would be the same. */
  isFinal: boolean;
  /** The time of a block around it was over, which ended it. */
  isCutOff?: true;
  /** The run that a `call` block has begun, and that waits. */
  waitsFor?: CalledRun;
  /** JSON object. */
  exports: string;
  input: string | null;
  /** JSON array. */
  logs: string;
  flow: StepFlow | undefined;
  sends: StepSend[];
  dbSets: Record<string, string>;
  startedAtMs: number;
  endedAtMs: number;
}

/** The run that a `call` block has begun. */
export interface CalledRun {
  runId: string;
  workflowId: string;
}

/** A step of a run that is to run next in its strand. */
export interface StepPlace {
  strand: Strand;
  step: LoadedStep;
  position: number;
}

export interface StepRunnerOptions {
  db: Db;
  runner: Pick<Runner, 'call'>;
  clock: { now(): number };
  /** Base of the URLs that resume and cancel a run: `{public_url}/in`. */
  inboundUrl: () => string;
  hostCalls: (live: LiveRun, hostCall: HostCall, caller: StepCaller) => Promise<HostCallAnswer>;
}

/** Runs one step in the sandbox. Its result is not recorded yet. Throws `UnavailableError` when the outcome is unknown. */
export class StepRunner {
  readonly #options: StepRunnerOptions;
  readonly #slots = new StepSlots();

  constructor(options: StepRunnerOptions) {
    this.#options = options;
  }

  run(
    live: LiveRun,
    at: StepPlace,
    options: { signal: AbortSignal; onRespond: (reply: HttpReply) => void },
  ): Promise<StepResult> {
    return inStepSpan(live.run, at, () => this.#run(live, at, options));
  }

  async #run(
    live: LiveRun,
    at: StepPlace,
    options: { signal: AbortSignal; onRespond: (reply: HttpReply) => void },
  ): Promise<StepResult> {
    const { clock } = this.#options;
    const startedAtMs = clock.now();
    const { strand, step } = at;
    let waitsFor: CalledRun | undefined;
    const onParked = (called: CalledRun) => {
      waitsFor = called;
    };
    let outcome = await this.#call(live, at, { ...options, onParked }, false);
    for (let tries = 1; wasTakenDown(outcome); tries += 1) {
      // It may be the one that took the process down: alone, that shows.
      const alone = outcome.shared === true || tries >= sharedTriesMax;
      outcome = await this.#call(live, at, { ...options, onParked }, alone);
    }
    const isCutOff = outcome.status === 'cancelled' && strand.deadline?.expired !== undefined;
    if (outcome.status === 'cancelled' && !(isCutOff && !live.abort.signal.aborted))
      throw new UnavailableError('overloaded', outcome.error?.message ?? 'the step was cancelled');
    live.segmentMs += outcome.durationMs;
    if (outcome.step?.usedScratch === true) live.usedScratch = true;
    if (outcome.response !== undefined) live.response ??= outcome.response;
    const times = { startedAtMs, endedAtMs: clock.now() };
    const { redact } = live.deployment;
    const hide = await redactorOfTexts(live.run.owner_id, redact, textsOfOutcome(outcome));
    const result = resultOf(live, { strand, step }, { outcome, times, hide });
    if (isCutOff) return { ...result, isFinal: true, isCutOff, error: cutOffError };
    return waitsFor === undefined || result.status === 'failed' ? result : { ...result, waitsFor };
  }

  async #call(
    live: LiveRun,
    at: StepPlace,
    options: {
      signal: AbortSignal;
      onRespond: (reply: HttpReply) => void;
      onParked: (called: CalledRun) => void;
    },
    alone: boolean,
  ): Promise<CallOutcome> {
    const { deployment, run } = live;
    const { step } = at;
    const { runner, db, hostCalls } = this.#options;
    const release = await this.#slots.take(deployment.id);
    // Only a step that makes host calls has one: to abort it takes 14 µs, much of a step that makes none.
    let ended: AbortController | undefined;
    const caller = () => {
      ended ??= new AbortController();
      return callerOf(live, at, { signal: ended.signal, parked: options.onParked });
    };
    const span = currentSpan();
    try {
      return await runner.call(
        {
          deploymentId: deployment.id,
          ownerId: deployment.ownerId,
          trustDomain: deployment.trustDomain,
          isolated: deployment.settings.isolated === true,
          bundle: step.bundle,
          module: step.id,
          packages: deployment.packages,
          revision: deployment.revision,
          call: this.#stepCall(live, at),
          props: step.props,
          variables: deployment.variables.values,
          ...(step.dynamicProps === undefined ? {} : { dynamicProps: step.dynamicProps }),
          db: step.usesDb ? await readComponentDb(db, step.id) : {},
          deadlineMs: stepSeconds(live, step) * 1000,
          memoryMb: deployment.settings.memoryMb,
          ...(alone ? { alone } : {}),
        },
        {
          signal: options.signal,
          onRespond: (reply) => {
            if (reply.immediate === true && run.id === live.run.id) options.onRespond(reply);
          },
          // The call comes out of the process that runs the step, which knows nothing of spans.
          onHostCall: (hostCall) => inSpan(span, () => hostCalls(live, hostCall, caller())),
        },
      );
    } finally {
      ended?.abort();
      release();
    }
  }

  #stepCall(live: LiveRun, { strand, position }: StepPlace): StepCall {
    const { run } = live;
    const { waited, iteration } = strand;
    const again =
      waited !== null && waited.position === position && waited.kind === 'rerun' ? waited.resumption : {};
    const context = {
      runs: again.run?.runs ?? 1,
      ...(again.run === undefined ? {} : { context: again.run.context }),
      ...(again.request === undefined ? {} : { callback_request: again.request }),
    };
    const links = live.isAction
      ? { resumeUrl: '', cancelUrl: '', byItself: true as const }
      : this.linksOf(live, { position, iteration, try: live.tryAt(position, strand) });
    return {
      kind: 'step',
      steps: strand.stepsJson(),
      context: live.callContextJson(context),
      ...links,
      scratch: run.id,
    };
  }

  /** The URLs that resume or cancel the run while it waits after this try of a step. */
  linksOf(
    { run }: { run: Pick<RunTable, 'id' | 'token'> },
    wait: WaitPlace,
  ): { resumeUrl: string; cancelUrl: string } {
    const url = (action: LinkAction) => `${this.#options.inboundUrl()}/${linkPath(run, wait, action)}`;
    return { resumeUrl: url('resume'), cancelUrl: url('cancel') };
  }
}

function callerOf(
  live: LiveRun,
  { strand, step, position }: StepPlace,
  { signal, parked }: { signal: AbortSignal; parked: CallPlace['parked'] },
): StepCaller {
  const calledRunId = strand.calledAt(position)?.runId;
  const place = {
    ...{ position, iteration: strand.iteration, try: live.tryAt(position, strand), parked },
    ...(calledRunId === undefined ? {} : { calledRunId }),
  };
  // A block that is tried by itself has no run that could continue.
  const isCall = step.block?.kind === 'call' && live.run.no_store === 0;
  return { call: isCall ? { runId: live.run.id, ...place } : undefined, signal };
}

const cutOffError: StepError = {
  code: 'Timeout',
  msg: 'the time of the block that the step is in was over',
  stack: '',
};

function stepSeconds({ deployment, run }: LiveRun, step: LoadedStep): number {
  const byTrigger =
    run.source_type === 'HTTP' || run.source_type === 'EMAIL' ? secondsOfHttpAndEmail : secondsOfOthers;
  return step.timeoutSeconds ?? deployment.settings.timeoutSeconds ?? byTrigger;
}

function resultOf(
  live: LiveRun,
  { strand, step }: Pick<StepPlace, 'strand' | 'step'>,
  called: {
    outcome: CallOutcome;
    times: { startedAtMs: number; endedAtMs: number };
    hide: (text: string) => string;
  },
): StepResult {
  const { outcome, times, hide: redact } = called;
  const what = live.isAction ? 'the action' : `step ${step.namespace}`;
  const effects = outcome.step;
  const exports = redact(effects?.exports ?? '{}');
  // Only the messages: a secret such as `info` must not change the level of a line.
  const lines = logLines(outcome, times.endedAtMs);
  const logs = JSON.stringify(lines.map((line) => ({ ...line, message: redact(line.message) })));
  const common = {
    input: effects?.input === undefined ? null : redact(effects.input),
    logs,
    flow: flowOf(effects?.flow, redact),
    sends: (effects?.sends ?? []).map((send) => ({ ...send, payload: redact(send.payload) })),
    dbSets: outcome.dbSets,
    ...times,
  };
  if (outcome.status === 'finished') {
    const bytes = strand.bytes + exports.length + logs.length;
    if (bytes <= runDataBytesMax) return { status: 'finished', isFinal: false, exports, ...common };
    return {
      ...common,
      status: 'failed',
      isFinal: true,
      exports: '{}',
      error: { ...payloadError(`those of ${what}`, bytes), stack: '' },
    };
  }
  const error = errorOf(what, outcome, stepSeconds(live, step));
  const redacted = { code: redact(error.code), msg: redact(error.msg), stack: redact(error.stack) };
  const isFinal = outcome.status === 'timed_out' || outcome.status === 'out_of_memory';
  return { ...common, status: 'failed', isFinal, exports, error: redacted };
}

function flowOf(flow: StepFlow | undefined, redact: (text: string) => string): StepFlow | undefined {
  if (flow?.kind === 'rerun') return { ...flow, context: redact(flow.context) };
  if (flow?.kind === 'exit' && flow.reason !== null) return { ...flow, reason: redact(flow.reason) };
  return flow;
}

/** `bytes`: what there is with `what`, `max`: how much there may be. */
export function payloadError(what: string, bytes: number, max = runDataBytesMax): Omit<StepError, 'stack'> {
  return {
    code: 'Function Payload Limit Exceeded',
    msg: `event, exports and logs of a run may have ${bytesText(max)} together; with ${what} there are ${countText(bytes)} bytes`,
  };
}

/** `what`: the step, or the action, as messages name it. */
function errorOf(what: string, outcome: CallOutcome, seconds: number): StepError {
  const { name = 'Error', message = '', stack = '' } = outcome.error ?? {};
  switch (outcome.status) {
    case 'timed_out':
      return { code: 'Timeout', msg: `${what} did not end within ${seconds} seconds`, stack };
    case 'out_of_memory':
      return { code: 'Out of Memory', msg: `${what}: ${message}`, stack };
    case 'exited':
      return { code: 'InternalFailure', msg: `${what} ended its process: ${message}`, stack };
    case 'limit_exceeded':
      return { code: 'Function Payload Limit Exceeded', msg: `${what}: ${message}`, stack };
    case 'threw':
    case 'load_failed':
    case 'cancelled':
    case 'finished':
      return { code: name, msg: message, stack };
    default:
      return unreachable(outcome.status);
  }
}

function logLines(outcome: CallOutcome, nowMs: number): LogLine[] {
  if (outcome.logsDropped === 0) return outcome.logs;
  const message = `${outcome.logsDropped} more line(s) of this step were dropped`;
  return [...outcome.logs, { ts: nowMs, level: 'warn', message }];
}
