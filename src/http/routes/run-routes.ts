import { type Static, Type } from 'typebox';
import { placeOfRun } from '#flow-control/view-queue.ts';
import { encodeCursor, pageRequest, pageResponse } from '#http/pagination.ts';
import { requireCodeScopes } from '#http/require-code-scopes.ts';
import { type App, callerOf, DataOf, IdParams, OneOf, PageOf, pageParameters } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { hasScope } from '#identity/key-scopes.ts';
import { mayWrite, notFound, ownersOf, readable, writable } from '#identity/permissions.ts';
import { CallerError } from '#lib/errors.ts';
import type { Store } from '#storage/store.ts';
import { runStates } from '#storage/tables/workflow-tables.ts';
import { findTestEvent } from '#workflows/definitions/test-event-store.ts';
import { findWorkflow } from '#workflows/definitions/workflow-store.ts';
import type { RunManager } from '#workflows/runs/manage-runs.ts';
import { sendsOfRun } from '#workflows/runs/run-send-store.ts';
import { shownStepsOf } from '#workflows/runs/run-step-store.ts';
import { findRun, pageOfRuns } from '#workflows/runs/run-store.ts';
import type { RunWaits } from '#workflows/runs/run-waits.ts';
import type { StepTrier } from '#workflows/runs/try-step.ts';
import { waitReasonsOf } from '#workflows/runs/wait-reasons.ts';
import { failedSendsOf } from '#workflows/sends/send-store.ts';
import {
  placeView,
  Run,
  RunDetail,
  runView,
  type StepLogs,
  StepTest,
  sendView,
  stepView,
  stored,
  waitView,
  withoutLinks,
} from './run-shapes.ts';
import { sinceDescription, timesOf, untilDescription } from './run-times.ts';
import { GivenStep } from './workflow-shapes.ts';

const EditedEvent = Type.Optional(
  Type.Unknown({ description: 'steps.trigger.event of the new run; absent: that of this run' }),
);

export interface RunRouteOptions {
  store: Store;
  runManager: RunManager;
  runWaits: Pick<RunWaits, 'of'>;
  stepTrier: StepTrier;
}

/** Runs of workflows: reading and controlling them. All additions. */
export function runRoutes(app: App, options: RunRouteOptions): void {
  const support = runSupport(options);
  readRunRoutes(app, support);
  changeRunRoutes(app, support);
  stepTestRoutes(app, support);
}

type RunSupport = ReturnType<typeof runSupport>;

/** What the handlers of these routes share. */
function runSupport({ store, runManager, runWaits, stepTrier }: RunRouteOptions) {
  const findOwn = async (
    request: Parameters<typeof callerOf>[0] & { params: { id: string } },
    right: 'read' | 'write',
  ) => {
    const { id } = request.params;
    const check = right === 'read' ? readable : writable;
    const run = await check(store.read, callerOf(request), await findRun(store.read, id), {
      what: 'run',
      id,
    });
    // The runs of a deleted workflow are removed after it, thousands of them in seconds. Looked up only after the check of rights, as below.
    if ((await findWorkflow(store.read, run.workflow_id)) === undefined) throw notFound('run', id);
    return run;
  };

  return { store, runManager, runWaits, stepTrier, findOwn };
}

function readRunRoutes(app: App, { store, runWaits, findOwn }: RunSupport): void {
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
      const failedSends = await failedSendsOf(
        store.read,
        page.rows.map((run) => run.id),
      );
      const reasons = await waitReasonsOf(store.read, page.rows);
      const runs = page.rows.map((run) => runView(run, failedSends.get(run.id), reasons.get(run.id)));
      return pageResponse(selectFields(request, runs), {
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
      const waits = await runWaits.of(run);
      const caller = callerOf(request);
      const mayUseLinks =
        hasScope(caller.scopes, 'run') && (await mayWrite(store.read, caller, run.owner_id));
      const shown = (json: string) => stored(mayUseLinks ? json : withoutLinks(json));
      const reasons = await waitReasonsOf(store.read, [run]);
      const failedSends = sends.filter(({ state }) => state === 'failed').length;
      const detail = {
        ...runView(run, failedSends, reasons.get(run.id)),
        event: shown(run.event),
        queue: placeView(await placeOfRun(store.read, run.id)),
        waits: waits.map((wait) => waitView(wait, mayUseLinks)),
        steps: steps.map((step) => stepView(step, waits, mayUseLinks)),
        steps_left_out: left_out,
        sends: sends.map((send) => sendView(send, mayUseLinks)),
      };
      return { data: selectFields(request, detail) };
    },
  );
}

function changeRunRoutes(app: App, { store, runManager, findOwn }: RunSupport): void {
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
      const failedSends = await failedSendsOf(store.read, [ended.id]);
      return { data: selectFields(request, runView(ended, failedSends.get(ended.id))) };
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
        description:
          '`steps` needs the scope `write` beside `run`. A workflow with a personal account of another member takes none.',
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
      const caller = callerOf(request);
      requireCodeScopes(caller, { hasOwnCode: Object.keys(steps).length > 0 });
      const { ids: owners } = await ownersOf(store.read, caller);
      const exports = Object.fromEntries(
        Object.entries(steps).map(([namespace, value]) => [namespace, JSON.stringify(value)]),
      );
      const edits = { exports, owners, ...(event === undefined ? {} : { event: JSON.stringify(event) }) };
      const { runId } = await runManager.restart(run, from_step, edits);
      const made = await findRun(store.read, runId);
      return { data: selectFields(request, made === undefined ? { id: runId } : runView(made)) as never };
    },
  );
}

function stepTestRoutes(app: App, { store, stepTrier }: RunSupport): void {
  app.post(
    '/workflows/:id/steps/:namespace/test',
    {
      schema: {
        operationId: 'testStep',
        tags: ['runs', 'addition'],
        summary:
          'Run one step by itself, deployed or as it is given; nothing is recorded and nothing is sent',
        description:
          '`step` and `steps` need the scope `write` beside `run`, and an account in the props of `step` needs `credentials`. A step with a personal account of another member takes no `steps`.',
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
      const { step: given, steps = {} } = request.body;
      if (given !== undefined) requireCodeScopes(callerOf(request), { hasOwnCode: true, props: given.props });
      // They take the place of what the code of the steps before returns.
      requireCodeScopes(callerOf(request), { hasOwnCode: Object.keys(steps).length > 0 });
      const workflow = await writable(store.read, callerOf(request), await findWorkflow(store.read, id), {
        what: 'workflow',
        id,
      });
      const event = await eventOfTest(store, id, request.body);
      const caller = callerOf(request);
      const { ids } = await ownersOf(store.read, caller);
      const result = await stepTrier.run(
        workflow,
        { step: namespace, event, steps, ...(given === undefined ? {} : { given }) },
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
