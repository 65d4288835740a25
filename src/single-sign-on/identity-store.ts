import type { Db, Tx } from '#storage/store.ts';
import type { Role, UserIdentityTable } from '#storage/tables/identity-tables.ts';

export type UserIdentity = UserIdentityTable;

/** How many used sign-ins that are over go with each new one: more than come. */
const prunedAtOnce = 20;

const columns = [
  'id',
  'user_id',
  'issuer',
  'subject',
  'email',
  'key_id',
  'admin_by_groups',
  'created_at_ms',
  'signed_in_at_ms',
] as const;

export function findIdentity(
  db: Db,
  { issuer, subject }: Pick<UserIdentity, 'issuer' | 'subject'>,
): Promise<UserIdentity | undefined> {
  return db
    .selectFrom('user_identities')
    .select(columns)
    .where('issuer', '=', issuer)
    .where('subject', '=', subject)
    .executeTakeFirst();
}

export function findIdentityByKey(db: Db, keyId: string): Promise<UserIdentity | undefined> {
  return db.selectFrom('user_identities').select(columns).where('key_id', '=', keyId).executeTakeFirst();
}

/** The identities of one user, oldest first. */
export function listIdentitiesOf(db: Db, userId: string): Promise<UserIdentity[]> {
  return db
    .selectFrom('user_identities')
    .select(columns)
    .where('user_id', '=', userId)
    .orderBy('created_at_ms')
    .orderBy('id')
    .execute();
}

export async function insertIdentity(tx: Tx, identity: UserIdentity): Promise<void> {
  await tx.insertInto('user_identities').values(identity).execute();
}

export async function changeIdentity(
  tx: Tx,
  id: string,
  changes: Partial<Pick<UserIdentity, 'email' | 'admin_by_groups' | 'signed_in_at_ms'>>,
): Promise<void> {
  await tx.updateTable('user_identities').set(changes).where('id', '=', id).execute();
}

export async function deleteIdentity(tx: Tx, id: string): Promise<void> {
  await tx.deleteFrom('user_identities').where('id', '=', id).execute();
}

/** Memberships that groups gave and no admin has changed since, with the role that the groups gave. */
export async function listGroupMemberships(
  db: Db,
  userId: string,
): Promise<{ workspaceId: string; role: Role }[]> {
  const rows = await db
    .selectFrom('group_memberships')
    .innerJoin('members', (join) =>
      join
        .onRef('members.workspace_id', '=', 'group_memberships.workspace_id')
        .onRef('members.user_id', '=', 'group_memberships.user_id')
        .onRef('members.role', '=', 'group_memberships.role'),
    )
    .select(['group_memberships.workspace_id', 'group_memberships.role'])
    .where('group_memberships.user_id', '=', userId)
    .orderBy('group_memberships.workspace_id')
    .execute();
  return rows.map(({ workspace_id, role }) => ({ workspaceId: workspace_id, role }));
}

/** Notes that groups gave this membership, which is stored already. */
export async function putGroupMembership(
  tx: Tx,
  membership: { workspaceId: string; userId: string; role: Role },
): Promise<void> {
  const { workspaceId, userId, role } = membership;
  await tx
    .insertInto('group_memberships')
    .values({ workspace_id: workspaceId, user_id: userId, role })
    .onConflict((conflict) => conflict.columns(['workspace_id', 'user_id']).doUpdateSet({ role }))
    .execute();
}

/** The membership, where it still exists, is one by hand from now on. */
export async function deleteGroupMembership(
  tx: Tx,
  { workspaceId, userId }: { workspaceId: string; userId: string },
): Promise<void> {
  await tx
    .deleteFrom('group_memberships')
    .where('workspace_id', '=', workspaceId)
    .where('user_id', '=', userId)
    .execute();
}

/** Marks a sign-in as used, and forgets some that are over. False: it was used already. */
export async function takeSignIn(
  tx: Tx,
  signIn: { stateHash: string; expiresAtMs: number },
  nowMs: number,
): Promise<boolean> {
  const over = tx
    .selectFrom('used_sign_ins')
    .select('state_hash')
    .where('expires_at_ms', '<', nowMs)
    .orderBy('expires_at_ms')
    .limit(prunedAtOnce);
  await tx.deleteFrom('used_sign_ins').where('state_hash', 'in', over).execute();
  const { numInsertedOrUpdatedRows } = await tx
    .insertInto('used_sign_ins')
    .values({ state_hash: signIn.stateHash, expires_at_ms: signIn.expiresAtMs })
    .onConflict((conflict) => conflict.column('state_hash').doNothing())
    .executeTakeFirst();
  return numInsertedOrUpdatedRows === 1n;
}
