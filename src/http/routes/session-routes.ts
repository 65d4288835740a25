import { Type } from 'typebox';
import { noteActor } from '#audit/audit-context.ts';
import { actorOf } from '#http/audit-requests.ts';
import { type App, callerOf, DataOf, NoContent } from '#http/route-support.ts';
import { selectFields } from '#http/select-fields.ts';
import { clearSessionCookie, requireOwnPage, setSessionCookie } from '#http/session-cookie.ts';
import { placeOf } from '#http/session-place.ts';
import { noteUse } from '#identity/api-keys.ts';
import { findSession } from '#identity/session-store.ts';
import { endSession, startSession } from '#identity/sessions.ts';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import { CallerError, toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { SingleSignOn } from '#single-sign-on/single-sign-on.ts';
import type { Store } from '#storage/store.ts';

export interface SessionRouteOptions {
  store: Store;
  clock: Clock;
  logger: Logger;
  settings: { publicUrl: string; sessionHours: number };
  /** Undefined: no provider is set up. */
  singleSignOn: SingleSignOn | undefined;
  /** Called when access has ended: streams check at once whether their readers may still read. */
  onAccessEnd: () => void;
}

/** Additions: signing in to the dashboard. A session stands for a user, in a cookie that no script can read. */
export function sessionRoutes(app: App, options: SessionRouteOptions): void {
  const { store, clock, logger, settings, singleSignOn, onAccessEnd } = options;
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
      requireOwnPage(request, publicUrl);
      const lifeMs = settings.sessionHours * 3_600_000;
      const admit = ({ isAdmin }: { isAdmin: boolean }) => {
        if (singleSignOn?.isOnly !== true || isAdmin) return;
        throw new CallerError(
          'forbidden',
          `users sign in with ${singleSignOn.name} here; with an API key only admins of the instance do`,
        );
      };
      const apiKey = request.body.api_key.trim();
      const session = await startSession(store, { apiKey, lifeMs, admit, place: placeOf(request) }, clock);
      const { caller } = session;
      noteActor(actorOf(caller), caller.userId);
      noteUse(store, caller, clock.now()).catch((error) =>
        logger.warn({ keyId: caller.keyId, error: toError(error).message }, 'api-key.use-not-recorded'),
      );
      logger.info({ user: caller.userId, key: caller.keyId, session: caller.sessionId }, 'session.started');
      // A session ends with its key, which may be earlier.
      const maxAgeSeconds = Math.max(0, Math.ceil((session.expiresAtMs - clock.now()) / 1000));
      setSessionCookie(request, reply, { token: session.token, maxAgeSeconds, publicUrl });
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
              sign_out_url: Type.Union([Type.String(), Type.Null()], {
                description:
                  'Where the provider of single sign-on ends its own session, to be opened after this one has ended; null: the session did ' +
                  'not begin with a provider, or it has no such page',
              }),
            }),
          ),
        },
      },
    },
    async (request) => {
      const { userId, isAdmin, keyId, sessionId } = callerOf(request);
      const session = sessionId === undefined ? undefined : await findSession(store.read, sessionId);
      const signOutUrl = session === undefined ? undefined : await singleSignOn?.signOutUrl(keyId);
      const data = {
        user_id: userId,
        is_admin: isAdmin,
        key_id: keyId,
        expires_at: session === undefined ? null : epochSeconds(session.expires_at_ms),
        sign_out_url: signOutUrl ?? null,
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
      await endSession(store, { userId, sessionId });
      onAccessEnd();
      logger.info({ user: userId, session: sessionId }, 'session.ended');
      clearSessionCookie(reply);
      return reply.code(204).send(null);
    },
  );
}
