import type { Clock } from '#lib/clock.ts';
import type { Logger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import type { Vault } from '#vault/vault.ts';
import { type Account, selectAccounts } from './account-store.ts';
import { deleteAccount } from './manage-accounts.ts';
import { openGrant } from './open-grant.ts';

export interface RemovalOptions {
  store: Store;
  vault: Vault;
  clock: Clock;
  logger: Logger;
  /** What is held of the credentials of an account is out of date. */
  onChange: (accountId: string) => void;
  /** Resolves whatever the provider answers. */
  revoke: (account: Account, credentials: Record<string, unknown>) => Promise<void>;
}

/** Accounts whose providers are told at the same time. */
const atOnce = 8;

/** Removes the accounts of an owner, a few at a time. After `untilMs` the rest stays. */
export async function removeAccountsOf(
  options: RemovalOptions,
  ownerId: string,
  { untilMs, signal }: { untilMs: number; signal: AbortSignal },
): Promise<void> {
  const { store, clock } = options;
  while (clock.now() < untilMs) {
    signal.throwIfAborted();
    const { rows } = await selectAccounts(store.read, { ownerIds: [ownerId] }, { limit: atOnce });
    if (rows.length === 0) return;
    await Promise.all(rows.map((account) => removeOne(options, account)));
  }
}

async function removeOne(options: RemovalOptions, account: Account): Promise<void> {
  const granted = await options.store.transaction(async (tx) => {
    const opened = await openGrant(tx, options, account);
    await deleteAccount(tx, account.id, [account.owner_id]);
    return opened;
  });
  options.onChange(account.id);
  // Waited for, because the OAuth client that it needs goes next.
  if (granted !== undefined) await options.revoke(account, granted);
}
