import type { Dialect } from '#storage/dialect.ts';
import { insertRows, type RowInsert } from '#storage/insert-rows.ts';
import type { Db, Store, Tx } from '#storage/store.ts';
import type { RunSendTable } from '#storage/tables/workflow-tables.ts';

const sendColumns = [
  'run_id',
  'number',
  'owner_id',
  'workflow_id',
  'kind',
  'payload',
  'state',
  'result',
  'created_at_ms',
  'ended_at_ms',
] as const satisfies readonly (keyof RunSendTable)[];

const sendInsert: RowInsert<'run_sends'> = { table: 'run_sends', columns: sendColumns };

export async function insertSends(
  store: Dialect & Pick<Store, 'defer'>,
  tx: Tx,
  rows: readonly RunSendTable[],
): Promise<void> {
  for (const query of insertRows(store, sendInsert, rows)) await store.defer(tx, query);
}

/** Marks the sends of a cancelled run as not sent. */
export async function dropSends(tx: Tx, runId: string, nowMs: number): Promise<void> {
  await tx
    .updateTable('run_sends')
    .set({ state: 'failed', result: JSON.stringify({ error: 'the run was cancelled' }), ended_at_ms: nowMs })
    .where('run_id', '=', runId)
    .where('state', '=', 'queued')
    .execute();
}

/** What ended runs emitted is an event now. */
export async function markEmitted(tx: Tx, runIds: readonly string[], nowMs: number): Promise<void> {
  await tx
    .updateTable('run_sends')
    .set({ state: 'sent', ended_at_ms: nowMs })
    .where('run_id', 'in', [...runIds])
    .where('kind', '=', 'emit')
    .where('state', '=', 'queued')
    .execute();
}

export async function sendsOfRun(db: Db, runId: string): Promise<RunSendTable[]> {
  return db
    .selectFrom('run_sends')
    .select(sendColumns)
    .where('run_id', '=', runId)
    .orderBy('number')
    .execute();
}
