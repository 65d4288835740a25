import { findAccount } from '#accounts/account-store.ts';
import { propError } from '#components/validate-props.ts';
import { CallerError } from '#lib/errors.ts';
import type { Db } from '#storage/store.ts';
import type { SourceAccount } from './source-store.ts';

/**
 * The accounts that props name. Throws `not_found` or `invalid_prop` that names the prop whose account is not one of
 * `owners`; those `refused` are in use already, but not the caller's to put to another use.
 */
export async function checkAccounts(
  db: Db,
  props: readonly { prop: string; accountId: string }[],
  owners: readonly string[],
  refused: readonly SourceAccount[],
): Promise<SourceAccount[]> {
  const accounts = new Map<string, SourceAccount>();
  for (const { prop, accountId } of props) {
    // The value may be any text, even one that a database refuses.
    const account = /^apn_\w+$/.test(accountId) ? await findAccount(db, accountId) : undefined;
    if (account !== undefined && owners.includes(account.owner_id)) {
      accounts.set(accountId, { account_id: accountId, owner_id: account.owner_id });
    } else if (account !== undefined && refused.some((one) => one.account_id === accountId)) {
      throw propError(
        prop,
        'this account belongs to another member, who has not agreed to other code or props for it; ' +
          'choose one of the workspace or of your own',
      );
    } else {
      const parameter = `configured_props.${prop}`;
      throw new CallerError('not_found', `${parameter}: no account ${JSON.stringify(accountId)}`, {
        parameter,
      });
    }
  }
  return [...accounts.values()];
}
