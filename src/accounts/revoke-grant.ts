import { toError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Db } from '#storage/store.ts';
import { openObject } from '#vault/sealed-values.ts';
import type { Vault } from '#vault/vault.ts';
import { type Account, findSealedAccountsOfClient } from './account-store.ts';
import type { AppDefinition } from './apps/app-definition.ts';
import type { TokenEndpoint } from './oauth/grant.ts';
import { openClient } from './oauth/manage-oauth-clients.ts';

/** A client with more accounts than this is not revoked: it would take too long to check that no other account is affected. */
const accountsMax = 200;

/**
 * Tells the provider that the tokens of an account that was deleted are no longer needed. Called after the commit; it does its best
 * and resolves whatever happens, and the log has what went wrong. `credentials` were opened before.
 *
 * Many providers end everything that the same user granted to the same client, so nothing is revoked while another
 * account of that user is left.
 */
export async function revokeGrant(
  options: {
    db: Db;
    vault: Vault;
    logger: Logger;
    tokens: TokenEndpoint;
    findApp(slug: string, ownerIds: readonly string[]): Promise<AppDefinition | undefined>;
  },
  account: Account,
  credentials: Readonly<Record<string, unknown>>,
): Promise<void> {
  const { db, vault, logger, tokens, findApp } = options;
  try {
    if (account.oauth_client_id === null || account.grant_type === 'oauth1') return;
    const app = await findApp(account.app_slug, [account.owner_id]);
    if (app?.oauth?.version !== 2 || app.oauth.revocationUrl === undefined) return;
    const client = await openClient(db, vault, account.oauth_client_id);
    if (client === undefined || (await isSharedWithOthers(db, vault, account, credentials))) return;
    const context = { app, client, fields: credentials };
    const { oauth_refresh_token: refreshToken, oauth_access_token: accessToken } = credentials;
    // The refresh token is revoked first: at most providers that revokes every token derived from it.
    if (typeof refreshToken === 'string' && refreshToken !== '')
      await tokens.revoke(context, { token: refreshToken, hint: 'refresh_token' });
    if (typeof accessToken === 'string' && accessToken !== '')
      await tokens.revoke(context, { token: accessToken, hint: 'access_token' });
    logger.info({ account: account.id, app: account.app_slug }, 'account.grant-revoked');
  } catch (error) {
    logger.warn(
      { account: account.id, app: account.app_slug, error: toError(error).message },
      'account.grant-not-revoked',
    );
  }
}

async function isSharedWithOthers(
  db: Db,
  vault: Vault,
  account: Account,
  { oauth_uid: uid }: Readonly<Record<string, unknown>>,
): Promise<boolean> {
  if (account.grant_type === 'client_credentials') return false;
  const others = await findSealedAccountsOfClient(db, account.oauth_client_id ?? '', accountsMax);
  if (others.length === accountsMax) return true;
  for (const { id, owner_id: ownerId, sealed } of others) {
    if (id === account.id) continue;
    const other = await openObject(db, vault, { ownerId, id, sealed });
    // The user is unknown: it may be the same one.
    if (uid === undefined || other.oauth_uid === undefined || other.oauth_uid === uid) return true;
  }
  return false;
}
