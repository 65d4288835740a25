import type { FastifyReply } from 'fastify';
import { Type } from 'typebox';
import type { HealthState } from '#health/health.ts';
import { pageRequest } from '#http/pagination.ts';
import {
  type App,
  callerOf,
  DataOf,
  IdParams,
  NoContent,
  ownerForCreate,
  PageOf,
  PageQuery,
  pageParameters,
} from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { sendRows } from '#http/send-rows.ts';
import { ownersOf, readable, requireWorkspace, writable } from '#identity/permissions.ts';
import { findProject } from '#identity/project-store.ts';
import { must } from '#lib/assert.ts';
import { CallerError } from '#lib/errors.ts';
import type { Store } from '#storage/store.ts';
import type { DeploymentTable, WorkflowTable } from '#storage/tables/workflow-tables.ts';
import { pageOfDeploymentSizes, sizesOfDeployments } from '#workflows/definitions/definition-size-store.ts';
import type { WorkflowDeployer } from '#workflows/definitions/deploy-workflow.ts';
import {
  viewDeployments,
  viewWorkflows,
  type WorkflowViewContext,
} from '#workflows/definitions/view-workflow.ts';
import type { DefinitionInput } from '#workflows/definitions/workflow-input.ts';
import {
  findDeployment,
  findDeployments,
  findWorkflow,
  pageOfWorkflows,
} from '#workflows/definitions/workflow-store.ts';
import { latestRuns } from '#workflows/runs/run-store.ts';
import { healthParameter } from './health-shapes.ts';
import { definitionFields, ListedWorkflow, Workflow, WorkflowDeployment } from './workflow-shapes.ts';

/** The code of a step is in an answer three times: `code_raw`, `codeRaw` and that of its saved component. */
const codeCopies = 3;

const WorkflowQuery = Type.Object({
  ...pageParameters,
  q: Type.Optional(Type.String({ maxLength: 200, description: 'Only those with this in their name or id' })),
  health: healthParameter,
});

export interface WorkflowRouteOptions {
  store: Store;
  workflowDeployer: WorkflowDeployer;
  workflowViews: WorkflowViewContext;
}

