import { Type } from 'typebox';
import type { AppCatalogue, CatalogueEntry } from '#accounts/apps/app-catalogue.ts';
import { appIdOf } from '#accounts/apps/app-id.ts';
import { describeApp } from '#accounts/apps/describe-app.ts';
import { createApp, deleteApp, replaceApp } from '#accounts/apps/manage-apps.ts';
import { parseApp } from '#accounts/apps/parse-app.ts';
import { registrationOf } from '#accounts/oauth/manage-oauth-clients.ts';
import { noteOwner } from '#audit/audit-context.ts';
import { encodeCursor, listPart, pageRequest, pageResponse } from '#http/pagination.ts';
import {
  type App,
  callerOf,
  DataOf,
  IdParams,
  NoContent,
  namedWorkspace,
  PageOf,
  pageParameters,
} from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { homeOf, ownersOf, requireWorkspace } from '#identity/permissions.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { ComponentCatalogue } from '#registry/component-catalogue.ts';
import type { Store } from '#storage/store.ts';
import { AppBody, AppShape, AppWithDefinition, appParameters, type ListQuery } from './app-shapes.ts';

export interface AppRouteOptions {
  store: Store;
  clock: Clock;
  logger: Logger;
  catalogue: AppCatalogue;
  componentCatalogue: Pick<ComponentCatalogue, 'apps'>;
  /** The redirect URI to register at every provider. */
  redirectUri: () => string;
}

/** The catalogue of apps; adding to it is an addition. */
export function appRoutes(app: App, options: AppRouteOptions): void {
  const { store, logger, catalogue, componentCatalogue, redirectUri } = options;
  type Request = Parameters<typeof callerOf>[0] & Parameters<typeof namedWorkspace>[0];

  /** The owners whose apps are meant: the named workspace, or the caller and their workspaces. */
  async function ownersSeen(request: Request): Promise<string[]> {
    const caller = callerOf(request);
    const workspace = namedWorkspace(request);
    if (workspace === undefined) return (await ownersOf(store.read, caller)).ids;
    if (workspace.id !== caller.userId) {
      await requireWorkspace(store.read, caller, workspace.id, 'read', workspace.parameter);
    }
    return [workspace.id];
  }

  async function entryOf(request: Request, id: string): Promise<CatalogueEntry> {
    return catalogue.requireEntry(id, await ownersSeen(request));
  }

  /** An app of the caller's, or of a workspace that the caller administers. */
  async function ownEntry(request: Request, id: string): Promise<{ ownerId: string; slug: string }> {
    const { ownerId, app: found } = await entryOf(request, id);
    if (ownerId === undefined) {
      throw new CallerError('forbidden', `${found.name} comes with the service and cannot be changed here`);
    }
    await requireAdmin(request, ownerId);
    noteOwner(ownerId);
    return { ownerId, slug: found.slug };
  }

  async function requireAdmin(request: Request, ownerId: string): Promise<void> {
    const caller = callerOf(request);
    if (ownerId !== caller.userId)
      await requireWorkspace(store.read, caller, ownerId, 'administer', 'org_id');
  }

  function viewApp({ app: found, ownerId }: CatalogueEntry) {
    const { oauth } = found;
    return {
      id: appIdOf(found.slug),
      name_slug: found.slug,
      name: found.name,
      auth_type: found.authType,
      description: found.description,
      img_src: null,
      custom_fields_json: JSON.stringify(
        found.customFields.map((field) => ({ ...field, default: field.default ?? null })),
      ),
      categories: found.categories,
      owner_id: ownerId ?? null,
      oauth:
        oauth === undefined
          ? null
          : {
              version: oauth.version,
              grant: oauth.version === 2 ? oauth.grant : null,
              scopes: oauth.version === 2 ? oauth.scopes : [],
              redirect_uri: redirectUri(),
              registration: registrationOf(oauth, redirectUri()),
            },
    };
  }

  function viewWithDefinition(entry: CatalogueEntry) {
    return { ...viewApp(entry), definition: describeApp(entry.app) };
  }

  app.get(
    '/apps',
    {
      schema: {
        operationId: 'listApps',
        tags: ['apps', 'addition'],
        summary: 'The apps that accounts can be connected to, by name; with q, the best matches first',
        querystring: Type.Object({ ...pageParameters, ...appParameters }),
        response: { 200: PageOf(AppShape) },
      },
    },
    async (request) => {
      const entries = await catalogue.list(await ownersSeen(request));
      const kinds = await componentCatalogue.apps();
      const wanted = entries.filter(({ app: found }) => hasKinds(kinds.get(found.slug), request.query));
      const found = matching(wanted, request.query.q ?? '');
      const page = listPart(found, pageRequest(request), (entry) => appIdOf(entry.app.slug));
      return pageResponse(selectFields(request, page.map(viewApp)), {
        totalCount: found.length,
        cursorOf: (_item, index) => encodeCursor(appIdOf(page[index]?.app.slug ?? '')),
      });
    },
  );

  app.get(
    '/apps/:id',
    {
      schema: {
        operationId: 'getApp',
        tags: ['apps', 'addition'],
        summary: 'An app, with its whole definition',
        params: IdParams('slug or app_…'),
        response: { 200: DataOf(AppWithDefinition) },
      },
    },
    async (request) => ({
      data: selectFields(request, viewWithDefinition(await entryOf(request, request.params.id))),
    }),
  );

  app.post(
    '/apps',
    {
      schema: {
        operationId: 'createApp',
        tags: ['apps', 'addition'],
        summary: 'Add an app to the catalogue of a workspace, for its admins, or to your own',
        body: AppBody,
        response: { 200: DataOf(AppWithDefinition) },
      },
    },
    async (request) => {
      const caller = callerOf(request);
      const ownerId = namedWorkspace(request)?.id ?? homeOf(caller);
      await requireAdmin(request, ownerId);
      const added = parseApp(definitionIn(request.body));
      await store.transaction((tx) => createApp(tx, options, added, { ownerId, userId: caller.userId }));
      logger.info({ app: added.slug, owner: ownerId, user: caller.userId }, 'app.created');
      return { data: selectFields(request, viewWithDefinition({ app: added, ownerId })) };
    },
  );

  app.put(
    '/apps/:id',
    {
      schema: {
        operationId: 'replaceApp',
        tags: ['apps', 'addition'],
        summary: 'Replace the definition of a custom app',
        params: IdParams('slug or app_…'),
        body: AppBody,
        response: { 200: DataOf(AppWithDefinition) },
      },
    },
    async (request) => {
      const own = await ownEntry(request, request.params.id);
      const changed = parseApp(definitionIn(request.body));
      await store.transaction((tx) => replaceApp(tx, options, changed, own));
      const { userId } = callerOf(request);
      logger.info({ app: own.slug, owner: own.ownerId, user: userId }, 'app.updated');
      return { data: selectFields(request, viewWithDefinition({ app: changed, ownerId: own.ownerId })) };
    },
  );

  app.delete(
    '/apps/:id',
    {
      schema: {
        operationId: 'deleteApp',
        tags: ['apps', 'addition'],
        summary: 'Remove a custom app without accounts, and your OAuth client for it',
        params: IdParams('slug or app_…'),
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      const own = await ownEntry(request, request.params.id);
      await store.transaction((tx) => deleteApp(tx, own));
      const { userId } = callerOf(request);
      logger.info({ app: own.slug, owner: own.ownerId, user: userId }, 'app.deleted');
      return reply.code(204).send(null);
    },
  );
}

/** The body without what every operation takes, such as org_id. */
function definitionIn(body: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(body).filter(([key]) => key in AppBody.properties));
}

