import { type Static, Type } from 'typebox';
import { encodeCursor, pageRequest, pageResponse } from '#http/pagination.ts';
import { type App, callerOf, DataOf, IdParams, OneOf, PageOf, pageParameters } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { ownersOf, readable, writable } from '#identity/permissions.ts';
import { CallerError } from '#lib/errors.ts';
import { JsonText } from '#lib/write-json.ts';
import { logLevels } from '#runner/protocol.ts';
import type { Store } from '#storage/store.ts';
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
import { findTestEvent } from '#workflows/definitions/test-event-store.ts';
import { findWorkflow } from '#workflows/definitions/workflow-store.ts';
import { placeOfRun, type RunPlace } from '#workflows/flow-control/view-queue.ts';
import type { RunManager } from '#workflows/runs/manage-runs.ts';
import type { RunError } from '#workflows/runs/run-events.ts';
import type { StepError } from '#workflows/runs/run-step.ts';
import { findRun, type ListedRun, pageOfRuns, sendsOfRun, shownStepsOf } from '#workflows/runs/run-store.ts';
import type { StepTrier } from '#workflows/runs/try-step.ts';
import { sinceDescription, timesOf, untilDescription } from './run-times.ts';
import { GivenStep } from './workflow-shapes.ts';

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
  reason: Type.Union([Type.String(), Type.Null()]),
  created_at: Type.String({ description: 'ISO 8601' }),
  started_at: Time,
  ended_at: Time,
};
const Run = Type.Object(runFields, { additionalProperties: true });

const StepLogs = Type.Array(
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
  try: Type.Integer(),
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

const RunDetail = Type.Object(
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
    steps: Type.Array(Step, {
      description:
        'The records of its steps, in the order of the definition. Of steps in maps the first 1,000, what did not succeed first',
    }),
    steps_left_out: Type.Integer({ description: 'Records of steps in maps that are not in steps' }),
    sends: Type.Array(Send),
  },
  { additionalProperties: true },
);

