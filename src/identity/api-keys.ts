import { timingSafeEqual } from 'node:crypto';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { newSecret } from '#lib/ids.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { UserKind } from '#storage/tables/identity-tables.ts';
import {
  type ApiKey,
  apiKeysOf,
  findApiKey,
  findApiKeyByHash,
  hashApiKey,
  hasIdentity,
  insertApiKey,
  type KeyOfUser,
  markRevoked,
  markUsed,
} from './api-key-store.ts';
import { decodeScopes, isWithin, requireEveryScope, type Scopes } from './key-scopes.ts';
import { type Caller, notFound } from './permissions.ts';
import { findUser, lockUser } from './user-store.ts';

/** `last_used_at` is written at most this often for a key: users need no more, and a write per request would be expensive. */
const lastUsedPrecisionMs = 60_000;
/** Keys of one user at most. */
const keysMax = 100;

/** A key that was found, its user, and why it is refused, where it is. */
export interface FoundKey {
  caller: Caller;
  kind: UserKind;
  lastUsedAtMs: number;
  /** Epoch ms; null: the key has no end. */
  expiresAtMs: number | null;
  refusal: KeyRefusal | undefined;
}

/** Shown only to callers who have the key itself. */
export type KeyRefusal = 'expired' | 'user disabled';

/**
 * The caller behind an API key, or undefined. A missing, unknown and revoked key take the same path: hash, one look-up,
 * one comparison in constant time; so that neither the answer nor its time distinguishes them. A key that has expired, or whose user is
 * disabled, is found, with the reason for its refusal.
 */
export async function findKey(
  db: Db,
  secret: string | undefined,
  nowMs: number,
): Promise<FoundKey | undefined> {
  const hash = hashApiKey(secret ?? '');
  const row = await findApiKeyByHash(db, hash);
  const same = timingSafeEqual(Buffer.from(hash, 'hex'), Buffer.from(row?.key_hash ?? noHash, 'hex'));
  if (row === undefined || !same || secret === undefined || row.revoked_at_ms !== null) return undefined;
  return {
    caller: {
      userId: row.user_id,
      isAdmin: row.is_admin === 1,
      keyId: row.id,
      ...accessOf(row),
    },
    kind: row.kind,
    lastUsedAtMs: row.last_used_at_ms ?? 0,
    expiresAtMs: row.expires_at_ms,
    refusal: refusalOf(row, nowMs),
  };
}

/** The part of a caller that follows from the key: scopes, and the workspace of a service account. */
export function accessOf(row: Pick<KeyOfUser, 'scopes' | 'workspace_id'>): Pick<Caller, 'scopes' | 'homeId'> {
  return {
    scopes: decodeScopes(row.scopes),
    ...(row.workspace_id === null ? {} : { homeId: row.workspace_id }),
  };
}

function refusalOf(
  { disabled_at_ms, expires_at_ms }: Pick<KeyOfUser, 'disabled_at_ms' | 'expires_at_ms'>,
  nowMs: number,
): KeyRefusal | undefined {
  if (disabled_at_ms !== null) return 'user disabled';
  return expires_at_ms !== null && expires_at_ms <= nowMs ? 'expired' : undefined;
}

