import { CallerError } from '#lib/errors.ts';
import type { Db } from '#storage/store.ts';
import type { AppDefinition } from './apps/app-definition.ts';
import { findClientOf, type OAuthClientRow } from './oauth/oauth-client-store.ts';

/**
 * The OAuth client of credentials that a caller sends instead of connecting in a browser: the token
 * and token secret of an OAuth 1 app are valid only together with the client they were issued to, whose secret
 * signs for them. Undefined: they are keys, which need no client. Throws CallerError `oauth_client_missing`.
 */
export async function signingClient(
  db: Db,
  {
    app,
    ownerId,
    credentials,
  }: {
    app: AppDefinition | undefined;
    ownerId: string;
    credentials: Readonly<Record<string, unknown>>;
  },
): Promise<OAuthClientRow | undefined> {
  const { oauth_access_token: token, oauth_refresh_token: tokenSecret } = credentials;
  if (app?.oauth?.version !== 1 || typeof token !== 'string' || typeof tokenSecret !== 'string')
    return undefined;
  const client = await findClientOf(db, ownerId, app.slug);
  if (client !== undefined) return client;
  throw new CallerError(
    'oauth_client_missing',
    `${app.name} takes signed requests only: set the OAuth client that the token was given to first (PUT /v1/apps/${app.slug}/oauth_client)`,
    { parameter: 'app' },
  );
}
