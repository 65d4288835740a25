import { requireAccount } from '#accounts/account-rights.ts';
import { type Account, findSealedAccount } from '#accounts/account-store.ts';
import type { AppDefinition } from '#accounts/apps/app-definition.ts';
import { fieldsOf } from '#accounts/apps/fill-template.ts';
import { checkName, needsNoAccount } from '#accounts/manage-accounts.ts';
import type { OAuthClient } from '#accounts/oauth/grant.ts';
import { checkScopes, openClientRow, registrationOf } from '#accounts/oauth/manage-oauth-clients.ts';
import { findClientOf } from '#accounts/oauth/oauth-client-store.ts';
import { endOf } from '#identity/api-tokens.ts';
import { type Caller, notFound } from '#identity/permissions.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { newId, newSecret } from '#lib/ids.ts';
import type { Store } from '#storage/store.ts';
import { openObject } from '#vault/sealed-values.ts';
import type { Vault } from '#vault/vault.ts';
import { checkFields } from './connect-fields.ts';
import { callbackUri, type FlowSecrets, hashOf, sealSecrets, withoutSecrets } from './connect-flow.ts';
import { countOpenFlows, insertFlow } from './connect-flow-store.ts';

/**
 * A link is good for that long, the stay at the provider included: time to find a password, not to lose a link. It ends earlier with the key
 * that made it.
 */
const linkMs = 10 * 60_000;
const redirectUrlCharactersMax = 2_000;
/** Maximum of open links of one owner. Each keeps the fields that it was made with. */
const openLinksMax = 1_000;

export interface ConnectLinkOptions {
  store: Store;
  vault: Vault;
  clock: Clock;
  findApp(slugOrId: string, ownerIds: readonly string[]): Promise<AppDefinition | undefined>;
  /** Throws CallerError `not_found`, naming the parameter `app`. */
  requireApp(slugOrId: string, ownerIds: readonly string[]): Promise<AppDefinition>;
  /** The address of the service as browsers reach it, without a slash at its end. */
  publicUrl(): string;
}

/**
 * Makes a link. Throws CallerError `not_found`, `forbidden`, `invalid_parameter`, `missing_parameter`, or
 * `oauth_client_missing` with what to register.
 */
export async function beginConnect(
  options: ConnectLinkOptions,
  request: {
    caller: Caller;
    /** The owner of a new account; an account that is connected again keeps its own. */
    ownerId: string;
    app: string | undefined;
    accountId: string | undefined;
    name: unknown;
    redirectUrl: string | undefined;
    fields: Record<string, unknown>;
    scopes: string[] | undefined;
  },
): Promise<{ url: string; expiresAtMs: number }> {
  const { store, clock, vault } = options;
  const { caller, accountId } = request;
  const account =
    accountId === undefined
      ? undefined
      : await requireAccount(store.read, caller, accountId, 'change', 'account_id');
  const ownerId = account?.owner_id ?? request.ownerId;
  const app = await appOf(options, request.app, account, ownerId);
  const client = await clientFor(options, app, ownerId);
  const given = checkFields(app, request.fields);
  const before = account === undefined ? {} : await fieldsBefore(options, app, account);
  const keepsFields = app.oauth !== undefined;
  const secrets: FlowSecrets = {
    fields: keepsFields ? { ...before, ...given } : given,
    suggested: keepsFields ? {} : withoutSecrets(app, before),
    scopes: checkScopes(request.scopes) ?? undefined,
    keep: {},
  };
  const nowMs = clock.now();
  const expiresAtMs = Math.min(nowMs + linkMs, (await endOf(store.read, caller)) ?? Number.POSITIVE_INFINITY);
  const id = newId('cf');
  const link = newSecret();
  await store.transaction(async (tx) => {
    if ((await countOpenFlows(tx, ownerId, nowMs)) >= openLinksMax) {
      throw new CallerError(
        'conflict',
        `there are already ${openLinksMax} unused links; each expires after ten minutes`,
      );
    }
    await insertFlow(tx, {
      id,
      owner_id: ownerId,
      user_id: caller.userId,
      key_id: caller.keyId,
      app_slug: app.slug,
      oauth_client_id: client?.id ?? null,
      account_id: account?.id ?? null,
      name: checkName(request.name ?? null),
      redirect_url: checkRedirectUrl(request.redirectUrl),
      link_hash: hashOf('link', link),
      browser_hash: null,
      state_hash: null,
      sealed: await sealSecrets(tx, { vault, clock }, { id, owner_id: ownerId }, secrets),
      created_at_ms: nowMs,
      expires_at_ms: expiresAtMs,
      used_at_ms: null,
    });
  });
  return {
    url: `${options.publicUrl()}/connect/${link}`,
    expiresAtMs,
  };
}

async function appOf(
  options: ConnectLinkOptions,
  slugOrId: string | undefined,
  account: Account | undefined,
  ownerId: string,
): Promise<AppDefinition> {
  const named = slugOrId ?? account?.app_slug;
  if (named === undefined) {
    throw new CallerError('missing_parameter', 'app: which app is to be connected?', { parameter: 'app' });
  }
  const app = await options.requireApp(named, [ownerId]);
  if (account !== undefined && account.app_slug !== app.slug) {
    throw new CallerError('invalid_parameter', `app: account ${account.id} is of ${account.app_slug}`, {
      parameter: 'app',
    });
  }
  if (app.authType === 'none') throw needsNoAccount(app);
  const needsBrowser = app.oauth?.version !== 2 || app.oauth.grant === 'authorization_code';
  if (!needsBrowser) {
    const message = `app: ${app.name} is not connected in a browser; use POST /v1/accounts`;
    throw new CallerError('invalid_parameter', message, { parameter: 'app' });
  }
  return app;
}

async function clientFor(
  options: ConnectLinkOptions,
  app: AppDefinition,
  ownerId: string,
): Promise<OAuthClient | undefined> {
  const { store, vault } = options;
  if (app.oauth === undefined) return undefined;
  const row = await findClientOf(store.read, ownerId, app.slug);
  if (row !== undefined) return openClientRow(store.read, vault, row);
  const redirectUri = callbackUri(options.publicUrl());
  throw new CallerError(
    'oauth_client_missing',
    `there is no OAuth client for ${app.name} yet: register one with the redirect URI ${redirectUri}, then PUT /v1/apps/${app.slug}/oauth_client`,
    { parameter: 'app', redirect_uri: redirectUri, registration: registrationOf(app.oauth, redirectUri) },
  );
}

/** Custom fields of an account that is connected again. */
async function fieldsBefore(
  options: ConnectLinkOptions,
  app: AppDefinition,
  { id }: Account,
): Promise<Record<string, string>> {
  const { store, vault } = options;
  const found = await findSealedAccount(store.read, id);
  if (found === undefined) throw notFound('account', id, 'account_id');
  const credentials = await openObject(store.read, vault, { ...found, ownerId: found.owner_id });
  const texts: Record<string, string> = {};
  for (const [name, value] of Object.entries(fieldsOf(app, credentials)))
    if (typeof value === 'string') texts[name] = value;
  return texts;
}

function checkRedirectUrl(redirectUrl: string | undefined): string | null {
  if (redirectUrl === undefined) return null;
  const url = redirectUrl.length <= redirectUrlCharactersMax ? URL.parse(redirectUrl) : null;
  if (url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '')
    return url.href;
  throw new CallerError(
    'invalid_parameter',
    `redirect_url: expected an http or https URL of at most ${redirectUrlCharactersMax} characters, without a password`,
    { parameter: 'redirect_url' },
  );
}