const StepTest = Type.Object(
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

const EditedEvent = Type.Optional(
  Type.Unknown({ description: 'steps.trigger.event of the new run; absent: that of this run' }),
);

export interface RunRouteOptions {
  store: Store;
  runManager: RunManager;
  stepTrier: StepTrier;
}

/** Runs of workflows: reading and controlling them. All additions. */
export function runRoutes(app: App, { store, runManager, stepTrier }: RunRouteOptions): void {
  const findOwn = async (
    request: Parameters<typeof callerOf>[0] & { params: { id: string } },
    right: 'read' | 'write',
  ) => {
    const { id } = request.params;
    const check = right === 'read' ? readable : writable;
    return check(store.read, callerOf(request), await findRun(store.read, id), { what: 'run', id });
  };

  app.get(
    '/workflows/:id/runs',
    {
      schema: {
        operationId: 'listRuns',
        tags: ['runs', 'addition'],
        summary: 'Runs of a workflow, newest first',
        params: IdParams('p_…'),
        querystring: Type.Object({
          ...pageParameters,
          state: Type.Optional(
            OneOf([...runStates, ''], { description: 'Only runs in this state; empty: in any' }),
          ),
          since: Type.Optional(Type.String({ description: sinceDescription })),
          until: Type.Optional(Type.String({ description: untilDescription })),
        }),
        response: { 200: PageOf(Run) },
      },
    },
    async (request) => {
      const { id } = request.params;
      await readable(store.read, callerOf(request), await findWorkflow(store.read, id), {
        what: 'workflow',
        id,
      });
      const { state, since, until } = request.query;
      const filter = {
        workflowId: id,
        ...(state === undefined || state === '' ? {} : { states: [state] }),
        ...timesOf(since, until),
      };
      const page = await pageOfRuns(store.read, filter, pageRequest(request));
      return pageResponse(selectFields(request, page.rows.map(runView)), {
        totalCount: page.totalCount,
        cursorOf: (_run, index) => encodeCursor(page.rows[index]?.id ?? ''),
      });
    },
  );

  app.get(
    '/runs/:id',
    {
      schema: {
        operationId: 'getRun',
        tags: ['runs', 'addition'],
        summary: 'One run with its event, and input, exports, logs and times of each step',
        params: IdParams('The id of a run'),
        querystring: Type.Object({
          iteration: Type.Optional(
            Type.String({
              pattern: '^\\d{1,5}(-\\d{1,5}){0,9}$',
              description: 'Only the steps for this item of a map, as "3" or "3-17"',
            }),
          ),
        }),
        response: { 200: DataOf(RunDetail) },
      },
    },
    async (request) => {
      const run = await findOwn(request, 'read');
      // Read only after the check of rights: the time of the query would reveal to others that the run exists.
      const { steps, left_out } = await shownStepsOf(store.read, run.id, request.query.iteration);
      const sends = await sendsOfRun(store.read, run.id);
      const detail = {
        ...runView(run),
        event: stored(run.event),
        queue: placeView(await placeOfRun(store.read, run.id)),
        steps: steps.map(stepView),
        steps_left_out: left_out,
        sends: sends.map(sendView),
      };
      return { data: selectFields(request, detail) };
    },
  );

  app.post(
    '/runs/:id/cancel',
    {
      schema: {
        operationId: 'cancelRun',
        tags: ['runs', 'addition'],
        summary: 'End a run that is queued, running or waiting',
        params: IdParams('The id of a run'),
        response: { 200: DataOf(Run) },
      },
    },
    async (request) => {
      const run = await findOwn(request, 'write');
      await runManager.cancel(run, 'cancelled by a person');
      const ended = await findOwn(request, 'read');
      return { data: selectFields(request, runView(ended)) };
    },
  );

  app.post(
    '/runs/:id/replay',
    {
      schema: {
        operationId: 'replayRun',
        tags: ['runs', 'addition'],
        summary: 'Run the current deployment again with the event of a run, or with another one',
        params: IdParams('The id of a run'),
        body: Type.Object({ event: EditedEvent }),
        response: { 200: DataOf(Run) },
      },
    },
    async (request) => {
      const run = await findOwn(request, 'write');
      const { event } = request.body;
      const { runId } = await runManager.replay(
        run,
        event === undefined ? {} : { event: JSON.stringify(event) },
      );
      const made = await findRun(store.read, runId);
      return { data: selectFields(request, made === undefined ? { id: runId } : runView(made)) as never };
    },
  );

  app.post(
    '/runs/:id/restart',
    {
      schema: {
        operationId: 'restartRun',
        tags: ['runs', 'addition'],
        summary:
          'Run the deployment of an ended run again from a step on; the steps before it keep what they exported',
        params: IdParams('The id of a run'),
        body: Type.Object({
          from_step: Type.Optional(
            Type.String({ description: 'Namespace of the step; absent: the step at which the run ended' }),
          ),
          event: EditedEvent,
          steps: Type.Optional(
            Type.Record(Type.String(), Type.Record(Type.String(), Type.Unknown()), {
              description:
                'Exports by namespace, of steps that do not run again, instead of those that they had in the run',
            }),
          ),
        }),
        response: { 200: DataOf(Run) },
      },
    },
    async (request) => {
      const run = await findOwn(request, 'write');
      const { from_step, event, steps = {} } = request.body;
      const exports = Object.fromEntries(
        Object.entries(steps).map(([namespace, value]) => [namespace, JSON.stringify(value)]),
      );
      const edits = { exports, ...(event === undefined ? {} : { event: JSON.stringify(event) }) };
      const { runId } = await runManager.restart(run, from_step, edits);
      const made = await findRun(store.read, runId);
      return { data: selectFields(request, made === undefined ? { id: runId } : runView(made)) as never };
    },
  );

  app.post(
    '/workflows/:id/steps/:namespace/test',
    {
      schema: {
        operationId: 'testStep',
        tags: ['runs', 'addition'],
        summary:
          'Run one step by itself, deployed or as it is given; nothing is recorded and nothing is sent',
        params: Type.Object({ id: Type.String({ description: 'p_…' }), namespace: Type.String() }),
        body: Type.Object({
          event: Type.Optional(Type.Unknown({ description: 'steps.trigger.event; default {}' })),
          test_event: Type.Optional(
            Type.String({ description: 'The name of a test event of the workflow; instead of event' }),
          ),
          steps: Type.Optional(
            Type.Record(Type.String(), Type.Record(Type.String(), Type.Unknown()), {
              description: 'Exports of earlier steps by namespace',
            }),
          ),
          step: Type.Optional(GivenStep),
        }),
        response: { 200: DataOf(StepTest) },
      },
    },
    async (request) => {
      const { id, namespace } = request.params;
      const workflow = await writable(store.read, callerOf(request), await findWorkflow(store.read, id), {
        what: 'workflow',
        id,
      });
      const { steps = {}, step } = request.body;
      const event = await eventOfTest(store, id, request.body);
      const caller = callerOf(request);
      const { ids } = await ownersOf(store.read, caller);
      const result = await stepTrier.run(
        workflow,
        { step: namespace, event, steps, ...(step === undefined ? {} : { given: step }) },
        { ownerId: workflow.owner_id, userId: caller.userId, readableOwners: ids },
      );
      const view: Static<typeof StepTest> = {
        state: result.status === 'finished' ? 'succeeded' : 'failed',
        input: stored(result.input),
        exports: stored(result.exports) as unknown as Record<string, unknown> | null,
        logs: stored(result.logs) as unknown as Static<typeof StepLogs>,
        error: result.error ?? null,
        flow: result.flow ?? null,
        response: result.response,
        sends: result.sends.map(({ kind, payload }) => ({ kind, payload: stored(payload) })),
        duration_ms: result.endedAtMs - result.startedAtMs,
      };
      return { data: selectFields(request, view) };
    },
  );
}

async function eventOfTest(
  store: Store,
  workflowId: string,
  { event, test_event: name }: { event?: unknown; test_event?: string },
): Promise<unknown> {
  if (name === undefined) return event;
  if (event !== undefined)
    throw new CallerError('invalid_parameter', 'test_event: give either event or test_event, not both', {
      parameter: 'test_event',
    });
  const found = await findTestEvent(store.read, workflowId, name);
  if (found === undefined)
    throw new CallerError('not_found', `test_event: the workflow has no test event ${JSON.stringify(name)}`, {
      parameter: 'test_event',
    });
  return JSON.parse(found.event) as unknown;
}

function runView(run: ListedRun | RunTable): Static<typeof Run> {
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
    error: run.error === null ? null : errorView(JSON.parse(run.error) as RunError),
    reason: run.reason,
    created_at: new Date(run.created_at_ms).toISOString(),
    started_at: time(run.started_at_ms),
    ended_at: time(run.ended_at_ms),
  };
}

