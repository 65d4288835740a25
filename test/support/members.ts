import type { Store } from '#storage/store.ts';
import type { Role } from '#storage/tables/identity-tables.ts';

/** Makes users members of a workspace; what of these is not there yet is made too. */
export async function makeMembers(
  store: Store,
  workspaceId: string,
  roleOfUser: Record<string, Role>,
): Promise<void> {
  await store.transaction(async (tx) => {
    await tx
      .insertInto('workspaces')
      .values({
        id: workspaceId,
        orgname: workspaceId,
        name: workspaceId,
        email: 'team@example.com',
        created_at_ms: 0,
      })
      .onConflict((conflict) => conflict.doNothing())
      .execute();
    for (const [id, role] of Object.entries(roleOfUser)) {
      await tx
        .insertInto('users')
        .values({
          id,
          username: id,
          email: `${id}@example.com`,
          is_admin: 0,
          kind: 'person',
          workspace_id: null,
          created_by: null,
          disabled_at_ms: null,
          created_at_ms: 0,
        })
        .onConflict((conflict) => conflict.doNothing())
        .execute();
      await tx
        .insertInto('members')
        .values({ workspace_id: workspaceId, user_id: id, role, created_at_ms: 0 })
        .execute();
    }
  });
}
