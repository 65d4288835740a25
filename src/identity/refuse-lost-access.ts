import { CallerError } from '#lib/errors.ts';
import type { Store, Tx } from '#storage/store.ts';
import { findClient } from './api-client-store.ts';
import { refuseDeleted } from './deletion-store.ts';
import { keepUser } from './user-store.ts';
import { keepMember } from './workspace-store.ts';

/** The user who makes something, and the owner that it will belong to. */
export interface Maker {
  /** u_… or o_…. */
  ownerId: string;
  /** u_…, or oac_… for an access token of an OAuth client. */
  userId: string;
}

/**
 * Called in transactions that make what runs by itself, after work that may take minutes: a user who was disabled or removed from the workspace
 * meanwhile makes nothing. Throws CallerError `not_found` for an owner that was deleted, and `forbidden`.
 */
export async function refuseLostAccess(
  tx: Tx,
  store: Pick<Store, 'keepRows'>,
  { ownerId, userId }: Maker,
): Promise<void> {
  await refuseDeleted(tx, ownerId);
  if (userId.startsWith('oac_')) {
    const client = await findClient(tx, userId);
    if (client?.workspace_id === ownerId && client.revoked_at_ms === null) return;
    throw lost('this OAuth client was deleted');
  }
  const user = await keepUser(tx, store, userId);
  if (user !== undefined && user.disabled_at_ms !== null) throw lost('this user was disabled');
  if (ownerId === userId) return;
  const role = (await keepMember(tx, store, ownerId, userId))?.role;
  if (role === undefined) throw lost('you left this workspace');
  if (role === 'viewer') throw lost('you became a viewer of this workspace');
}

function lost(what: string): CallerError {
  return new CallerError('forbidden', `${what} while the request was under way; nothing was changed`);
}
