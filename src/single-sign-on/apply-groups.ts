import { recordFurtherChange } from '#audit/record-change.ts';
import type { GroupGrant } from '#config/group-grants.ts';
import { findUser, setInstanceAdmin } from '#identity/user-store.ts';
import {
  deleteMember,
  findMember,
  findWorkspace,
  findWorkspaceByOrgname,
  putMember,
} from '#identity/workspace-store.ts';
import type { Store, Tx } from '#storage/store.ts';
import { type Role, roles } from '#storage/tables/identity-tables.ts';
import {
  changeIdentity,
  deleteGroupMembership,
  listGroupMemberships,
  putGroupMembership,
  type UserIdentity,
} from './identity-store.ts';

export interface GroupOptions {
  store: Pick<Store, 'lockRows'>;
  grants: readonly GroupGrant[];
  /** Ends what a user has in a workspace by being its member. Returns the accounts whose uses ended. */
  endMembership(tx: Tx, member: { workspaceId: string; userId: string }): Promise<string[]>;
  /** Throws CallerError where a further user must not be admitted. */
  admitPerson(): void;
}

/** What groups changed for a user. */
export interface GroupChanges {
  added: string[];
  changed: string[];
  removed: string[];
  /** Workspaces of the mapping that do not exist. */
  unknown: string[];
  /** Undefined: no change. */
  admin: boolean | undefined;
  /** Accounts whose uses in a workspace ended. */
  accountIds: string[];
}

/**
 * Makes roles follow the groups of a user. Memberships by hand stay as they are, and so does an admin of the instance by hand. What
 * groups gave before and give no longer is taken away, also from the last admin of a workspace. Throws CallerError `conflict` when a
 * workspace is full, and what `admitPerson` throws.
 */
export async function applyGroups(
  tx: Tx,
  options: GroupOptions,
  { identity, groups }: { identity: UserIdentity; groups: readonly string[] },
  nowMs: number,
): Promise<GroupChanges> {
  const userId = identity.user_id;
  const grants = options.grants.filter(({ group }) => groups.includes(group));
  const { wanted, unknown } = await rolesOf(tx, grants);
  const changes: GroupChanges = {
    added: [],
    changed: [],
    removed: [],
    unknown,
    admin: undefined,
    accountIds: [],
  };
  const given = new Map(
    (await listGroupMemberships(tx, userId)).map(({ workspaceId, role }) => [workspaceId, role]),
  );
  for (const [workspaceId, role] of wanted) {
    const before = given.get(workspaceId);
    if (before === role) continue;
    const member = { workspaceId, userId };
    // A member by hand, or one whose role an admin has changed since.
    if (before === undefined && (await findMember(tx, workspaceId, userId)) !== undefined) {
      await deleteGroupMembership(tx, member);
      continue;
    }
    if (before === undefined) options.admitPerson();
    await recordMember(tx, member);
    await putMember(tx, options.store, { ...member, role, mayLeaveNoAdmin: true }, nowMs);
    await putGroupMembership(tx, { ...member, role });
    (before === undefined ? changes.added : changes.changed).push(workspaceId);
  }
  for (const workspaceId of given.keys()) {
    if (wanted.has(workspaceId)) continue;
    changes.accountIds.push(...(await removeMember(tx, options, { workspaceId, userId })));
    changes.removed.push(workspaceId);
  }
  changes.admin = await applyAdmin(
    tx,
    identity,
    grants.some(({ kind }) => kind === 'instance-admin'),
  );
  return changes;
}

async function removeMember(
  tx: Tx,
  { store, endMembership }: GroupOptions,
  member: { workspaceId: string; userId: string },
): Promise<string[]> {
  await recordMember(tx, member);
  await deleteMember(tx, store, member.workspaceId, member.userId, { mayLeaveNoAdmin: true });
  await deleteGroupMembership(tx, member);
  return endMembership(tx, member);
}

/** For the admins of the workspace: they did not do it themselves. */
function recordMember(tx: Tx, { workspaceId, userId }: { workspaceId: string; userId: string }) {
  const path = { id: workspaceId };
  return recordFurtherChange(tx, { kind: 'members', id: userId, path, ownerId: workspaceId });
}

/** True or false: that is new. */
async function applyAdmin(tx: Tx, identity: UserIdentity, isWanted: boolean): Promise<boolean | undefined> {
  const isGiven = identity.admin_by_groups === 1;
  if (isGiven === isWanted) return undefined;
  // An admin by hand stays one.
  if (isWanted && (await findUser(tx, identity.user_id))?.is_admin === 1) return undefined;
  await recordFurtherChange(tx, { kind: 'users', id: identity.user_id, path: {}, ownerId: null });
  await setInstanceAdmin(tx, identity.user_id, isWanted);
  await changeIdentity(tx, identity.id, { admin_by_groups: isWanted ? 1 : 0 });
  return isWanted;
}

/** The highest role for each workspace, by id. */
async function rolesOf(
  tx: Tx,
  grants: readonly GroupGrant[],
): Promise<{ wanted: Map<string, Role>; unknown: string[] }> {
  const wanted = new Map<string, Role>();
  const unknown: string[] = [];
  for (const grant of grants) {
    if (grant.kind !== 'workspace') continue;
    const workspace =
      (await findWorkspaceByOrgname(tx, grant.workspace)) ?? (await findWorkspace(tx, grant.workspace));
    if (workspace === undefined) {
      unknown.push(grant.workspace);
      continue;
    }
    const before = wanted.get(workspace.id);
    // `roles` begins with the highest.
    if (before === undefined || roles.indexOf(grant.role) < roles.indexOf(before))
      wanted.set(workspace.id, grant.role);
  }
  return { wanted, unknown };
}