function placeView(place: RunPlace | undefined) {
  if (place === undefined) return null;
  const { untilMs, ...rest } = place;
  return { ...rest, until: time(untilMs) };
}

function errorView({ cell_id, ...error }: RunError): Static<typeof ErrorShape> {
  return { ...error, cellId: cell_id };
}

function stepView(step: RunStepTable): Static<typeof Step> {
  return {
    id: step.step_id,
    namespace: step.namespace,
    position: step.position,
    iteration: step.iteration,
    try: step.try,
    state: step.state,
    input: stored(step.input),
    exports: stored(step.exports),
    logs: stored(step.logs) as unknown as Static<typeof StepLogs>,
    error: step.error === null ? null : (JSON.parse(step.error) as StepError),
    started_at: new Date(step.started_at_ms).toISOString(),
    ended_at: new Date(step.ended_at_ms).toISOString(),
  };
}

function sendView(send: RunSendTable): Static<typeof Send> {
  return {
    kind: send.kind,
    payload: stored(send.payload),
    state: send.state,
    result: stored(send.result),
    ended_at: time(send.ended_at_ms),
  };
}

/** A run has megabytes of it, which go into the answer as they are stored. */
function stored(json: string | null): JsonText | null {
  return json === null ? null : new JsonText(json);
}

function time(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}
