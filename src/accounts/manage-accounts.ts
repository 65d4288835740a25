import { forgetOutcomes } from '#health/outcome-store.ts';
import { notFound } from '#identity/permissions.ts';
import { CallerError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Page, PageRequest } from '#storage/page.ts';
import type { Db, Tx } from '#storage/store.ts';
import type { GrantType } from '#storage/tables/account-tables.ts';
import { type SealOptions, sealObject } from '#vault/sealed-values.ts';
import {
  type Account,
  type AccountFilter,
  changeAccount,
  findAccount,
  findAppSlug,
  insertAccount,
  raiseRevisionsOf,
  raiseVersion,
  removeAccount,
  selectAccounts,
} from './account-store.ts';
import type { AppDefinition } from './apps/app-definition.ts';
import { appIdOf, appNameOf, isAppId, isAppSlug } from './apps/app-id.ts';
import { completeCredentials } from './check-credentials.ts';
import { signingClient } from './signing-client.ts';

/** Maximum size of the credentials of one account as JSON; keys, certificates and tokens are far smaller. */
const credentialsBytesMax = 64 * 1024;
const nameCharactersMax = 200;

export interface AccountOptions extends SealOptions {
  /** Finds an app of the catalogue by slug or app_ id; absent: there is no catalogue. */
  findApp?(slugOrId: string, ownerIds: readonly string[], db?: Db): Promise<AppDefinition | undefined>;
}

/**
 * Connects an account with credentials from the caller. `app` is a slug, or the `app_…` id of an app of the
 * catalogue or one that the owner has accounts of already. Throws CallerError `invalid_parameter` or `missing_parameter` naming app,
 * name or credentials, and `oauth_client_missing`.
 */
export async function createAccount(
  tx: Tx,
  options: AccountOptions,
  account: { ownerId: string; userId: string; app: unknown; name?: unknown; credentials: unknown },
): Promise<Account> {
  const { ownerId, userId } = account;
  const credentials = checkCredentials(account.credentials);
  const name = checkName(account.name ?? null);
  const app =
    typeof account.app === 'string' ? await options.findApp?.(account.app, [ownerId], tx) : undefined;
  if (app?.authType === 'none') throw needsNoAccount(app);
  const slug = app?.slug ?? (await slugOf(tx, ownerId, account.app));
  return storeAccount(tx, options, {
    ownerId,
    userId,
    app: app ?? { slug, name: appNameOf(slug) },
    name,
    ...(await broughtGrant(tx, { app, ownerId, credentials })),
  });
}

/** The credentials and grant of an account that was not connected by a flow. Throws as `createAccount` does. */
async function broughtGrant(
  db: Db,
  brought: { app: AppDefinition | undefined; ownerId: string; credentials: Record<string, unknown> },
): Promise<{ credentials: Record<string, unknown>; grant: AccountGrant }> {
  const credentials = completeCredentials(brought.app, brought.credentials);
  const client = await signingClient(db, brought);
  if (client === undefined) return { credentials, grant: keysGrant };
  return {
    credentials: { ...credentials, oauth_client_id: client.client_id },
    grant: { ...keysGrant, type: 'oauth1', oauthClientId: client.id },
  };
}

/** Where the credentials of an account come from, and how long they are valid. */
export interface AccountGrant {
  type: GrantType;
  /** oa_…, null for keys. */
  oauthClientId: string | null;
  scopes: readonly string[] | null;
  /** Epoch ms; null: they do not end, or the caller did not say. */
  expiresAtMs: number | null;
  /** Epoch ms; null: never by itself. */
  nextRefreshAtMs: number | null;
}

export const keysGrant: AccountGrant = {
  type: 'keys',
  oauthClientId: null,
  scopes: null,
  expiresAtMs: null,
  nextRefreshAtMs: null,
};

/** Stores a new account whose values were checked. */
export async function storeAccount(
  tx: Tx,
  options: SealOptions,
  account: {
    ownerId: string;
    userId: string;
    app: { slug: string; name: string };
    name: string | null;
    credentials: Record<string, unknown>;
    grant: AccountGrant;
  },
): Promise<Account> {
  const { ownerId, app, grant } = account;
  const nowMs = options.clock.now();
  const id = newId('apn');
  const sealed = await sealObject(tx, options, { ownerId, id, value: account.credentials });
  const row: Account = {
    id,
    owner_id: ownerId,
    user_id: account.userId,
    app_slug: app.slug,
    app_id: appIdOf(app.slug),
    app_name: app.name,
    name: account.name,
    version: 1,
    ...grantColumns(grant),
    last_refreshed_at_ms: null,
    ...wellColumns,
    // The account is tested as soon as possible.
    next_check_at_ms: nowMs,
    created_at_ms: nowMs,
    updated_at_ms: nowMs,
  };
  await insertAccount(tx, { ...row, sealed, lease_node: null, lease_until_ms: null });
  return row;
}