/** Specification, section 4, Workflows. */
export function workflowRoutes(app: App, options: WorkflowRouteOptions): void {
  const { store, workflowDeployer, workflowViews } = options;

  const view = async (workflow: WorkflowTable) =>
    must((await viewWorkflows(store.read, [workflow], workflowViews))[0], 'view of a workflow');

  const viewDeployment = async (deployment: DeploymentTable) =>
    must((await viewDeployments(store.read, [deployment]))[0], 'view of a deployment');

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

  const readableWorkflow = async (request: Parameters<typeof callerOf>[0], id: string) =>
    readable(store.read, callerOf(request), await findWorkflow(store.read, id), { what: 'workflow', id });

  const writableWorkflow = async (request: Parameters<typeof callerOf>[0], id: string) =>
    writable(store.read, callerOf(request), await findWorkflow(store.read, id), { what: 'workflow', id });

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

  app.post(
    '/workflows',
    {
      schema: {
        operationId: 'createWorkflow',
        tags: ['workflows'],
        summary: 'Create a workflow, from a template or from a definition',
        body: Type.Object({
          project_id: Type.Optional(Type.String({ description: 'proj_… of the workspace' })),
          template_id: Type.Optional(
            Type.String({ description: 'tch_…; what is given is laid over its steps and triggers' }),
          ),
          ...definitionFields,
        }),
        response: { 200: DataOf(Workflow) },
      },
    },
    async (request) => {
      const caller = callerOf(request);
      const ownerId = await ownerForCreate(store.read, request);
      const { ids } = await ownersOf(store.read, caller);
      const { project_id, template_id } = request.body;
      const workflow = await workflowDeployer.create(
        {
          ...definitionOf(request.body),
          ...(project_id === undefined ? {} : { projectId: project_id }),
          ...(template_id === undefined ? {} : { templateId: template_id }),
        },
        { ownerId, userId: caller.userId, readableOwners: ids },
      );
      return { data: selectFields(request, await view(workflow)) };
    },
  );

  app.get(
    '/workflows/:id',
    {
      schema: {
        operationId: 'getWorkflow',
        tags: ['workflows'],
        summary: 'A workflow with its triggers and steps',
        params: IdParams('p_…'),
        response: { 200: DataOf(Workflow) },
      },
    },
    async (request) => {
      const workflow = await readableWorkflow(request, request.params.id);
      return { data: selectFields(request, await view(workflow)) };
    },
  );

  app.put(
    '/workflows/:id',
    {
      schema: {
        operationId: 'updateWorkflow',
        tags: ['workflows'],
        summary: 'Activate, deactivate or rename a workflow',
        params: IdParams('p_…'),
        body: Type.Object({
          active: Type.Optional(Type.Boolean({ description: 'Whether events start runs' })),
          name: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
        }),
        response: { 200: DataOf(Workflow) },
      },
    },
    async (request) => {
      const { id } = request.params;
      await writableWorkflow(request, id);
      const { active, name } = request.body;
      if (active === undefined && name === undefined)
        throw new CallerError('missing_parameter', 'active: required', { parameter: 'active' });
      const workflow = await workflowDeployer.update(id, {
        ...(active === undefined ? {} : { active }),
        ...(name === undefined ? {} : { name }),
      });
      return { data: selectFields(request, await view(workflow)) };
    },
  );

  app.delete(
    '/workflows/:id',
    {
      schema: {
        operationId: 'deleteWorkflow',
        tags: ['workflows', 'addition'],
        summary: 'Remove a workflow with its triggers, versions and runs',
        params: IdParams('p_…'),
        querystring: Type.Object({
          ignore_hook_errors: Type.Optional(
            Type.Boolean({ description: 'Remove it even when a hook of a source that came with it fails' }),
          ),
        }),
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      const { id } = request.params;
      await writableWorkflow(request, id);
      await workflowDeployer.remove(id, { ignoreHookErrors: request.query.ignore_hook_errors === true });
      return reply.code(204).send(null);
    },
  );

  app.get(
    '/workflows/:id/deployments',
    {
      schema: {
        operationId: 'listDeployments',
        tags: ['workflows', 'addition'],
        summary: 'Versions of a workflow, newest first',
        params: IdParams('p_…'),
        querystring: PageQuery,
        response: { 200: PageOf(WorkflowDeployment) },
      },
    },
    async (request, reply) => {
      const { id } = request.params;
      await readableWorkflow(request, id);
      const page = await pageOfDeploymentSizes(store.read, id, pageRequest(request));
      return sendRows(reply, {
        ...page,
        bytesOf: ({ bytes }) => codeCopies * Number(bytes),
        itemsOf: async (rows) => {
          const ids = rows.map((row) => row.id);
          const found = await findDeployments(store.read, ids);
          const deployments = ids.flatMap((one) => found.get(one) ?? []);
          return selectFields(request, await viewDeployments(store.read, deployments));
        },
      });
    },
  );

  app.post(
    '/workflows/:id/deployments',
    {
      schema: {
        operationId: 'createDeployment',
        tags: ['workflows', 'addition'],
        summary: 'Deploy another version; what is not given stays as it is',
        params: IdParams('p_…'),
        body: Type.Object({
          ...definitionFields,
          follows: Type.Optional(
            Type.String({
              description:
                'd_… that the new version is made from; with another one deployed since it is a conflict',
            }),
          ),
        }),
        response: { 200: DataOf(Workflow) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const caller = callerOf(request);
      const workflow = await writableWorkflow(request, id);
      const { ids } = await ownersOf(store.read, caller);
      const { follows } = request.body;
      const deployed = await workflowDeployer.deploy(
        id,
        { ...definitionOf(request.body), ...(follows === undefined ? {} : { follows }) },
        { ownerId: workflow.owner_id, userId: caller.userId, readableOwners: ids },
      );
      return { data: selectFields(request, await view(deployed)) };
    },
  );

  app.get(
    '/deployments/:id',
    {
      schema: {
        operationId: 'getDeployment',
        tags: ['workflows', 'addition'],
        summary: 'One version of a workflow',
        params: IdParams('d_…'),
        response: { 200: DataOf(WorkflowDeployment) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const found = await findDeployment(store.read, id);
      const deployment = await readable(store.read, callerOf(request), found, { what: 'deployment', id });
      // A version is removed a moment after its workflow.
      await readableWorkflow(request, deployment.workflow_id);
      return { data: selectFields(request, await viewDeployment(deployment)) };
    },
  );
}

/** Only what was given: an absent field is not a change. The schema has checked the types. */
export function definitionOf(body: {
  steps?: unknown;
  triggers?: unknown;
  settings?: unknown;
}): DefinitionInput {
  const { steps, triggers, settings } = body;
  return {
    ...(steps === undefined ? {} : { steps }),
    ...(triggers === undefined ? {} : { triggers }),
    ...(settings === undefined ? {} : { settings }),
  } as DefinitionInput;
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
