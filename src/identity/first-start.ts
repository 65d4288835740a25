import { chmod, open, rename } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '#lib/clock.ts';
import { newSecret } from '#lib/ids.ts';
import type { Store } from '#storage/store.ts';
import { insertApiKey } from './api-key-store.ts';
import { insertProject } from './project-store.ts';
import { hasUsers, insertUser } from './user-store.ts';
import { insertWorkspace, putMember } from './workspace-store.ts';

export interface FirstStart {
  /** In clear; also in `keyFile`. */
  apiKey: string;
  /** True: the key was made here, so it is printed once. One that was given is known already, and stays out of the log. */
  isKeyMade: boolean;
  keyFile: string;
  userId: string;
  workspaceId: string;
  projectId: string;
}

/**
 * On an empty store: the first user (instance admin), a workspace, a project and an API key, all or nothing, and the key
 * in a file only its owner can read. Undefined when there are users already. Nodes that start together on one database
 * take turns; only one of them creates. The file is written before the commit: a crash may leave a file whose key is
 * unknown (the next start replaces it), never a stored key that is in no file.
 */
export async function firstStart(
  store: Store,
  options: { folder: string; apiKey: string; clock: Clock },
): Promise<FirstStart | undefined> {
  if (await hasUsers(store.read)) return undefined;
  return store.transaction(async (tx) => {
    await store.takeTurn(tx, 'firstStart');
    if (await hasUsers(tx)) return undefined;
    const nowMs = options.clock.now();
    const user = await insertUser(tx, { username: 'admin', email: 'admin@localhost', isAdmin: true }, nowMs);
    const workspace = await insertWorkspace(
      tx,
      { name: 'Main', email: user.email, createdBy: user.id },
      nowMs,
    );
    await putMember(tx, store, { workspaceId: workspace.id, userId: user.id, role: 'admin' }, nowMs);
    const project = await insertProject(tx, { workspaceId: workspace.id, name: 'Main' }, nowMs);
    const isKeyMade = options.apiKey === '';
    const apiKey = isKeyMade ? newSecret() : options.apiKey;
    await insertApiKey(tx, { userId: user.id, name: 'first key', secret: apiKey }, nowMs);
    const keyFile = join(options.folder, 'api-key');
    await writePrivateFile(keyFile, `${apiKey}\n`);
    return { apiKey, isKeyMade, keyFile, userId: user.id, workspaceId: workspace.id, projectId: project.id };
  });
}

async function writePrivateFile(path: string, text: string): Promise<void> {
  const fresh = `${path}.new`;
  const file = await open(fresh, 'w', 0o600);
  try {
    // The mode given to `open` counts only for a file that was not there.
    await chmod(fresh, 0o600);
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(fresh, path);
}
