import { UnavailableError } from '#lib/errors.ts';
import type { Logger } from '#lib/logger.ts';
import type { Db } from '#storage/store.ts';
import type { Vault } from '#vault/vault.ts';
import { openCredentials } from './account-credentials.ts';
import type { Account } from './account-store.ts';

const unopened: ReadonlySet<string> = new Set(['wrong_encryption_key', 'sealed_value_damaged']);

/** What can be revoked; undefined also where it cannot be opened, which must not keep the account from being deleted. */
export async function openGrant(
  db: Db,
  { vault, logger }: { vault: Vault; logger: Logger },
  { id, owner_id: ownerId, grant_type: type }: Account,
): Promise<Record<string, unknown> | undefined> {
  if (type === 'keys') return undefined;
  try {
    return await openCredentials(db, vault, id, [ownerId]);
  } catch (error) {
    if (!(error instanceof UnavailableError) || !unopened.has(error.code)) throw error;
    logger.warn({ account: id, error: error.message }, 'account.grant-not-revoked');
    return undefined;
  }
}
