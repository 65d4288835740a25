import { Type } from 'typebox';
import { type App, callerOf, IdParams, PageOf, PageQuery } from '#http/route-support.ts';
import { readable } from '#identity/permissions.ts';
import type { Store } from '#storage/store.ts';
import { findWorkflow } from '#workflows/definitions/workflow-store.ts';
import { tickFields, tickPage } from './source-timer-routes.ts';

export interface WorkflowTickRouteOptions {
  store: Store;
}

const WorkflowTick = Type.Object({
  trigger_id: Type.String({ description: 'The timer trigger, ti_…' }),
  ...tickFields,
});

/** As the ledger of a source, for the timer triggers of a workflow. */
export function workflowTickRoutes(app: App, { store }: WorkflowTickRouteOptions): void {
  app.get(
    '/workflows/:id/ticks',
    {
      schema: {
        operationId: 'listWorkflowTicks',
        tags: ['workflows', 'addition'],
        summary: 'Outcomes of the planned runs of the timer triggers of a workflow, newest first',
        params: IdParams('p_…'),
        querystring: PageQuery,
        response: { 200: PageOf(WorkflowTick) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const found = await findWorkflow(store.read, id);
      const workflow = await readable(store.read, callerOf(request), found, { what: 'workflow', id });
      return tickPage(request, store.read, workflow.id, (timerId) => ({ trigger_id: timerId }));
    },
  );
}
