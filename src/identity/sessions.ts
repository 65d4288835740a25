import { timingSafeEqual } from 'node:crypto';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { newId, newSecret } from '#lib/ids.ts';
import type { Db, Store } from '#storage/store.ts';
import { findApiKey, hashApiKey } from './api-key-store.ts';
import { findCaller } from './api-keys.ts';
import type { Caller } from './permissions.ts';
import {
  deleteExpiredSessions,
  deleteSession,
  deleteSessionsBeyond,
  findSession,
  findSessionByHash,
  insertSession,
  type SessionOfKey,
} from './session-store.ts';

/** Living sessions of one key: with more, those that end first end early. */
const sessionsOfKeyMax = 100;
/** Expired sessions that go with each new one: more than come, so that the table does not grow. */
const prunedAtOnce = 100;
/** The form of the token in the cookie: no other text is looked up. */
const tokenForm = /^mse_[0-9A-Za-z]{32}$/;

export interface StartedSession {
  /** For the cookie; stored as its hash only. */
  token: string;
  expiresAtMs: number;
  caller: Caller & { lastUsedAtMs: number };
}

/** Begins a session of whose key this is. Throws CallerError `unauthorized`. */
export async function startSession(
  store: Store,
  { apiKey, lifeMs }: { apiKey: string; lifeMs: number },
  clock: Clock,
): Promise<StartedSession> {
  // Outside the transaction, so that callers who guess keys do not hold up the one writer.
  const caller = await findCaller(store.read, apiKey);
  if (caller === undefined) throw unknownKey();
  const token = `mse_${newSecret()}`;
  const nowMs = clock.now();
  const expiresAtMs = nowMs + lifeMs;
  const id = newId('ses');
  await store.transaction(async (tx) => {
    // Revoked meanwhile.
    const key = await findApiKey(tx, caller.keyId);
    if (key === undefined || key.revoked_at_ms !== null) throw unknownKey();
    await insertSession(tx, {
      id,
      key_id: caller.keyId,
      token_hash: hashApiKey(token),
      created_at_ms: nowMs,
      expires_at_ms: expiresAtMs,
    });
    await deleteSessionsBeyond(tx, caller.keyId, sessionsOfKeyMax);
    await deleteExpiredSessions(tx, nowMs, prunedAtOnce);
  });
  return { token, expiresAtMs, caller: { ...caller, sessionId: id } };
}

function unknownKey(): CallerError {
  return new CallerError('unauthorized', 'api_key is no API key of this service, or it was revoked', {
    parameter: 'api_key',
  });
}

/** The caller behind the cookie of a session, or undefined: unknown, ended, expired, and of a revoked key take the same path. */
export async function findSessionCaller(
  db: Db,
  token: string,
  nowMs: number,
): Promise<(Caller & { sessionId: string }) | undefined> {
  if (!tokenForm.test(token)) return undefined;
  const hash = hashApiKey(token);
  const row = await findSessionByHash(db, hash);
  const same = timingSafeEqual(Buffer.from(hash, 'hex'), Buffer.from(row?.token_hash ?? noHash, 'hex'));
  if (row === undefined || !same || !isGood(row, nowMs)) return undefined;
  return { userId: row.user_id, isAdmin: row.is_admin === 1, keyId: row.key_id, sessionId: row.id };
}

const noHash = '0'.repeat(64);

/** True while a session is valid. For long requests, such as streams. */
export async function isGoodSession(db: Db, id: string, nowMs: number): Promise<boolean> {
  const row = await findSession(db, id);
  return row !== undefined && isGood(row, nowMs);
}

function isGood({ revoked_at_ms, expires_at_ms }: SessionOfKey, nowMs: number): boolean {
  return revoked_at_ms === null && nowMs < expires_at_ms;
}

export async function endSession(store: Store, id: string): Promise<void> {
  await store.transaction((tx) => deleteSession(tx, id));
}
