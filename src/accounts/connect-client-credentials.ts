import type { AppDefinition } from '#apps/app-definition.ts';
import { fieldsOf } from '#apps/fill-template.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import { GrantError, type TokenEndpoint } from '#oauth/grant.ts';
import { openClientRow } from '#oauth/manage-oauth-clients.ts';
import { findClientOf } from '#oauth/oauth-client-store.ts';
import type { Db } from '#storage/store.ts';
import type { Vault } from '#vault/vault.ts';
import { checkFields } from './connect-fields.ts';
import type { AccountGrant } from './manage-accounts.ts';
import { accountGrant, oauthCredentials } from './oauth-credentials.ts';

/**
 * Whether an account of the app is made by asking with the owner's own client, without anybody at a browser: apps whose
 * grant that is, and others when the caller says so; not when a token was brought along.
 */
export function isClientCredentials(
  app: AppDefinition | undefined,
  request: { grant?: string | undefined; credentials?: Readonly<Record<string, unknown>> | undefined },
): app is AppDefinition {
  if (app?.oauth?.version !== 2 || request.credentials?.oauth_access_token !== undefined) return false;
  return request.grant === 'client_credentials' || app.oauth.grant === 'client_credentials';
}

/**
 * Credentials for `storeAccount`, from the provider (RFC 6749, 4.4). `fields` are the custom fields of the app. Asks
 * before anything is stored, and outside of a transaction. Throws CallerError `invalid_parameter`,
 * `oauth_client_missing` or `grant_refused`; UnavailableError `provider_unavailable`.
 */
export async function clientCredentials(
  parts: { db: Db; vault: Vault; clock: Clock; tokens: TokenEndpoint },
  request: { ownerId: string; app: AppDefinition; fields: Readonly<Record<string, unknown>> },
): Promise<{ credentials: Record<string, unknown>; grant: AccountGrant }> {
  const { db, vault, clock, tokens } = parts;
  const { ownerId, app } = request;
  const given = fieldsOf(app, checkFields(app, request.fields));
  const row = await findClientOf(db, ownerId, app.slug);
  if (row === undefined) {
    throw new CallerError(
      'oauth_client_missing',
      `there is no OAuth client for ${app.name} yet: PUT /v1/apps/${app.slug}/oauth_client with its id and secret`,
      { parameter: 'app' },
    );
  }
  const client = await openClientRow(db, vault, row);
  try {
    const grant = await tokens.clientCredentials({ app, client, fields: given });
    const asked = client.scopes ?? (app.oauth?.version === 2 ? app.oauth.scopes : []);
    return {
      credentials: oauthCredentials(given, client, grant),
      grant: accountGrant('client_credentials', client, grant, asked, clock),
    };
  } catch (error) {
    if (!(error instanceof GrantError)) throw error;
    if (error.reach === 'moment') throw new UnavailableError('provider_unavailable', error.message);
    throw new CallerError('grant_refused', error.message, { parameter: 'app' });
  }
}
