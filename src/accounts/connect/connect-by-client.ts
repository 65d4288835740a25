import { recordAudit } from '#accounts/account-audit-store.ts';
import type { Account } from '#accounts/account-store.ts';
import type { AppDefinition } from '#accounts/apps/app-definition.ts';
import { fieldsOf } from '#accounts/apps/fill-template.ts';
import { checkName, storeAccount } from '#accounts/manage-accounts.ts';
import { type Grant, type GrantContext, GrantError, type TokenEndpoint } from '#accounts/oauth/grant.ts';
import { openClientRow } from '#accounts/oauth/manage-oauth-clients.ts';
import { findClientOf } from '#accounts/oauth/oauth-client-store.ts';
import { accountGrant, oauthCredentials } from '#accounts/oauth-credentials.ts';
import { type Caller, requireWorkspace, resolveOwner } from '#identity/permissions.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import type { Db, Store } from '#storage/store.ts';
import type { Vault } from '#vault/vault.ts';
import { checkFields } from './connect-fields.ts';

/** What the provider is asked with, beside the owner's own client. */
export type ClientGrant = 'client_credentials' | 'refresh_token';

/**
 * The grant with which an account of the app is connected by the owner's own client, without a browser: client credentials for apps that
 * use them, and for others when the caller asks for them. A refresh token that the client got elsewhere is used only when the caller asks,
 * because this spends it. Undefined when no grant applies, or the caller sent a token.
 */
export function clientGrantOf(
  app: AppDefinition | undefined,
  request: { grant?: ClientGrant | undefined; credentials?: Readonly<Record<string, unknown>> | undefined },
): { app: AppDefinition; grant: ClientGrant } | undefined {
  if (app?.oauth?.version !== 2) return undefined;
  if (request.grant === 'refresh_token') return { app, grant: 'refresh_token' };
  if (request.credentials?.oauth_access_token !== undefined) return undefined;
  return request.grant === 'client_credentials' || app.oauth.grant === 'client_credentials'
    ? { app, grant: 'client_credentials' }
    : undefined;
}

/**
 * Makes an account with tokens for the owner's own client (RFC 6749, 4.4 or 6). `credentials` are custom fields of the
 * app, and with `refresh_token` an `oauth_refresh_token`, and an `oauth_uid` where that is known.
 * The provider is asked before the transaction, so rights are looked at again in it. Throws CallerError
 * `invalid_parameter`, `oauth_client_missing`, `grant_refused`, `not_found` or `forbidden`; UnavailableError
 * `provider_unavailable`.
 */
export async function connectByClient(
  options: { store: Store; vault: Vault; clock: Clock; tokens: TokenEndpoint },
  request: {
    caller: Caller;
    ownerId: string;
    app: AppDefinition;
    grant: ClientGrant;
    name: unknown;
    credentials: Readonly<Record<string, unknown>>;
  },
): Promise<Account> {
  const { store, vault, clock, tokens } = options;
  const { caller, ownerId, app, grant: asking } = request;
  await refuseUnlessMayAsk(store.read, request);
  const name = checkName(request.name ?? null);
  const { fields: given, brought } =
    asking === 'refresh_token'
      ? takeBrought(request.credentials)
      : { fields: request.credentials, brought: undefined };
  const fields = fieldsOf(app, checkFields(app, given, 'credentials'));
  const row = await findClientOf(store.read, ownerId, app.slug);
  if (row === undefined) {
    throw new CallerError(
      'oauth_client_missing',
      `there is no OAuth client for ${app.name} yet: PUT /v1/apps/${app.slug}/oauth_client with its id and secret`,
      { parameter: 'app' },
    );
  }
  const client = await openClientRow(store.read, vault, row);
  const tokensGiven = await ask(tokens, { app, client, fields }, brought?.refreshToken);
  const asked = client.scopes ?? (app.oauth?.version === 2 ? app.oauth.scopes : []);
  const got: Grant = {
    ...tokensGiven,
    refreshToken: tokensGiven.refreshToken ?? brought?.refreshToken,
    uid: tokensGiven.uid ?? brought?.uid,
  };
  const type = asking === 'refresh_token' ? 'authorization_code' : 'client_credentials';
  const grant = accountGrant(type, client, got, asked, clock);
  return store.transaction(async (tx) => {
    await resolveOwner(tx, caller, ownerId);
    await refuseUnlessMayAsk(tx, request);
    const account = await storeAccount(tx, options, {
      ownerId,
      userId: caller.userId,
      app,
      name,
      credentials: oauthCredentials(fields, client, got),
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

/** A token of the client itself represents the whole workspace at the provider, and the creator of the account may read it. */
async function refuseUnlessMayAsk(
  db: Db,
  { caller, ownerId, grant }: { caller: Caller; ownerId: string; grant: ClientGrant },
): Promise<void> {
  if (grant === 'client_credentials' && ownerId !== caller.userId)
    await requireWorkspace(db, caller, ownerId, 'administer', 'org_id');
}

/** What of the credentials is not a custom field. Throws CallerError `missing_parameter`. */
function takeBrought(credentials: Readonly<Record<string, unknown>>) {
  const {
    oauth_refresh_token: refreshToken,
    oauth_uid: uid,
    // Exported beside it; the new one comes from the provider.
    oauth_access_token: _ended,
    oauth_client_id: _client,
    ...fields
  } = credentials;
  if (typeof refreshToken !== 'string' || refreshToken === '') {
    const parameter = 'credentials.oauth_refresh_token';
    throw new CallerError('missing_parameter', `${parameter}: expected the refresh token`, { parameter });
  }
  return { fields, brought: { refreshToken, uid: typeof uid === 'string' ? uid : undefined } };
}

async function ask(
  tokens: TokenEndpoint,
  context: GrantContext,
  refreshToken: string | undefined,
): Promise<Grant> {
  try {
    return refreshToken === undefined
      ? await tokens.clientCredentials(context)
      : await tokens.refresh(context, { refreshToken, asksUid: true });
  } catch (error) {
    if (!(error instanceof GrantError)) throw error;
    if (error.reach === 'moment') throw new UnavailableError('provider_unavailable', error.message);
    throw new CallerError('grant_refused', error.message, { parameter: 'app' });
  }
}
