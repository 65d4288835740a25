import { CallerError } from '#lib/errors.ts';
import { newBase36Key, newId } from '#lib/ids.ts';
import type { Dialect } from '#storage/dialect.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { MemberTable, Role, UserKind, WorkspaceTable } from '#storage/tables/identity-tables.ts';
import type { User } from './user-store.ts';

export type Workspace = WorkspaceTable;
export type Member = MemberTable & { username: string; email: string; kind: UserKind };

const columns = [
  'workspaces.id',
  'workspaces.orgname',
  'workspaces.name',
  'workspaces.email',
  'workspaces.created_by',
  'workspaces.created_at_ms',
] as const;
const memberColumns = [
  'members.workspace_id',
  'members.user_id',
  'members.role',
  'members.created_at_ms',
  'users.username',
  'users.email',
  'users.kind',
] as const;

/** Members of one workspace at most: listings of members are whole, not pages. */
const membersMax = 1000;
/** Workspaces of one user at most: what a user may see is looked up in all of them. */
const membershipsMax = 1000;

export function findWorkspace(db: Db, id: string): Promise<Workspace | undefined> {
  return db.selectFrom('workspaces').select(columns).where('id', '=', id).executeTakeFirst();
}

/** The users who created these workspaces, by the ids of the workspaces. Ids of users, and workspaces without a known creator, are missing. */
export async function creatorsOf(db: Db, ids: readonly string[]): Promise<Map<string, string>> {
  const rows = await db
    .selectFrom('workspaces')
    .select(['id', 'created_by'])
    .where('id', 'in', [...ids])
    .execute();
  return new Map(rows.flatMap(({ id, created_by }) => (created_by === null ? [] : [[id, created_by]])));
}

/** Holds a workspace until the end of the transaction. */
export function lockWorkspace(
  tx: Tx,
  store: Pick<Store, 'lockRows'>,
  id: string,
): Promise<Workspace | undefined> {
  return store
    .lockRows(tx.selectFrom('workspaces').select(columns).where('workspaces.id', '=', id))
    .executeTakeFirst();
}

/** By its slug, which no two workspaces share. */
export function findWorkspaceByOrgname(db: Db, orgname: string): Promise<Workspace | undefined> {
  return db.selectFrom('workspaces').select(columns).where('orgname', '=', orgname).executeTakeFirst();
}

/** Every workspace of a user, oldest first. */
export function listWorkspacesOf(db: Db, userId: string): Promise<Workspace[]> {
  return db
    .selectFrom('workspaces')
    .innerJoin('members', 'members.workspace_id', 'workspaces.id')
    .select(columns)
    .where('members.user_id', '=', userId)
    .orderBy('workspaces.created_at_ms')
    .orderBy('workspaces.id')
    .execute();
}

/** Every workspace with the number of its members, oldest first, `limit` of them. */
export function listWorkspaces(db: Db, limit: number): Promise<(Workspace & { members: number })[]> {
  return db
    .selectFrom('workspaces')
    .leftJoin('members', 'members.workspace_id', 'workspaces.id')
    .select(columns)
    .select((eb) => eb.fn.count<number>('members.user_id').as('members'))
    .groupBy(columns)
    .orderBy('workspaces.created_at_ms')
    .orderBy('workspaces.id')
    .limit(limit)
    .execute();
}

export function listMembershipsOf(
  db: Db,
  userId: string,
): Promise<Pick<MemberTable, 'workspace_id' | 'role'>[]> {
  return db.selectFrom('members').select(['workspace_id', 'role']).where('user_id', '=', userId).execute();
}

/** Keeps the memberships of a user from ending before the end of the transaction: what it stores then ends with them. */
export async function holdMemberships(store: Dialect, tx: Tx, userId: string): Promise<void> {
  // The embedded store has one writer, which this transaction is.
  if (store.hasOneWriter) return;
  await store.keepRows(tx.selectFrom('members').select('role').where('user_id', '=', userId)).execute();
}

