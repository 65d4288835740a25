import type { Db, Tx } from '#storage/store.ts';
import type { OwnerQuotaTable } from '#storage/tables/identity-tables.ts';

const columns = [
  'owner_id',
  'credits',
  'compute_ms',
  'invocations',
  'enforced',
  'processes_max',
  'memory_mb_max',
  'sources_max',
  'workflows_max',
  'events_max',
  'deliveries_max',
  'stored_mb_max',
  'streams_max',
  'builds_max',
  'workspaces_max',
  'billing_period_start_ms',
  'updated_at_ms',
] as const;

/** What was set for an owner; undefined: nothing. */
export async function findOwnerQuota(db: Db, ownerId: string): Promise<OwnerQuotaTable | undefined> {
  return (await ownerQuotasOf(db, [ownerId])).get(ownerId);
}

/** The same for many owners in one statement; owners without quotas of their own are not in the map. */
export async function ownerQuotasOf(
  db: Db,
  ownerIds: readonly string[],
): Promise<Map<string, OwnerQuotaTable>> {
  if (ownerIds.length === 0) return new Map();
  const rows = await db
    .selectFrom('owner_quotas')
    .select(columns)
    .where('owner_id', 'in', [...ownerIds])
    .execute();
  return new Map(rows.map((row) => [row.owner_id, row]));
}

/** Sets what is named and leaves the rest; a field that was never set is null. */
export async function putOwnerQuota(
  tx: Tx,
  ownerId: string,
  changes: Partial<Omit<OwnerQuotaTable, 'owner_id' | 'updated_at_ms'>>,
  nowMs: number,
): Promise<void> {
  await tx
    .insertInto('owner_quotas')
    .values({
      owner_id: ownerId,
      credits: null,
      compute_ms: null,
      invocations: null,
      enforced: null,
      processes_max: null,
      memory_mb_max: null,
      sources_max: null,
      workflows_max: null,
      events_max: null,
      deliveries_max: null,
      stored_mb_max: null,
      streams_max: null,
      builds_max: null,
      workspaces_max: null,
      billing_period_start_ms: null,
      ...changes,
      updated_at_ms: nowMs,
    })
    .onConflict((conflict) => conflict.column('owner_id').doUpdateSet({ ...changes, updated_at_ms: nowMs }))
    .execute();
}

/** True when there is a user or a workspace with this ID. */
export async function ownerExists(db: Db, ownerId: string): Promise<boolean> {
  const table = ownerId.startsWith('o_') ? 'workspaces' : 'users';
  const row = await db.selectFrom(table).select('id').where('id', '=', ownerId).executeTakeFirst();
  return row !== undefined;
}