/** True while a key is accepted: not revoked, not expired, and its user not disabled. */
export function isGoodKey(
  key: Pick<KeyOfUser, 'revoked_at_ms' | 'disabled_at_ms' | 'expires_at_ms'>,
  nowMs: number,
): boolean {
  return key.revoked_at_ms === null && refusalOf(key, nowMs) === undefined;
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

/** What a new key is for, and for how long. */
export interface NewKey {
  userId: string;
  name: string;
  /** Null: all. */
  scopes?: Scopes;
  /** Epoch ms; null: no end. */
  expiresAtMs?: number | null;
}

/**
 * A new key; `secret` is shown once and stored nowhere. `maker` is the caller: a key that a key makes has no scope that the maker does not
 * have, and does not outlive it. Throws CallerError `not_found`, `conflict`, `insufficient_scope` or `invalid_parameter`.
 */
export function createApiKey(
  store: Store,
  values: NewKey,
  clock: Clock,
  maker?: Pick<Caller, 'keyId' | 'scopes'>,
): Promise<{ key: ApiKey; secret: string }> {
  return store.transaction((tx) => insertKeyOf(tx, store, { values, maker, nowMs: clock.now() }));
}

/** `createApiKey` as a part of a transaction. */
export async function insertKeyOf(
  tx: Tx,
  store: Pick<Store, 'lockRows'>,
  {
    values,
    maker,
    nowMs,
  }: { values: NewKey; maker: Pick<Caller, 'keyId' | 'scopes'> | undefined; nowMs: number },
): Promise<{ key: ApiKey; secret: string }> {
  const secret = newSecret();
  if ((await findUser(tx, values.userId)) === undefined) throw notFound('user', values.userId, 'user_id');
  await lockUser(tx, store, values.userId);
  const { totalCount } = await pageOf(apiKeysOf(tx, values.userId), { limit: 1 });
  if (totalCount >= keysMax) {
    throw new CallerError('conflict', `a user has at most ${keysMax} API keys: revoke one first`);
  }
  if (values.expiresAtMs !== undefined && values.expiresAtMs !== null && values.expiresAtMs <= nowMs) {
    throw new CallerError('invalid_parameter', 'expires_at: found a time in the past, expected a later one', {
      parameter: 'expires_at',
    });
  }
  if (maker !== undefined) await requireNoMore(tx, values, maker);
  return { key: await insertApiKey(tx, { ...values, secret }, nowMs), secret };
}

async function requireNoMore(
  tx: Tx,
  values: NewKey,
  { keyId, scopes }: Pick<Caller, 'keyId' | 'scopes'>,
): Promise<void> {
  if (!isWithin(values.scopes ?? null, scopes)) {
    throw new CallerError(
      'insufficient_scope',
      `scopes: found ${values.scopes?.join(', ') ?? 'all'}, expected none beyond those of the key of this request: ${scopes?.join(', ')}`,
      { parameter: 'scopes' },
    );
  }
  const expiresAtMs = (await findApiKey(tx, keyId))?.expires_at_ms ?? null;
  if (expiresAtMs === null) return;
  if (values.expiresAtMs === undefined || values.expiresAtMs === null || values.expiresAtMs > expiresAtMs) {
    throw new CallerError(
      'invalid_parameter',
      `expires_at: found ${values.expiresAtMs ? 'a later time' : 'none'}, expected ${new Date(expiresAtMs).toISOString()} at the latest, when the key of this request expires`,
      { parameter: 'expires_at' },
    );
  }
}

/**
 * For operations that give out other access without scopes and without an end, such as an OAuth client: a key with less could get more by
 * them. A session counts as the key that it began with. Throws CallerError `insufficient_scope`, or `forbidden` for a key that has an end.
 */
export async function requireUnlimitedKey(db: Db, { keyId, scopes }: Caller): Promise<void> {
  requireEveryScope(scopes);
  const expiresAtMs = (await findApiKey(db, keyId))?.expires_at_ms ?? null;
  if (expiresAtMs === null) return;
  throw new CallerError(
    'forbidden',
    `the API key of this request ends at ${new Date(expiresAtMs).toISOString()}, and this operation needs a key without an end, because it gives out access that does not end then`,
  );
}

export function listApiKeys(db: Db, userId: string, page: PageRequest): Promise<Page<ApiKey>> {
  return pageOf(apiKeysOf(db, userId), page);
}

/** Throws CallerError `not_found`, or `conflict` for the last usable key of a user who has no other way to sign in. */
export function revokeApiKey(
  store: Store,
  values: { userId: string; keyId: string },
  clock: Clock,
): Promise<void> {
  return store.transaction(async (tx) => {
    // Two keys that are revoked simultaneously must not both count as the last but one.
    await lockUser(tx, store, values.userId);
    const key = await requireKeyOf(tx, values);
    const nowMs = clock.now();
    const isUsable = ({ expires_at_ms }: ApiKey) => expires_at_ms === null || expires_at_ms > nowMs;
    const { rows } = await pageOf(apiKeysOf(tx, values.userId), { limit: keysMax });
    const isLast = isUsable(key) && rows.filter(isUsable).length <= 1;
    if (isLast && !(await hasIdentity(tx, values.userId))) {
      throw new CallerError('conflict', 'this is your last API key: create another one first');
    }
    await markRevoked(tx, values.keyId, nowMs);
    await store.notify(tx, 'millrace_access', values.userId);
  });
}

/** A key of this user that is not revoked. Throws CallerError `not_found`. */
export async function requireKeyOf(
  db: Db,
  { userId, keyId }: { userId: string; keyId: string },
  parameter = 'id',
): Promise<ApiKey> {
  const key = await findApiKey(db, keyId);
  if (key === undefined || key.user_id !== userId || key.revoked_at_ms !== null)
    throw notFound('API key', keyId, parameter);
  return key;
}
