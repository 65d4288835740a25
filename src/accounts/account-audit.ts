import { type Caller, notFound, ownersOf } from '#identity/permissions.ts';
import type { Page, PageRequest } from '#storage/page.ts';
import type { Db } from '#storage/store.ts';
import type { AccountAuditTable, AuditAction } from '#storage/tables/account-tables.ts';
import { type Actor, findAuditOwner, selectAudit } from './account-audit-store.ts';
import { refuseUnlessChanger } from './account-rights.ts';
import { findAccount } from './account-store.ts';
import { appIdOf } from './apps/app-id.ts';

export function actorOf({ userId, keyId }: Caller): Actor {
  return { userId, keyId };
}

/**
 * What was done with an account, for those who may change it. What is left of one that was deleted is for admins of
 * its owner. Throws CallerError `not_found`, `forbidden` or `unknown_cursor`.
 */
export async function auditOfAccount(
  db: Db,
  caller: Caller,
  filter: { accountId: string; action?: AuditAction },
  page: PageRequest,
): Promise<Page<AccountAuditTable>> {
  const { accountId } = filter;
  // All three queries run in any case, so that an id of another owner cannot be distinguished from one that never existed.
  const owners = await ownersOf(db, caller);
  const account = await findAccount(db, accountId);
  const formerOwner = await findAuditOwner(db, accountId);
  const ownerId = account?.owner_id ?? formerOwner;
  if (ownerId === undefined || !owners.mayRead(ownerId)) throw notFound('account', accountId);
  if (account !== undefined) refuseUnlessChanger(owners, caller, account);
  else if (!owners.mayAdminister(ownerId)) throw notFound('account', accountId);
  return selectAudit(db, { ...filter, ownerId }, page);
}

/** As the API answers it. */
export function viewAudit(row: AccountAuditTable) {
  return {
    id: row.id,
    account_id: row.account_id,
    app: { id: appIdOf(row.app_slug), name_slug: row.app_slug },
    action: row.action,
    user_id: row.user_id,
    key_id: row.key_id,
    details: JSON.parse(row.details) as Record<string, unknown>,
    created_at: new Date(row.created_at_ms).toISOString(),
  };
}
