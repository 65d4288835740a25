import { type Caller, notFound } from '#identity/permissions.ts';
import {
  findUser,
  lockInstanceAdmins,
  lockUser,
  otherInstanceAdmins,
  type User,
} from '#identity/user-store.ts';
import {
  isEnabledAdmin,
  type LockedMember,
  listWorkspacesOf,
  lockMembers,
  type Workspace,
} from '#identity/workspace-store.ts';
import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { DeletionTable } from '#storage/tables/deletion-tables.ts';
import { beginDeletion, refuseHeld, requireName } from './begin-deletion.ts';

export interface UserDeletionOptions {
  store: Store;
  clock: Clock;
  /** Ends what joins a workspace and a user who is no longer its member; returns the ids of accounts that it may no longer use. */
  endMembership: (tx: Tx, member: { workspaceId: string; userId: string }) => Promise<string[]>;
}

/** The deletion of a user, and of the workspaces that go too. */
export interface UserDeletion {
  user: DeletionTable;
  workspaces: DeletionTable[];
  /** Accounts of the user that sources and workflows of workspaces used. */
  accountIds: string[];
}

/**
 * Deletes a person: by an admin of the instance, or by themselves. What they made in workspaces stays there. Workspaces in which they are
 * the only person go with them. Throws CallerError `not_found`, `forbidden` for a caller who is no enabled admin any longer,
 * `invalid_parameter` for another username, or `conflict` for the last admin of the instance, a service account, the only admin of a
 * workspace with other members, and a workspace under a legal hold that would go too.
 */
export function deleteUser(
  options: UserDeletionOptions,
  caller: Caller,
  { userId, username }: { userId: string; username: string },
): Promise<UserDeletion> {
  const { store, clock } = options;
  return store.transaction(async (tx) => {
    // Two admins who delete each other must not both succeed.
    await lockInstanceAdmins(tx, store);
    await lockUser(tx, store, userId);
    const user = await findUser(tx, userId);
    if (user === undefined) throw notFound('user', userId);
    await requireRight(tx, caller, userId);
    refuseService(user);
    requireName('username', username, user.username);
    if (user.is_admin === 1 && (await otherInstanceAdmins(tx, userId)) === 0)
      throw new CallerError(
        'conflict',
        'this user is the last admin of the instance: it needs one who is not disabled',
        { parameter: 'id' },
      );
    const { leaving, only } = await membershipsOf(store, tx, userId);
    for (const workspace of only) await refuseHeld(tx, workspace);
    const accountIds: string[] = [];
    for (const { id: workspaceId } of leaving)
      accountIds.push(...(await options.endMembership(tx, { workspaceId, userId })));
    const nowMs = clock.now();
    const by = { requestedBy: caller.userId };
    const subject = { ...by, kind: 'user', id: userId, name: user.username } as const;
    const deletion = await beginDeletion(store, tx, subject, nowMs);
    const workspaces: DeletionTable[] = [];
    for (const { id, orgname } of only) {
      const further = { ...by, kind: 'workspace', id, name: orgname, isFurther: true } as const;
      workspaces.push(await beginDeletion(store, tx, further, nowMs));
    }
    return { user: deletion, workspaces, accountIds };
  });
}

async function requireRight(tx: Tx, caller: Caller, userId: string): Promise<void> {
  if (caller.userId === userId) return;
  const admin = await findUser(tx, caller.userId);
  if (admin?.is_admin !== 1 || admin.disabled_at_ms !== null)
    throw new CallerError('forbidden', 'you are no admin of the instance any longer');
}

function refuseService({ kind }: User): void {
  if (kind !== 'service') return;
  throw new CallerError(
    'conflict',
    'id: found a service account, expected a person: DELETE /v1/workspaces/{id}/service_accounts/{account_id} removes it',
    { parameter: 'id' },
  );
}

/** Workspaces that the user leaves, and those in which there is no other person. Throws CallerError `conflict`. */
async function membershipsOf(
  store: Store,
  tx: Tx,
  userId: string,
): Promise<{ leaving: Workspace[]; only: Workspace[] }> {
  const leaving: Workspace[] = [];
  const only: Workspace[] = [];
  const withoutAdmin: Workspace[] = [];
  const workspaces = await listWorkspacesOf(tx, userId);
  // In one order, so that two deletions do not wait for each other.
  for (const workspace of workspaces.toSorted((one, other) => (one.id < other.id ? -1 : 1))) {
    const members = await lockMembers(tx, store, workspace.id);
    const isOther = ({ user_id, kind }: LockedMember) => user_id !== userId && kind === 'person';
    const others = members.filter(isOther);
    const isAdmin = members.some(({ user_id, role }) => user_id === userId && role === 'admin');
    if (others.length === 0) only.push(workspace);
    else if (isAdmin && !others.some(isEnabledAdmin)) withoutAdmin.push(workspace);
    else leaving.push(workspace);
  }
  if (withoutAdmin.length > 0)
    throw new CallerError(
      'conflict',
      `this user is the only admin of ${withoutAdmin.map(({ orgname }) => orgname).join(', ')}, which other users are in: make another member admin first, or delete the workspace`,
      { workspaces: withoutAdmin.map(({ id }) => id) },
    );
  return { leaving, only };
}
