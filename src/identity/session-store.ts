import type { Db, Tx } from '#storage/store.ts';
import type { SessionTable } from '#storage/tables/identity-tables.ts';

/** A session with what is to be known of its key and whose it is. */
export interface SessionOfKey {
  id: string;
  token_hash: string;
  key_id: string;
  user_id: string;
  is_admin: number;
  scopes: string | null;
  workspace_id: string | null;
  disabled_at_ms: number | null;
  /** The end of the session. */
  expires_at_ms: number;
  /** The end of its key; null: it has none. */
  key_expires_at_ms: number | null;
  last_used_at_ms: number | null;
  revoked_at_ms: number | null;
}

export async function insertSession(tx: Tx, session: SessionTable): Promise<void> {
  await tx.insertInto('sessions').values(session).execute();
}

/** Whatever its state: expired, or of a key that is revoked. */
export function findSessionByHash(db: Db, hash: string): Promise<SessionOfKey | undefined> {
  return sessionsOfKeys(db).where('sessions.token_hash', '=', hash).executeTakeFirst();
}

export function findSession(db: Db, id: string): Promise<SessionOfKey | undefined> {
  return sessionsOfKeys(db).where('sessions.id', '=', id).executeTakeFirst();
}

function sessionsOfKeys(db: Db) {
  return db
    .selectFrom('sessions')
    .innerJoin('api_keys', 'api_keys.id', 'sessions.key_id')
    .innerJoin('users', 'users.id', 'api_keys.user_id')
    .select([
      'sessions.id',
      'sessions.token_hash',
      'sessions.key_id',
      'api_keys.user_id',
      'users.is_admin',
      'users.workspace_id',
      'users.disabled_at_ms',
      'api_keys.scopes',
      'sessions.expires_at_ms',
      'api_keys.expires_at_ms as key_expires_at_ms',
      'sessions.last_used_at_ms',
      'api_keys.revoked_at_ms',
    ]);
}

export async function deleteSession(tx: Tx, id: string): Promise<void> {
  await tx.deleteFrom('sessions').where('id', '=', id).execute();
}

/** Removes sessions that have expired, of any key: at most `limit`, oldest first. */
export async function deleteExpiredSessions(tx: Tx, nowMs: number, limit: number): Promise<void> {
  const expired = tx
    .selectFrom('sessions')
    .select('id')
    .where('expires_at_ms', '<=', nowMs)
    .orderBy('expires_at_ms')
    .limit(limit);
  await tx.deleteFrom('sessions').where('id', 'in', expired).execute();
}

/** Removes all sessions of a key but the `kept` that live longest. */
export async function deleteSessionsBeyond(tx: Tx, keyId: string, kept: number): Promise<void> {
  const beyond = await tx
    .selectFrom('sessions')
    .select('id')
    .where('key_id', '=', keyId)
    .orderBy('expires_at_ms', 'desc')
    .orderBy('id')
    .offset(kept)
    .limit(kept)
    .execute();
  if (beyond.length === 0) return;
  await tx
    .deleteFrom('sessions')
    .where(
      'id',
      'in',
      beyond.map(({ id }) => id),
    )
    .execute();
}

export async function markSessionUsed(
  tx: Tx,
  id: string,
  { address, nowMs }: { address: string; nowMs: number },
): Promise<void> {
  await tx.updateTable('sessions').set({ last_used_at_ms: nowMs, address }).where('id', '=', id).execute();
}

export type ListedSession = Omit<SessionTable, 'token_hash'>;

/** Sessions of a user that have not expired, of keys that are not revoked. For a page, hand the query to `pageOf`. */
export function livingSessionsOf(db: Db, userId: string, nowMs: number) {
  return db
    .selectFrom('sessions')
    .select(['id', 'key_id', 'user_agent', 'address', 'last_used_at_ms', 'created_at_ms', 'expires_at_ms'])
    .where('expires_at_ms', '>', nowMs)
    .where('key_id', 'in', (keys) =>
      keys
        .selectFrom('api_keys')
        .select('id')
        .where('user_id', '=', userId)
        .where('revoked_at_ms', 'is', null)
        .where((eb) => eb.or([eb('expires_at_ms', 'is', null), eb('expires_at_ms', '>', nowMs)])),
    );
}

/** Removes all sessions of a user but `kept`. Returns their number. */
export async function deleteSessionsOf(tx: Tx, userId: string, kept: string | undefined): Promise<number> {
  let query = tx
    .deleteFrom('sessions')
    .where('key_id', 'in', (keys) => keys.selectFrom('api_keys').select('id').where('user_id', '=', userId));
  if (kept !== undefined) query = query.where('id', '!=', kept);
  const { numDeletedRows } = await query.executeTakeFirst();
  return Number(numDeletedRows);
}
