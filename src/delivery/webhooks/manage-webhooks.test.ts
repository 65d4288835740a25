import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findDelivery } from '#delivery/delivery-store.ts';
import { findSubscription, insertSubscription } from '#delivery/subscriptions/subscription-store.ts';
import { newHealth } from '#health/health.ts';
import { newId } from '#lib/ids.ts';
import type { Store } from '#storage/store.ts';
import type { DeliveryState, DeliveryTable } from '#storage/tables/delivery-tables.ts';
import { openValue } from '#vault/sealed-values.ts';
import { runChangeJobs, storeDelivery, webhookTools } from '../../../test/support/stored-deliveries.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import {
  createWebhook,
  pauseWebhook,
  redeliverAll,
  removeWebhook,
  resumeWebhook,
  rotateSecret,
  updateWebhook,
  viewWebhook,
} from './manage-webhooks.ts';
import { addRemovedRecords, disableWebhook, findWebhook, setFailingSince } from './webhook-store.ts';

const owner = { ownerId: 'o_1', userId: 'u_1' };
const url = 'http://127.0.0.1:9/hook';

async function statesOf(store: Store, rows: readonly DeliveryTable[]) {
  const found = await Promise.all(rows.map(({ id }) => findDelivery(store.read, id)));
  return found.map((row) => row && [row.state, row.reason, row.has_payload, row.ended_at_ms]);
}

async function payloads(store: Store): Promise<string[]> {
  const rows = await store.read.selectFrom('delivery_payloads').select('emit_id').execute();
  return rows.map(({ emit_id }) => emit_id).sort();
}

