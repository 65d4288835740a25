import { type Caller, notFound, type Ownership, ownersOf } from '#identity/permissions.ts';
import { CallerError } from '#lib/errors.ts';
import type { Db } from '#storage/store.ts';
import { type Account, findAccount } from './account-store.ts';

/**
 * There are three rights on an account:
 * - see: that it exists, and its health; for every user who may read what its owner has;
 * - use: put it into a source or workflow; for members and admins of its owner (sources/check-accounts.ts checks it: a
 *   source or workflow takes accounts of its own owner, in which the deployer may write, and of the deployer);
 * - change: read its credentials, rename, replace and delete it, see who did so; for the user who created it, as long as they are a
 *   member of its owner, and for admins.
 */
export function mayChange(owners: Ownership, caller: Caller, account: Account): boolean {
  const { owner_id: ownerId } = account;
  return owners.mayAdminister(ownerId) || (owners.mayWrite(ownerId) && account.user_id === caller.userId);
}

/**
 * The account, with at least this right. Throws CallerError `forbidden` for those who may see it, and one and the same
 * `not_found`, after the same statements, for all other callers and for an id that nothing has.
 */
export async function requireAccount(
  db: Db,
  caller: Caller,
  id: string,
  right: 'see' | 'change',
  parameter = 'id',
): Promise<Account> {
  const owners = await ownersOf(db, caller);
  const account = await findAccount(db, id);
  if (account === undefined || !owners.mayRead(account.owner_id)) throw notFound('account', id, parameter);
  if (right === 'change') refuseUnlessChanger(owners, caller, account);
  return account;
}

/** For those who may see it. Throws CallerError `forbidden`. */
export function refuseUnlessChanger(owners: Ownership, caller: Caller, account: Account): void {
  if (mayChange(owners, caller, account)) return;
  const allowed =
    'only who created it, as long as they are a member of this workspace, and admins of the workspace may read its ' +
    'credentials or change it';
  throw new CallerError(
    'forbidden',
    owners.mayWrite(account.owner_id)
      ? `you may use account ${account.id} in sources and workflows, but ${allowed}`
      : `you may see account ${account.id}, but ${allowed}`,
  );
}
