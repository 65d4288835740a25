import type { Clock } from '#lib/clock.ts';
import type { GrantType } from '#storage/tables/account-tables.ts';
import type { AccountGrant } from './manage-accounts.ts';
import type { Grant, OAuthClient } from './oauth/grant.ts';
import { refreshTimes } from './refresh-times.ts';

/** What a component of an OAuth app reads as `$auth`: custom fields, what the answer had, and the tokens. */
export function oauthCredentials(
  fields: Readonly<Record<string, unknown>>,
  client: OAuthClient,
  grant: Grant,
): Record<string, unknown> {
  return {
    ...fields,
    ...grant.fields,
    oauth_access_token: grant.accessToken,
    ...(grant.refreshToken !== undefined && { oauth_refresh_token: grant.refreshToken }),
    oauth_client_id: client.clientId,
    ...(grant.uid !== undefined && { oauth_uid: grant.uid }),
  };
}

/** Where such credentials come from, and when they are refreshed. */
export function accountGrant(
  type: GrantType,
  client: OAuthClient,
  grant: Grant,
  /** The requested scopes: a provider that grants exactly these need not say so (RFC 6749, 5.1). */
  askedScopes: readonly string[],
  clock: Clock,
): AccountGrant {
  const canRefresh =
    type === 'client_credentials' || (type === 'authorization_code' && grant.refreshToken !== undefined);
  const { expiresAtMs, nextRefreshAtMs } = refreshTimes(
    { expiresInSeconds: grant.expiresInSeconds, canRefresh },
    clock.now(),
  );
  return {
    type,
    oauthClientId: client.id,
    scopes: type === 'oauth1' ? null : (grant.scopes ?? askedScopes),
    expiresAtMs,
    nextRefreshAtMs,
  };
}
