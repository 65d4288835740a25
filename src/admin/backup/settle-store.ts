import { endRefreshLeases } from '#accounts/account-store.ts';
import { releaseAllDeliveries } from '#delivery/dispatch/delivery-queue-store.ts';
import { releaseAllJobs } from '#jobs/node-store.ts';
import type { Db, Tx } from '#storage/store.ts';
import { putRotation } from '#vault/key-rotation-store.ts';

/** Ends all leases in a store that was just restored, since their holders are processes of another instance, and records its master key. */
export async function settleRestored(tx: Tx, masterKeyId: string, nowMs: number): Promise<void> {
  await releaseAllJobs(tx, nowMs);
  await releaseAllDeliveries(tx);
  await endRefreshLeases(tx);
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
