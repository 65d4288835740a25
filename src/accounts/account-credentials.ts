import { notFound } from '#auth/permissions.ts';
import type { Db } from '#storage/store.ts';
import { openObject } from '#vault/sealed-values.ts';
import type { Vault } from '#vault/vault.ts';
import { findSealedAccount } from './account-store.ts';

/**
 * The credentials of an account of one of `ownerIds`, as they are stored: what a component sees as `$auth`.
 * Throws CallerError `not_found`; UnavailableError `wrong_encryption_key` or `sealed_value_damaged`.
 */
export async function openCredentials(
  db: Db,
  vault: Vault,
  id: string,
  ownerIds: readonly string[],
): Promise<Record<string, unknown>> {
  const found = await findSealedAccount(db, id);
  if (found === undefined || !ownerIds.includes(found.owner_id)) throw notFound('account', id);
  return openObject(db, vault, { ownerId: found.owner_id, id, sealed: found.sealed });
}
