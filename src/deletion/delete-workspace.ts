import { type Caller, notFound, requireWorkspace } from '#identity/permissions.ts';
import { lockWorkspace } from '#identity/workspace-store.ts';
import type { Clock } from '#lib/clock.ts';
import type { Store } from '#storage/store.ts';
import type { DeletionTable } from '#storage/tables/deletion-tables.ts';
import { beginDeletion, refuseHeld, requireName } from './begin-deletion.ts';

/**
 * Deletes a workspace; for its admins. Throws CallerError `not_found`, `forbidden`, `invalid_parameter` for another orgname than its own, or
 * `conflict` while it is under a legal hold.
 */
export function deleteWorkspace(
  store: Store,
  caller: Caller,
  { workspaceId, orgname }: { workspaceId: string; orgname: string },
  clock: Clock,
): Promise<DeletionTable> {
  return store.transaction(async (tx) => {
    await requireWorkspace(tx, caller, workspaceId, 'administer');
    const workspace = await lockWorkspace(tx, store, workspaceId);
    if (workspace === undefined) throw notFound('workspace', workspaceId);
    requireName('orgname', orgname, workspace.orgname);
    await refuseHeld(tx, workspace);
    const subject = {
      kind: 'workspace',
      id: workspaceId,
      name: orgname,
      requestedBy: caller.userId,
    } as const;
    return beginDeletion(store, tx, subject, clock.now());
  });
}
