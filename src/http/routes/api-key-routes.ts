import { type Static, Type } from 'typebox';
import { encodeCursor, pageRequest, pageResponse } from '#http/pagination.ts';
import { type App, callerOf, DataOf, IdParams, NoContent, PageOf, PageQuery } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { createApiKey, listApiKeys, revokeApiKey } from '#identity/api-keys.ts';
import type { ListedSession } from '#identity/session-store.ts';
import { listSessions, revokeOtherSessions, revokeSession } from '#identity/sessions.ts';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import type { Store } from '#storage/store.ts';
import { ApiKeyShape, apiKeyShape, apiKeyShown, NewApiKey, newKeyOf } from './api-key-shapes.ts';

export interface ApiKeyRouteOptions {
  store: Store;
  clock: Clock;
  /** Called when access has ended: streams check at once whether their readers may still read. */
  onAccessEnd: () => void;
}

/** Additions: the caller's own API keys and sessions. */
export function apiKeyRoutes(app: App, { store, clock, onAccessEnd }: ApiKeyRouteOptions): void {
  app.get(
    '/me/api_keys',
    {
      schema: {
        operationId: 'listApiKeys',
        summary: 'Your API keys that are not revoked, newest first',
        tags: ['users', 'addition'],
        querystring: PageQuery,
        response: { 200: PageOf(ApiKeyShape) },
      },
    },
    async (request) => {
      const { userId } = callerOf(request);
      const { rows, totalCount } = await listApiKeys(store.read, userId, pageRequest(request));
      return pageResponse(selectFields(request, rows.map(apiKeyShape)), {
        totalCount,
        cursorOf: (_, index) => encodeCursor(rows[index]?.id ?? ''),
      });
    },
  );

  app.post(
    '/me/api_keys',
    {
      schema: {
        operationId: 'createApiKey',
        summary: 'Creates an API key for yourself',
        description:
          'The key has no scope that the key of this request does not have, and does not outlive it. A key never gives more than its ' +
          'user may do.',
        tags: ['users', 'addition'],
        body: NewApiKey,
        response: { 200: DataOf(Type.Intersect([ApiKeyShape, Type.Object(apiKeyShown)])) },
      },
    },
    async (request) => {
      const caller = callerOf(request);
      const values = { userId: caller.userId, ...newKeyOf(request.body) };
      const { key, secret } = await createApiKey(store, values, clock, caller);
      return { data: selectFields(request, { ...apiKeyShape(key), api_key: secret }) };
    },
  );

  app.delete(
    '/me/api_keys/:id',
    {
      schema: {
        operationId: 'revokeApiKey',
        summary: 'Revokes one of your API keys, with its sessions and streams, at once',
        tags: ['users', 'addition'],
        params: IdParams('key_…'),
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      await revokeApiKey(store, { userId: callerOf(request).userId, keyId: request.params.id }, clock);
      onAccessEnd();
      return reply.code(204).send(null);
    },
  );

  ownSessionRoutes(app, { store, clock, onAccessEnd });
}

const SessionShape = Type.Object({
  id: Type.String({ description: 'ses_…' }),
  key_id: Type.String({ description: 'key_…: the API key that the session began with' }),
  user_agent: Type.Union([Type.String(), Type.Null()], {
    description: 'The family of the browser and its system; null: not known',
  }),
  address: Type.Union([Type.String(), Type.Null()], { description: 'The address of the last use' }),
  created_at: Type.Integer(),
  last_used_at: Type.Union([Type.Integer(), Type.Null()], { description: 'To the minute' }),
  expires_at: Type.Integer(),
  current: Type.Boolean({ description: 'Whether this request came with the session' }),
});

function ownSessionRoutes(app: App, { store, clock, onAccessEnd }: ApiKeyRouteOptions): void {
  app.get(
    '/me/sessions',
    {
      schema: {
        operationId: 'listSessions',
        summary: 'Where you are signed in, newest first',
        tags: ['sessions', 'addition'],
        querystring: PageQuery,
        response: { 200: PageOf(SessionShape) },
      },
    },
    async (request) => {
      const { userId, sessionId } = callerOf(request);
      const { rows, totalCount } = await listSessions(store.read, userId, clock.now(), pageRequest(request));
      const shapes = rows.map((row) => sessionShape(row, sessionId));
      return pageResponse(selectFields(request, shapes), {
        totalCount,
        cursorOf: (_, index) => encodeCursor(rows[index]?.id ?? ''),
      });
    },
  );

  app.delete(
    '/me/sessions/:id',
    {
      schema: {
        operationId: 'revokeSession',
        summary: 'Ends one of your sessions, with its streams, at once',
        tags: ['sessions', 'addition'],
        params: IdParams('ses_…'),
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      const { userId } = callerOf(request);
      await revokeSession(store, { userId, sessionId: request.params.id });
      onAccessEnd();
      return reply.code(204).send(null);
    },
  );

  app.delete(
    '/me/sessions',
    {
      schema: {
        operationId: 'revokeOtherSessions',
        summary: 'Ends all your sessions but the one that this request came with',
        description: 'With an API key instead of a session: all of them.',
        tags: ['sessions', 'addition'],
        response: { 200: DataOf(Type.Object({ revoked: Type.Integer() })) },
      },
    },
    async (request) => {
      const { userId, sessionId } = callerOf(request);
      const revoked = await revokeOtherSessions(store, { userId, sessionId });
      onAccessEnd();
      return { data: selectFields(request, { revoked }) };
    },
  );
}

function sessionShape(row: ListedSession, current: string | undefined): Static<typeof SessionShape> {
  return {
    id: row.id,
    key_id: row.key_id,
    user_agent: row.user_agent,
    address: row.address,
    created_at: epochSeconds(row.created_at_ms),
    last_used_at: row.last_used_at_ms === null ? null : epochSeconds(row.last_used_at_ms),
    expires_at: epochSeconds(row.expires_at_ms),
    current: row.id === current,
  };
}
