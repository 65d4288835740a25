import type { Clock } from '#lib/clock.ts';
import { newSecret } from '#lib/ids.ts';
import type { Store, Tx } from '#storage/store.ts';
import { insertApiKey } from './api-key-store.ts';
import { insertUser, lockUser, type User } from './user-store.ts';
import { insertWorkspace, putMember, type Workspace } from './workspace-store.ts';

/** A user with a first API key, which is shown once. Throws CallerError `conflict`. */
export function createUser(
  store: Store,
  values: { username: string; email: string; isAdmin?: boolean },
  clock: Clock,
): Promise<{ user: User; secret: string }> {
  const secret = newSecret();
  return store.transaction(async (tx) => {
    const { username, email, isAdmin = false } = values;
    const user = await insertUser(tx, { username, email, isAdmin }, clock.now());
    await insertApiKey(tx, { userId: user.id, name: 'first key', secret }, clock.now());
    return { user, secret };
  });
}

/** A workspace whose admin is `user`. `mayCreate` throws when the user may have no further one. Throws CallerError `conflict`. */
export function createWorkspace(
  store: Store,
  values: { name: string; orgname?: string; email?: string; user: Pick<User, 'id' | 'email'> },
  { clock, mayCreate }: { clock: Clock; mayCreate?: (tx: Tx) => Promise<void> },
): Promise<Workspace> {
  return store.transaction(async (tx) => {
    const { name, orgname, email, user } = values;
    if (mayCreate !== undefined) {
      // Requests of one user take turns, so that each counts the workspaces of those before it.
      await lockUser(tx, store, user.id);
      await mayCreate(tx);
    }
    const workspace = await insertWorkspace(
      tx,
      { name, ...(orgname !== undefined && { orgname }), email: email ?? user.email, createdBy: user.id },
      clock.now(),
    );
    await putMember(tx, store, { workspaceId: workspace.id, userId: user.id, role: 'admin' }, clock.now());
    return workspace;
  });
}
