import { timingSafeEqual } from 'node:crypto';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { newId, newSecret } from '#lib/ids.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import type { Db, Store } from '#storage/store.ts';
import {
  deleteExpiredTokens,
  deleteTokenOfClient,
  deleteTokensBeyond,
  findClientSecret,
  findToken,
  findTokenByHash,
  insertToken,
  lockClient,
  markClientsUsed,
  type TokenOfClient,
} from './api-client-store.ts';
import { findKeyOfUser, hashApiKey } from './api-key-store.ts';
import { isGoodKey } from './api-keys.ts';
import type { Caller } from './permissions.ts';
import { isGoodSession } from './sessions.ts';

/** How long an access token lives, as in the original (platform facts, 1.2). */
const tokenLifeMs = 3_600_000;
/** Living tokens of one client: with more, those that end first end early. */
const tokensOfClientMax = 10_000;
/** Expired tokens that go with each new one: more than come, so that the table does not grow. */
const prunedAtOnce = 100;
/** `last_used_at` of a client is written at most this often. */
const lastUsedPrecisionMs = 60_000;
/** The form of every token: distinguishes it from an API key without a look-up in the store. */
const tokenForm = /^mat_[0-9A-Za-z]{32}$/;

/** True when the text has the form of an access token. The token itself is not checked. */
export function looksLikeToken(bearer: string | undefined): bearer is string {
  return bearer !== undefined && tokenForm.test(bearer);
}

export interface ClientCredentials {
  id: string;
  secret: string;
}

export interface IssuedToken {
  token: string;
  createdAtMs: number;
  expiresAtMs: number;
  id: string;
  client: TokenClient;
}

/** An OAuth client (oac_…) and its workspace. */
export interface TokenClient {
  id: string;
  workspace_id: string;
}

/**
 * The client that these credentials are of. An unknown client, a revoked one and a wrong secret take the same path: hash,
 * one look-up, one comparison in constant time. Nothing is counted or locked: a secret has 190 random bits, so guessing
 * is bounded by that, as with API keys, and guessing cannot lock a client out. Throws CallerError `invalid_client`.
 */
async function requireClient(
  db: Db,
  { id, secret }: ClientCredentials,
): Promise<{ id: string; workspace_id: string; secret_hash: string }> {
  const row = await findClientSecret(db, id);
  const hash = hashApiKey(secret);
  const same = isSameHash(hash, row?.secret_hash);
  if (row === undefined || !same || row.revoked_at_ms !== null) throw invalidClient();
  return row;
}

function invalidClient(): CallerError {
  return new CallerError('invalid_client', 'client_id and client_secret are not those of an OAuth client');
}

const noHash = '0'.repeat(64);

function isSameHash(hash: string, stored: string | undefined): boolean {
  return timingSafeEqual(Buffer.from(hash, 'hex'), Buffer.from(stored ?? noHash, 'hex'));
}

/** A new access token of the client, stored as its hash. Throws CallerError `invalid_client`. */
export async function issueToken(
  store: Store,
  credentials: ClientCredentials,
  clock: Clock,
): Promise<IssuedToken> {
  // Outside the transaction, so that callers who guess secrets do not hold up the one writer.
  const client = await requireClient(store.read, credentials);
  const token = `mat_${newSecret()}`;
  return store.transaction(async (tx) => {
    await lockClient(tx, store, client.id);
    // Revoked or given another secret meanwhile.
    await requireClient(tx, credentials);
    const createdAtMs = clock.now();
    const expiresAtMs = createdAtMs + tokenLifeMs;
    const id = newId('tok');
    await insertToken(tx, {
      id,
      client_id: client.id,
      workspace_id: client.workspace_id,
      token_hash: hashApiKey(token),
      created_at_ms: createdAtMs,
      expires_at_ms: expiresAtMs,
    });
    await deleteTokensBeyond(tx, client.id, tokensOfClientMax);
    await deleteExpiredTokens(tx, createdAtMs, prunedAtOnce);
    return { token, createdAtMs, expiresAtMs, id, client };
  });
}

/** Ends a token of this client; one that is unknown or of another client is left alone. Throws CallerError `invalid_client`. */
export async function revokeToken(
  store: Store,
  credentials: ClientCredentials,
  token: string,
): Promise<TokenClient> {
  const client = await requireClient(store.read, credentials);
  await store.transaction(async (tx) => {
    await deleteTokenOfClient(tx, client.id, hashApiKey(token));
    await store.notify(tx, 'millrace_access', client.id);
  });
  return client;
}

/** The caller behind an access token, or undefined: unknown, expired and revoked take the same path, as with API keys. */
export async function findTokenCaller(
  db: Db,
  token: string,
  nowMs: number,
): Promise<(Caller & { workspaceId: string; lastUsedAtMs: number }) | undefined> {
  const hash = hashApiKey(token);
  const row = await findTokenByHash(db, hash);
  const same = isSameHash(hash, row?.token_hash);
  if (row === undefined || !same || !isGood(row, nowMs)) return undefined;
  return {
    userId: row.client_id,
    isAdmin: false,
    keyId: row.id,
    workspaceId: row.workspace_id,
    lastUsedAtMs: row.last_used_at_ms ?? 0,
  };
}

/** True for a valid access token of a client of this workspace. */
export async function acceptsToken(
  db: Db,
  token: string,
  { workspaceId, nowMs }: { workspaceId: string; nowMs: number },
): Promise<boolean> {
  if (!looksLikeToken(token)) return false;
  return (await findTokenCaller(db, token, nowMs))?.workspaceId === workspaceId;
}

function isGood(token: TokenOfClient, nowMs: number): boolean {
  return token.revoked_at_ms === null && nowMs < token.expires_at_ms;
}

/** When the caller's key or token ends by itself, epoch ms; null: never. A session counts as the key that it began with. */
export async function endOf(db: Db, caller: Caller): Promise<number | null> {
  const row = await (caller.workspaceId === undefined
    ? findKeyOfUser(db, caller.keyId)
    : findToken(db, caller.keyId));
  return row?.expires_at_ms ?? null;
}

/** True while the caller's key, token or session is valid. For long requests, such as streams. */
export async function isStillValid(db: Db, caller: Caller, nowMs: number): Promise<boolean> {
  if (caller.workspaceId !== undefined) {
    const token = await findToken(db, caller.keyId);
    return token !== undefined && isGood(token, nowMs);
  }
  if (caller.sessionId !== undefined) return isGoodSession(db, caller.sessionId, nowMs);
  const key = await findKeyOfUser(db, caller.keyId);
  return key !== undefined && isGoodKey(key, nowMs);
}

const recordClientUse: BatchWrite<{ clientId: string; nowMs: number }, void> = {
  name: 'api-client-used',
  async run(tx, items) {
    const nowMs = Math.max(...items.map((item) => item.nowMs));
    await markClientsUsed(tx, [...new Set(items.map((item) => item.clientId))], nowMs);
    return items.map(() => undefined);
  },
};

/** Notes that a client was used, when the note in the store is old enough. Resolves when it is on disk. */
export async function noteClientUse(
  store: Pick<Store, 'writes'>,
  client: { clientId: string; lastUsedAtMs: number },
  nowMs: number,
): Promise<void> {
  if (nowMs - client.lastUsedAtMs < lastUsedPrecisionMs) return;
  await store.writes.submit(recordClientUse, { clientId: client.clientId, nowMs });
}
