import { apiKeysOf, markRevoked } from '#identity/api-key-store.ts';
import { notFound } from '#identity/permissions.ts';
import { lockUser } from '#identity/user-store.ts';
import { CallerError } from '#lib/errors.ts';
import { pageOf } from '#storage/page.ts';
import type { Store, Tx } from '#storage/store.ts';
import { applyGroups, type GroupOptions } from './apply-groups.ts';
import { deleteIdentity, listIdentitiesOf } from './identity-store.ts';

/**
 * Unlinks an account at the provider from its user: sessions that began with it end, and what its groups gave is taken away. Returns
 * the accounts whose uses ended. Throws CallerError `not_found`, or `conflict` for a user who has no other way to sign in.
 */
export async function unlinkIdentity(
  tx: Tx,
  options: Omit<GroupOptions, 'store' | 'grants' | 'admitPerson'> & { store: Pick<Store, 'lockRows'> },
  { userId, id }: { userId: string; id: string },
  nowMs: number,
): Promise<string[]> {
  await lockUser(tx, options.store, userId);
  const identities = await listIdentitiesOf(tx, userId);
  const identity = identities.find((it) => it.id === id);
  if (identity === undefined) throw notFound('identity', id);
  const { totalCount } = await pageOf(apiKeysOf(tx, userId), { limit: 1 });
  if (totalCount === 0 && identities.length === 1) {
    throw new CallerError('conflict', 'this is your only way to sign in: create an API key first');
  }
  const none = { ...options, grants: [], admitPerson: () => undefined };
  const { accountIds } = await applyGroups(tx, none, { identity, groups: [] }, nowMs);
  await deleteIdentity(tx, id);
  await markRevoked(tx, identity.key_id, nowMs);
  return accountIds;
}
