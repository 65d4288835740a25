import type { Dialect } from '#storage/dialect.ts';
import { insertRows, type RowInsert } from '#storage/insert-rows.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { TriggerTable } from '#storage/tables/workflow-tables.ts';

const triggerColumns = [
  'workflow_id',
  'id',
  'owner_id',
  'kind',
  'position',
  'key',
  'custom_response',
  'auth',
  'interval_seconds',
  'cron',
  'timezone',
  'owned',
  'schedule_changed_at_ms',
  'created_at_ms',
  'updated_at_ms',
] as const;

/** Triggers of workflows, by workflow, in the order of their lists. */
export async function triggersOfMany(
  db: Db,
  workflowIds: readonly string[],
): Promise<Map<string, TriggerTable[]>> {
  const triggers = new Map<string, TriggerTable[]>(workflowIds.map((id) => [id, []]));
  if (workflowIds.length === 0) return triggers;
  const rows = await db
    .selectFrom('triggers')
    .select(triggerColumns)
    .where('workflow_id', 'in', [...workflowIds])
    .orderBy('position')
    .execute();
  for (const row of rows) triggers.get(row.workflow_id)?.push(row);
  return triggers;
}

export async function triggersOf(db: Db, workflowId: string): Promise<TriggerTable[]> {
  return (await triggersOfMany(db, [workflowId])).get(workflowId) ?? [];
}

/** The HTTP (`eo…`) or email (`em…`) trigger with this key. */
export async function findTriggerByKey(db: Db, key: string): Promise<TriggerTable | undefined> {
  return db.selectFrom('triggers').select(triggerColumns).where('key', '=', key).executeTakeFirst();
}

/** These take the place of all triggers that the workflow has. */
export async function replaceTriggers(
  store: Dialect & Pick<Store, 'defer'>,
  tx: Tx,
  workflowId: string,
  rows: readonly TriggerTable[],
): Promise<void> {
  await deleteTriggersOf(tx, workflowId);
  for (const query of insertRows(store, triggerInsert, rows)) await store.defer(tx, query);
}

export async function deleteTriggersOf(tx: Tx, workflowId: string): Promise<void> {
  await tx.deleteFrom('triggers').where('workflow_id', '=', workflowId).execute();
}

/** Runs in the transaction that ends a membership: nothing of either owner remains a trigger of the other's workflows. */
export async function deleteTriggersOfMember(
  tx: Tx,
  { workspaceId, userId }: { workspaceId: string; userId: string },
): Promise<void> {
  for (const [workflowOwnerId, sourceOwnerId] of [
    [workspaceId, userId],
    [userId, workspaceId],
  ] as const)
    await tx
      .deleteFrom('triggers')
      .where('kind', '=', 'source')
      .where('owner_id', '=', workflowOwnerId)
      .where('id', 'in', (from) =>
        from.selectFrom('sources').select('sources.id').where('sources.owner_id', '=', sourceOwnerId),
      )
      .execute();
}

const triggerInsert: RowInsert<'triggers'> = { table: 'triggers', columns: [...triggerColumns] };
