import { endGrantsOf } from '#accounts/account-uses-store.ts';
import { endSubscriptionsOfMember } from '#delivery/subscriptions/manage-subscriptions.ts';
import type { Store, Tx } from '#storage/store.ts';
import { deleteTriggersOfMember } from '#workflows/definitions/trigger-store.ts';

/**
 * Ends what joins a workspace and a user who is no longer its member: triggers, subscriptions, and uses of the user's accounts. Returns
 * the ids of these accounts.
 */
export async function endMembership(
  store: Store,
  tx: Tx,
  member: { workspaceId: string; userId: string },
  nowMs: number,
): Promise<string[]> {
  await deleteTriggersOfMember(tx, member);
  await endSubscriptionsOfMember(store, tx, member, nowMs);
  return endGrantsOf(tx, member);
}