/** Keeps a member from being removed before the end of the transaction. */
export function keepMember(
  tx: Tx,
  store: Pick<Dialect, 'keepRows'>,
  workspaceId: string,
  userId: string,
): Promise<Pick<MemberTable, 'role'> | undefined> {
  const member = tx.selectFrom('members').select('members.role').where('members.user_id', '=', userId);
  return store.keepRows(member.where('members.workspace_id', '=', workspaceId)).executeTakeFirst();
}

/** `orgname` is given, or made from the name and made unique. Throws CallerError `conflict` for a taken orgname. */
export async function insertWorkspace(
  tx: Tx,
  values: { name: string; orgname?: string; email: string; createdBy: string },
  nowMs: number,
): Promise<Workspace> {
  const first = values.orgname ?? orgnameOf(values.name);
  const { name, email, createdBy: created_by } = values;
  const made = { id: newId('o'), name, email, created_by, created_at_ms: nowMs };
  for (const orgname of values.orgname === undefined ? [first, `${first}-${newBase36Key(6)}`] : [first]) {
    const workspace: Workspace = { ...made, orgname };
    const { numInsertedOrUpdatedRows } = await tx
      .insertInto('workspaces')
      .values(workspace)
      .onConflict((conflict) => conflict.column('orgname').doNothing())
      .executeTakeFirst();
    if (numInsertedOrUpdatedRows !== 0n) return workspace;
  }
  throw new CallerError('conflict', 'a workspace with this orgname exists already', { parameter: 'orgname' });
}

export async function updateWorkspace(
  tx: Tx,
  id: string,
  changes: Partial<Pick<Workspace, 'name' | 'email'>>,
): Promise<void> {
  if (Object.keys(changes).length === 0) return;
  await tx.updateTable('workspaces').set(changes).where('id', '=', id).execute();
}

function orgnameOf(name: string): string {
  const slug = name
    .normalize('NFKD')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
    .slice(0, 50);
  return slug === '' ? 'workspace' : slug;
}

/** Oldest first. */
export function listMembers(db: Db, workspaceId: string): Promise<Member[]> {
  return db
    .selectFrom('members')
    .innerJoin('users', 'users.id', 'members.user_id')
    .select(memberColumns)
    .where('members.workspace_id', '=', workspaceId)
    .orderBy('members.created_at_ms')
    .orderBy('members.user_id')
    .limit(membersMax)
    .execute();
}

export function findMember(db: Db, workspaceId: string, userId: string): Promise<Member | undefined> {
  return db
    .selectFrom('members')
    .innerJoin('users', 'users.id', 'members.user_id')
    .select(memberColumns)
    .where('members.workspace_id', '=', workspaceId)
    .where('members.user_id', '=', userId)
    .executeTakeFirst();
}

/**
 * Adds a member, or changes the role of one. Throws CallerError `conflict` when that would leave no admin, when the
 * workspace is full, or when the user is in as many workspaces as may be. `mayLeaveNoAdmin`: groups of a provider decide, not members.
 */
export async function putMember(
  tx: Tx,
  store: Pick<Store, 'lockRows'>,
  values: { workspaceId: string; userId: string; role: Role; mayLeaveNoAdmin?: boolean },
  nowMs: number,
): Promise<void> {
  const { mayLeaveNoAdmin = false } = values;
  const members = await lockMembers(tx, store, values.workspaceId);
  const others = members.filter((member) => member.user_id !== values.userId);
  if (others.length >= membersMax) {
    throw new CallerError('conflict', `a workspace has at most ${membersMax} members`);
  }
  if (others.length === members.length && (await countMemberships(tx, values.userId)) >= membershipsMax) {
    throw new CallerError('conflict', `a user is in at most ${membershipsMax} workspaces`);
  }
  const isPerson = members.some((member) => member.user_id === values.userId && member.kind === 'person');
  if (isPerson && values.role !== 'admin' && !mayLeaveNoAdmin) refuseNoAdmin(others, 'role');
  await tx
    .insertInto('members')
    .values({
      workspace_id: values.workspaceId,
      user_id: values.userId,
      role: values.role,
      created_at_ms: nowMs,
    })
    .onConflict((conflict) =>
      conflict.columns(['workspace_id', 'user_id']).doUpdateSet({ role: values.role }),
    )
    .execute();
}

