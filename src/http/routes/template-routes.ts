import { Type } from 'typebox';
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
} from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { sendRows } from '#http/send-rows.ts';
import { notFound, type Ownership, ownersOf, readable } from '#identity/permissions.ts';
import { epochSeconds } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Store } from '#storage/store.ts';
import type { TemplateTable } from '#storage/tables/workflow-tables.ts';
import { refuseNul } from '#workflows/definitions/at-parameter.ts';
import type { TemplateMaker } from '#workflows/definitions/make-template.ts';
import type { TemplateDefinition } from '#workflows/definitions/template.ts';
import {
  deleteTemplate,
  findTemplate,
  findTemplates,
  pageOfTemplates,
} from '#workflows/definitions/template-store.ts';
import { findWorkflow } from '#workflows/definitions/workflow-store.ts';
import { definitionOf } from './named-workflow.ts';
import { definitionFields, SettingsInput, StepInputs, TriggerInputs } from './workflow-shapes.ts';

const Template = Type.Object(
  {
    id: Type.String({ description: 'tch_…, made from the content' }),
    name: Type.String(),
    steps: StepInputs,
    triggers: TriggerInputs,
    settings: SettingsInput,
    owner_id: Type.Union([Type.String(), Type.Null()], {
      description: 'Null: the owner shares no workspace with the reader',
    }),
    created_at: Type.Integer({ description: 'Epoch seconds' }),
  },
  { additionalProperties: true },
);

export interface TemplateRouteOptions {
  store: Store;
  templateMaker: TemplateMaker;
}

/** Templates of workflows. Every user who knows the id of a template may read and use it. */
export function templateRoutes(app: App, { store, templateMaker }: TemplateRouteOptions): void {
  app.post(
    '/templates',
    {
      schema: {
        operationId: 'createTemplate',
        tags: ['templates', 'addition'],
        summary: 'Make a template of a workflow, or of a definition',
        body: Type.Object({
          workflow_id: Type.Optional(Type.String({ description: 'p_…; instead of steps and triggers' })),
          include_props: Type.Optional(
            Type.Boolean({
              default: true,
              description: 'With the values of props, but never of secret ones',
            }),
          ),
          name: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
          ...definitionFields,
        }),
        response: { 200: DataOf(Template) },
      },
    },
    async (request) => {
      const caller = callerOf(request);
      const ownerId = await ownerForCreate(store.read, request);
      const owners = await ownersOf(store.read, caller);
      const owner = { ownerId, userId: caller.userId, readableOwners: owners.ids };
      const { workflow_id, include_props = true, name, steps, triggers, settings } = request.body;
      refuseNul(name, 'name');
      const options = { includeProps: include_props, ...(name === undefined ? {} : { name }) };
      if (workflow_id === undefined) {
        if (steps === undefined)
          throw new CallerError(
            'missing_parameter',
            'workflow_id: either workflow_id or a definition (steps, triggers, settings) is required',
            { parameter: 'workflow_id' },
          );
        const template = await templateMaker.fromDefinition(definitionOf(request.body), owner, options);
        return { data: selectFields(request, viewTemplate(template, owners)) };
      }
      const extra = Object.entries({ steps, triggers, settings }).find(([, value]) => value !== undefined);
      if (extra !== undefined)
        throw new CallerError('invalid_parameter', `${extra[0]}: give either this or workflow_id`, {
          parameter: extra[0],
        });
      const workflow = await readable(store.read, caller, await findWorkflow(store.read, workflow_id), {
        what: 'workflow',
        id: workflow_id,
        parameter: 'workflow_id',
      });
      const template = await templateMaker.fromWorkflow(workflow, owner, options);
      return { data: selectFields(request, viewTemplate(template, owners)) };
    },
  );

  app.get(
    '/templates',
    {
      schema: {
        operationId: 'listTemplates',
        tags: ['templates', 'addition'],
        summary: 'Templates of the authenticated user and of their workspaces',
        querystring: PageQuery,
        response: { 200: PageOf(Template) },
      },
    },
    async (request, reply) => {
      const owners = await ownersOf(store.read, callerOf(request));
      const page = await pageOfTemplates(store.read, owners.ids, pageRequest(request));
      return sendRows(reply, {
        ...page,
        bytesOf: ({ bytes }) => bytes,
        itemsOf: async (rows) => {
          const ids = rows.map(({ id }) => id);
          const found = await findTemplates(store.read, owners.ids, ids);
          const templates = ids.flatMap((id) => found.get(id) ?? []);
          return selectFields(
            request,
            templates.map((template) => viewTemplate(template, owners)),
          );
        },
      });
    },
  );

  app.get(
    '/templates/:id',
    {
      schema: {
        operationId: 'getTemplate',
        tags: ['templates', 'addition'],
        summary: 'One template',
        params: IdParams('tch_…'),
        response: { 200: DataOf(Template) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const owners = await ownersOf(store.read, callerOf(request));
      const template = await findTemplate(store.read, id, owners.ids);
      if (template === undefined) throw notFound('template', id);
      return { data: selectFields(request, viewTemplate(template, owners)) };
    },
  );

  app.delete(
    '/templates/:id',
    {
      schema: {
        operationId: 'deleteTemplate',
        tags: ['templates', 'addition'],
        summary: 'Remove a template from your list; others who made the same keep it',
        params: IdParams('tch_…'),
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      const { id } = request.params;
      const owners = await ownersOf(store.read, callerOf(request));
      const writable = owners.ids.filter((owner) => owners.mayWrite(owner));
      const isDeleted = await store.transaction((tx) => deleteTemplate(tx, id, writable));
      if (!isDeleted) {
        const found = await findTemplate(store.read, id, owners.ids);
        if (found !== undefined && owners.mayRead(found.owner_id))
          throw new CallerError('forbidden', 'your role in this workspace lets you only read its templates');
        throw notFound('template', id);
      }
      return reply.code(204).send(null);
    },
  );
}

function viewTemplate(template: TemplateTable, owners: Ownership) {
  const { steps, triggers, settings } = JSON.parse(template.definition) as TemplateDefinition;
  return {
    id: template.id,
    name: template.name,
    steps,
    triggers,
    settings,
    owner_id: owners.mayRead(template.owner_id) ? template.owner_id : null,
    created_at: epochSeconds(template.created_at_ms),
  };
}
