import type { Clock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import type { Store } from '#storage/store.ts';
import { type Caller, notFound } from './permissions.ts';
import { deleteSessionsOf } from './session-store.ts';
import {
  disableUserRow,
  enableUserRow,
  findUser,
  lockInstanceAdmins,
  lockUser,
  type User,
} from './user-store.ts';
import { findMember } from './workspace-store.ts';

/**
 * Disables a user: their keys are refused, their sessions and streams end, on every node. A user who is disabled stays so. The keys work
 * again when the user is enabled; sessions are gone. A reason that is undefined leaves the one that is there. Admins of the instance disable
 * each other, but not themselves, so one of them stays enabled. Throws CallerError `not_found`, `conflict` for the caller, or `forbidden` for
 * a caller who is no enabled admin any longer.
 */
export function disableUser(
  store: Store,
  caller: Caller,
  { userId, reason }: { userId: string; reason?: string | undefined },
  clock: Clock,
): Promise<User> {
  return store.transaction(async (tx) => {
    // Two admins who disable each other must not both succeed.
    await lockInstanceAdmins(tx, store);
    await lockUser(tx, store, userId);
    const user = await findUser(tx, userId);
    if (user === undefined) throw notFound('user', userId);
    if (userId === caller.userId) {
      throw new CallerError(
        'conflict',
        'you cannot disable yourself: another admin of the instance can disable you',
        { parameter: 'id' },
      );
    }
    const admin = await findUser(tx, caller.userId);
    if (admin?.is_admin !== 1 || admin.disabled_at_ms !== null)
      throw new CallerError('forbidden', 'you are no admin of the instance any longer');
    const disabledAtMs = user.disabled_at_ms ?? clock.now();
    const disabledReason = reason ?? user.disabled_reason;
    await disableUserRow(tx, userId, { nowMs: disabledAtMs, reason: disabledReason });
    await deleteSessionsOf(tx, userId, undefined);
    await store.notify(tx, 'millrace_access', userId);
    return { ...user, disabled_at_ms: disabledAtMs, disabled_reason: disabledReason };
  });
}

/**
 * Enables a user again. Throws CallerError `not_found`, or `conflict` for a user who is not disabled and for a service account that was
 * removed.
 */
export function enableUser(store: Store, userId: string): Promise<User> {
  return store.transaction(async (tx) => {
    await lockUser(tx, store, userId);
    const user = await findUser(tx, userId);
    if (user === undefined) throw notFound('user', userId);
    if (user.workspace_id !== null && (await findMember(tx, user.workspace_id, userId)) === undefined) {
      throw new CallerError(
        'conflict',
        'this service account was removed from its workspace: make another one',
        {
          parameter: 'id',
        },
      );
    }
    if (user.disabled_at_ms === null) {
      throw new CallerError('conflict', 'this user is not disabled: there is nothing to enable', {
        parameter: 'id',
      });
    }
    await enableUserRow(tx, userId);
    return { ...user, disabled_at_ms: null, disabled_reason: null };
  });
}
