import { Type } from 'typebox';
import { pageRequest } from '#http/pagination.ts';
import { type App, callerOf, DataOf, IdParams, PageOf, PageQuery } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { sendRows } from '#http/send-rows.ts';
import { ownersOf, readable } from '#identity/permissions.ts';
import { must } from '#lib/assert.ts';
import type { Store } from '#storage/store.ts';
import type { DeploymentTable } from '#storage/tables/workflow-tables.ts';
import { pageOfDeploymentSizes } from '#workflows/definitions/definition-size-store.ts';
import type { WorkflowDeployer } from '#workflows/definitions/deploy-workflow.ts';
import { viewDeployments, type WorkflowViewContext } from '#workflows/definitions/view-workflow.ts';
import { findDeployment, findDeployments } from '#workflows/definitions/workflow-store.ts';
import {
  codeCopies,
  definitionOf,
  readableWorkflow,
  viewOfWorkflow,
  writableWorkflow,
} from './named-workflow.ts';
import { definitionFields, Workflow, WorkflowDeployment } from './workflow-shapes.ts';

export interface DeploymentRouteOptions {
  store: Store;
  workflowDeployer: WorkflowDeployer;
  workflowViews: WorkflowViewContext;
}

/** Versions of a workflow. */
export function deploymentRoutes(app: App, options: DeploymentRouteOptions): void {
  const { store, workflowDeployer, workflowViews } = options;

  const viewDeployment = async (deployment: DeploymentTable) =>
    must((await viewDeployments(store.read, [deployment]))[0], 'view of a deployment');

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
      await readableWorkflow(store, request, id);
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
          active: Type.Optional(
            Type.Boolean({ description: 'Whether events start runs of it; absent: as before' }),
          ),
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
      const workflow = await writableWorkflow(store, request, id);
      const { ids } = await ownersOf(store.read, caller);
      const { follows, active } = request.body;
      const deployed = await workflowDeployer.deploy(
        id,
        {
          ...definitionOf(request.body),
          ...(follows === undefined ? {} : { follows }),
          ...(active === undefined ? {} : { active }),
        },
        { ownerId: workflow.owner_id, userId: caller.userId, readableOwners: ids },
      );
      return { data: selectFields(request, await viewOfWorkflow(store, deployed, workflowViews)) };
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
      await readableWorkflow(store, request, deployment.workflow_id);
      return { data: selectFields(request, await viewDeployment(deployment)) };
    },
  );
}
