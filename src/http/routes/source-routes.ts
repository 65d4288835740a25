import type { FastifyReply } from 'fastify';
import { Type } from 'typebox';
import { type HealthState, newHealth } from '#health/health.ts';
import { healthOf } from '#health/health-store.ts';
import { pageRequest } from '#http/pagination.ts';
import {
  type App,
  callerOf,
  DataOf,
  IdParams,
  NoContent,
  ownerForCreate,
  PageOf,
  pageParameters,
} from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { sendRows } from '#http/send-rows.ts';
import { ownersOf, readable, requireWorkspace, writable } from '#identity/permissions.ts';
import { workOfLane } from '#jobs/lane-work-store.ts';
import type { Clock } from '#lib/clock.ts';
import { epochSeconds } from '#lib/clock.ts';
import type { SourceChange, SourceDeployer } from '#sources/deploy-source.ts';
import type { Deployment } from '#sources/deployment.ts';
import { loadSourceDefinitions } from '#sources/deployment.ts';
import { findSource, findSources, pageOfSources } from '#sources/source-store.ts';
import { viewSource } from '#sources/view-source.ts';
import type { Store } from '#storage/store.ts';
import type { SourceTable } from '#storage/tables/source-tables.ts';
import { FlowControl } from './flow-shapes.ts';
import { healthParameter } from './health-shapes.ts';
import { Source } from './source-shapes.ts';

/** More in one process would only wait for each other. */
const concurrencyMax = 100;

const changeFields = {
  component_id: Type.Optional(
    Type.String({ description: 'Saved component sc_…; wins over the other references' }),
  ),
  component_code: Type.Optional(Type.String({ description: 'Full code of the component' })),
  component_url: Type.Optional(
    Type.String({ description: 'Where the code is; metadata when code or id is given' }),
  ),
  key: Type.Optional(Type.String({ description: 'Key of a registry component' })),
  name: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
  name_slug: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
  configured_props: Type.Optional(
    Type.Record(Type.String(), Type.Unknown(), {
      description:
        'Values of the props; a timer is { intervalSeconds } or { cron, timezone }, an account { authProvisionId }',
    }),
  ),
  concurrency: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: concurrencyMax,
      description:
        'Addition: runs of the source at once. 1, the default: one after another, over all nodes, each sees the state that the one before ' +
        'left. More: so many at once on each node, in no order, and of a key of `$.service.db` that two of them set, one value stays',
    }),
  ),
  flow_control: Type.Optional(
    Type.Union([FlowControl, Type.Null()], {
      description:
        'Addition: when runs may begin. Keys are paths into the event, such as {{event.body.customer}}. Of a component that replies to its ' +
        'requests it is refused, as is `concurrency` by key of a source whose own `concurrency` is 1. null: runs begin at once',
    }),
  ),
  isolated: Type.Optional(
    Type.Boolean({
      description:
        'Addition: the source runs in a process of its own; by default, code of one owner shares processes',
    }),
  ),
};

const SourceQuery = Type.Object({
  ...pageParameters,
  q: Type.Optional(
    Type.String({ maxLength: 200, description: 'Addition: only those with this in their name, slug or id' }),
  ),
  health: healthParameter,
});

export interface SourceRouteOptions {
  store: Store;
  clock: Clock;
  deployer: SourceDeployer;
  /** The public URL of an endpoint key. */
  endpointUrl: (key: string | null) => string | undefined;
}

