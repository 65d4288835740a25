import { timingSafeEqual } from 'node:crypto';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { newId, newSecret } from '#lib/ids.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import { findKeyOfUser, hashApiKey } from './api-key-store.ts';
import { accessOf, type FoundKey, findKey, isGoodKey, type KeyRefusal } from './api-keys.ts';
import { type Caller, notFound } from './permissions.ts';
import {
  deleteExpiredSessions,
  deleteSession,
  deleteSessionsBeyond,
  deleteSessionsOf,
  findSession,
  findSessionByHash,
  insertSession,
  type ListedSession,
  livingSessionsOf,
  markSessionUsed,
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

/** Where a session is used from. */
export interface SessionPlace {
  /** The family of the browser and its system; null: not known. */
  userAgent: string | null;
  address: string | null;
}

/**
 * Starts a session with an API key. Throws CallerError `unauthorized`, `forbidden` for the key of a service account, and what `admit` throws for
 * a caller who must not have one.
 */
export async function startSession(
  store: Store,
  {
    apiKey,
    lifeMs,
    place,
    admit = () => undefined,
  }: { apiKey: string; lifeMs: number; place?: SessionPlace; admit?: (caller: Caller) => void },
  clock: Clock,
): Promise<StartedSession> {
  // Outside the transaction, so that callers who guess keys do not hold up the one writer.
  const found = await findKey(store.read, apiKey, clock.now());
  if (found === undefined) throw unknownKey();
  refuseForSession(found);
  const { caller, lastUsedAtMs } = found;
  admit(caller);
  const { id, token, expiresAtMs } = await store.transaction(async (tx) => {
    const nowMs = clock.now();
    // Revoked meanwhile.
    const key = await findKeyOfUser(tx, caller.keyId);
    if (key === undefined || !isGoodKey(key, nowMs)) throw unknownKey();
    const endMs = Math.min(nowMs + lifeMs, found.expiresAtMs ?? Number.POSITIVE_INFINITY);
    return beginSession(tx, { keyId: caller.keyId, endMs, place }, nowMs);
  });
  return { token, expiresAtMs, caller: { ...caller, lastUsedAtMs, sessionId: id } };
}

/** Begins a session of a key that is good, in the caller's transaction. `token` is for the cookie, and new each time. */
export async function beginSession(
  tx: Tx,
  { keyId, endMs, place }: { keyId: string; endMs: number; place: SessionPlace | undefined },
  nowMs: number,
): Promise<{ id: string; token: string; expiresAtMs: number }> {
  const token = `mse_${newSecret()}`;
  const id = newId('ses');
  await insertSession(tx, {
    id,
    key_id: keyId,
    token_hash: hashApiKey(token),
    user_agent: place?.userAgent ?? null,
    address: place?.address ?? null,
    last_used_at_ms: nowMs,
    created_at_ms: nowMs,
    expires_at_ms: endMs,
  });
  await deleteSessionsBeyond(tx, keyId, sessionsOfKeyMax);
  await deleteExpiredSessions(tx, nowMs, prunedAtOnce);
  return { id, token, expiresAtMs: endMs };
}

function refuseForSession({ kind, refusal }: FoundKey): void {
  if (refusal !== undefined) {
    throw new CallerError('unauthorized', `api_key: ${refusalWords[refusal]}`, { parameter: 'api_key' });
  }
  if (kind === 'service') {
    throw new CallerError(
      'forbidden',
      'api_key: found the key of a service account, expected that of a person: service accounts do not sign in',
      { parameter: 'api_key' },
    );
  }
}

export const refusalWords: Readonly<Record<KeyRefusal, string>> = {
  expired: 'this API key has expired: create another one',
  'user disabled': 'the user of this API key is disabled: ask the admin of this instance',
};

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
): Promise<(Caller & { sessionId: string; lastUsedAtMs: number }) | undefined> {
  if (!tokenForm.test(token)) return undefined;
  const hash = hashApiKey(token);
  const row = await findSessionByHash(db, hash);
  const same = timingSafeEqual(Buffer.from(hash, 'hex'), Buffer.from(row?.token_hash ?? noHash, 'hex'));
  if (row === undefined || !same || !isGood(row, nowMs)) return undefined;
  return {
    userId: row.user_id,
    isAdmin: row.is_admin === 1,
    keyId: row.key_id,
    sessionId: row.id,
    ...accessOf(row),
    lastUsedAtMs: row.last_used_at_ms ?? 0,
  };
}

const noHash = '0'.repeat(64);

/** True while a session is valid. For long requests, such as streams. */
export async function isGoodSession(db: Db, id: string, nowMs: number): Promise<boolean> {
  const row = await findSession(db, id);
  return row !== undefined && isGood(row, nowMs);
}

function isGood(session: SessionOfKey, nowMs: number): boolean {
  const { revoked_at_ms, disabled_at_ms, key_expires_at_ms } = session;
  return (
    nowMs < session.expires_at_ms &&
    isGoodKey({ revoked_at_ms, disabled_at_ms, expires_at_ms: key_expires_at_ms }, nowMs)
  );
}

/** Signs out: the session ends with its streams, on every node. */
export async function endSession(
  store: Store,
  { userId, sessionId }: { userId: string; sessionId: string },
): Promise<void> {
  await store.transaction(async (tx) => {
    await deleteSession(tx, sessionId);
    await store.notify(tx, 'millrace_access', userId);
  });
}

/** `last_used_at` of a session is written at most this often. */
const lastUsedPrecisionMs = 60_000;

interface SessionUse {
  sessionId: string;
  address: string;
  nowMs: number;
}

const recordSessionUse: BatchWrite<SessionUse, void> = {
  name: 'session-used',
  async run(tx, uses) {
    const latest = new Map(uses.map((use) => [use.sessionId, use]));
    for (const { sessionId, address, nowMs } of latest.values())
      await markSessionUsed(tx, sessionId, { address, nowMs });
    return uses.map(() => undefined);
  },
};

/** Records that a session was used, when what is recorded is old enough. Resolves when it is on disk. */
export async function noteSessionUse(
  store: Pick<Store, 'writes'>,
  session: { sessionId: string; lastUsedAtMs: number; address: string },
  nowMs: number,
): Promise<void> {
  if (nowMs - session.lastUsedAtMs < lastUsedPrecisionMs) return;
  const { sessionId, address } = session;
  await store.writes.submit(recordSessionUse, { sessionId, address, nowMs });
}

/** Sessions of a user that can be used, newest first. */
export async function listSessions(
  db: Db,
  userId: string,
  nowMs: number,
  page: PageRequest,
): Promise<Page<ListedSession>> {
  return pageOf(livingSessionsOf(db, userId, nowMs), page);
}

/** Ends a session of this user. Throws CallerError `not_found`. */
export function revokeSession(
  store: Store,
  { userId, sessionId }: { userId: string; sessionId: string },
): Promise<void> {
  return store.transaction(async (tx) => {
    const session = await findSession(tx, sessionId);
    if (session === undefined || session.user_id !== userId) throw notFound('session', sessionId);
    await deleteSession(tx, sessionId);
    await store.notify(tx, 'millrace_access', userId);
  });
}

/** Ends all sessions of this user but the one that asks, where it is one. Returns how many ended. */
export function revokeOtherSessions(
  store: Store,
  { userId, sessionId }: { userId: string; sessionId: string | undefined },
): Promise<number> {
  return store.transaction(async (tx) => {
    await store.notify(tx, 'millrace_access', userId);
    return deleteSessionsOf(tx, userId, sessionId);
  });
}
