import type { Db, Tx } from '#storage/store.ts';
import type { AccountTable } from '#storage/tables/account-tables.ts';
import { type Account, findAccount } from './account-store.ts';

/** The columns about the health of an account. */
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

/** Writes the health found with the credentials of `version`. One statement decides whether the state changed. */
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

/** The last change of health that was reported. */
export async function lastTold(tx: Tx, accountId: string): Promise<string | undefined> {
  const row = await tx
    .selectFrom('account_audit')
    .select('action')
    .where('account_id', '=', accountId)
    .where('action', 'in', ['became_healthy', 'became_unhealthy'])
    .orderBy('created_at_ms', 'desc')
    .limit(1)
    .executeTakeFirst();
  return row?.action;
}

/** The kind of due work on accounts, by the column of its time. */
export type DueColumn = 'next_refresh_at_ms' | 'next_check_at_ms';

export interface DueAccount {
  id: string;
  version: number;
  owner_id: string;
  app_slug: string;
  due_at_ms: number;
}

/** Due accounts, the one that waits longest first, except those that must not be begun now. */
export async function dueAccounts(
  db: Db,
  options: {
    column: DueColumn;
    nowMs: number;
    but: { ids: readonly string[]; apps: readonly string[]; owners: readonly string[] };
    limit: number;
  },
): Promise<DueAccount[]> {
  const { column, nowMs, but, limit } = options;
  let query = db
    .selectFrom('accounts')
    .select(['id', 'version', 'owner_id', 'app_slug'])
    .select((select) => select.ref(column).$notNull().as('due_at_ms'))
    .where(column, '<=', nowMs)
    .where('dead', '=', 0);
  if (but.ids.length > 0) query = query.where('id', 'not in', [...but.ids]);
  if (but.apps.length > 0) query = query.where('app_slug', 'not in', [...but.apps]);
  if (but.owners.length > 0) query = query.where('owner_id', 'not in', [...but.owners]);
  return query.orderBy(column).limit(limit).execute();
}

/** Postpones a due task, unless another node postponed or did it. True: it was postponed. */
export async function putOff(
  tx: Tx,
  column: DueColumn,
  { id, version, due_at_ms }: Pick<DueAccount, 'id' | 'version' | 'due_at_ms'>,
  untilMs: number,
): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('accounts')
    .set({ [column]: untilMs })
    .where('id', '=', id)
    .where('version', '=', version)
    .where(column, '=', due_at_ms)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/**
 * Makes work that was planned by a clock ahead of this one due now: tests later than any is planned, and refreshes of
 * tokens that were issued in the future. Returns how many.
 */
export async function restartDue(
  tx: Tx,
  { nowMs, latestCheckMs, latestGrantMs }: { nowMs: number; latestCheckMs: number; latestGrantMs: number },
): Promise<number> {
  const checks = await tx
    .updateTable('accounts')
    .set({ next_check_at_ms: nowMs })
    .where('next_check_at_ms', '>', latestCheckMs)
    .executeTakeFirst();
  const refreshes = await tx
    .updateTable('accounts')
    .set({ next_refresh_at_ms: nowMs })
    .where('next_refresh_at_ms', '>', nowMs)
    .where((where) => where(where.fn.coalesce('last_refreshed_at_ms', 'created_at_ms'), '>', latestGrantMs))
    .executeTakeFirst();
  return Number(checks.numUpdatedRows + refreshes.numUpdatedRows);
}