/** Specification, section 4, Sources. */
export function sourceRoutes(app: App, options: SourceRouteOptions): void {
  const { store, clock, deployer, endpointUrl } = options;

  const view = async (source: SourceTable, definitions: Deployment['definitions']) => {
    const health = await healthOf(store.read, 'source', [source.id], clock.now());
    return viewSource(source, definitions, endpointUrl, health.get(source.id) ?? newHealth('source'));
  };

  const listOf = async (request: Parameters<typeof pageRequest>[0], reply: FastifyReply, ownerId: string) => {
    const db = store.read;
    const { q = '', health: state } = request.query as { q?: string; health?: HealthState };
    const nowMs = clock.now();
    const filter = { words: q.trim(), ...(state === undefined ? {} : { health: { state, nowMs } }) };
    const page = await pageOfSources(db, ownerId, pageRequest(request), filter);
    const ids = page.rows.map(({ id }) => id);
    const health = await healthOf(db, 'source', ids, nowMs);
    return sendRows(reply, {
      ...page,
      bytesOf: ({ bytes }) => bytes,
      itemsOf: async (rows) => {
        const found = await findSources(
          db,
          rows.map(({ id }) => id),
        );
        const sources = rows.flatMap(({ id }) => found.get(id) ?? []);
        const definitions = await loadSourceDefinitions(db, sources);
        const views = sources.map((source) =>
          viewSource(
            source,
            definitions.get(source.id) ?? [],
            endpointUrl,
            health.get(source.id) ?? newHealth('source'),
          ),
        );
        return selectFields(request, views);
      },
    });
  };

  app.get(
    '/users/me/sources',
    {
      schema: {
        operationId: 'listMySources',
        tags: ['sources'],
        summary: 'Sources of the authenticated user',
        querystring: SourceQuery,
        response: { 200: PageOf(Source) },
      },
    },
    (request, reply) => listOf(request, reply, callerOf(request).userId),
  );

  app.get(
    '/orgs/:id/sources',
    {
      schema: {
        operationId: 'listWorkspaceSources',
        tags: ['sources'],
        summary: 'Sources of a workspace',
        params: IdParams('o_…'),
        querystring: SourceQuery,
        response: { 200: PageOf(Source) },
      },
    },
    async (request, reply) => {
      await requireWorkspace(store.read, callerOf(request), request.params.id, 'read');
      return listOf(request, reply, request.params.id);
    },
  );

  app.post(
    '/sources',
    {
      schema: {
        operationId: 'createSource',
        tags: ['sources'],
        summary: 'Deploy a component as an event source',
        body: Type.Object(changeFields),
        response: { 200: DataOf(Source) },
      },
    },
    async (request) => {
      const caller = callerOf(request);
      const ownerId = await ownerForCreate(store.read, request);
      const owners = await ownersOf(store.read, caller);
      const deployment = await deployer.create(changeOf(request.body), {
        ownerId,
        userId: caller.userId,
        readableOwners: owners.ids,
      });
      return { data: selectFields(request, await view(deployment.source, deployment.definitions)) };
    },
  );

  app.get(
    '/sources/:id',
    {
      schema: {
        operationId: 'getSource',
        tags: ['sources', 'addition'],
        summary: 'One source',
        params: IdParams('dc_…'),
        response: { 200: DataOf(Source) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const source = await readable(store.read, callerOf(request), await findSource(store.read, id), {
        what: 'source',
        id,
      });
      const definitions = await loadSourceDefinitions(store.read, [source]);
      const shape = await view(source, definitions.get(id) ?? []);
      const { underWay, queued, sinceMs } = await workOfLane(store.read, id);
      const since = sinceMs === undefined ? null : epochSeconds(sinceMs);
      return { data: selectFields(request, { ...shape, runs: { under_way: underWay, queued, since } }) };
    },
  );

  app.put(
    '/sources/:id',
    {
      schema: {
        operationId: 'updateSource',
        tags: ['sources'],
        summary: 'Change code, props, name or activity of a source',
        params: IdParams('dc_…'),
        body: Type.Object({ ...changeFields, active: Type.Optional(Type.Boolean({ default: true })) }),
        response: { 200: DataOf(Source) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const caller = callerOf(request);
      const source = await writable(store.read, caller, await findSource(store.read, id), {
        what: 'source',
        id,
      });
      const owners = await ownersOf(store.read, caller);
      const { active } = request.body;
      const deployment = await deployer.update(
        id,
        { ...changeOf(request.body), ...(active === undefined ? {} : { active }) },
        { ownerId: source.owner_id, userId: caller.userId, readableOwners: owners.ids },
      );
      return { data: selectFields(request, await view(deployment.source, deployment.definitions)) };
    },
  );

  app.delete(
    '/sources/:id',
    {
      schema: {
        operationId: 'deleteSource',
        tags: ['sources'],
        summary: 'Remove a source, its events and its endpoint',
        params: IdParams('dc_…'),
        querystring: Type.Object({
          ignore_hook_errors: Type.Optional(
            Type.Boolean({ description: 'Remove it even when its deactivate hook fails' }),
          ),
        }),
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      const { id } = request.params;
      await writable(store.read, callerOf(request), await findSource(store.read, id), { what: 'source', id });
      await deployer.remove(id, { ignoreHookErrors: request.query.ignore_hook_errors === true });
      return reply.code(204).send(null);
    },
  );
}

/** Only what was given: an absent field is not a change. */
function changeOf(body: { [K in keyof typeof changeFields]?: unknown }): SourceChange {
  const entries = Object.keys(changeFields)
    .map((name) => [name, body[name as keyof typeof changeFields]] as const)
    .filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as SourceChange;
}
