import type { FastifyReply, FastifyRequest } from 'fastify';
import { findCaller, noteUse } from '#auth/api-keys.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError, toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import type { App } from './route-support.ts';

/** Longer than any key that is or was ever made; hashing more would be work for nothing. */
const keyLengthMax = 1024;

/**
 * Deny by default: every route asks for an API key unless its config says `public`. Runs before the body is read, so
 * that a stranger's body costs nothing.
 */
export function authenticateEverything(
  app: App,
  parts: { store: Store; clock: Clock; logger: Logger },
): void {
  app.decorateRequest('caller', null);
  app.addHook('onRequest', async (request, reply) => {
    if (request.is404 || request.routeOptions.config.public === true) return;
    await authenticate(request, reply, parts);
  });
}

async function authenticate(
  request: FastifyRequest,
  reply: FastifyReply,
  { store, clock, logger }: { store: Store; clock: Clock; logger: Logger },
): Promise<void> {
  const caller = await findCaller(store.read, bearerToken(request.headers.authorization));
  if (caller === undefined) {
    reply.header('www-authenticate', 'Bearer');
    throw new CallerError('unauthorized', 'send a valid API key: Authorization: Bearer <API key>');
  }
  request.caller = { userId: caller.userId, isAdmin: caller.isAdmin, keyId: caller.keyId };
  // Only for people to look at: a full disk must not keep anybody from reading.
  noteUse(store, caller, clock.now()).catch((error) =>
    logger.warn({ keyId: caller.keyId, error: toError(error).message }, 'api-key.use-not-noted'),
  );
}

/** The scheme is case-insensitive (RFC 9110, 11.1). */
function bearerToken(header: string | undefined): string | undefined {
  const token = /^bearer +(\S+) *$/i.exec(header ?? '')?.[1];
  return token === undefined || token.length > keyLengthMax ? undefined : token;
}
