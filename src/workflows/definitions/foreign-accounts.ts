import type { Db } from '#storage/store.ts';
import { deploymentAccounts } from './workflow-store.ts';

/**
 * The id of an account that steps of a deployment use and whose owner is none of `owners`: a personal account of a member who has agreed to
 * this code and to what its steps hand on, and to nothing else. Undefined: there is none.
 * @param usedIn JSON of the props of the steps that count. Absent: all steps.
 */
export async function foreignAccountOf(
  db: Db,
  deploymentId: string,
  { owners, usedIn }: { owners: readonly string[]; usedIn?: string },
): Promise<string | undefined> {
  const accounts = await deploymentAccounts(db, deploymentId);
  return accounts.find(
    ({ account_id: id, owner_id }) => !owners.includes(owner_id) && usedIn?.includes(id) !== false,
  )?.account_id;
}