function hasKinds(kinds: ReadonlySet<string> | undefined, query: ListQuery): boolean {
  const asked = (flag: ListQuery['has_actions']) => flag === '1' || flag === 'true';
  if (asked(query.has_components) && kinds === undefined) return false;
  if (asked(query.has_actions) && kinds?.has('actions') !== true) return false;
  return !asked(query.has_triggers) || kinds?.has('sources') === true;
}

/** Ordered by how well `q` matches: the name or slug itself, its beginning, a part of it, else all its words anywhere. */
function matching(entries: CatalogueEntry[], q: string): CatalogueEntry[] {
  const wanted = q.trim().toLowerCase();
  if (wanted === '') return entries;
  const words = wanted.split(/[\s_-]+/);
  const ranked = entries.map((entry) => {
    const { name, slug, description, categories } = entry.app;
    const names = [name.toLowerCase(), slug];
    const all = [...names, description, ...categories].join(' ').toLowerCase();
    const tests = [
      () => names.includes(wanted) || appIdOf(slug) === q.trim(),
      () => names.some((text) => text.startsWith(wanted)),
      () => names.some((text) => text.includes(wanted)),
      () => words.every((word) => all.includes(word)),
    ];
    return { entry, rank: tests.findIndex((test) => test()) };
  });
  return ranked
    .filter(({ rank }) => rank !== -1)
    .sort((a, b) => a.rank - b.rank)
    .map(({ entry }) => entry);
}
