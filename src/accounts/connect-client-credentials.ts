import type { AppDefinition } from '#apps/app-definition.ts';
import { fieldsOf } from '#apps/fill-template.ts';
import { type Caller, resolveOwner } from '#auth/permissions.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import { type Grant, GrantError, type OAuthClient, type TokenEndpoint } from '#oauth/grant.ts';
import { openClientRow } from '#oauth/manage-oauth-clients.ts';
import { findClientOf } from '#oauth/oauth-client-store.ts';
import type { Store } from '#storage/store.ts';
import type { Vault } from '#vault/vault.ts';
import { recordAudit } from './account-audit-store.ts';
import type { Account } from './account-store.ts';
import { checkFields } from './connect-fields.ts';
import { checkName, storeAccount } from './manage-accounts.ts';
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
 * Makes an account with tokens for the owner's own client (RFC 6749, 4.4). `fields` are the custom fields of the app.
 * The provider is asked before the transaction, so rights are looked at again in it. Throws CallerError
 * `invalid_parameter`, `oauth_client_missing`, `grant_refused`, `not_found` or `forbidden`; UnavailableError
 * `provider_unavailable`.
 */
export async function connectByClient(
  parts: { store: Store; vault: Vault; clock: Clock; tokens: TokenEndpoint },
  request: {
    caller: Caller;
    ownerId: string;
    app: AppDefinition;
    name: unknown;
    fields: Readonly<Record<string, unknown>>;
  },
): Promise<Account> {
  const { store, vault, clock, tokens } = parts;
  const { caller, ownerId, app } = request;
  const name = checkName(request.name ?? null);
  const fields = fieldsOf(app, checkFields(app, request.fields, 'credentials'));
  const row = await findClientOf(store.read, ownerId, app.slug);
  if (row === undefined) {
    throw new CallerError(
      'oauth_client_missing',
      `there is no OAuth client for ${app.name} yet: PUT /v1/apps/${app.slug}/oauth_client with its id and secret`,
      { parameter: 'app' },
    );
  }
  const client = await openClientRow(store.read, vault, row);
  const given = await ask(tokens, app, client, fields);
  const asked = client.scopes ?? (app.oauth?.version === 2 ? app.oauth.scopes : []);
  const grant = accountGrant('client_credentials', client, given, asked, clock);
  return store.transaction(async (tx) => {
    await resolveOwner(tx, caller, ownerId);
    const account = await storeAccount(tx, parts, {
      ownerId,
      userId: caller.userId,
      app,
      name,
      credentials: oauthCredentials(fields, client, given),
      grant,
    });
    await recordAudit(tx, {
      account,
      action: 'connected',
      actor: { userId: caller.userId, keyId: caller.keyId },
      details: { grant: grant.type, scopes: grant.scopes },
      nowMs: clock.now(),
    });
    return account;
  });
}

async function ask(
  tokens: TokenEndpoint,
  app: AppDefinition,
  client: OAuthClient,
  fields: Record<string, unknown>,
): Promise<Grant> {
  try {
    return await tokens.clientCredentials({ app, client, fields });
  } catch (error) {
    if (!(error instanceof GrantError)) throw error;
    if (error.reach === 'moment') throw new UnavailableError('provider_unavailable', error.message);
    throw new CallerError('grant_refused', error.message, { parameter: 'app' });
  }
}
