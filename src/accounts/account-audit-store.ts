import type { RemoveOfOwner } from '#identity/retention-pruner.ts';
import { isAsInstance } from '#identity/retention-store.ts';
import { newId } from '#lib/ids.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import { rowsPerInsert } from '#storage/insert-rows.ts';
import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db, Tx } from '#storage/store.ts';
import type { AccountAuditTable, AuditAction } from '#storage/tables/account-tables.ts';
import type { Account } from './account-store.ts';

/** The actor of an audited action: a user with a key, or the service itself. */
export interface Actor {
  userId: string | null;
  keyId: string | null;
}

/** The service itself, such as a refresh that was due. */
export const theService: Actor = { userId: null, keyId: null };

export interface AuditEntry {
  account: Pick<Account, 'id' | 'owner_id' | 'app_slug'>;
  action: AuditAction;
  actor: Actor;
  /** Without secrets. */
  details?: Record<string, unknown>;
  nowMs: number;
}

/** In the transaction of what was done, so that neither is there without the other. */
export async function recordAudit(tx: Tx, ...entries: AuditEntry[]): Promise<void> {
  const rows = entries.map(({ account, action, actor, details = {}, nowMs }) => ({
    id: newId('aud'),
    owner_id: account.owner_id,
    account_id: account.id,
    app_slug: account.app_slug,
    action,
    user_id: actor.userId,
    key_id: actor.keyId,
    details: JSON.stringify(details),
    created_at_ms: nowMs,
  }));
  for (let at = 0; at < rows.length; at += rowsPerInsert)
    await tx
      .insertInto('account_audit')
      .values(rows.slice(at, at + rowsPerInsert))
      .execute();
}

/** For what changes nothing else: programs read credentials often, and each read is on disk before it is answered. */
export const recordReads: BatchWrite<AuditEntry[], void> = {
  name: 'record-credential-reads',
  ownerOf: ([first]) => first?.account.owner_id,
  async run(tx, reads) {
    await recordAudit(tx, ...reads.flat());
    return reads.map(() => undefined);
  },
};

/** What was done with accounts, newest first: with one of them, or with all that an owner has or had. */
export async function selectAudit(
  db: Db,
  filter: { ownerId: string; accountId?: string; action?: AuditAction; userId?: string },
  page: PageRequest,
): Promise<Page<AccountAuditTable>> {
  const { ownerId, accountId, action, userId } = filter;
  let query = db.selectFrom('account_audit').select(auditColumns).where('owner_id', '=', ownerId);
  if (accountId !== undefined) query = query.where('account_id', '=', accountId);
  if (action !== undefined) query = query.where('action', '=', action);
  if (userId !== undefined) query = query.where('user_id', '=', userId);
  return pageOf(query, page);
}

const auditColumns = [
  'id',
  'owner_id',
  'account_id',
  'app_slug',
  'action',
  'user_id',
  'key_id',
  'details',
  'created_at_ms',
] as const;

/** The present or former owner of an account, as far as the audit goes back. */
export async function findAuditOwner(db: Db, accountId: string): Promise<string | undefined> {
  const row = await db
    .selectFrom('account_audit')
    .select('owner_id')
    .where('account_id', '=', accountId)
    .limit(1)
    .executeTakeFirst();
  return row?.owner_id;
}

/** Removes entries from before a time, at most `limit` rows. Returns their number. */
export async function removeAuditBefore(tx: Tx, ms: number, limit: number): Promise<number> {
  const { numDeletedRows } = await tx
    .deleteFrom('account_audit')
    .where('id', 'in', (from) =>
      from
        .selectFrom('account_audit')
        .select('id')
        .where('created_at_ms', '<', ms)
        .where(isAsInstance('audit'))
        .orderBy('created_at_ms')
        .limit(limit),
    )
    .executeTakeFirst();
  return Number(numDeletedRows);
}

/** Removes entries of an owner from before a time. */
export const removeAccountAuditOf: RemoveOfOwner = async (tx, { ownerId, beforeMs, limit }) => {
  const { numDeletedRows } = await tx
    .deleteFrom('account_audit')
    .where('id', 'in', (from) =>
      from
        .selectFrom('account_audit')
        .select('id')
        .where('owner_id', '=', ownerId)
        .where('created_at_ms', '<', beforeMs)
        .limit(limit),
    )
    .executeTakeFirst();
  return Number(numDeletedRows);
};
