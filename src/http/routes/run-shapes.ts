import { type Static, Type } from 'typebox';
import { isRecord } from '#components/chosen-value.ts';
import type { RunPlace } from '#flow-control/view-queue.ts';
import { OneOf } from '#http/route-support.ts';
import { JsonText } from '#lib/write-json.ts';
import { logLevels } from '#runner/protocol.ts';
import {
  type RunSendTable,
  type RunStepTable,
  type RunTable,
  runSourceTypes,
  runStates,
  sendKinds,
  sendStates,
  stepStates,
  waitKinds,
} from '#storage/tables/workflow-tables.ts';
import type { RunError } from '#workflows/runs/run-events.ts';
import type { StepError } from '#workflows/runs/run-step.ts';
import type { ListedRun } from '#workflows/runs/run-store.ts';
import type { ShownWait } from '#workflows/runs/run-waits.ts';

const ErrorShape = Type.Object({
  code: Type.String(),
  msg: Type.String(),
  cellId: Type.Union([Type.String(), Type.Null()], { description: 'c_… of the step at fault' }),
  namespace: Type.Union([Type.String(), Type.Null()]),
  stack: Type.String(),
  ts: Type.String(),
});

const Time = Type.Union([Type.String(), Type.Null()], { description: 'ISO 8601' });

const runFields = {
  id: Type.String({ description: 'Also steps.trigger.context.id' }),
  workflow_id: Type.String(),
  deployment_id: Type.String(),
  owner_id: Type.String(),
  state: OneOf(runStates),
  emitter_id: Type.Union([Type.String(), Type.Null()], { description: 'What triggered it' }),
  source_type: OneOf(runSourceTypes),
  trace_id: Type.String(),
  replay_of: Type.Union([Type.String(), Type.Null()]),
  wait: Type.Union([
    Type.Object({
      kind: OneOf(waitKinds),
      until: Type.String({ description: 'ISO 8601' }),
    }),
    Type.Null(),
  ]),
  error: Type.Union([ErrorShape, Type.Null()]),
  reason: Type.Union([Type.String(), Type.Null()], {
    description: 'In words, why it ended before its last step, or did not begin',
  }),
  wait_reason: Type.Union([Type.String(), Type.Null()], {
    description:
      'In words, why it is queued or waits: its place under flow control, a delay, a link, the next try with the error of the last one; null: it does neither, or begins as soon as a worker is free',
  }),
  flow_warning: Type.Union([Type.String(), Type.Null()], {
    description: 'What is wrong with the keys of its event, also after its end',
  }),
  failed_sends: Type.Integer({ description: 'How many of its sends failed; they are made after its end' }),
  created_at: Type.String({ description: 'ISO 8601' }),
  started_at: Time,
  ended_at: Time,
};
export const Run = Type.Object(runFields, { additionalProperties: true });

export const StepLogs = Type.Array(
  Type.Object({
    ts: Type.Integer({ description: 'Epoch ms' }),
    level: OneOf(logLevels),
    message: Type.String(),
  }),
);
const StepFailure = Type.Union([
  Type.Object({ code: Type.String(), msg: Type.String(), stack: Type.String() }),
  Type.Null(),
]);

const Step = Type.Object({
  id: Type.String({ description: 'c_…' }),
  namespace: Type.String(),
  position: Type.Integer({ description: 'Its place in the steps of the deployment, from 0' }),
  iteration: Type.String({
    description: 'Indexes of the items of the maps around the step, as "3" or "3-17"; empty outside of maps',
  }),
  attempt: Type.String({
    description:
      'Numbers of the attempts of the blocks with retries around the step, as "2" or "2-1", the outermost first; empty outside of such blocks',
  }),
  try: Type.Integer({ description: 'From 1, counted over all attempts of the blocks around the step' }),
  state: OneOf(stepStates, {
    description: 'caught: it failed, and the block around it has handled the error',
  }),
  input: Type.Unknown({ description: 'The props as the step got them; accounts and secrets left out' }),
  exports: Type.Unknown(),
  logs: StepLogs,
  error: StepFailure,
  started_at: Type.String(),
  ended_at: Type.String(),
});

const Send = Type.Object({
  kind: OneOf(sendKinds),
  payload: Type.Unknown(),
  state: OneOf(sendStates),
  result: Type.Unknown(),
  ended_at: Time,
});

const Wait = Type.Object({
  namespace: Type.String({ description: 'The step that waits' }),
  position: Type.Integer(),
  iteration: Type.String(),
  kind: OneOf(waitKinds),
  until: Type.String({ description: 'ISO 8601' }),
  resume_url: Type.Union([Type.String(), Type.Null()], {
    description: 'A POST to it ends the wait; null for viewers, and for keys without the scope run',
  }),
  cancel_url: Type.Union([Type.String(), Type.Null()], { description: 'A POST to it cancels the run' }),
});

export const RunDetail = Type.Object(
  {
    ...runFields,
    event: Type.Unknown({ description: 'steps.trigger.event' }),
    queue: Type.Union(
      [
        Type.Object({
          state: OneOf(['collected', 'waiting', 'started']),
          reason: Type.String({ description: 'In words, why it waits' }),
          until: Time,
          warning: Type.Union([Type.String(), Type.Null()], {
            description: 'What is wrong with the keys of its event',
          }),
        }),
        Type.Null(),
      ],
      { description: 'Its place under flow control; null: there is none, or it has ended' },
    ),
    waits: Type.Array(Wait, {
      description:
        'What the run, or each of its branches and items, waits for; at most 1,000, those that are over first come first',
    }),
    steps: Type.Array(Step, {
      description:
        'The records of its steps, in the order of the definition. Of steps in maps the first 1,000, what did not succeed first',
    }),
    steps_left_out: Type.Integer({ description: 'Records of steps in maps that are not in steps' }),
    sends: Type.Array(Send),
  },
  { additionalProperties: true },
);

