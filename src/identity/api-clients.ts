import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { newSecret } from '#lib/ids.ts';
import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import {
  type ApiClient,
  clientsOf,
  deleteTokensOf,
  findClient,
  insertClient,
  lockClient,
  lockWorkspace,
  updateClient,
} from './api-client-store.ts';
import { hashApiKey } from './api-key-store.ts';
import { type Caller, notFound, requireWorkspace } from './permissions.ts';

/** Clients of one workspace at most. */
const clientsMax = 100;

/** For admins of the workspace. Throws CallerError `not_found`, `forbidden` or `unknown_cursor`. */
export async function listClients(
  db: Db,
  caller: Caller,
  workspaceId: string,
  page: PageRequest,
): Promise<Page<ApiClient>> {
  await requireWorkspace(db, caller, workspaceId, 'administer');
  return pageOf(clientsOf(db, workspaceId), page);
}

/**
 * A new OAuth client of a workspace, made by one of its admins; `secret` is shown once and stored nowhere. Throws
 * CallerError `not_found`, `forbidden` or `conflict`.
 */
export function createClient(
  store: Store,
  caller: Caller,
  values: { workspaceId: string; name: string },
  clock: Clock,
): Promise<{ client: ApiClient; secret: string }> {
  const { workspaceId, name } = values;
  const secret = newSecret();
  return store.transaction(async (tx) => {
    await requireWorkspace(tx, caller, workspaceId, 'administer');
    await lockWorkspace(tx, store, workspaceId);
    const { totalCount } = await pageOf(clientsOf(tx, workspaceId), { limit: 1 });
    if (totalCount >= clientsMax) {
      throw new CallerError(
        'conflict',
        `a workspace has at most ${clientsMax} OAuth clients: remove one first`,
      );
    }
    const client = await insertClient(
      tx,
      { workspaceId, userId: caller.userId, name, ...stored(secret) },
      clock.now(),
    );
    return { client, secret };
  });
}

/**
 * Gives the client another secret; the old one ends immediately. Tokens that were given out stay until they expire, so that
 * nothing that runs is cut off by routine; `endTokens` ends them too, for a secret that may have leaked.
 */
export function rotateClientSecret(
  store: Store,
  caller: Caller,
  values: { workspaceId: string; clientId: string; endTokens: boolean },
  clock: Clock,
): Promise<{ client: ApiClient; secret: string }> {
  const secret = newSecret();
  return store.transaction(async (tx) => {
    const client = await heldClient(tx, store, caller, values);
    const { secretHash, secretHint } = stored(secret);
    const changes = { secret_hint: secretHint, secret_changed_at_ms: clock.now() };
    await updateClient(tx, client.id, { ...changes, secret_hash: secretHash });
    if (values.endTokens) await endTokensOf(tx, store, client.id);
    return { client: { ...client, ...changes }, secret };
  });
}

/** Ends the client and its tokens immediately. Objects made with them stay, because they belong to the workspace. */
export function revokeClient(
  store: Store,
  caller: Caller,
  values: { workspaceId: string; clientId: string },
  clock: Clock,
): Promise<void> {
  return store.transaction(async (tx) => {
    const client = await heldClient(tx, store, caller, values);
    await updateClient(tx, client.id, { revoked_at_ms: clock.now() });
    await endTokensOf(tx, store, client.id);
  });
}

/** Ends tokens with their streams, on every node. */
async function endTokensOf(tx: Tx, store: Store, clientId: string): Promise<void> {
  await deleteTokensOf(tx, clientId);
  await store.notify(tx, 'millrace_access', clientId);
}

async function heldClient(
  tx: Tx,
  store: Store,
  caller: Caller,
  { workspaceId, clientId }: { workspaceId: string; clientId: string },
): Promise<ApiClient> {
  await requireWorkspace(tx, caller, workspaceId, 'administer');
  await lockClient(tx, store, clientId);
  const client = await findClient(tx, clientId);
  if (client === undefined || client.workspace_id !== workspaceId || client.revoked_at_ms !== null) {
    throw notFound('OAuth client', clientId, 'client_id');
  }
  return client;
}

function stored(secret: string): { secretHash: string; secretHint: string } {
  return { secretHash: hashApiKey(secret), secretHint: secret.slice(-4) };
}
