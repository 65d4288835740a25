import type { Clock } from '#lib/clock.ts';
import { newSecret } from '#lib/ids.ts';
import type { Store } from '#storage/store.ts';
import { insertApiKey } from './api-key-store.ts';
import { insertUser, type User } from './user-store.ts';
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

/** A workspace whose admin is `user`. Throws CallerError `conflict`. */
export function createWorkspace(
  store: Store,
  values: { name: string; orgname?: string; email?: string; user: Pick<User, 'id' | 'email'> },
  clock: Clock,
): Promise<Workspace> {
  return store.transaction(async (tx) => {
    const { name, orgname, email, user } = values;
    const workspace = await insertWorkspace(
      tx,
      { name, ...(orgname !== undefined && { orgname }), email: email ?? user.email },
      clock.now(),
    );
    await putMember(tx, store, { workspaceId: workspace.id, userId: user.id, role: 'admin' }, clock.now());
    return workspace;
  });
}
