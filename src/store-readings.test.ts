import assert from 'node:assert/strict';
import { test } from 'node:test';
import { insertWebhook } from '#delivery/webhooks/webhook-store.ts';
import { insertJobs, jobRow } from '#jobs/job-store.ts';
import type { WebhookTable } from '#storage/tables/delivery-tables.ts';
import { storeDelivery } from '../test/support/stored-deliveries.ts';
import { forEachStore } from '../test/support/stores.ts';
import { StoreReadings } from './store-readings.ts';

const nowMs = 1_700_000_000_000;

const webhook = (id: string, more: Partial<WebhookTable>): WebhookTable => ({
  ...{ id, owner_id: 'o_1', user_id: 'u_1', name: null, description: null, url: 'https://example.com/' },
  ...{ secret: 's', old_secret: null, old_secret_until_ms: null, state: 'active', disabled_reason: null },
  ...{ disabled_at_ms: null, failing_since_ms: null, removed_records: 0 },
  ...{ created_at_ms: nowMs, updated_at_ms: nowMs, ...more },
});

forEachStore((fixture) => {
  test('metrics of the store are read once for all that ask together, and are missing when the store does not answer', async () => {
    const { store } = fixture;
    const readings = new StoreReadings({ store, now: () => nowMs });
    const idle = await readings.read();
    assert.deepEqual(idle, {
      depths: [],
      oldestJobSeconds: 0,
      oldestDeliverySeconds: 0,
      webhooks: { failing: 0, disabled: 0 },
    });
    const job = (id: string, runAtMs: number) =>
      jobRow({
        ...{ id, kind: 'delete_workflow', ownerId: 'o_1', payload: { workflow_id: 'p_1' } },
        ...{ runAtMs, nowMs },
      });
    await store.transaction(async (tx) => {
      await insertJobs(tx, [
        job('late', nowMs - 5_000),
        job('later', nowMs - 2_000),
        job('due next', nowMs + 9),
      ]);
      await insertWebhook(tx, webhook('wh_1', {}));
      await insertWebhook(tx, webhook('wh_2', { failing_since_ms: nowMs }));
      await insertWebhook(tx, webhook('wh_3', { state: 'paused', failing_since_ms: nowMs }));
      await insertWebhook(tx, webhook('wh_4', { state: 'disabled', failing_since_ms: nowMs }));
    });
    const waiting = { listener_id: 'wh_2', state: 'queued', created_at_ms: nowMs } as const;
    await storeDelivery(store, { ...waiting, run_at_ms: nowMs - 7_000, lease_node: 'n_1' });
    await storeDelivery(store, { ...waiting, run_at_ms: nowMs - 3_000 });
    await storeDelivery(store, { ...waiting, run_at_ms: nowMs + 1 });
    const [first, second] = [readings.read(), readings.read()];
    assert.equal(first, second);
    assert.deepEqual(await first, {
      depths: [{ kind: 'delete_workflow', state: 'queued', jobs: 3 }],
      oldestJobSeconds: 5,
      oldestDeliverySeconds: 3,
      webhooks: { failing: 1, disabled: 1 },
    });
    const silent = new StoreReadings({
      store: { read: { selectFrom: () => assert.fail('the database is away') } as never },
      now: () => nowMs,
    });
    assert.equal(await silent.read(), undefined);
  });
});
