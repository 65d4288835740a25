import { createHash } from 'node:crypto';
import { notFound } from '#auth/permissions.ts';
import { must } from '#lib/assert.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import { newId } from '#lib/ids.ts';
import type { Page, PageRequest } from '#storage/page.ts';
import type { Db, Tx } from '#storage/store.ts';
import {
  type Account,
  changeAccount,
  findAccount,
  findAnyDataKey,
  findAppSlug,
  findDataKey,
  findNewestDataKey,
  findSealed,
  insertAccount,
  insertDataKey,
  raiseRevisionsOf,
  removeAccount,
  selectAccounts,
} from './account-store.ts';
import { type DataKey, keyIdOf, type Vault } from './vault.ts';

/** Credentials of one account as JSON; keys, certificates and tokens are far smaller. */
const credentialsBytesMax = 64 * 1024;
const nameCharactersMax = 200;

export interface AccountTools {
  vault: Vault;
  clock: Clock;
}

/**
 * Connects an account with static credentials. `app` is a slug, or the `app_…` id of an app that has accounts already.
 * Throws CallerError `invalid_parameter` naming app, name or credentials.
 */
export async function createAccount(
  tx: Tx,
  { vault, clock }: AccountTools,
  account: { ownerId: string; userId: string; app: unknown; name?: unknown; credentials: unknown },
): Promise<Account> {
  const credentials = checkCredentials(account.credentials);
  const name = checkName(account.name ?? null);
  const slug = await slugOf(tx, account.app);
  const nowMs = clock.now();
  const id = newId('apn');
  const sealed = await seal(tx, { vault, clock }, { ownerId: account.ownerId, id, credentials });
  const row: Account = {
    id,
    owner_id: account.ownerId,
    user_id: account.userId,
    app_slug: slug,
    app_id: appIdOf(slug),
    app_name: appNameOf(slug),
    name,
    created_at_ms: nowMs,
    updated_at_ms: nowMs,
  };
  await insertAccount(tx, { ...row, sealed });
  return row;
}

/** The account, if one of `ownerIds` owns it. Throws CallerError `not_found`, also for accounts of others. */
export async function getAccount(db: Db, id: string, ownerIds: readonly string[]): Promise<Account> {
  const account = await findAccount(db, id);
  if (account === undefined || !ownerIds.includes(account.owner_id)) throw notFound('account', id);
  return account;
}

/**
 * The credentials of an account of one of `ownerIds`: what a component sees as `$auth`.
 * Throws CallerError `not_found`; UnavailableError `wrong_encryption_key` or `sealed_value_damaged`.
 */
export async function openCredentials(
  db: Db,
  vault: Vault,
  id: string,
  ownerIds: readonly string[],
): Promise<Record<string, unknown>> {
  const found = await findSealed(db, id);
  if (found === undefined || !ownerIds.includes(found.owner_id)) throw notFound('account', id);
  return open(db, vault, { ownerId: found.owner_id, id, sealed: found.sealed });
}

/** Seals a JSON value for the object `id` of an owner, such as the secret prop of a source. */
export async function sealValue(
  tx: Tx,
  tools: AccountTools,
  secret: { ownerId: string; id: string; value: unknown },
): Promise<string> {
  const { ownerId, id, value } = secret;
  return seal(tx, tools, { ownerId, id, credentials: { value } });
}

/** What `sealValue` sealed. Throws UnavailableError `wrong_encryption_key` or `sealed_value_damaged`. */
export async function openValue(
  db: Db,
  vault: Vault,
  secret: { ownerId: string; id: string; sealed: string },
): Promise<unknown> {
  return (await open(db, vault, secret)).value;
}

async function open(
  db: Db,
  vault: Vault,
  { ownerId, id, sealed }: { ownerId: string; id: string; sealed: string },
): Promise<Record<string, unknown>> {
  const key = await findDataKey(db, ownerId, keyIdOf(sealed) ?? '');
  if (key === undefined) {
    throw new UnavailableError('sealed_value_damaged', `the data key of the credentials of ${id} is missing`);
  }
  return vault.open(key, id, sealed);
}

/** Accounts of the owners, newest first; `app` (slug or id) leaves those of one app. */
export async function listAccounts(
  db: Db,
  filter: { ownerIds: readonly string[]; app?: string },
  page: PageRequest,
): Promise<Page<Account>> {
  if (filter.ownerIds.length === 0) return { rows: [], totalCount: 0 };
  return selectAccounts(db, filter, page);
}

