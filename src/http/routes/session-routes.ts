import { Type } from 'typebox';
import { type App, callerOf, DataOf, NoContent } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { clearSessionCookie, csrfHeader, requireOwnOrigin, setSessionCookie } from '#http/session-cookie.ts';
import { noteUse } from '#identity/api-keys.ts';
import { findSession } from '#identity/session-store.ts';
import { endSession, startSession } from '#identity/sessions.ts';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import { CallerError, toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';

export interface SessionRouteOptions {
  store: Store;
  clock: Clock;
  logger: Logger;
  settings: { publicUrl: string; sessionHours: number };
}

/** Additions: signing in to the dashboard. A session is the API key of a user in a cookie that no script can read. */
export function sessionRoutes(app: App, { store, clock, logger, settings }: SessionRouteOptions): void {
  const { publicUrl } = settings;
  app.post(
    '/session',
    {
      schema: {
        operationId: 'startSession',
        summary: 'Signs a browser in with the API key of a user: answers with a cookie',
        description:
          'For the pages of the service. The cookie is HttpOnly and SameSite=Strict, and counts only below /v1, with the header ' +
          '`x-millrace-csrf` (any value), which this operation asks for too. Programs send the API key itself.',
        tags: ['sessions', 'addition'],
        body: Type.Object({ api_key: Type.String({ minLength: 1, maxLength: 1024 }) }),
        response: {
          200: DataOf(
            Type.Object({
              user_id: Type.String({ description: 'u_…' }),
              expires_at: Type.Integer({ description: 'Epoch seconds: sign in again then' }),
            }),
          ),
        },
      },
    },
    async (request, reply) => {
      requireOwnOrigin(request, publicUrl);
      if (request.headers[csrfHeader] === undefined) {
        throw new CallerError('missing_parameter', `the header ${csrfHeader} is missing`, {
          parameter: csrfHeader,
        });
      }
      const lifeMs = settings.sessionHours * 3_600_000;
      const session = await startSession(store, { apiKey: request.body.api_key.trim(), lifeMs }, clock);
      const { caller } = session;
      noteUse(store, caller, clock.now()).catch((error) =>
        logger.warn({ keyId: caller.keyId, error: toError(error).message }, 'api-key.use-not-recorded'),
      );
      logger.info({ user: caller.userId, key: caller.keyId, session: caller.sessionId }, 'session.started');
      setSessionCookie(request, reply, { token: session.token, maxAgeSeconds: lifeMs / 1000, publicUrl });
      return { data: { user_id: caller.userId, expires_at: epochSeconds(session.expiresAtMs) } };
    },
  );

  app.get(
    '/session',
    {
      schema: {
        operationId: 'getSession',
        summary: 'The session of this request: its user, API key and end',
        tags: ['sessions', 'addition'],
        response: {
          200: DataOf(
            Type.Object({
              user_id: Type.String({ description: 'u_…; oac_… with an access token' }),
              is_admin: Type.Boolean({ description: 'Whether the user is the admin of the instance' }),
              key_id: Type.String({
                description: 'key_… of the request, or that the session began with; tok_… of an access token',
              }),
              expires_at: Type.Union([Type.Integer(), Type.Null()], {
                description: 'Epoch seconds: when the session ends; null: the request came without one',
              }),
            }),
          ),
        },
      },
    },
    async (request) => {
      const { userId, isAdmin, keyId, sessionId } = callerOf(request);
      const session = sessionId === undefined ? undefined : await findSession(store.read, sessionId);
      const data = {
        user_id: userId,
        is_admin: isAdmin,
        key_id: keyId,
        expires_at: session === undefined ? null : epochSeconds(session.expires_at_ms),
      };
      return { data: selectFields(request, data) };
    },
  );

  app.delete(
    '/session',
    {
      schema: {
        operationId: 'endSession',
        summary: 'Signs out: ends the session that this request came with',
        tags: ['sessions', 'addition'],
        response: { 204: NoContent },
      },
    },
    async (request, reply) => {
      const { sessionId, userId } = callerOf(request);
      if (sessionId === undefined) {
        throw new CallerError('conflict', 'this request came with an API key, so there is no session to end');
      }
      await endSession(store, sessionId);
      logger.info({ user: userId, session: sessionId }, 'session.ended');
      clearSessionCookie(reply);
      return reply.code(204).send(null);
    },
  );
}
