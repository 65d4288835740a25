import { lastUnbegun } from '#flow-control/unbegun-store.ts';
import { viewQueue } from '#flow-control/view-queue.ts';
import { type App, callerOf, DataOf, IdParams } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { readable } from '#identity/permissions.ts';
import { countArrived } from '#jobs/held-job-store.ts';
import { findSource } from '#sources/source-store.ts';
import type { Store } from '#storage/store.ts';
import { findWorkflow } from '#workflows/definitions/workflow-store.ts';
import { FlowQueue, SourceQueue } from './flow-shapes.ts';

export interface QueueRouteOptions {
  store: Store;
}

/** What waits for a workflow or source with flow control, and why. An addition. */
export function queueRoutes(app: App, { store }: QueueRouteOptions): void {
  app.get(
    '/workflows/:id/queue',
    {
      schema: {
        operationId: 'getWorkflowQueue',
        tags: ['workflows', 'addition'],
        summary: 'What waits for a workflow with flow control, by key, and why',
        params: IdParams('p_…'),
        response: { 200: DataOf(FlowQueue) },
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

  app.get(
    '/sources/:id/queue',
    {
      schema: {
        operationId: 'getSourceQueue',
        tags: ['sources', 'addition'],
        summary: 'What waits for a source with flow control, by key, and why',
        params: IdParams('dc_…'),
        response: { 200: DataOf(SourceQueue) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const found = await findSource(store.read, id);
      await readable(store.read, callerOf(request), found, { what: 'source', id });
      const view = await viewQueue(store.read, id, await countArrived(store.read, id));
      const unbegun = await lastUnbegun(store.read, id);
      const not_run = unbegun.map(({ runId, reason, endedMs }) => ({
        id: runId,
        reason,
        at: new Date(endedMs).toISOString(),
      }));
      return { data: selectFields(request, { ...view, not_run }) };
    },
  );
}
