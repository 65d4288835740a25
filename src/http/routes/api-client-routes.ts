import { type Static, Type } from 'typebox';
import { encodeCursor, pageRequest, pageResponse } from '#http/pagination.ts';
import { type App, callerOf, DataOf, IdParams, NoContent, PageOf, PageQuery } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import type { ApiClient } from '#identity/api-client-store.ts';
import { createClient, listClients, revokeClient, rotateClientSecret } from '#identity/api-clients.ts';
import { requireUnlimitedKey } from '#identity/api-keys.ts';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { Name } from './identity-shapes.ts';

export interface ApiClientRouteOptions {
  store: Store;
  clock: Clock;
  logger: Logger;
  /** Called when access has ended: streams check at once whether their readers may still read. */
  onAccessEnd: () => void;
}

const ClientShape = Type.Object({
  id: Type.String({ description: 'oac_…' }),
  client_id: Type.String({ description: 'The same as id: what the token endpoint takes' }),
  name: Type.String(),
  workspace_id: Type.String({ description: 'o_…' }),
  user_id: Type.String({ description: 'The user who made it' }),
  secret_hint: Type.String({ description: 'The last four characters of the secret' }),
  created_at: Type.Integer(),
  secret_changed_at: Type.Integer(),
  last_used_at: Type.Union([Type.Integer(), Type.Null()]),
});
const ClientWithSecret = Type.Intersect([
  ClientShape,
  Type.Object({ client_secret: Type.String({ description: 'Shown once, here' }) }),
]);
const ClientParams = Type.Object({
  id: Type.String({ description: 'o_…' }),
  client_id: Type.String({ description: 'oac_…' }),
});

/** Additions: the OAuth clients of a workspace, for its admins. */
export function apiClientRoutes(
  app: App,
  { store, clock, logger, onAccessEnd }: ApiClientRouteOptions,
): void {
  const tags = ['workspaces', 'addition'];

  app.get(
    '/workspaces/:id/oauth_clients',
    {
      schema: {
        operationId: 'listApiClients',
        tags,
        summary: 'OAuth clients of a workspace, newest first; for its admins',
        params: IdParams('o_…'),
        querystring: PageQuery,
        response: { 200: PageOf(ClientShape) },
      },
    },
    async (request) => {
      const { id } = request.params;
      const { rows, totalCount } = await listClients(store.read, callerOf(request), id, pageRequest(request));
      return pageResponse(selectFields(request, rows.map(clientShape)), {
        totalCount,
        cursorOf: (_, index) => encodeCursor(rows[index]?.id ?? ''),
      });
    },
  );

  app.post(
    '/workspaces/:id/oauth_clients',
    {
      schema: {
        operationId: 'createApiClient',
        tags,
        summary: 'Create an OAuth client, whose access tokens act for the workspace; for its admins',
        params: IdParams('o_…'),
        body: Type.Object({ name: Name }),
        response: { 200: DataOf(ClientWithSecret) },
      },
    },
    async (request) => {
      const caller = callerOf(request);
      await requireUnlimitedKey(store.read, caller);
      const { id } = request.params;
      const made = await createClient(store, caller, { workspaceId: id, name: request.body.name }, clock);
      logger.info({ client: made.client.id, owner: id, user: caller.userId }, 'api-client.created');
      return { data: selectFields(request, shapeWithSecret(made)) };
    },
  );

  app.post(
    '/workspaces/:id/oauth_clients/:client_id/rotate_secret',
    {
      schema: {
        operationId: 'rotateApiClientSecret',
        tags,
        summary:
          'Give an OAuth client another secret; the old one ends at once, its tokens stay until they expire',
        params: ClientParams,
        body: Type.Object({
          revoke_tokens: Type.Optional(
            Type.Boolean({ description: 'End its tokens too, for a secret that may have leaked' }),
          ),
        }),
        response: { 200: DataOf(ClientWithSecret) },
      },
    },
    async (request) => {
      const caller = callerOf(request);
      await requireUnlimitedKey(store.read, caller);
      const { id, client_id: clientId } = request.params;
      const endTokens = request.body.revoke_tokens ?? false;
      const rotated = await rotateClientSecret(
        store,
        caller,
        { workspaceId: id, clientId, endTokens },
        clock,
      );
      if (endTokens) onAccessEnd();
      logger.info(
        { client: clientId, owner: id, user: caller.userId, endTokens },
        'api-client.secret-rotated',
      );
      return { data: selectFields(request, shapeWithSecret(rotated)) };
    },
  );

  app.delete(
    '/workspaces/:id/oauth_clients/:client_id',
    {
      schema: {
        operationId: 'deleteApiClient',
        tags,
        summary: 'Remove an OAuth client; its access tokens and their streams end at once',
        params: ClientParams,
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      const caller = callerOf(request);
      const { id, client_id: clientId } = request.params;
      await revokeClient(store, caller, { workspaceId: id, clientId }, clock);
      onAccessEnd();
      logger.info({ client: clientId, owner: id, user: caller.userId }, 'api-client.removed');
      return reply.code(204).send(null);
    },
  );
}

function clientShape(client: ApiClient): Static<typeof ClientShape> {
  return {
    id: client.id,
    client_id: client.id,
    name: client.name,
    workspace_id: client.workspace_id,
    user_id: client.user_id,
    secret_hint: client.secret_hint,
    created_at: epochSeconds(client.created_at_ms),
    secret_changed_at: epochSeconds(client.secret_changed_at_ms),
    last_used_at: client.last_used_at_ms === null ? null : epochSeconds(client.last_used_at_ms),
  };
}

function shapeWithSecret({ client, secret }: { client: ApiClient; secret: string }) {
  return { ...clientShape(client), client_secret: secret };
}
