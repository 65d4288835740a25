import { sql } from 'kysely';
import type { RemoveOfOwner } from '#identity/retention-pruner.ts';
import { isAsInstance } from '#identity/retention-store.ts';
import type { BatchWrite } from '#storage/group-commit.ts';
import { type Page, type PageRequest, pageOf } from '#storage/page.ts';
import type { Db, Tx } from '#storage/store.ts';
import type { AuditRecordTable } from '#storage/tables/audit-tables.ts';
import type { Tables } from '#storage/tables.ts';
import type { Snapshot } from './audit-context.ts';

/**
 * Writes a record, or replaces the one that an earlier transaction of the same change wrote. A record with a status is complete: work that
 * the change started and that ends later does not replace it.
 */
export async function putAuditRecord(tx: Tx, record: AuditRecordTable): Promise<void> {
  const { id: _id, created_at_ms: _createdAtMs, ...changed } = record;
  await tx
    .insertInto('audit_records')
    .values(record)
    .onConflict((conflict) =>
      conflict.column('id').doUpdateSet(changed).where('audit_records.status', 'is', null),
    )
    .execute();
}

/** A record that is made in the transaction that stores it. */
interface PendingRecord {
  ownerId: string | undefined;
  make(tx: Tx): Promise<AuditRecordTable>;
}

/** For the end of a change: requests that end together share a transaction. */
export const putAuditRecords: BatchWrite<PendingRecord, void> = {
  name: 'audit-completed',
  endsWork: true,
  ownerOf: ({ ownerId }) => ownerId,
  async run(tx, records) {
    for (const { make } of records) await putAuditRecord(tx, await make(tx));
    return records.map(() => undefined);
  },
};

/** Columns of one row, by the values of its key; undefined when there is no such row. */
export async function readRow(
  db: Db | Tx,
  {
    table,
    columns,
    key,
  }: { table: keyof Tables; columns: readonly string[]; key: Readonly<Record<string, string>> },
): Promise<Snapshot | undefined> {
  const conditions = Object.entries(key).map(([column, value]) => sql`${sql.ref(column)} = ${value}`);
  const { rows } = await sql<Record<string, unknown>>`
    select ${sql.join(columns.map((column) => sql.ref(column)))} from ${sql.table(table)}
    where ${sql.join(conditions, sql` and `)} limit 1`.execute(db);
  return rows[0];
}

export interface AuditFilter {
  /** Null: records of the instance. */
  ownerId: string | null;
  operation?: string;
  objectId?: string;
  userId?: string;
  keyId?: string;
  fromMs?: number;
  /** Exclusive. */
  toMs?: number;
}

/** Records of an owner or of the instance, newest first. */
export function selectAuditRecords(
  db: Db,
  filter: AuditFilter,
  page: PageRequest,
): Promise<Page<AuditRecordTable>> {
  return pageOf(filtered(db, filter), page);
}

/** The oldest `limit` records after the one named, oldest first: for an export. */
export function auditRecordsAfter(
  db: Db,
  filter: AuditFilter,
  { after, limit }: { after: Pick<AuditRecordTable, 'id' | 'created_at_ms'> | undefined; limit: number },
): Promise<AuditRecordTable[]> {
  let query = filtered(db, filter);
  if (after !== undefined) {
    query = query.where((eb) =>
      eb.or([
        eb('created_at_ms', '>', after.created_at_ms),
        eb.and([eb('created_at_ms', '=', after.created_at_ms), eb('id', '>', after.id)]),
      ]),
    );
  }
  return query.orderBy('created_at_ms').orderBy('id').limit(limit).execute();
}

function filtered(db: Db, filter: AuditFilter) {
  const { ownerId, operation, objectId, userId, keyId, fromMs, toMs } = filter;
  let query = db.selectFrom('audit_records').selectAll();
  query = ownerId === null ? query.where('owner_id', 'is', null) : query.where('owner_id', '=', ownerId);
  if (operation !== undefined) query = query.where('operation', '=', operation);
  if (objectId !== undefined) query = query.where('object_id', '=', objectId);
  if (userId !== undefined) query = query.where('user_id', '=', userId);
  if (keyId !== undefined) query = query.where('key_id', '=', keyId);
  if (fromMs !== undefined) query = query.where('created_at_ms', '>=', fromMs);
  if (toMs !== undefined) query = query.where('created_at_ms', '<', toMs);
  return query;
}

/** Removes records from before a time, at most `limit` rows. Returns their number. */
export async function removeAuditRecordsBefore(tx: Tx, ms: number, limit: number): Promise<number> {
  const { numDeletedRows } = await tx
    .deleteFrom('audit_records')
    .where('id', 'in', (from) =>
      from
        .selectFrom('audit_records')
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
export const removeAuditRecordsOf: RemoveOfOwner = async (tx, { ownerId, beforeMs, limit }) => {
  const { numDeletedRows } = await tx
    .deleteFrom('audit_records')
    .where('id', 'in', (from) =>
      from
        .selectFrom('audit_records')
        .select('id')
        .where('owner_id', '=', ownerId)
        .where('created_at_ms', '<', beforeMs)
        .limit(limit),
    )
    .executeTakeFirst();
  return Number(numDeletedRows);
};
