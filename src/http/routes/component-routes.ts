import { Type } from 'typebox';
import type { AppCatalogue } from '#accounts/apps/app-catalogue.ts';
import type { AppDefinition } from '#accounts/apps/app-definition.ts';
import { type ComponentShape, componentTypes } from '#components/component-shape.ts';
import { encodeCursor, listPart, pageRequest, pageResponse } from '#http/pagination.ts';
import {
  type App,
  callerOf,
  DataOf,
  OneOf,
  ownerForCreate,
  PageOf,
  pageParameters,
} from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { ownersOf } from '#identity/permissions.ts';
import { epochSeconds } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { ComponentCatalogue, ListedEntry } from '#registry/component-catalogue.ts';
import { readOrigin } from '#registry/repository-url.ts';
import type { ComponentResolver } from '#registry/resolve-component.ts';
import type { Store } from '#storage/store.ts';
import type { ComponentTable } from '#storage/tables/component-tables.ts';
import { ConfigurableProp } from './prop-shapes.ts';

const AppDetails = Type.Union(
  [
    Type.Object({
      name: Type.String(),
      description: Type.String(),
      auth_type: Type.Enum(['oauth', 'keys', 'none']),
    }),
    Type.Null(),
  ],
  { description: 'Addition: what the catalogue of apps says of it; null: it does not have it' },
);

/** Specification, section 2, Component. */
const Component = Type.Object(
  {
    id: Type.String({ description: 'sc_…' }),
    code: Type.String(),
    code_hash: Type.String({ description: 'SHA-256 of the code, hex' }),
    key: Type.Optional(Type.String()),
    name: Type.String(),
    version: Type.String(),
    description: Type.Optional(Type.String()),
    type: OneOf(componentTypes),
    configurable_props: Type.Array(ConfigurableProp),
    app: Type.Optional(Type.String({ description: 'Addition: slug of its app, where it has one' })),
    app_details: Type.Optional(AppDetails),
    git: Type.Optional(
      Type.Object(
        { url: Type.String(), commit: Type.String(), path: Type.String() },
        { description: 'Addition: the Git repository, the commit and the file that it was built from' },
      ),
    ),
    created_at: Type.Integer({ description: 'Epoch seconds' }),
    updated_at: Type.Integer({ description: 'Epoch seconds' }),
  },
  { additionalProperties: true },
);

/** By slug: the apps that a caller sees. */
type KnownApps = ReadonlyMap<string, AppDefinition>;

function viewComponent(component: ComponentTable, apps?: KnownApps) {
  const shape = JSON.parse(component.shape) as ComponentShape;
  const origin = readOrigin(component.url);
  return {
    id: component.id,
    code: component.code,
    code_hash: component.code_hash,
    ...(component.component_key === null ? {} : { key: component.component_key }),
    name: component.name,
    version: component.version,
    ...(shape.description === undefined ? {} : { description: shape.description }),
    type: shape.type,
    configurable_props: shape.configurableProps,
    ...(apps === undefined ? {} : viewAppOf(shape, apps)),
    ...(origin === null ? {} : { git: origin }),
    created_at: epochSeconds(component.created_at_ms),
    updated_at: epochSeconds(component.updated_at_ms),
  };
}

/** The app of a component is that of its first prop of type app. */
function viewAppOf({ configurableProps }: ComponentShape, apps: KnownApps) {
  const slug = configurableProps.find(({ type, app }) => type === 'app' && app !== undefined)?.app;
  return slug === undefined ? {} : { app: slug, app_details: detailsOf(slug, apps) };
}

function detailsOf(slug: string, apps: KnownApps) {
  const app = apps.get(slug);
  if (app === undefined) return null;
  return { name: app.name, description: app.description ?? '', auth_type: app.authType };
}

/** One of the registry, as its text says: nothing is built for a list. */
const ListedComponent = Type.Object({
  key: Type.String(),
  name: Type.String(),
  version: Type.String(),
  description: Type.String(),
  type: Type.Enum(['source', 'action']),
  component_type: Type.Enum(['source', 'action'], { description: 'The same as type' }),
  app: Type.String({ description: 'Slug of its app, as its app file says' }),
  app_details: AppDetails,
  package: Type.Union([Type.Object({ name: Type.String(), version: Type.String() }), Type.Null()], {
    description: 'Null: it comes with the service, or from a Git repository',
  }),
  repository: Type.Union([Type.Object({ url: Type.String(), commit: Type.String() }), Type.Null()], {
    description: 'The Git repository that it comes from, and the commit that is used',
  }),
});

const Kind = (description: string) =>
  Type.Optional(Type.Enum(['source', 'trigger', 'action'], { description }));
const AppSlug = Type.Optional(Type.String({ maxLength: 200, description: 'Slug of an app' }));
const Words = (description: string) => Type.Optional(Type.String({ maxLength: 200, description }));

function viewListed({ type, ...entry }: ListedEntry, apps: KnownApps) {
  const { key, name, version, description, app, package: of, repository } = entry;
  const app_details = detailsOf(app, apps);
  return {
    key,
    name,
    version,
    description,
    type,
    component_type: type,
    app,
    app_details,
    package: of,
    repository,
  };
}

export interface ComponentRouteOptions {
  store: Store;
  resolver: ComponentResolver;
  componentCatalogue: ComponentCatalogue;
  catalogue: Pick<AppCatalogue, 'list'>;
}

