import { type Static, Type } from 'typebox';
import { encodeCursor, pageRequest, pageResponse } from '#http/pagination.ts';
import {
  type App,
  callerOf,
  DataOf,
  IdParams,
  NoContent,
  OneOf,
  PageOf,
  PageQuery,
} from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { readable, writable } from '#identity/permissions.ts';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import { JsonText } from '#lib/write-json.ts';
import type { Store } from '#storage/store.ts';
import { runSourceTypes, type TestEventTable, type WorkflowTable } from '#storage/tables/workflow-tables.ts';
import { refuseNul } from '#workflows/definitions/at-parameter.ts';
import {
  deleteTestEvent,
  findTestEvent,
  type ListedTestEvent,
  pageOfTestEvents,
  putTestEvent,
} from '#workflows/definitions/test-event-store.ts';
import { findWorkflow, lockWorkflow } from '#workflows/definitions/workflow-store.ts';
import { findRun } from '#workflows/runs/run-store.ts';
import type { RunStarter } from '#workflows/runs/start-run.ts';

const nameMax = 100;

const summaryFields = {
  name: Type.String(),
  workflow_id: Type.String({ description: 'p_…' }),
  bytes: Type.Integer({ description: 'Size of the event as JSON text' }),
  source_type: OneOf(runSourceTypes, { description: 'What triggers runs of such an event' }),
  created_at: Type.Integer({ description: 'Epoch seconds: when it was last put' }),
};
const TestEventSummary = Type.Object(summaryFields);
const TestEvent = Type.Object({
  ...summaryFields,
  event: Type.Unknown({ description: 'steps.trigger.event' }),
});

const NamedParams = Type.Object({
  id: Type.String({ description: 'p_…' }),
  name: Type.String({ minLength: 1, maxLength: nameMax, description: 'The name of the test event' }),
});

export interface TestEventRouteOptions {
  store: Store;
  clock: Clock;
  runStarter: Pick<RunStarter, 'start'>;
}

