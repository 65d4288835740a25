import { timingSafeEqual } from 'node:crypto';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { newSecret } from '#lib/ids.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db, Store } from '#storage/store.ts';
import {
  type ApiKey,
  apiKeysOf,
  findApiKey,
  findApiKeyByHash,
  hashApiKey,
  insertApiKey,
  markRevoked,
  markUsed,
} from './api-key-store.ts';
import { type Caller, notFound } from './permissions.ts';
import { findUser, lockUser } from './user-store.ts';

/** `last_used_at` is written at most this often for a key: users need no more, and a write per request would be expensive. */
const lastUsedPrecisionMs = 60_000;
/** Keys of one user at most. */
const keysMax = 100;

/**
 * The caller behind an API key, or undefined. A missing, unknown and revoked key take the same path: hash, one look-up,
 * one comparison in constant time; so that neither the answer nor its time distinguishes them.
 */
export async function findCaller(
  db: Db,
  secret: string | undefined,
): Promise<(Caller & { lastUsedAtMs: number }) | undefined> {
  const hash = hashApiKey(secret ?? '');
  const row = await findApiKeyByHash(db, hash);
  const same = timingSafeEqual(Buffer.from(hash, 'hex'), Buffer.from(row?.key_hash ?? noHash, 'hex'));
  if (row === undefined || !same || secret === undefined || row.revoked_at_ms !== null) return undefined;
  return {
    userId: row.user_id,
    isAdmin: row.is_admin === 1,
    keyId: row.id,
    lastUsedAtMs: row.last_used_at_ms ?? 0,
  };
}

const noHash = '0'.repeat(64);

const recordUse: BatchWrite<{ keyId: string; nowMs: number }, void> = {
  name: 'api-key-used',
  async run(tx, items) {
    const nowMs = Math.max(...items.map((item) => item.nowMs));
    await markUsed(tx, [...new Set(items.map((item) => item.keyId))], nowMs);
    return items.map(() => undefined);
  },
};

/** Notes that a key was used, when the note in the store is old enough. Resolves when it is on disk. */
export async function noteUse(
  store: Pick<Store, 'writes'>,
  key: { keyId: string; lastUsedAtMs: number },
  nowMs: number,
): Promise<void> {
  if (nowMs - key.lastUsedAtMs < lastUsedPrecisionMs) return;
  await store.writes.submit(recordUse, { keyId: key.keyId, nowMs });
}

/** A new key; `secret` is shown once and stored nowhere. Throws CallerError `not_found` or `conflict`. */
export function createApiKey(
  store: Store,
  values: { userId: string; name: string },
  clock: Clock,
): Promise<{ key: ApiKey; secret: string }> {
  const secret = newSecret();
  return store.transaction(async (tx) => {
    if ((await findUser(tx, values.userId)) === undefined) throw notFound('user', values.userId, 'user_id');
    await lockUser(tx, store, values.userId);
    const { totalCount } = await pageOf(apiKeysOf(tx, values.userId), { limit: 1 });
    if (totalCount >= keysMax) {
      throw new CallerError('conflict', `a user has at most ${keysMax} API keys: revoke one first`);
    }
    return { key: await insertApiKey(tx, { ...values, secret }, clock.now()), secret };
  });
}

export function listApiKeys(db: Db, userId: string, page: PageRequest): Promise<Page<ApiKey>> {
  return pageOf(apiKeysOf(db, userId), page);
}

/** Throws CallerError `not_found`, or `conflict` for the last key of the user, who would be locked out. */
export function revokeApiKey(
  store: Store,
  values: { userId: string; keyId: string },
  clock: Clock,
): Promise<void> {
  return store.transaction(async (tx) => {
    // Two keys that are revoked simultaneously must not both count as the last but one.
    await lockUser(tx, store, values.userId);
    const key = await findApiKey(tx, values.keyId);
    if (key === undefined || key.user_id !== values.userId || key.revoked_at_ms !== null) {
      throw notFound('API key', values.keyId);
    }
    const { totalCount } = await pageOf(apiKeysOf(tx, values.userId), { limit: 1 });
    if (totalCount <= 1) {
      throw new CallerError('conflict', 'this is your last API key: create another one first');
    }
    await markRevoked(tx, values.keyId, clock.now());
  });
}