/** Specification, section 4, Components. */
export function componentRoutes(app: App, options: ComponentRouteOptions): void {
  const { store, resolver, componentCatalogue, catalogue } = options;

  const appsOf = async (owners: readonly string[]): Promise<KnownApps> =>
    new Map((await catalogue.list(owners)).map(({ app }) => [app.slug, app]));

  // What clients of the original send for several files.
  for (const type of ['application/zip', 'application/x-zip-compressed', 'application/octet-stream'])
    app.addContentTypeParser(type, (_request, _body, done) => done(archiveRefused()));

  app.get(
    '/components',
    {
      schema: {
        operationId: 'listComponents',
        tags: ['components', 'addition'],
        summary: 'The components of the registry, by key; with q, the best matches first',
        querystring: Type.Object({
          ...pageParameters,
          q: Words('Words in the key, the name, the app or the description'),
          app: AppSlug,
          component_type: Kind('Only these; trigger is another word for source'),
          type: Kind('The same as component_type'),
        }),
        response: { 200: PageOf(ListedComponent) },
      },
    },
    async (request) => {
      const { q, app: slug, component_type, type = component_type } = request.query;
      const kind = type === 'trigger' ? 'source' : type;
      const found = await componentCatalogue.find({ q, app: slug, type: kind });
      const entries = found.map(({ entry }) => entry);
      const page = listPart(entries, pageRequest(request), ({ key }) => key);
      const { ids } = await ownersOf(store.read, callerOf(request));
      const apps = await appsOf(ids);
      const views = page.map((entry) => viewListed(entry, apps));
      return pageResponse(selectFields(request, views), {
        totalCount: entries.length,
        cursorOf: (_item, index) => encodeCursor(page[index]?.key ?? ''),
      });
    },
  );

  app.get(
    '/components/search',
    {
      schema: {
        operationId: 'searchComponents',
        tags: ['components', 'addition'],
        summary: 'Keys of the components of the registry that fit, the best first',
        querystring: Type.Object({
          query: Words('Words in the key, the name, the app or the description'),
          app: AppSlug,
          similarity_threshold: Type.Optional(
            Type.Number({
              minimum: 0,
              maximum: 1,
              description: 'How well they have to fit; 1: the key or name itself',
            }),
          ),
          limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 10 })),
          debug: Type.Optional(Type.String({ description: 'Without effect' })),
        }),
        response: {
          200: Type.Object({ sources: Type.Array(Type.String()), actions: Type.Array(Type.String()) }),
        },
      },
    },
    async (request) => {
      const { query, app: slug, similarity_threshold: threshold = 0, limit = 10 } = request.query;
      const found = await componentCatalogue.find({ q: query, app: slug });
      const best = found.filter(({ score }) => score >= threshold).slice(0, limit);
      const keysOf = (type: ListedEntry['type']) =>
        best.filter(({ entry }) => entry.type === type).map(({ entry }) => entry.key);
      return { sources: keysOf('source'), actions: keysOf('action') };
    },
  );

  app.post(
    '/components',
    {
      schema: {
        operationId: 'createComponent',
        tags: ['components'],
        summary: 'Save a component from its code or from a URL',
        body: Type.Object({
          component_code: Type.Optional(Type.String({ description: 'Full code of the component' })),
          component_url: Type.Optional(
            Type.String({ description: 'Where the code is; only metadata when component_code is given' }),
          ),
        }),
        response: { 200: DataOf(Component) },
      },
    },
    async (request) => {
      const caller = callerOf(request);
      const ownerId = await ownerForCreate(store.read, request);
      const { component_code, component_url } = request.body;
      const component = await resolver.save(
        {
          ...(component_code === undefined ? {} : { component_code }),
          ...(component_url === undefined ? {} : { component_url }),
        },
        { ownerId, userId: caller.userId, readableOwners: [ownerId] },
      );
      return { data: selectFields(request, viewComponent(component)) };
    },
  );

  app.get(
    '/components/registry/:key',
    {
      schema: {
        operationId: 'getRegistryComponent',
        tags: ['components'],
        summary: 'A globally published component',
        params: Type.Object({ key: Type.String({ description: 'Key of the component, or key@version' }) }),
        response: { 200: DataOf(Component) },
      },
    },
    async (request) => {
      const { key } = request.params;
      const at = key.indexOf('@', 1);
      const component = await (at === -1
        ? resolver.findInRegistry(key)
        : resolver.findInRegistry(key.slice(0, at), key.slice(at + 1)));
      if (component === undefined) {
        throw new CallerError('not_found', `the registry has no component ${JSON.stringify(key)}`, {
          parameter: 'key',
        });
      }
      const { ids } = await ownersOf(store.read, callerOf(request));
      return { data: selectFields(request, viewComponent(component, await appsOf(ids))) };
    },
  );

  app.get(
    '/components/:id',
    {
      schema: {
        operationId: 'getComponent',
        tags: ['components'],
        summary: 'A component by its key or id',
        params: Type.Object({ id: Type.String({ description: 'Key from the code, or sc_…' }) }),
        response: { 200: DataOf(Component) },
      },
    },
    async (request) => {
      const owners = await ownersOf(store.read, callerOf(request));
      const component = await resolver.findSaved(request.params.id, { readableOwners: owners.ids });
      return { data: selectFields(request, viewComponent(component, await appsOf(owners.ids))) };
    },
  );
}

function archiveRefused(): CallerError {
  const message =
    'archives of files are not taken: give the address of the component as component_url (the files it imports come along), ' +
    'add its folder with `registry add`, or bundle it into one file';
  return new CallerError('unsupported_media_type', message);
}