/** Replaces the credentials of an account, which then counts as healthy, whatever it was before. */
export async function replaceCredentials(
  tx: Tx,
  options: SealOptions,
  account: Account,
  changes: { credentials: Record<string, unknown>; grant: AccountGrant; name?: string | null },
): Promise<Account> {
  const { id, owner_id: ownerId } = account;
  const nowMs = options.clock.now();
  const sealed = await sealObject(tx, options, { ownerId, id, value: changes.credentials });
  const changed = {
    name: changes.name === undefined ? account.name : changes.name,
    version: account.version + 1,
    ...grantColumns(changes.grant),
    ...wellColumns,
    next_check_at_ms: nowMs,
    updated_at_ms: nowMs,
  };
  // Also takes the lease from a node that refreshes the old grant: its result does not fit this version.
  const { version: _counted, ...columns } = changed;
  await changeAccount(tx, id, { ...columns, sealed, lease_node: null, lease_until_ms: null });
  await raiseVersion(tx, id);
  await raiseRevisionsOf(tx, id);
  await forgetOutcomes(tx, id);
  return { ...account, ...changed };
}

function grantColumns(grant: AccountGrant) {
  return {
    grant_type: grant.type,
    oauth_client_id: grant.oauthClientId,
    authorized_scopes: grant.scopes === null ? null : JSON.stringify(grant.scopes),
    expires_at_ms: grant.expiresAtMs,
    next_refresh_at_ms: grant.nextRefreshAtMs,
  };
}

/** The columns of an account without known problems. */
const wellColumns = {
  refresh_failures: 0,
  healthy: 1,
  dead: 0,
  error: null,
  checked_at_ms: null,
  check_failures: 0,
};

/** The account, if one of `ownerIds` owns it. Throws CallerError `not_found`, also for accounts of others. */
export async function getAccount(db: Db, id: string, ownerIds: readonly string[]): Promise<Account> {
  const account = await findAccount(db, id);
  if (account === undefined || !ownerIds.includes(account.owner_id)) throw notFound('account', id);
  return account;
}

/** Accounts of the owners, newest first. */
export async function listAccounts(db: Db, filter: AccountFilter, page: PageRequest): Promise<Page<Account>> {
  if (filter.ownerIds.length === 0) return { rows: [], totalCount: 0 };
  return selectAccounts(db, filter, page);
}

/** Renames an account or replaces its credentials; what is not given stays. Throws as `createAccount` and `getAccount` do. */
export async function updateAccount(
  tx: Tx,
  options: AccountOptions,
  id: string,
  ownerIds: readonly string[],
  changes: { name?: unknown; credentials?: unknown },
): Promise<Account> {
  const account = await getAccount(tx, id, ownerIds);
  const name = changes.name === undefined ? account.name : checkName(changes.name);
  if (changes.credentials !== undefined) {
    const { owner_id: ownerId } = account;
    const credentials = checkCredentials(changes.credentials);
    const app = await options.findApp?.(account.app_slug, [ownerId], tx);
    const brought = await broughtGrant(tx, { app, ownerId, credentials });
    return replaceCredentials(tx, options, account, { ...brought, name });
  }
  const updatedAtMs = options.clock.now();
  await changeAccount(tx, id, { name, updated_at_ms: updatedAtMs });
  return { ...account, name, updated_at_ms: updatedAtMs };
}

/** Throws CallerError `not_found`. */
export async function deleteAccount(tx: Tx, id: string, ownerIds: readonly string[]): Promise<void> {
  await getAccount(tx, id, ownerIds);
  await removeAccount(tx, id);
  await forgetOutcomes(tx, id);
  await raiseRevisionsOf(tx, id);
}

async function slugOf(db: Db, ownerId: string, app: unknown): Promise<string> {
  if (typeof app !== 'string') throw invalid('app', 'the slug of an app, such as gitlab');
  if (isAppId(app)) {
    const slug = await findAppSlug(db, ownerId, app);
    if (slug !== undefined) return slug;
    throw invalid('app', 'the slug of an app, or the app_ id of one in the catalogue');
  }
  if (!isAppSlug(app)) throw invalid('app', 'the slug of an app, such as gitlab');
  return app;
}

export function needsNoAccount({ name }: AppDefinition): CallerError {
  const message = `app: ${name} needs no account: components of it run without one`;
  return new CallerError('invalid_parameter', message, { parameter: 'app' });
}

export function checkName(name: unknown): string | null {
  if (name === null) return null;
  if (typeof name !== 'string' || name.length > nameCharactersMax) {
    throw invalid('name', `a string of at most ${nameCharactersMax} characters, or null`);
  }
  return name;
}

function checkCredentials(credentials: unknown): Record<string, unknown> {
  if (typeof credentials !== 'object' || credentials === null || Array.isArray(credentials)) {
    throw invalid('credentials', 'an object, such as { "api_key": "…" }');
  }
  if (Buffer.byteLength(JSON.stringify(credentials)) > credentialsBytesMax) {
    throw invalid('credentials', `at most ${credentialsBytesMax / 1024} KB of JSON`);
  }
  return credentials as Record<string, unknown>;
}

function invalid(parameter: string, expected: string): CallerError {
  return new CallerError('invalid_parameter', `${parameter}: expected ${expected}`, { parameter });
}