export const StepTest = Type.Object(
  {
    state: OneOf(['succeeded', 'failed']),
    input: Type.Unknown(),
    exports: Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()]),
    logs: StepLogs,
    error: StepFailure,
    flow: Type.Unknown({ description: 'What $.flow would have done' }),
    response: Type.Union(
      [
        Type.Object({
          status: Type.Integer(),
          headers: Type.Record(Type.String(), Type.Unknown()),
          body: Type.String(),
        }),
        Type.Null(),
      ],
      { description: 'What $.respond would have answered' },
    ),
    sends: Type.Array(Type.Unknown(), { description: 'What $.send would have sent' }),
    duration_ms: Type.Integer(),
  },
  { additionalProperties: true },
);

export function runView(
  run: ListedRun | RunTable,
  failedSends = 0,
  waitReason: string | null = null,
): Static<typeof Run> {
  return {
    id: run.id,
    workflow_id: run.workflow_id,
    deployment_id: run.deployment_id,
    owner_id: run.owner_id,
    state: run.state,
    emitter_id: run.emitter_id,
    source_type: run.source_type,
    trace_id: run.trace_id,
    replay_of: run.replay_of,
    wait:
      run.state !== 'waiting' || run.wait_kind === null || run.wait_until_ms === null
        ? null
        : { kind: run.wait_kind, until: new Date(run.wait_until_ms).toISOString() },
    // Here no caller needs a link of the run, and viewers read it in lists too.
    error: run.error === null ? null : errorView(JSON.parse(withoutLinks(run.error)) as RunError),
    reason: run.reason === null ? null : withoutLinks(run.reason),
    wait_reason: waitReason,
    flow_warning: run.flow_warning,
    failed_sends: failedSends,
    created_at: new Date(run.created_at_ms).toISOString(),
    started_at: time(run.started_at_ms),
    ended_at: time(run.ended_at_ms),
  };
}

export function placeView(place: RunPlace | undefined) {
  if (place === undefined) return null;
  const { untilMs, ...rest } = place;
  return { ...rest, until: time(untilMs) };
}

function errorView({ cell_id, ...error }: RunError): Static<typeof ErrorShape> {
  return { ...error, cellId: cell_id };
}

/** Every caller with a link can use it, so links are shown to callers who may change the run. */
export function waitView(wait: ShownWait, hasLinks: boolean): Static<typeof Wait> {
  const { namespace, position, iteration, kind, untilMs, resumeUrl, cancelUrl } = wait;
  return {
    ...{ namespace, position, iteration, kind, until: new Date(untilMs).toISOString() },
    resume_url: hasLinks ? resumeUrl : null,
    cancel_url: hasLinks ? cancelUrl : null,
  };
}

/**
 * A delay is recorded as succeeded when it begins, and shown as waiting until it is over. The links of a try that is followed by
 * another are shown as those of a wait are.
 */
export function stepView(
  step: RunStepTable,
  waits: readonly ShownWait[],
  hasLinks: boolean,
): Static<typeof Step> {
  const isDelayed = waits.some(
    ({ kind, position, iteration, try: last }) =>
      kind === 'delay' && position === step.position && iteration === step.iteration && last === step.try,
  );
  return {
    id: step.step_id,
    namespace: step.namespace,
    position: step.position,
    iteration: step.iteration,
    attempt: step.attempt,
    try: step.try,
    state: isDelayed ? 'waiting' : step.state,
    input: stored(hasLinks || step.input === null ? step.input : withoutLinks(step.input)),
    exports: stored(hasLinks ? step.exports : withoutLinks(withoutAttemptLinks(step.exports))),
    logs: stored(hasLinks ? step.logs : withoutLinks(step.logs)) as unknown as Static<typeof StepLogs>,
    error:
      step.error === null
        ? null
        : (JSON.parse(hasLinks ? step.error : withoutLinks(step.error)) as StepError),
    started_at: new Date(step.started_at_ms).toISOString(),
    ended_at: new Date(step.ended_at_ms).toISOString(),
  };
}

/** A link of a run in a text (run-link.ts): the last part is what cannot be guessed. */
const linksInText = /\b((?:resume|cancel)\/[0-9A-Za-z]{27}\/[\d.-]{3,80}\/)[0-9a-f]{40}\b/g;

/** Pure: a text in which no link of a run can be used. Blocks, and code, hand their links to the steps behind them, to logs and to receivers. */
export function withoutLinks(text: string): string {
  return text.replaceAll(linksInText, '$1hidden');
}

/** Pure: JSON of exports whose `$attempt`, if they have one, shows no link. */
function withoutAttemptLinks(exports: string): string {
  if (!exports.includes('"$attempt"')) return exports;
  const { $attempt: attempt, ...others } = JSON.parse(exports) as Record<string, unknown>;
  const shown = isRecord(attempt) ? { ...attempt, cancel_url: null, rerun_url: null } : attempt;
  return JSON.stringify({ ...others, $attempt: shown });
}

export function sendView(send: RunSendTable, hasLinks: boolean): Static<typeof Send> {
  const shown = (json: string | null) => (hasLinks || json === null ? json : withoutLinks(json));
  return {
    kind: send.kind,
    payload: stored(shown(send.payload)),
    state: send.state,
    result: stored(shown(send.result)),
    ended_at: time(send.ended_at_ms),
  };
}

/** A run has megabytes of it, which go into the answer as they are stored. */
export function stored(json: string | null): JsonText | null {
  return json === null ? null : new JsonText(json);
}

function time(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}
