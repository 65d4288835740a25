import { Type } from 'typebox';
import { type App, callerOf, DataOf, IdParams, NoContent, ownerForCreate } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { ownersOf } from '#identity/permissions.ts';
import { CallerError } from '#lib/errors.ts';
import type { Store } from '#storage/store.ts';
import type { WorkflowDeployer } from '#workflows/definitions/deploy-workflow.ts';
import type { WorkflowViewContext } from '#workflows/definitions/view-workflow.ts';
import { definitionOf, readableWorkflow, viewOfWorkflow, writableWorkflow } from './named-workflow.ts';
import { definitionFields, Workflow } from './workflow-shapes.ts';

export interface WorkflowRouteOptions {
  store: Store;
  workflowDeployer: WorkflowDeployer;
  workflowViews: WorkflowViewContext;
}

/** Specification, section 4, Workflows. */
export function workflowRoutes(app: App, options: WorkflowRouteOptions): void {
  const { store, workflowDeployer, workflowViews } = options;

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
      return { data: selectFields(request, await viewOfWorkflow(store, workflow, workflowViews)) };
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
      const workflow = await readableWorkflow(store, request, request.params.id);
      return { data: selectFields(request, await viewOfWorkflow(store, workflow, workflowViews)) };
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
      await writableWorkflow(store, request, id);
      const { active, name } = request.body;
      if (active === undefined && name === undefined)
        throw new CallerError('missing_parameter', 'active: required', { parameter: 'active' });
      const workflow = await workflowDeployer.update(id, {
        ...(active === undefined ? {} : { active }),
        ...(name === undefined ? {} : { name }),
      });
      return { data: selectFields(request, await viewOfWorkflow(store, workflow, workflowViews)) };
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
      await writableWorkflow(store, request, id);
      await workflowDeployer.remove(id, { ignoreHookErrors: request.query.ignore_hook_errors === true });
      return reply.code(204).send(null);
    },
  );
}
