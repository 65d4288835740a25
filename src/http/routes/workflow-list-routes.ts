import type { FastifyReply } from 'fastify';
import { Type } from 'typebox';
import type { HealthState } from '#health/health.ts';
import { pageRequest } from '#http/pagination.ts';
import { type App, callerOf, IdParams, PageOf, pageParameters } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { sendRows } from '#http/send-rows.ts';
import { readable, requireWorkspace } from '#identity/permissions.ts';
import { findProject } from '#identity/project-store.ts';
import type { Store } from '#storage/store.ts';
import { sizesOfDeployments } from '#workflows/definitions/definition-size-store.ts';
import { viewWorkflows, type WorkflowViewContext } from '#workflows/definitions/view-workflow.ts';
import { pageOfWorkflows } from '#workflows/definitions/workflow-store.ts';
import { latestRuns } from '#workflows/runs/run-store.ts';
import { healthParameter } from './health-shapes.ts';
import { codeCopies } from './named-workflow.ts';
import { ListedWorkflow } from './workflow-shapes.ts';

const WorkflowQuery = Type.Object({
  ...pageParameters,
  q: Type.Optional(Type.String({ maxLength: 200, description: 'Only those with this in their name or id' })),
  health: healthParameter,
});

export interface WorkflowListRouteOptions {
  store: Store;
  workflowViews: WorkflowViewContext;
}

/** Workflows of a user, of a workspace and of a project. */
export function workflowListRoutes(app: App, options: WorkflowListRouteOptions): void {
  const { store, workflowViews } = options;

  const listOf = async (
    request: Parameters<typeof pageRequest>[0],
    reply: FastifyReply,
    filter: Parameters<typeof pageOfWorkflows>[1],
  ) => {
    const db = store.read;
    const page = await pageOfWorkflows(db, filter, pageRequest(request));
    const latest = await latestRuns(
      db,
      page.rows.map(({ id }) => id),
    );
    const sizes = await sizesOfDeployments(
      db,
      page.rows.map((workflow) => workflow.deployment_id),
    );
    return sendRows(reply, {
      ...page,
      bytesOf: (workflow) => codeCopies * (sizes.get(workflow.deployment_id) ?? 0),
      itemsOf: async (rows) => {
        const views = await viewWorkflows(db, rows, workflowViews);
        const listed = views.map((one) => {
          const run = latest.get(one.id);
          const last_run =
            run === undefined
              ? null
              : { id: run.id, state: run.state, created_at: new Date(run.created_at_ms).toISOString() };
          return { ...one, last_run };
        });
        return selectFields(request, listed);
      },
    });
  };

  app.get(
    '/users/me/workflows',
    {
      schema: {
        operationId: 'listMyWorkflows',
        tags: ['workflows', 'addition'],
        summary: 'Workflows of the authenticated user',
        querystring: WorkflowQuery,
        response: { 200: PageOf(ListedWorkflow) },
      },
    },
    (request, reply) =>
      listOf(request, reply, {
        ownerId: callerOf(request).userId,
        ...filterOf(request.query, workflowViews.now()),
      }),
  );

  app.get(
    '/workspaces/:id/workflows',
    {
      schema: {
        operationId: 'listWorkspaceWorkflows',
        tags: ['workflows', 'addition'],
        summary: 'Workflows of a workspace',
        params: IdParams('o_…'),
        querystring: WorkflowQuery,
        response: { 200: PageOf(ListedWorkflow) },
      },
    },
    async (request, reply) => {
      await requireWorkspace(store.read, callerOf(request), request.params.id, 'read');
      return listOf(request, reply, {
        ownerId: request.params.id,
        ...filterOf(request.query, workflowViews.now()),
      });
    },
  );

  app.get(
    '/projects/:id/workflows',
    {
      schema: {
        operationId: 'listProjectWorkflows',
        tags: ['workflows', 'addition'],
        summary: 'Workflows of a project',
        params: IdParams('proj_…'),
        querystring: WorkflowQuery,
        response: { 200: PageOf(ListedWorkflow) },
      },
    },
    async (request, reply) => {
      const { id } = request.params;
      const project = await findProject(store.read, id);
      await readable(store.read, callerOf(request), project && { owner_id: project.org_id }, {
        what: 'project',
        id,
      });
      return listOf(request, reply, { projectId: id, ...filterOf(request.query, workflowViews.now()) });
    },
  );
}

function filterOf(
  { q, health }: { q?: string; health?: HealthState },
  nowMs: number,
): { words?: string; health?: { state: HealthState; nowMs: number } } {
  return {
    ...(q === undefined ? {} : { words: q }),
    ...(health === undefined ? {} : { health: { state: health, nowMs } }),
  };
}
