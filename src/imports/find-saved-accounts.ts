import { findAccount, findAccountsByName } from '#accounts/account-store.ts';
import type { Db } from '#storage/store.ts';
import type { SavedAccount } from './saved-accounts.ts';

/**
 * The accounts here that were saved, by their places. One that is not here by its id is the only one of its app with its name, where the
 * bundle comes to another workspace or service; the rest is not in it, and asked for again.
 */
export async function findSavedAccounts(
  db: Db,
  saved: readonly SavedAccount[],
  owners: readonly string[],
): Promise<Record<string, string>> {
  const found: [place: string, id: string][] = [];
  for (const { place, id, app, name } of saved) {
    const same = /^apn_\w+$/.test(id) ? await findAccount(db, id) : undefined;
    if (same !== undefined && owners.includes(same.owner_id)) {
      found.push([place, same.id]);
      continue;
    }
    if (name === '' || `${app}${name}`.includes('\0')) continue;
    const [only, other] = await findAccountsByName(db, { ownerIds: owners, app, name });
    if (only !== undefined && other === undefined) found.push([place, only.id]);
  }
  return Object.fromEntries(found);
}
