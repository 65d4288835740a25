import { randomBytes } from 'node:crypto';
import { changeDeliveriesHandler } from '#delivery/change-deliveries.ts';
import { insertDeliveries } from '#delivery/delivery-store.ts';
import { insertPayloads } from '#delivery/dispatch/payload-store.ts';
import type { WebhookOptions } from '#delivery/webhooks/manage-webhooks.ts';
import { AddressPolicy } from '#egress/address-policy.ts';
import { claimJobs } from '#jobs/claim-store.ts';
import { LaneLeases } from '#jobs/lane-leases.ts';
import { FairQueue } from '#lib/fair-queue.ts';
import { newTimeOrderedId } from '#lib/ids.ts';
import type { Store } from '#storage/store.ts';
import type { DeliveryTable } from '#storage/tables/delivery-tables.ts';
import { Vault } from '#vault/vault.ts';
import { placesForAny } from './claim-places.ts';
import { TestClock } from './test-clock.ts';

/** What the functions that manage webhooks need, on a store and a clock of the test. */
export function webhookTools(
  store: Store,
  clock = new TestClock(),
): WebhookOptions & { clock: TestClock; changed: string[] } {
  const changed: string[] = [];
  return {
    store,
    clock,
    vault: new Vault(randomBytes(32)),
    policy: new AddressPolicy({ allow: ['public', 'local'], deny: () => [] }),
    changed,
    onChange: (id) => changed.push(id),
    onJobs: () => {},
  };
}

/** Stores a delivery, and the text of its event where it has one (`has_payload`, the default for all but delivered). */
export async function storeDelivery(
  store: Store,
  given: Partial<DeliveryTable> & Pick<DeliveryTable, 'listener_id' | 'state' | 'created_at_ms'>,
): Promise<DeliveryTable> {
  const { created_at_ms, state } = given;
  const isOpen = state === 'queued' || state === 'held';
  const id = newTimeOrderedId(created_at_ms);
  const row: DeliveryTable = {
    id: `dlv_${id}`,
    owner_id: 'o_1',
    subscription_id: null,
    replay_id: null,
    emitter_id: 'dc_1',
    channel: '',
    ms: created_at_ms,
    seq: 0,
    emit_id: id,
    hops: 0,
    trace: null,
    reason: null,
    run_at_ms: created_at_ms,
    lease_node: null,
    attempts: 0,
    attempt_log: '[]',
    status: null,
    latency_ms: null,
    has_payload: state === 'delivered' ? 0 : 1,
    payload_bytes: 4,
    ended_at_ms: isOpen ? null : created_at_ms,
    ...given,
  };
  await store.transaction(async (tx) => {
    const payload = {
      emit_id: row.emit_id,
      owner_id: 'o_1',
      event: '"it"',
      fanning: 0,
      created_at_ms,
    };
    if (row.has_payload === 1) await insertPayloads(store, tx, [payload]);
    await insertDeliveries(store, tx, [row]);
  });
  return row;
}

/** Runs the due jobs that change deliveries; returns the number of jobs, and the listeners for which deliveries were queued. */
export async function runChangeJobs(
  store: Store,
  clock: TestClock,
): Promise<{ jobs: number; queued: string[] }> {
  const queued: string[] = [];
  const node = 'node_test';
  const handler = changeDeliveriesHandler({
    store,
    node,
    clock,
    turns: new FairQueue(1),
    onChanged: () => {},
    onQueued: (listenerId) => queued.push(listenerId),
    onEnded: () => {},
  });
  const jobs = await claimJobs(store, {
    node,
    lanes: new LaneLeases({ node, store }),
    kinds: ['change_deliveries'],
    limit: 100,
    ...placesForAny(100),
    runningByLane: new Map(),
    nowMs: clock.now(),
  });
  for (const job of jobs) await handler.run(job, new AbortController().signal);
  return { jobs: jobs.length, queued };
}
