import { Type } from 'typebox';
import { type App, callerOf, DataOf, IdParams, OneOf } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { readable } from '#identity/permissions.ts';
import { countArrived } from '#jobs/held-job-store.ts';
import type { Store } from '#storage/store.ts';
import { flowBlocks } from '#storage/tables/flow-tables.ts';
import { findWorkflow } from '#workflows/definitions/workflow-store.ts';
import { viewQueue } from '#workflows/flow-control/view-queue.ts';

export interface WorkflowQueueRouteOptions {
  store: Store;
}

const count = (description: string) => Type.Integer({ description });

const WorkflowQueue = Type.Object({
  arrived: count('Runs that were stored a moment ago, and not looked at yet'),
  collected: count('Events that a debounce or a batch holds back'),
  waiting: count('Runs that wait for their turn'),
  under_way: count('Runs that hold a place'),
  totals: Type.Object(
    {
      started: count('Runs that were let begin'),
      skipped: count('Events that a singleton skipped'),
      replaced: count('Runs that a later event of a singleton replaced'),
      debounced: count('Events that a later event of a debounce replaced'),
      batched: count('Events that became part of a batch'),
    },
    { description: 'Since the workflow has flow control' },
  ),
  waiting_keys: Type.Array(
    Type.Object({
      key: Type.String(),
      throttle_key: Type.String(),
      waiting: Type.Integer(),
      under_way: Type.Integer(),
      blocked_by: Type.Union([OneOf(flowBlocks), Type.Null()]),
      reason: Type.String({ description: 'In words' }),
      until: Type.Union([Type.String(), Type.Null()], { description: 'ISO 8601' }),
    }),
    { description: 'The 100 keys with the longest queues' },
  ),
  keys_under_way: Type.Array(Type.Object({ key: Type.String(), under_way: Type.Integer() }), {
    description: 'The 100 concurrency keys with the most runs under way',
  }),
});

/** What waits for a workflow with flow control, and why. An addition. */
export function workflowQueueRoutes(app: App, { store }: WorkflowQueueRouteOptions): void {
  app.get(
    '/workflows/:id/queue',
    {
      schema: {
        operationId: 'getWorkflowQueue',
        tags: ['workflows', 'addition'],
        summary: 'What waits for a workflow with flow control, by key, and why',
        params: IdParams('p_…'),
        response: { 200: DataOf(WorkflowQueue) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const found = await findWorkflow(store.read, id);
      await readable(store.read, callerOf(request), found, { what: 'workflow', id });
      const view = await viewQueue(store.read, id, await countArrived(store.read, id));
      return { data: selectFields(request, view) };
    },
  );
}
