import { CallerError } from '#lib/errors.ts';
import type { Store } from '#storage/store.ts';
import { notFound } from './permissions.ts';
import { findUser, lockUser, setUserEmail, type User } from './user-store.ts';

/**
 * Gives a user another e-mail address. Mail that workflows of the user send goes there from then on. Throws CallerError `not_found`, or
 * `conflict` when another user has the address and for a service account, which has none.
 */
export function changeUser(store: Store, userId: string, { email }: { email: string }): Promise<User> {
  return store.transaction(async (tx) => {
    await lockUser(tx, store, userId);
    const user = await findUser(tx, userId);
    if (user === undefined) throw notFound('user', userId);
    if (user.kind === 'service') {
      throw new CallerError('conflict', 'a service account has no e-mail address that could be changed', {
        parameter: 'id',
      });
    }
    await setUserEmail(tx, userId, email);
    return { ...user, email };
  });
}