async function countMemberships(db: Db, userId: string): Promise<number> {
  const { count } = await db
    .selectFrom('members')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('user_id', '=', userId)
    .executeTakeFirstOrThrow();
  return Number(count);
}

/**
 * Removes a member. True when there was such a member. Throws CallerError `conflict` for the last admin, unless `mayLeaveNoAdmin`: groups
 * of a provider decide, not members.
 */
export async function deleteMember(
  tx: Tx,
  store: Pick<Store, 'lockRows'>,
  workspaceId: string,
  userId: string,
  { mayLeaveNoAdmin = false }: { mayLeaveNoAdmin?: boolean } = {},
): Promise<boolean> {
  const members = await lockMembers(tx, store, workspaceId);
  const others = members.filter((member) => member.user_id !== userId);
  if (others.length === members.length) return false;
  if (!mayLeaveNoAdmin) refuseNoAdmin(others, 'user_id');
  await tx
    .deleteFrom('members')
    .where('workspace_id', '=', workspaceId)
    .where('user_id', '=', userId)
    .execute();
  return true;
}

/** A member, with what decides whether a workspace has an admin. */
export interface LockedMember {
  user_id: string;
  role: Role;
  kind: UserKind;
  disabled_at_ms: number | null;
}

/** Changes of one workspace's members take turns, so that two admins cannot remove each other. */
export async function lockMembers(
  tx: Tx,
  store: Pick<Store, 'lockRows'>,
  workspaceId: string,
): Promise<LockedMember[]> {
  await store
    .lockRows(
      tx.selectFrom('workspaces').select('workspaces.id as id').where('workspaces.id', '=', workspaceId),
    )
    .execute();
  return tx
    .selectFrom('members')
    .innerJoin('users', 'users.id', 'members.user_id')
    .select(['members.user_id', 'members.role', 'users.kind', 'users.disabled_at_ms'])
    .where('members.workspace_id', '=', workspaceId)
    .execute();
}

/** A service account counts for nothing here, because it can lose all its keys, and neither does a user who is disabled. */
export function isEnabledAdmin({ role, kind, disabled_at_ms }: LockedMember): boolean {
  return role === 'admin' && kind === 'person' && disabled_at_ms === null;
}

function refuseNoAdmin(left: readonly LockedMember[], parameter: string): void {
  if (left.some(isEnabledAdmin)) return;
  throw new CallerError(
    'conflict',
    'a workspace needs at least one admin who is not disabled: make another member admin first',
    { parameter },
  );
}

/** Service accounts that are members of their workspace, oldest first, `limit` of them. */
export async function serviceAccountsOf(
  db: Db,
  workspaceId: string,
  limit: number,
): Promise<{ user: User; role: Role }[]> {
  const rows = await db
    .selectFrom('users')
    .innerJoin('members', (join) =>
      join.onRef('members.user_id', '=', 'users.id').on('members.workspace_id', '=', workspaceId),
    )
    .selectAll('users')
    .select('members.role as role')
    .where('users.workspace_id', '=', workspaceId)
    .where('users.kind', '=', 'service')
    .orderBy('users.created_at_ms')
    .orderBy('users.id')
    .limit(limit)
    .execute();
  return rows.map(({ role, ...user }) => ({ user, role }));
}

/** Removes a service account from its workspace. It is never the last admin, because only people count. */
export async function removeServiceMember(tx: Tx, workspaceId: string, userId: string): Promise<void> {
  await tx
    .deleteFrom('members')
    .where('workspace_id', '=', workspaceId)
    .where('user_id', '=', userId)
    .execute();
}
