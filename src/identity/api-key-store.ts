import { createHash } from 'node:crypto';
import { newId } from '#lib/ids.ts';
import type { Db, Tx } from '#storage/store.ts';
import type { ApiKeyTable } from '#storage/tables/identity-tables.ts';

/** Without the hash: nothing outside this file needs it. */
export type ApiKey = Omit<ApiKeyTable, 'key_hash'>;

const columns = [
  'id',
  'user_id',
  'name',
  'key_hint',
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
  values: { userId: string; name: string; secret: string },
  nowMs: number,
): Promise<ApiKey> {
  const key: ApiKey = {
    id: newId('key'),
    user_id: values.userId,
    name: values.name,
    key_hint: values.secret.slice(-4),
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

/** Finds the API key with this hash, revoked or not. */
export function findApiKeyByHash(
  db: Db,
  hash: string,
): Promise<
  | {
      id: string;
      key_hash: string;
      user_id: string;
      is_admin: number;
      revoked_at_ms: number | null;
      last_used_at_ms: number | null;
    }
  | undefined
> {
  return db
    .selectFrom('api_keys')
    .innerJoin('users', 'users.id', 'api_keys.user_id')
    .select([
      'api_keys.id',
      'api_keys.key_hash',
      'api_keys.user_id',
      'users.is_admin',
      'api_keys.revoked_at_ms',
      'api_keys.last_used_at_ms',
    ])
    .where('api_keys.key_hash', '=', hash)
    .executeTakeFirst();
}

export function findApiKey(db: Db, id: string): Promise<ApiKey | undefined> {
  return db.selectFrom('api_keys').select(columns).where('id', '=', id).executeTakeFirst();
}

/** Keys of a user that can be used, newest first. For a page, hand the query to `pageOf`. */
export function apiKeysOf(db: Db, userId: string) {
  return db
    .selectFrom('api_keys')
    .select(columns)
    .where('user_id', '=', userId)
    .where('revoked_at_ms', 'is', null);
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
