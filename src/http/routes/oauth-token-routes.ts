import { Type } from 'typebox';
import { type AuditActor, noteActor } from '#audit/audit-context.ts';
import { clientCredentials, type TokenRequest } from '#http/client-credentials.ts';
import { readForms, sendOAuthError } from '#http/oauth-manners.ts';
import type { App } from '#http/route-support.ts';
import { issueToken, revokeToken } from '#identity/api-tokens.ts';
import { type Clock, epochSeconds } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Store } from '#storage/store.ts';

export interface OAuthTokenRouteOptions {
  store: Store;
  clock: Clock;
  /** Called when access has ended: streams check at once whether their readers may still read. */
  onAccessEnd: () => void;
}

/** A token request has a few short fields. */
const bodyBytesMax = 16 * 1024;
/** The one scope there is: all that the token of a workspace may do. */
const everything = '*';

const clientFields = {
  client_id: Type.Optional(Type.String({ description: 'oac_…; here or with HTTP Basic' })),
  client_secret: Type.Optional(Type.String({ description: 'Here or with HTTP Basic' })),
};
// What is not known is ignored, as RFC 6749 (3.2) has it.
const open = { additionalProperties: true };

/**
 * The token endpoint of OAuth 2.0 (RFC 6749, 4.4: client credentials) and token revocation (RFC 7009), with JSON bodies
 * as well as forms. Public: the caller sends the credentials of an OAuth client.
 */
export function oauthTokenRoutes(app: App, { store, clock, onAccessEnd }: OAuthTokenRouteOptions): void {
  readForms(app);
  app.setErrorHandler(sendOAuthError);
  const consumes = ['application/json', 'application/x-www-form-urlencoded'];

  app.post(
    '/token',
    {
      bodyLimit: bodyBytesMax,
      schema: {
        operationId: 'createAccessToken',
        tags: ['workspaces', 'addition'],
        summary: 'An access token for the credentials of an OAuth client of a workspace',
        description:
          'Valid for an hour, as `Authorization: Bearer <access_token>`. Errors are those of RFC 6749: `error` is its code, ' +
          '`error_description` a sentence.',
        consumes,
        body: Type.Object(
          {
            grant_type: Type.Optional(Type.String({ description: 'client_credentials' })),
            ...clientFields,
            scope: Type.Optional(
              Type.String({ description: 'Separated by spaces; default and only one: *' }),
            ),
          },
          open,
        ),
        response: {
          200: Type.Object({
            access_token: Type.String(),
            token_type: Type.String({ description: 'Bearer' }),
            expires_in: Type.Integer({ description: 'Seconds' }),
            created_at: Type.Integer({ description: 'Epoch seconds' }),
            scope: Type.String(),
          }),
        },
      },
    },
    async (request, reply) => {
      const { body } = request;
      requireGrantType(body.grant_type);
      const credentials = clientCredentials(request.headers.authorization, body);
      requireScope(body);
      const issued = await issueToken(store, credentials, clock);
      const { token, createdAtMs, expiresAtMs } = issued;
      noteActor(clientActor(issued.client.id, issued.id), issued.client.workspace_id);
      // RFC 6749, 5.1, for caches of before HTTP/1.1; Cache-Control: no-store is on every answer.
      reply.header('pragma', 'no-cache');
      return {
        access_token: token,
        token_type: 'Bearer',
        expires_in: (expiresAtMs - createdAtMs) / 1000,
        created_at: epochSeconds(createdAtMs),
        scope: everything,
      };
    },
  );

  app.post(
    '/revoke',
    {
      bodyLimit: bodyBytesMax,
      schema: {
        operationId: 'revokeAccessToken',
        tags: ['workspaces', 'addition'],
        summary:
          'End an access token of the client at once; also answers 200 for a token that is none of its',
        consumes,
        body: Type.Object({ token: Type.Optional(Type.String()), ...clientFields }, open),
        response: { 200: Type.Object({}) },
      },
    },
    async (request) => {
      const { body } = request;
      if (body.token === undefined || body.token === '') {
        throw new CallerError('invalid_request', 'token: required', { parameter: 'token' });
      }
      const credentials = clientCredentials(request.headers.authorization, body);
      const client = await revokeToken(store, credentials, body.token);
      onAccessEnd();
      noteActor(clientActor(client.id, null), client.workspace_id);
      return {};
    },
  );
}

/** An OAuth client that identified itself by its secret. */
function clientActor(clientId: string, tokenId: string | null): AuditActor {
  return { kind: 'oauth_client', userId: clientId, keyId: tokenId, sessionId: null };
}

function requireGrantType(grantType: string | undefined): void {
  if (grantType === undefined || grantType === '') {
    throw new CallerError('invalid_request', 'grant_type: required', { parameter: 'grant_type' });
  }
  if (grantType !== 'client_credentials') {
    throw new CallerError('unsupported_grant_type', 'grant_type: only client_credentials is known here', {
      parameter: 'grant_type',
    });
  }
}

/** A token with more rights than requested would be misleading, and narrower scopes than all do not exist. */
function requireScope({ scope = '' }: TokenRequest & { scope?: string }): void {
  const asked = scope.split(' ').filter((one) => one !== '');
  if (asked.length === 0 || asked.includes(everything)) return;
  throw new CallerError('invalid_scope', 'scope: only * is known here; leave it out', { parameter: 'scope' });
}
