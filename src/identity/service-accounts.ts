import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { newBase36Key } from '#lib/ids.ts';
import type { Page, PageRequest } from '#storage/page.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { Role } from '#storage/tables/identity-tables.ts';
import { type ApiKey, markAllRevoked, markRevoked } from './api-key-store.ts';
import { insertKeyOf, listApiKeys, type NewKey, requireKeyOf } from './api-keys.ts';
import { type Caller, notFound, requireWorkspace } from './permissions.ts';
import { disableUserRow, findUser, insertUser, type User } from './user-store.ts';
import { findMember, putMember, removeServiceMember, serviceAccountsOf } from './workspace-store.ts';

/** Service accounts of one workspace at most. */
const accountsMax = 100;

/** A service account as a member of its workspace. */
export interface ServiceAccount {
  user: User;
  role: Role;
}

interface Named {
  workspaceId: string;
  accountId: string;
}

/** Service accounts of a workspace, oldest first; for its admins. Throws CallerError `not_found` or `forbidden`. */
export async function listServiceAccounts(
  db: Db,
  caller: Caller,
  workspaceId: string,
): Promise<ServiceAccount[]> {
  await requireWorkspace(db, caller, workspaceId, 'administer');
  return serviceAccountsOf(db, workspaceId, accountsMax);
}

/**
 * A user of a workspace that no person signs in as. It belongs to the workspace, and stays when the user who made it leaves. Throws
 * CallerError `not_found`, `forbidden` or `conflict`.
 */
export function createServiceAccount(
  store: Store,
  caller: Caller,
  { workspaceId, name, role }: { workspaceId: string; name: string; role: Role },
  clock: Clock,
): Promise<ServiceAccount> {
  // Names of users are unique in the instance: the end of the name keeps workspaces apart.
  const username = `${name}.${newBase36Key(8)}`;
  return store.transaction(async (tx) => {
    await requireWorkspace(tx, caller, workspaceId, 'administer');
    const service = { workspaceId, createdBy: caller.userId };
    const email = `${username}@service-account.invalid`;
    const user = await insertUser(tx, { username, email, isAdmin: false, service }, clock.now());
    // It takes the turn of the workspace, so that the count after it is exact.
    await putMember(tx, store, { workspaceId, userId: user.id, role }, clock.now());
    if ((await serviceAccountsOf(tx, workspaceId, accountsMax + 1)).length > accountsMax) {
      throw new CallerError(
        'conflict',
        `a workspace has at most ${accountsMax} service accounts: remove one first`,
      );
    }
    return { user, role };
  });
}

/** Gives a service account another role. Throws CallerError `not_found` or `forbidden`. */
export function updateServiceAccount(
  store: Store,
  caller: Caller,
  { role, ...named }: Named & { role: Role },
  clock: Clock,
): Promise<ServiceAccount> {
  return store.transaction(async (tx) => {
    const { user } = await requireServiceAccount(tx, caller, named);
    await putMember(tx, store, { workspaceId: named.workspaceId, userId: user.id, role }, clock.now());
    await store.notify(tx, 'millrace_access', user.id);
    return { user, role };
  });
}

/**
 * Ends a service account with its keys. What it made stays with the workspace. The row of the user is kept, because objects and the audit
 * name it.
 */
export function removeServiceAccount(
  store: Store,
  caller: Caller,
  named: Named,
  clock: Clock,
): Promise<void> {
  return store.transaction(async (tx) => {
    const { user } = await requireServiceAccount(tx, caller, named);
    await removeServiceMember(tx, named.workspaceId, user.id);
    await markAllRevoked(tx, user.id, clock.now());
    await disableUserRow(tx, user.id, { nowMs: clock.now(), reason: null });
    await store.notify(tx, 'millrace_access', user.id);
  });
}

export async function listServiceAccountKeys(
  db: Db,
  caller: Caller,
  named: Named,
  page: PageRequest,
): Promise<Page<ApiKey>> {
  await requireServiceAccount(db, caller, named);
  return listApiKeys(db, named.accountId, page);
}

/** A key of a service account; `secret` is shown once. Throws CallerError as `createApiKey` does, and `forbidden`. */
export function createServiceAccountKey(
  store: Store,
  caller: Caller,
  { key, ...named }: Named & { key: Omit<NewKey, 'userId'> },
  clock: Clock,
): Promise<{ key: ApiKey; secret: string }> {
  return store.transaction(async (tx) => {
    await requireServiceAccount(tx, caller, named);
    const values = { ...key, userId: named.accountId };
    return insertKeyOf(tx, store, { values, maker: caller, nowMs: clock.now() });
  });
}

/** Throws CallerError `not_found` or `forbidden`. A service account may be left without a key. */
export function revokeServiceAccountKey(
  store: Store,
  caller: Caller,
  { keyId, ...named }: Named & { keyId: string },
  clock: Clock,
): Promise<void> {
  return store.transaction(async (tx) => {
    await requireServiceAccount(tx, caller, named);
    await requireKeyOf(tx, { userId: named.accountId, keyId }, 'key_id');
    await markRevoked(tx, keyId, clock.now());
    await store.notify(tx, 'millrace_access', named.accountId);
  });
}

/** A service account of a workspace that the caller administers. Throws CallerError `not_found` or `forbidden`. */
async function requireServiceAccount(
  db: Db | Tx,
  caller: Caller,
  { workspaceId, accountId }: Named,
): Promise<ServiceAccount> {
  await requireWorkspace(db, caller, workspaceId, 'administer');
  const user = await findUser(db, accountId);
  const member = await findMember(db, workspaceId, accountId);
  if (user?.kind !== 'service' || user.workspace_id !== workspaceId || member === undefined)
    throw notFound('service account', accountId, 'account_id');
  return { user, role: member.role };
}
