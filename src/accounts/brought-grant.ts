import type { AppDefinition } from '#apps/app-definition.ts';
import { CallerError } from '#lib/errors.ts';
import { findClientOf } from '#oauth/oauth-client-store.ts';
import type { Db } from '#storage/store.ts';
import { type AccountGrant, keysGrant } from './manage-accounts.ts';

/**
 * What credentials are that somebody brings along instead of connecting in a browser. The token and token secret of an
 * OAuth 1 app belong to the owner's OAuth client, whose secret signs for them; everything else is taken as keys.
 * Throws CallerError `oauth_client_missing`.
 */
export async function broughtGrant(
  db: Db,
  {
    app,
    ownerId,
    credentials,
  }: { app: AppDefinition | undefined; ownerId: string; credentials: Readonly<Record<string, unknown>> },
): Promise<{ grant: AccountGrant; credentials: Record<string, unknown> }> {
  const { oauth_access_token: token, oauth_refresh_token: tokenSecret } = credentials;
  if (app?.oauth?.version !== 1 || typeof token !== 'string' || typeof tokenSecret !== 'string')
    return { grant: keysGrant, credentials: { ...credentials } };
  const client = await findClientOf(db, ownerId, app.slug);
  if (client === undefined)
    throw new CallerError(
      'oauth_client_missing',
      `${app.name} takes signed requests only: set the OAuth client that the token was given to first (PUT /v1/apps/${app.slug}/oauth_client)`,
    );
  return {
    grant: { ...keysGrant, type: 'oauth1', oauthClientId: client.id },
    credentials: { ...credentials, oauth_client_id: client.client_id },
  };
}
