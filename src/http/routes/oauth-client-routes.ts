import { Type } from 'typebox';
import type { AppCatalogue } from '#accounts/apps/app-catalogue.ts';
import type { AppDefinition } from '#accounts/apps/app-definition.ts';
import { deleteClient, putClient, viewClient } from '#accounts/oauth/manage-oauth-clients.ts';
import { findClientOf } from '#accounts/oauth/oauth-client-store.ts';
import { type App, callerOf, DataOf, IdParams, NoContent, namedWorkspace } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { homeOf, requireWorkspace } from '#identity/permissions.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { isUniqueViolation } from '#storage/store-errors.ts';
import type { Vault } from '#vault/vault.ts';

const Nullable = <S extends ReturnType<typeof Type.String>>(schema: S) => Type.Union([schema, Type.Null()]);

const OAuthClient = Type.Object({
  id: Nullable(Type.String({ description: 'oa_…; null: there is none yet' })),
  app: Type.Object({ id: Type.String(), name_slug: Type.String(), name: Type.String() }),
  client_id: Nullable(Type.String()),
  has_secret: Type.Boolean({ description: 'The secret itself is never answered' }),
  scopes: Type.Union([Type.Array(Type.String()), Type.Null()], { description: 'null: default_scopes' }),
  default_scopes: Type.Array(Type.String()),
  redirect_uri: Type.String({ description: 'Exactly what to register at the provider' }),
  registration: Type.Union([Type.Object({ url: Type.String(), text: Type.String() }), Type.Null()], {
    description: 'Where and how to register it; the text is Markdown',
  }),
  created_at: Nullable(Type.String({ format: 'date-time' })),
  updated_at: Nullable(Type.String({ format: 'date-time' })),
});

export interface OAuthClientRouteOptions {
  store: Store;
  vault: Vault;
  clock: Clock;
  logger: Logger;
  catalogue: Pick<AppCatalogue, 'requireEntry'>;
  /** The redirect URI to register at every provider. */
  redirectUri: () => string;
}

/** The client id and secret that an owner has at a provider. One for each app; set by admins of a workspace. */
export function oauthClientRoutes(app: App, options: OAuthClientRouteOptions): void {
  const { store, logger, catalogue, redirectUri } = options;

  async function ownerOf(
    request: Parameters<typeof callerOf>[0] & Parameters<typeof namedWorkspace>[0],
    right: 'read' | 'administer',
  ) {
    const caller = callerOf(request);
    const workspace = namedWorkspace(request);
    const ownerId = workspace?.id ?? homeOf(caller);
    if (ownerId === caller.userId) return ownerId;
    await requireWorkspace(store.read, caller, ownerId, right, workspace?.parameter);
    return ownerId;
  }

  async function oauthApp(id: string, ownerId: string): Promise<AppDefinition> {
    const { app: found } = await catalogue.requireEntry(id, [ownerId]);
    if (found.oauth !== undefined) return found;
    throw new CallerError('invalid_parameter', `id: ${found.name} is not connected with OAuth`, {
      parameter: 'id',
    });
  }

  app.get(
    '/apps/:id/oauth_client',
    {
      schema: {
        operationId: 'getOAuthClient',
        tags: ['apps', 'addition'],
        summary: 'The OAuth client of a workspace, or of the caller, for an app; or how to register one',
        params: IdParams('slug or app_…'),
        response: { 200: DataOf(OAuthClient) },
      },
    },
    async (request) => {
      const ownerId = await ownerOf(request, 'read');
      const found = await oauthApp(request.params.id, ownerId);
      const row = await findClientOf(store.read, ownerId, found.slug);
      return { data: selectFields(request, viewClient(found, row, redirectUri())) };
    },
  );

  app.put(
    '/apps/:id/oauth_client',
    {
      schema: {
        operationId: 'putOAuthClient',
        tags: ['apps', 'addition'],
        summary:
          'Set the OAuth client for an app; accounts connected with the one before are refreshed with this one',
        params: IdParams('slug or app_…'),
        body: Type.Object({
          client_id: Type.String(),
          client_secret: Type.Optional(
            Type.Union([Type.String(), Type.Null()], {
              description: 'Not given: it stays as it is, if client_id does; null: none, for public clients',
            }),
          ),
          scopes: Type.Optional(
            Type.Union([Type.Array(Type.String()), Type.Null()], { description: 'null: those of the app' }),
          ),
        }),
        response: { 200: DataOf(OAuthClient) },
      },
    },
    async (request) => {
      const ownerId = await ownerOf(request, 'administer');
      const { userId } = callerOf(request);
      const found = await oauthApp(request.params.id, ownerId);
      const { client_id: clientId, client_secret: clientSecret, scopes } = request.body;
      const row = await store
        .transaction((tx) =>
          putClient(tx, options, { ownerId, userId, app: found, clientId, clientSecret, scopes }),
        )
        .catch((error) => {
          if (!isUniqueViolation(error)) throw error;
          throw new CallerError(
            'conflict',
            'another request set this client at the same time; read it and try again',
          );
        });
      logger.info({ client: row.id, owner: ownerId, user: userId, app: found.slug }, 'oauth-client.set');
      return { data: selectFields(request, viewClient(found, row, redirectUri())) };
    },
  );

  app.delete(
    '/apps/:id/oauth_client',
    {
      schema: {
        operationId: 'deleteOAuthClient',
        tags: ['apps', 'addition'],
        summary: 'Remove the OAuth client for an app; refused while accounts use it, unless forced',
        params: IdParams('slug or app_…'),
        querystring: Type.Object({
          force: Type.Optional(
            Type.Boolean({
              description: 'true: also while accounts use it; they can no longer be refreshed',
            }),
          ),
        }),
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      const ownerId = await ownerOf(request, 'administer');
      const { userId } = callerOf(request);
      const found = await oauthApp(request.params.id, ownerId);
      const row = await store.transaction((tx) =>
        deleteClient(tx, { ownerId, app: found, force: request.query.force === true }),
      );
      logger.info({ client: row.id, owner: ownerId, user: userId, app: found.slug }, 'oauth-client.deleted');
      return reply.code(204).send(null);
    },
  );
}
