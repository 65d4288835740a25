import { type RawBuilder, type SqlBool, sql } from 'kysely';
import type { Db, Tx } from '#storage/store.ts';
import type { WorkspaceRetentionTable } from '#storage/tables/identity-tables.ts';

/** What a workspace may keep for a number of days of its own. */
export const retainedKinds = ['events', 'runs', 'deliveries', 'audit', 'files'] as const;
export type RetainedKind = (typeof retainedKinds)[number];

/** Undefined: the workspace keeps everything as the instance does. */
export function findRetention(db: Db, workspaceId: string): Promise<WorkspaceRetentionTable | undefined> {
  return db
    .selectFrom('workspace_retention')
    .selectAll()
    .where('workspace_id', '=', workspaceId)
    .executeTakeFirst();
}

/** Days by kind, and the hold; what is undefined stays as it is. */
export type RetentionChanges = Partial<Record<`${RetainedKind}_days`, number | null>> & {
  legal_hold?: 0 | 1;
};

/**
 * Sets what is named and leaves the rest; what was never set is null, and no hold. Only columns that may change are taken from
 * `changes`: a body also carries `workspace_id`, `include` and the like, and one that named another workspace once set its days.
 */
export async function putRetention(
  tx: Tx,
  workspaceId: string,
  changes: RetentionChanges,
  nowMs: number,
): Promise<void> {
  const columns = [...retainedKinds.map((kind) => `${kind}_days` as const), 'legal_hold' as const];
  const named = Object.fromEntries(
    columns.filter((column) => changes[column] !== undefined).map((column) => [column, changes[column]]),
  ) as Partial<WorkspaceRetentionTable>;
  await tx
    .insertInto('workspace_retention')
    .values({
      ...{ workspace_id: workspaceId, events_days: null, runs_days: null, deliveries_days: null },
      ...{ audit_days: null, files_days: null, legal_hold: 0 },
      ...named,
      updated_at_ms: nowMs,
    })
    .onConflict((conflict) => conflict.column('workspace_id').doUpdateSet({ ...named, updated_at_ms: nowMs }))
    .execute();
}

/** Workspaces with days of their own that are not under a legal hold. */
export function retentionsToApply(db: Db): Promise<WorkspaceRetentionTable[]> {
  return db
    .selectFrom('workspace_retention')
    .selectAll()
    .where('legal_hold', '=', 0)
    .where((where) => where.or(retainedKinds.map((kind) => where(sql.ref(`${kind}_days`), 'is not', null))))
    .execute();
}

/** A condition on rows with an `owner_id`: their workspace is not under a legal hold. */
export const isNotHeld = sql<SqlBool>`(owner_id is null or owner_id not in (
  select workspace_id from workspace_retention where legal_hold = 1))`;

/** The same, and the workspace has no days of its own for this kind: the days of the instance apply. */
export function isAsInstance(kind: RetainedKind): RawBuilder<SqlBool> {
  return sql<SqlBool>`(owner_id is null or owner_id not in (
    select workspace_id from workspace_retention where legal_hold = 1 or ${sql.ref(`${kind}_days`)} is not null))`;
}