/** Renames an account or replaces its credentials; what is not given stays. Throws as create and get do. */
export async function updateAccount(
  tx: Tx,
  tools: AccountTools,
  id: string,
  ownerIds: readonly string[],
  changes: { name?: unknown; credentials?: unknown },
): Promise<Account> {
  const account = await getAccount(tx, id, ownerIds);
  const name = changes.name === undefined ? account.name : checkName(changes.name);
  const updatedAtMs = tools.clock.now();
  if (changes.credentials === undefined) {
    await changeAccount(tx, id, { name, updated_at_ms: updatedAtMs });
  } else {
    const credentials = checkCredentials(changes.credentials);
    const sealed = await seal(tx, tools, { ownerId: account.owner_id, id, credentials });
    await changeAccount(tx, id, { name, sealed, updated_at_ms: updatedAtMs });
    await raiseRevisionsOf(tx, id);
  }
  return { ...account, name, updated_at_ms: updatedAtMs };
}

/** Throws CallerError `not_found`. */
export async function deleteAccount(tx: Tx, id: string, ownerIds: readonly string[]): Promise<void> {
  await getAccount(tx, id, ownerIds);
  await removeAccount(tx, id);
  await raiseRevisionsOf(tx, id);
}

/** Whether anything was ever sealed in this store: then the master key must not be made anew. */
export async function hasSealedCredentials(db: Db): Promise<boolean> {
  return (await findAnyDataKey(db)) !== undefined;
}

/** For the start of the service. Throws UnavailableError `wrong_encryption_key` when the store needs another key. */
export async function checkMasterKey(db: Db, vault: Vault): Promise<void> {
  const key = await findAnyDataKey(db);
  if (key !== undefined) vault.check(key);
}

/** A connected account as the API answers it (specification, section 2). Credentials only when given. */
export function viewAccount(account: Account, credentials?: Record<string, unknown>) {
  return {
    id: account.id,
    name: account.name,
    app: { id: account.app_id, name_slug: account.app_slug, name: account.app_name },
    // Static credentials are not tested against the service they are for.
    healthy: true,
    created_at: new Date(account.created_at_ms).toISOString(),
    updated_at: new Date(account.updated_at_ms).toISOString(),
    ...(credentials !== undefined && { expires_at: null, credentials }),
  };
}

/** The id of an app, until a catalogue gives them: derived from the slug, so the same everywhere and always. */
export function appIdOf(slug: string): string {
  const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
  const digest = createHash('sha256').update(`app ${slug}`).digest();
  const characters = [...digest.subarray(0, 12)].map((byte) =>
    must(alphabet[byte % alphabet.length], 'character'),
  );
  return `app_${characters.join('')}`;
}

/** `google_sheets` is shown as Google Sheets. */
function appNameOf(slug: string): string {
  return slug
    .split(/[_-]+/)
    .filter((word) => word !== '')
    .map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`)
    .join(' ');
}

async function slugOf(db: Db, app: unknown): Promise<string> {
  if (typeof app !== 'string') throw invalid('app', 'the slug of an app, such as gitlab');
  if (/^app_[0-9A-Za-z]{12}$/.test(app)) {
    const slug = await findAppSlug(db, app);
    if (slug !== undefined) return slug;
  }
  if (!/^[a-z0-9][a-z0-9_-]{0,63}$/.test(app)) throw invalid('app', 'the slug of an app, such as gitlab');
  return app;
}

function checkName(name: unknown): string | null {
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

async function seal(
  tx: Tx,
  { vault, clock }: AccountTools,
  secret: { ownerId: string; id: string; credentials: Record<string, unknown> },
): Promise<string> {
  const key =
    (await findNewestDataKey(tx, secret.ownerId)) ?? (await addDataKey(tx, { vault, clock }, secret.ownerId));
  return vault.seal(key, secret.id, secret.credentials);
}

/** Gives an owner a new data key, which seals from now on; what older ones sealed still opens. */
export async function addDataKey(tx: Tx, { vault, clock }: AccountTools, ownerId: string): Promise<DataKey> {
  const key = vault.newDataKey(ownerId);
  await insertDataKey(tx, key, clock.now());
  return key;
}
