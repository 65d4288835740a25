import { createHash } from 'node:crypto';
import { newId } from '#lib/ids.ts';
import type { Db, Tx } from '#storage/store.ts';
import type { ApiKeyTable, UserKind } from '#storage/tables/identity-tables.ts';
import { encodeScopes, type Scopes } from './key-scopes.ts';

/** Without the hash: nothing outside this file needs it. */
export type ApiKey = Omit<ApiKeyTable, 'key_hash'>;

const columns = [
  'id',
  'user_id',
  'name',
  'key_hint',
  'scopes',
  'expires_at_ms',
  'created_at_ms',
  'last_used_at_ms',
  'revoked_at_ms',
] as const;

/** Hex SHA-256. A key has 190 random bits, so a slow hash would protect nothing and cost every request. */
export function hashApiKey(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}

export async function insertApiKey(
  tx: Tx,
  values: { userId: string; name: string; secret: string; scopes?: Scopes; expiresAtMs?: number | null },
  nowMs: number,
): Promise<ApiKey> {
  const key: ApiKey = {
    id: newId('key'),
    user_id: values.userId,
    name: values.name,
    key_hint: values.secret.slice(-4),
    scopes: encodeScopes(values.scopes ?? null),
    expires_at_ms: values.expiresAtMs ?? null,
    created_at_ms: nowMs,
    last_used_at_ms: null,
    revoked_at_ms: null,
  };
  await tx
    .insertInto('api_keys')
    .values({ ...key, key_hash: hashApiKey(values.secret) })
    .execute();
  return key;
}

/** A key with what decides whether it is accepted, and the rights that it gives. */
export interface KeyOfUser {
  id: string;
  key_hash: string;
  user_id: string;
  scopes: string | null;
  expires_at_ms: number | null;
  revoked_at_ms: number | null;
  last_used_at_ms: number | null;
  is_admin: number;
  kind: UserKind;
  workspace_id: string | null;
  disabled_at_ms: number | null;
}

/** Finds the API key with this hash, in whatever state it and its user are. */
export function findApiKeyByHash(db: Db, hash: string): Promise<KeyOfUser | undefined> {
  return keysOfUsers(db).where('api_keys.key_hash', '=', hash).executeTakeFirst();
}

/** The same by the id of the key. */
export function findKeyOfUser(db: Db, id: string): Promise<KeyOfUser | undefined> {
  return keysOfUsers(db).where('api_keys.id', '=', id).executeTakeFirst();
}

function keysOfUsers(db: Db) {
  return db
    .selectFrom('api_keys')
    .innerJoin('users', 'users.id', 'api_keys.user_id')
    .select([
      'api_keys.id',
      'api_keys.key_hash',
      'api_keys.user_id',
      'api_keys.scopes',
      'api_keys.expires_at_ms',
      'api_keys.revoked_at_ms',
      'api_keys.last_used_at_ms',
      'users.is_admin',
      'users.kind',
      'users.workspace_id',
      'users.disabled_at_ms',
    ]);
}

export function findApiKey(db: Db, id: string): Promise<ApiKey | undefined> {
  return db.selectFrom('api_keys').select(columns).where('id', '=', id).executeTakeFirst();
}

/** True for a user who can sign in with a provider, and so needs no key. */
export async function hasIdentity(db: Db, userId: string): Promise<boolean> {
  const query = db.selectFrom('user_identities').select('id').where('user_id', '=', userId).limit(1);
  return (await query.executeTakeFirst()) !== undefined;
}

/**
 * Keys of a user that are not revoked, expired ones too, newest first; those that sessions of single sign-on belong to are no keys of the user.
 * For a page, hand the query to `pageOf`.
 */
export function apiKeysOf(db: Db, userId: string) {
  return db
    .selectFrom('api_keys')
    .select(columns)
    .where('user_id', '=', userId)
    .where('revoked_at_ms', 'is', null)
    .where('id', 'not in', (eb) => eb.selectFrom('user_identities').select('key_id'));
}

/** Revokes a key. True when there was one to revoke. */
export async function markRevoked(tx: Tx, id: string, nowMs: number): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('api_keys')
    .set({ revoked_at_ms: nowMs })
    .where('id', '=', id)
    .where('revoked_at_ms', 'is', null)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

export async function markUsed(tx: Tx, ids: readonly string[], nowMs: number): Promise<void> {
  await tx.updateTable('api_keys').set({ last_used_at_ms: nowMs }).where('id', 'in', ids).execute();
}

/** Revokes every key of a user. */
export async function markAllRevoked(tx: Tx, userId: string, nowMs: number): Promise<void> {
  await tx
    .updateTable('api_keys')
    .set({ revoked_at_ms: nowMs })
    .where('user_id', '=', userId)
    .where('revoked_at_ms', 'is', null)
    .execute();
}
