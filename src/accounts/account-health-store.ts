import type { Tx } from '#storage/store.ts';
import type { AccountTable } from '#storage/tables/account-tables.ts';
import { type Account, findAccount } from './account-store.ts';

/** What is known of how well an account is. */
export type HealthColumns = Pick<
  AccountTable,
  | 'healthy'
  | 'dead'
  | 'error'
  | 'checked_at_ms'
  | 'next_check_at_ms'
  | 'check_failures'
  | 'next_refresh_at_ms'
>;

/** Writes the health found with the credentials of `version`. One statement decides whether the state is another one. */
export async function changeHealthAt(
  tx: Tx,
  { id, version }: Pick<Account, 'id' | 'version'>,
  columns: Partial<HealthColumns> & Pick<HealthColumns, 'healthy' | 'dead'>,
): Promise<'other state' | 'same state' | 'credentials changed'> {
  const { healthy, dead } = columns;
  const update = tx.updateTable('accounts').set(columns).where('id', '=', id).where('version', '=', version);
  for (;;) {
    const other = await update
      .where((where) => where.or([where('healthy', '!=', healthy), where('dead', '!=', dead)]))
      .executeTakeFirst();
    if (other.numUpdatedRows > 0n) return 'other state';
    const same = await update.where('healthy', '=', healthy).where('dead', '=', dead).executeTakeFirst();
    if (same.numUpdatedRows > 0n) return 'same state';
    // Either the credentials changed, or the state did between the two statements.
    if ((await findAccount(tx, id))?.version !== version) return 'credentials changed';
  }
}
