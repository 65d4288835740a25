import { newId } from '#lib/ids.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { ApiClientTable, ApiTokenTable } from '#storage/tables/identity-tables.ts';

/** Without the hash of the secret. */
export type ApiClient = Omit<ApiClientTable, 'secret_hash'>;

const columns = [
  'id',
  'workspace_id',
  'user_id',
  'name',
  'secret_hint',
  'created_at_ms',
  'secret_changed_at_ms',
  'last_used_at_ms',
  'revoked_at_ms',
] as const;

/** Holds the workspace until the end of the transaction: its clients are counted and made one at a time. */
export async function lockWorkspace(tx: Tx, store: Pick<Store, 'lockRows'>, id: string): Promise<void> {
  await store
    .lockRows(tx.selectFrom('workspaces').select('workspaces.id as id').where('workspaces.id', '=', id))
    .execute();
}

/** Holds the client until the end of the transaction: what is done with its secret takes turns with changes of it. */
export async function lockClient(tx: Tx, store: Pick<Store, 'lockRows'>, id: string): Promise<void> {
  await store
    .lockRows(tx.selectFrom('api_clients').select('api_clients.id as id').where('api_clients.id', '=', id))
    .execute();
}

export async function insertClient(
  tx: Tx,
  values: { workspaceId: string; userId: string; name: string; secretHash: string; secretHint: string },
  nowMs: number,
): Promise<ApiClient> {
  const client: ApiClient = {
    id: newId('oac'),
    workspace_id: values.workspaceId,
    user_id: values.userId,
    name: values.name,
    secret_hint: values.secretHint,
    created_at_ms: nowMs,
    secret_changed_at_ms: nowMs,
    last_used_at_ms: null,
    revoked_at_ms: null,
  };
  await tx
    .insertInto('api_clients')
    .values({ ...client, secret_hash: values.secretHash })
    .execute();
  return client;
}

/** Clients of a workspace that can be used. For a page, hand the query to `pageOf`. */
export function clientsOf(db: Db, workspaceId: string) {
  return db
    .selectFrom('api_clients')
    .select(columns)
    .where('workspace_id', '=', workspaceId)
    .where('revoked_at_ms', 'is', null);
}

export function findClient(db: Db, id: string): Promise<ApiClient | undefined> {
  return db.selectFrom('api_clients').select(columns).where('id', '=', id).executeTakeFirst();
}

/** What its secret is compared with, revoked or not. */
export function findClientSecret(
  db: Db,
  id: string,
): Promise<Pick<ApiClientTable, 'id' | 'workspace_id' | 'secret_hash' | 'revoked_at_ms'> | undefined> {
  return db
    .selectFrom('api_clients')
    .select(['id', 'workspace_id', 'secret_hash', 'revoked_at_ms'])
    .where('id', '=', id)
    .executeTakeFirst();
}

export async function updateClient(
  tx: Tx,
  id: string,
  changes: Partial<
    Pick<ApiClientTable, 'secret_hash' | 'secret_hint' | 'secret_changed_at_ms' | 'revoked_at_ms'>
  >,
): Promise<void> {
  await tx.updateTable('api_clients').set(changes).where('id', '=', id).execute();
}

export async function markClientsUsed(tx: Tx, ids: readonly string[], nowMs: number): Promise<void> {
  await tx.updateTable('api_clients').set({ last_used_at_ms: nowMs }).where('id', 'in', ids).execute();
}

export async function insertToken(tx: Tx, token: ApiTokenTable): Promise<void> {
  await tx.insertInto('api_tokens').values(token).execute();
}

/** A token with what is to be known of its client. */
export interface TokenOfClient {
  id: string;
  token_hash: string;
  client_id: string;
  workspace_id: string;
  expires_at_ms: number;
  revoked_at_ms: number | null;
  last_used_at_ms: number | null;
}

/** Whatever its state: expired, or of a client that is revoked. */
export function findTokenByHash(db: Db, hash: string): Promise<TokenOfClient | undefined> {
  return tokensOfClients(db).where('api_tokens.token_hash', '=', hash).executeTakeFirst();
}

export function findToken(db: Db, id: string): Promise<TokenOfClient | undefined> {
  return tokensOfClients(db).where('api_tokens.id', '=', id).executeTakeFirst();
}

function tokensOfClients(db: Db) {
  return db
    .selectFrom('api_tokens')
    .innerJoin('api_clients', 'api_clients.id', 'api_tokens.client_id')
    .select([
      'api_tokens.id',
      'api_tokens.token_hash',
      'api_tokens.client_id',
      'api_tokens.workspace_id',
      'api_tokens.expires_at_ms',
      'api_clients.revoked_at_ms',
      'api_clients.last_used_at_ms',
    ]);
}

/** Removes the token if it is one of this client. */
export async function deleteTokenOfClient(tx: Tx, clientId: string, hash: string): Promise<void> {
  await tx
    .deleteFrom('api_tokens')
    .where('token_hash', '=', hash)
    .where('client_id', '=', clientId)
    .execute();
}

export async function deleteTokensOf(tx: Tx, clientId: string): Promise<void> {
  await tx.deleteFrom('api_tokens').where('client_id', '=', clientId).execute();
}

/** Removes tokens that have expired, of any client: at most `limit`, oldest first. */
export async function deleteExpiredTokens(tx: Tx, nowMs: number, limit: number): Promise<void> {
  const expired = tx
    .selectFrom('api_tokens')
    .select('id')
    .where('expires_at_ms', '<=', nowMs)
    .orderBy('expires_at_ms')
    .limit(limit);
  await tx.deleteFrom('api_tokens').where('id', 'in', expired).execute();
}

/** Removes all tokens of a client but the `kept` that live longest. */
export async function deleteTokensBeyond(tx: Tx, clientId: string, kept: number): Promise<void> {
  const beyond = await tx
    .selectFrom('api_tokens')
    .select('expires_at_ms')
    .where('client_id', '=', clientId)
    .orderBy('expires_at_ms', 'desc')
    .offset(kept)
    .limit(1)
    .executeTakeFirst();
  if (beyond === undefined) return;
  await tx
    .deleteFrom('api_tokens')
    .where('client_id', '=', clientId)
    .where('expires_at_ms', '<=', beyond.expires_at_ms)
    .execute();
}
