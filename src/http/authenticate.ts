import type { FastifyReply, FastifyRequest } from 'fastify';
import { findKey, noteUse } from '#identity/api-keys.ts';
import { findTokenCaller, looksLikeToken, noteClientUse } from '#identity/api-tokens.ts';
import { hasScope, requireScope } from '#identity/key-scopes.ts';
import type { Caller } from '#identity/permissions.ts';
import { findSessionCaller, noteSessionUse, refusalWords } from '#identity/sessions.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError, toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import type { App } from './route-support.ts';
import { sessionTokenOf } from './session-cookie.ts';

/** Longer than any key that is or was ever made; hashing more would be work for nothing. */
const keyLengthMax = 1024;

/**
 * Deny by default: every route asks for an API key, an access token or the cookie of a session unless its config says `public`.
 * The table in routes.ts decides that for routes of the API.
 * Runs before the body is read, so that a stranger's body costs nothing.
 */
export function authenticateEverything(app: App, options: AuthenticationOptions): void {
  app.decorateRequest('caller', null);
  app.addHook('onRequest', async (request, reply) => {
    if (request.is404) return;
    const { public: isPublic, takesKey } = request.routeOptions.config;
    if (isPublic !== true) await authenticate(request, reply, options);
    else if (takesKey === true) await recognize(request, reply, options);
  });
}

interface AuthenticationOptions {
  store: Store;
  clock: Clock;
  logger: Logger;
  settings: { publicUrl: string };
}

async function authenticate(
  request: FastifyRequest,
  reply: FastifyReply,
  options: AuthenticationOptions,
): Promise<void> {
  // A key in the request is the one that counts: a cookie, which browsers add by themselves, does not replace a wrong key.
  if (request.headers.authorization === undefined) {
    const session = sessionTokenOf(request, options.settings.publicUrl);
    if (session !== undefined) return authenticateSession(request, reply, session, options);
  }
  const bearer = bearerToken(request.headers.authorization);
  // By its form alone, so that each kind is one look-up, whether it is right or wrong.
  if (looksLikeToken(bearer)) await authenticateToken(request, reply, bearer, options);
  else await authenticateKey(request, reply, bearer, options);
}

/** The caller by a key that was sent to a public route. A wrong key counts as none. */
async function recognize(
  request: FastifyRequest,
  reply: FastifyReply,
  options: AuthenticationOptions,
): Promise<void> {
  if (request.headers.authorization === undefined) return;
  try {
    await authenticate(request, reply, options);
  } catch (error) {
    if (!(error instanceof CallerError)) throw error;
    reply.removeHeader('www-authenticate');
  }
}

async function authenticateKey(
  request: FastifyRequest,
  reply: FastifyReply,
  bearer: string | undefined,
  { store, clock, logger }: AuthenticationOptions,
): Promise<void> {
  const found = await findKey(store.read, bearer, clock.now());
  if (found === undefined) throw unauthorized(reply);
  const { caller, refusal, lastUsedAtMs } = found;
  if (refusal !== undefined) throw unauthorized(reply, refusalWords[refusal]);
  requireRouteScope(request, reply, caller);
  request.caller = caller;
  // Only shown to users: a full disk must not prevent requests that read.
  noteUse(store, { keyId: caller.keyId, lastUsedAtMs }, clock.now()).catch((error) =>
    logger.warn({ keyId: caller.keyId, error: toError(error).message }, 'api-key.use-not-recorded'),
  );
}

async function authenticateSession(
  request: FastifyRequest,
  reply: FastifyReply,
  token: string,
  { store, clock, logger }: AuthenticationOptions,
): Promise<void> {
  const nowMs = clock.now();
  const found = await findSessionCaller(store.read, token, nowMs);
  if (found === undefined) throw unauthorized(reply);
  const { lastUsedAtMs, ...caller } = found;
  requireRouteScope(request, reply, caller);
  request.caller = caller;
  const { sessionId } = caller;
  noteSessionUse(store, { sessionId, lastUsedAtMs, address: request.ip }, nowMs).catch((error) =>
    logger.warn({ sessionId, error: toError(error).message }, 'session.use-not-recorded'),
  );
}

/** Throws CallerError `insufficient_scope`, with the challenge of RFC 6750, section 3.1. */
function requireRouteScope(request: FastifyRequest, reply: FastifyReply, { scopes }: Caller): void {
  const { scope } = request.routeOptions.config;
  if (scope === undefined || scope === 'any' || hasScope(scopes, scope)) return;
  reply.header('www-authenticate', `Bearer error="insufficient_scope", scope="${scope}"`);
  requireScope(scopes, scope);
}

async function authenticateToken(
  request: FastifyRequest,
  reply: FastifyReply,
  token: string,
  { store, clock, logger }: AuthenticationOptions,
): Promise<void> {
  const nowMs = clock.now();
  const caller = await findTokenCaller(store.read, token, nowMs);
  if (caller === undefined) throw unauthorized(reply);
  const { userId, isAdmin, keyId, workspaceId } = caller;
  request.caller = { userId, isAdmin, keyId, workspaceId };
  noteClientUse(store, { clientId: userId, lastUsedAtMs: caller.lastUsedAtMs }, nowMs).catch((error) =>
    logger.warn({ clientId: userId, error: toError(error).message }, 'api-client.use-not-recorded'),
  );
  if (request.routeOptions.config.refusesTokens === true) {
    throw new CallerError(
      'user_key_required',
      'this operation takes the API key of a user, not an access token of an OAuth client',
    );
  }
}

function unauthorized(
  reply: FastifyReply,
  reason = 'send a valid API key: Authorization: Bearer <API key>',
): CallerError {
  reply.header('www-authenticate', 'Bearer');
  return new CallerError('unauthorized', reason);
}

/** The scheme is case-insensitive (RFC 9110, 11.1). */
function bearerToken(header: string | undefined): string | undefined {
  const token = /^bearer +(\S+) *$/i.exec(header ?? '')?.[1];
  return token === undefined || token.length > keyLengthMax ? undefined : token;
}