/** Events that are kept with a workflow to try it: written by hand, or copied from a run. All additions. */
export function testEventRoutes(app: App, { store, clock, runStarter }: TestEventRouteOptions): void {
  const findOwn = async (
    request: Parameters<typeof callerOf>[0] & { params: { id: string } },
    right: 'read' | 'write',
  ): Promise<WorkflowTable> => {
    const { id } = request.params;
    const check = right === 'read' ? readable : writable;
    return check(store.read, callerOf(request), await findWorkflow(store.read, id), { what: 'workflow', id });
  };
  const findNamed = async (workflowId: string, name: string): Promise<TestEventTable> => {
    const found = await findTestEvent(store.read, workflowId, name);
    if (found === undefined) throw noTestEvent(name);
    return found;
  };

  app.get(
    '/workflows/:id/test_events',
    {
      schema: {
        operationId: 'listTestEvents',
        tags: ['workflows', 'addition'],
        summary: 'The test events of a workflow, newest first, without what they hold',
        params: IdParams('p_…'),
        querystring: PageQuery,
        response: { 200: PageOf(TestEventSummary) },
      },
    },
    async (request) => {
      const workflow = await findOwn(request, 'read');
      const page = await pageOfTestEvents(store.read, workflow.id, pageRequest(request));
      return pageResponse(selectFields(request, page.rows.map(summaryView)), {
        totalCount: page.totalCount,
        cursorOf: (_event, index) => encodeCursor(page.rows[index]?.id ?? ''),
      });
    },
  );

  app.get(
    '/workflows/:id/test_events/:name',
    {
      schema: {
        operationId: 'getTestEvent',
        tags: ['workflows', 'addition'],
        summary: 'One test event of a workflow, with the event itself',
        params: NamedParams,
        response: { 200: DataOf(TestEvent) },
      },
    },
    async (request) => {
      const workflow = await findOwn(request, 'read');
      return { data: selectFields(request, view(await findNamed(workflow.id, request.params.name))) };
    },
  );

  app.put(
    '/workflows/:id/test_events/:name',
    {
      schema: {
        operationId: 'putTestEvent',
        tags: ['workflows', 'addition'],
        summary: 'Keep an event with a workflow, to test its steps and to run it',
        description: 'One of the same name is replaced. A workflow keeps 100, with 20 MB of events together.',
        params: NamedParams,
        body: Type.Object({
          event: Type.Optional(Type.Unknown({ description: 'steps.trigger.event; instead of run_id' })),
          run_id: Type.Optional(Type.String({ description: 'A run of the workflow, whose event is copied' })),
        }),
        response: { 200: DataOf(TestEvent) },
      },
    },
    async (request) => {
      const workflow = await findOwn(request, 'write');
      const { name } = request.params;
      refuseNul(name, 'name');
      const row: TestEventTable = {
        id: newId('te'),
        workflow_id: workflow.id,
        owner_id: workflow.owner_id,
        name,
        ...(await contentOf(workflow, request.body)),
        created_at_ms: clock.now(),
      };
      await store.transaction(async (tx) => {
        // Those that are put at the same moment are counted one after another.
        await lockWorkflow(store, tx, workflow.id);
        await putTestEvent(tx, row);
      });
      return { data: selectFields(request, view(row)) };
    },
  );

  app.post(
    '/workflows/:id/test_events/:name/run',
    {
      schema: {
        operationId: 'runTestEvent',
        tags: ['workflows', 'addition'],
        summary: 'Run the current deployment with a test event',
        params: NamedParams,
        response: { 200: DataOf(Type.Object({ run_id: Type.String() })) },
      },
    },
    async (request) => {
      const workflow = await findOwn(request, 'write');
      const { event, source_type } = await findNamed(workflow.id, request.params.name);
      const { runId } = await runStarter.start({
        ...{ workflowId: workflow.id, ownerId: workflow.owner_id, deploymentId: workflow.deployment_id },
        flowControl: workflow.flow_control,
        ...{ emitterId: null, sourceType: source_type, event, hops: 0 },
      });
      return { data: selectFields(request, { run_id: runId }) };
    },
  );

  app.delete(
    '/workflows/:id/test_events/:name',
    {
      schema: {
        operationId: 'deleteTestEvent',
        tags: ['workflows', 'addition'],
        summary: 'Remove a test event',
        params: NamedParams,
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      const workflow = await findOwn(request, 'write');
      const { name } = request.params;
      if (!(await store.transaction((tx) => deleteTestEvent(tx, workflow.id, name)))) throw noTestEvent(name);
      return reply.code(204).send(null);
    },
  );

  async function contentOf(
    workflow: WorkflowTable,
    { event, run_id: runId }: { event?: unknown; run_id?: string },
  ): Promise<Pick<TestEventTable, 'event' | 'source_type'>> {
    if (runId === undefined) {
      if (event === undefined)
        throw new CallerError('missing_parameter', 'event: one of event and run_id is required', {
          parameter: 'event',
        });
      return { event: JSON.stringify(event), source_type: 'HTTP' };
    }
    if (event !== undefined)
      throw new CallerError('invalid_parameter', 'run_id: give either event or run_id, not both', {
        parameter: 'run_id',
      });
    const run = await findRun(store.read, runId);
    if (run === undefined || run.workflow_id !== workflow.id)
      throw new CallerError('not_found', `run_id: the workflow has no run ${JSON.stringify(runId)}`, {
        parameter: 'run_id',
      });
    return { event: run.event, source_type: run.source_type };
  }
}

function noTestEvent(name: string): CallerError {
  const message = `the workflow has no test event ${JSON.stringify(name)}`;
  return new CallerError('not_found', message, { parameter: 'name' });
}

function view(row: TestEventTable): Static<typeof TestEvent> {
  const summary = summaryView({ ...row, bytes: Buffer.byteLength(row.event) });
  return { ...summary, event: new JsonText(row.event) };
}

function summaryView(row: ListedTestEvent): Static<typeof TestEventSummary> {
  return {
    name: row.name,
    workflow_id: row.workflow_id,
    bytes: row.bytes,
    source_type: row.source_type,
    created_at: epochSeconds(row.created_at_ms),
  };
}