forEachStore((fixture) => {
  test('a webhook is stored with its secret sealed, and shown without it', async () => {
    const tools = webhookTools(fixture.store);
    const { webhook, signingSecret } = await createWebhook(tools, { ...owner, url, name: 'One' });
    const stored = await findWebhook(fixture.store.read, webhook.id);
    assert.deepEqual(stored, webhook);
    assert.ok(!JSON.stringify(stored).includes(signingSecret.slice(6)));
    const sealed = { ownerId: 'o_1', id: webhook.id, sealed: webhook.secret };
    assert.equal(await openValue(fixture.store.read, tools.vault, sealed), signingSecret);
    const seconds = Math.floor(tools.clock.now() / 1000);
    const health = newHealth('webhook');
    assert.deepEqual(viewWebhook(webhook, health), {
      health,
      id: webhook.id,
      user_id: 'u_1',
      owner_id: 'o_1',
      name: 'One',
      description: null,
      url,
      active: true,
      state: 'active',
      disabled_reason: null,
      disabled_at: null,
      failing_since: null,
      removed_records: 0,
      created_at: seconds,
      updated_at: seconds,
    });
  });

  test('an owner cannot have more than 10,000 webhooks', async () => {
    const { store } = fixture;
    const tools = webhookTools(store);
    const { webhook } = await createWebhook(tools, { ...owner, url });
    for (let made = 1; made < 10_000; ) {
      const rows = Array.from({ length: Math.min(1_000, 10_000 - made) }, () => ({
        ...webhook,
        id: newId('wh'),
      }));
      await store.transaction((tx) => tx.insertInto('webhooks').values(rows).execute());
      made += rows.length;
    }
    await assert.rejects(createWebhook(tools, { ...owner, url }), { code: 'conflict' });
    await createWebhook(tools, { ...owner, ownerId: 'o_2', url });
  });

  test('an update changes what is given; a new URL ends the failing of the old one', async () => {
    const { store } = fixture;
    const tools = webhookTools(store);
    const { webhook } = await createWebhook(tools, { ...owner, url, name: 'One', description: 'Two' });
    await store.transaction((tx) => setFailingSince(tx, webhook.id, 5));
    tools.clock.step(5_000);
    const named = await updateWebhook(tools, webhook.id, { name: null });
    assert.deepEqual([named.name, named.description, named.failing_since_ms], [null, 'Two', 5]);
    assert.equal(named.updated_at_ms, webhook.updated_at_ms + 5_000);
    const moved = await updateWebhook(tools, webhook.id, { url: 'http://127.0.0.1:10' });
    assert.deepEqual([moved.url, moved.failing_since_ms], ['http://127.0.0.1:10/', null]);
    assert.deepEqual(await findWebhook(store.read, webhook.id), moved);
    assert.deepEqual(tools.changed, [webhook.id, webhook.id]);
    await assert.rejects(updateWebhook(tools, webhook.id, { url: 'gopher://x' }), {
      code: 'invalid_parameter',
    });
    await assert.rejects(updateWebhook(tools, 'wh_none', { name: 'x' }), { code: 'not_found' });
  });

  test('what a receiver says disables the webhook only while that is still its URL, and it has not succeeded', async () => {
    const { store } = fixture;
    const tools = webhookTools(store);
    const { webhook } = await createWebhook(tools, { ...owner, url });
    const { id } = webhook;
    const disable = (evidence: { url: string; failingSinceMs?: number }) =>
      store.transaction((tx) => disableWebhook(tx, id, { reason: 'only_failures', atMs: 7, ...evidence }));
    await store.transaction((tx) => setFailingSince(tx, id, 5));
    assert.equal(await disable({ url, failingSinceMs: 4 }), false);
    assert.equal(await disable({ url: 'http://127.0.0.1:9/before' }), false);
    assert.equal((await findWebhook(store.read, id))?.state, 'active');
    assert.equal(await disable({ url, failingSinceMs: 5 }), true);
    const disabled = await findWebhook(store.read, id);
    assert.deepEqual(
      [disabled?.state, disabled?.disabled_reason, disabled?.disabled_at_ms],
      ['disabled', 'only_failures', 7],
    );
    assert.equal(await disable({ url }), false);
  });

  test('a rotation keeps the secret before it for a day', async () => {
    const { store } = fixture;
    const tools = webhookTools(store);
    const { webhook } = await createWebhook(tools, { ...owner, url });
    const { signingSecret, oldUntilMs } = await rotateSecret(tools, webhook.id);
    const stored = await findWebhook(store.read, webhook.id);
    assert.equal(stored?.old_secret, webhook.secret);
    assert.equal(stored?.old_secret_until_ms, tools.clock.now() + 86_400_000);
    assert.equal(oldUntilMs, stored?.old_secret_until_ms);
    const sealed = { ownerId: 'o_1', id: webhook.id, sealed: stored?.secret ?? '' };
    assert.equal(await openValue(store.read, tools.vault, sealed), signingSecret);
    assert.deepEqual(tools.changed, [webhook.id]);
  });

  test('resuming queues what is held in the order in which it was made, and forgives', async () => {
    const { store } = fixture;
    const tools = webhookTools(store);
    const { webhook } = await createWebhook(tools, { ...owner, url });
    const { id } = webhook;
    assert.equal((await pauseWebhook(tools, id)).state, 'paused');
    const nowMs = tools.clock.now();
    const held = [];
    for (const age of [1, 300, 20])
      held.push(await storeDelivery(store, { listener_id: id, state: 'held', created_at_ms: nowMs - age }));
    const failed = await storeDelivery(store, { listener_id: id, state: 'failed', created_at_ms: nowMs });
    const other = await storeDelivery(store, { listener_id: 'wh_2', state: 'held', created_at_ms: nowMs });
    await store.transaction(async (tx) => {
      await setFailingSince(tx, id, 5);
      await tx.updateTable('webhooks').set({ state: 'active' }).execute();
      await disableWebhook(tx, id, { url, reason: 'only_failures', atMs: 6 });
    });
    const resumed = await resumeWebhook(tools, id);
    assert.deepEqual(
      [resumed.state, resumed.disabled_reason, resumed.disabled_at_ms, resumed.failing_since_ms],
      ['active', null, null, null],
    );
    assert.deepEqual((await runChangeJobs(store, tools.clock)).queued, [id]);
    assert.deepEqual(await statesOf(store, [...held, failed, other]), [
      ...Array(3).fill(['queued', null, 1, null]),
      ['failed', null, 1, nowMs],
      ['held', null, 1, null],
    ]);
    const due = await Promise.all(held.map((row) => findDelivery(store.read, row.id)));
    assert.deepEqual(
      due.map((row) => row?.run_at_ms),
      held.map((row) => row.created_at_ms),
    );
    // A commit that had seen it paused came late.
    const late = await storeDelivery(store, { listener_id: id, state: 'held', created_at_ms: nowMs });
    assert.equal((await runChangeJobs(store, tools.clock)).jobs, 0);
    tools.clock.step(10_000);
    assert.equal((await runChangeJobs(store, tools.clock)).jobs, 1);
    assert.deepEqual(await statesOf(store, [late]), [['queued', null, 1, null]]);
  });

  test('removing a webhook removes its subscriptions, ends what was to be sent, and gives up the texts', async () => {
    const { store } = fixture;
    const tools = webhookTools(store);
    const { webhook } = await createWebhook(tools, { ...owner, url });
    const { id } = webhook;
    const nowMs = tools.clock.now();
    const subscription = { id: 'sub_1', emitter_id: 'dc_1', event_name: '', listener_id: id };
    const owners = {
      emitter_owner_id: 'o_1',
      listener_owner_id: 'o_1',
      user_id: 'u_1',
      created_at_ms: nowMs,
    };
    await store.transaction((tx) => insertSubscription(tx, { ...subscription, ...owners }));
    const states: DeliveryState[] = ['queued', 'held', 'failed', 'delivered', 'blocked'];
    const rows = [];
    for (const state of states)
      rows.push(await storeDelivery(store, { listener_id: id, state, created_at_ms: nowMs - 1_000 }));
    // In the memory of a node.
    const leased = { listener_id: id, created_at_ms: nowMs - 1_000, lease_node: 'node_2' };
    rows.push(await storeDelivery(store, { ...leased, state: 'queued' }));
    const shared = { emit_id: rows[0]?.emit_id ?? '', listener_id: 'wh_2' };
    const other = await storeDelivery(store, { ...shared, state: 'queued', created_at_ms: nowMs });
    await removeWebhook(tools, id);
    assert.equal(await findWebhook(store.read, id), undefined);
    assert.equal(await findSubscription(store.read, 'sub_1'), undefined);
    await runChangeJobs(store, tools.clock);
    const cancelled = ['cancelled', 'listener_removed', 0, nowMs];
    assert.deepEqual(await statesOf(store, [...rows, other]), [
      cancelled,
      cancelled,
      ['failed', null, 0, nowMs - 1_000],
      ['delivered', null, 0, nowMs - 1_000],
      ['blocked', null, 0, nowMs - 1_000],
      cancelled,
      ['queued', null, 1, null],
    ]);
    // Only the text that another delivery needs.
    assert.deepEqual(await payloads(store), [other.emit_id]);
    await assert.rejects(removeWebhook(tools, id), { code: 'not_found' });
  });

  test('redelivering all queues the dead letters since then that still have their text, once', async () => {
    const { store } = fixture;
    const tools = webhookTools(store);
    const { webhook } = await createWebhook(tools, { ...owner, url });
    const { id } = webhook;
    const nowMs = tools.clock.now();
    const make = (state: DeliveryState, age: number, more: Partial<DeliveryTable> = {}) =>
      storeDelivery(store, { listener_id: id, state, created_at_ms: nowMs - age, ...more });
    const early = await make('failed', 5_000);
    const rows = [
      await make('failed', 1_000, { attempts: 8, reason: 'attempts_exhausted' }),
      await make('blocked', 900),
      await make('expired', 800),
      await make('skipped', 700),
      // Made long before it ended.
      await make('failed', 90_000, { ended_at_ms: nowMs - 600 }),
      await make('cancelled', 500, { has_payload: 0 }),
      await make('delivered', 400),
    ];
    assert.equal(await redeliverAll(tools, webhook, nowMs - 2_000), 5);
    tools.clock.step(10);
    await runChangeJobs(store, tools.clock);
    const states = (await statesOf(store, [early, ...rows])).map((row) => row?.[0]);
    const queued = Array(5).fill('queued');
    assert.deepEqual(states, ['failed', ...queued, 'cancelled', 'delivered']);
    const first = await findDelivery(store.read, rows[0]?.id ?? '');
    assert.deepEqual([first?.attempts, first?.reason], [0, null]);
    assert.equal(await redeliverAll(tools, webhook, nowMs - 2_000), 0);
    assert.equal(await redeliverAll(tools, webhook, undefined), 1);
    assert.equal((await runChangeJobs(store, tools.clock)).jobs, 1);
    assert.deepEqual(
      (await statesOf(store, [early])).map((row) => row?.[0]),
      ['queued'],
    );
  });

  test('a change of more than one batch reaches all of them', async () => {
    const { store } = fixture;
    const tools = webhookTools(store);
    const { webhook } = await createWebhook(tools, { ...owner, url });
    const { id } = webhook;
    const count = 1_201;
    const model = await storeDelivery(store, { listener_id: id, state: 'held', created_at_ms: 1 });
    for (let made = 1; made < count; ) {
      const rows = Array.from({ length: Math.min(400, count - made) }, (_, index) => ({
        ...model,
        id: newId('dlv'),
        created_at_ms: 1 + ((made + index) % 7),
      }));
      await store.transaction((tx) => tx.insertInto('deliveries').values(rows).execute());
      made += rows.length;
    }
    await resumeWebhook(tools, id);
    const { queued } = await runChangeJobs(store, tools.clock);
    assert.equal(queued.length, 3);
    const left = await store.read
      .selectFrom('deliveries')
      .select('id')
      .where('state', '<>', 'queued')
      .execute();
    assert.equal(left.length, 0);
  });

  test('how many records were removed is added up', async () => {
    const { store } = fixture;
    const { webhook } = await createWebhook(webhookTools(store), { ...owner, url });
    await store.transaction((tx) => addRemovedRecords(tx, webhook.id, 2));
    await store.transaction((tx) => addRemovedRecords(tx, webhook.id, 3));
    assert.equal((await findWebhook(store.read, webhook.id))?.removed_records, 5);
  });
});
