import { sql } from 'kysely';
import type { Db, Tx } from '#storage/store.ts';
import { putRotation } from '#vault/key-rotation-store.ts';

/** Makes a store that was just filled one that nobody works on: whoever held something is another instance's process. */
export async function settleRestored(tx: Tx, masterKeyId: string, nowMs: number): Promise<void> {
  // As of a node that stops: the attempt is not counted, since nothing says that it failed.
  await tx
    .updateTable('jobs')
    .set({
      state: 'queued',
      lease_node: null,
      attempts: sql<number>`case when attempts > 0 then attempts - 1 else 0 end`,
      updated_at_ms: nowMs,
    })
    .where('state', '=', 'running')
    .execute();
  await tx.updateTable('deliveries').set({ lease_node: null }).where('lease_node', 'is not', null).execute();
  await tx
    .updateTable('accounts')
    .set({ lease_node: null, lease_until_ms: null })
    .where('lease_node', 'is not', null)
    .execute();
  await putRotation(tx, {
    kind: 'master',
    key_id: masterKeyId,
    owner_id: null,
    started_at_ms: nowMs,
    finished_at_ms: nowMs,
  });
}

export async function countUsers(db: Db): Promise<number> {
  const found = await db
    .selectFrom('users')
    .select((select) => select.fn.countAll().as('count'))
    .executeTakeFirst();
  return Number(found?.count ?? 0);
}
