import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newTimeOrderedId } from '#lib/ids.ts';
import { silentLogger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import type { DeliveryState, DeliveryTable } from '#storage/tables/delivery-tables.ts';
import { storeDelivery, webhookTools } from '../../test/support/stored-deliveries.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { insertDeliveries } from './delivery-store.ts';
import { insertPayloads } from './dispatch/payload-store.ts';
import { DeliveryPruner } from './prune-deliveries.ts';
import { createWebhook } from './webhooks/manage-webhooks.ts';
import { findWebhook } from './webhooks/webhook-store.ts';

const dayMs = 86_400_000;

/** Many deliveries of a kind, one a millisecond. */
async function storeMany(
  store: Store,
  count: number,
  given: Parameters<typeof storeDelivery>[1],
): Promise<void> {
  const model = await storeDelivery(store, given);
  for (let made = 1; made < count; ) {
    const rows = Array.from({ length: Math.min(500, count - made) }, (_, index): DeliveryTable => {
      const created_at_ms = given.created_at_ms + made + index;
      const emit_id = newTimeOrderedId(created_at_ms);
      return { ...model, id: `dlv_${emit_id}`, emit_id, created_at_ms };
    });
    await store.transaction(async (tx) => {
      const payloads = rows.map(({ emit_id, created_at_ms }) => ({
        ...{ emit_id, created_at_ms, owner_id: 'o_1', event: '1', fanning: 0 },
      }));
      if (model.has_payload === 1) await insertPayloads(store, tx, payloads);
      await insertDeliveries(store, tx, rows);
    });
    made += rows.length;
  }
}

async function kept(store: Store, listenerId: string, state: DeliveryState): Promise<number[]> {
  const rows = await store.read
    .selectFrom('deliveries')
    .select('created_at_ms')
    .where('listener_id', '=', listenerId)
    .where('state', '=', state)
    .orderBy('created_at_ms')
    .execute();
  return rows.map((row) => row.created_at_ms);
}

async function payloadCount(store: Store): Promise<number> {
  return (await store.read.selectFrom('delivery_payloads').select('emit_id').execute()).length;
}

forEachStore((fixture) => {
  const prunerOf = (clock: TestClock, max?: { delivered: number; dead: number }) =>
    new DeliveryPruner({
      store: fixture.store,
      clock,
      logger: silentLogger,
      ...(max === undefined ? {} : { kept: max }),
    });

  test('of a listener the newest records stay, of each kind; what waits stays too', async () => {
    const { store } = fixture;
    const tools = webhookTools(store);
    const { webhook } = await createWebhook(tools, {
      ownerId: 'o_1',
      userId: 'u_1',
      url: 'http://127.0.0.1:9',
    });
    const listener_id = webhook.id;
    const nowMs = tools.clock.now();
    await storeMany(store, 1_300, { listener_id, state: 'delivered', created_at_ms: nowMs });
    await storeMany(store, 40, { listener_id, state: 'failed', created_at_ms: nowMs });
    await storeMany(store, 30, { listener_id, state: 'queued', created_at_ms: nowMs - 100 });
    await storeMany(store, 70, { listener_id: 'wh_other', state: 'delivered', created_at_ms: nowMs });
    const pruner = prunerOf(tools.clock, { delivered: 50, dead: 15 });
    pruner.ended(listener_id, 'delivered', 499);
    pruner.ended(listener_id, 'dead', 40);
    await pruner.pruneEnded();
    assert.equal((await kept(store, listener_id, 'delivered')).length, 1_300, 'too few to be worth it');
    pruner.ended(listener_id, 'delivered');
    await pruner.pruneEnded();
    const delivered = await kept(store, listener_id, 'delivered');
    assert.deepEqual([delivered.length, delivered[0], delivered.at(-1)], [50, nowMs + 1_250, nowMs + 1_299]);
    assert.equal((await kept(store, listener_id, 'failed')).length, 40);
    await pruner.pruneEnded(1);
    const failed = await kept(store, listener_id, 'failed');
    assert.deepEqual([failed.length, failed[0]], [15, nowMs + 25]);
    assert.equal((await kept(store, listener_id, 'queued')).length, 30);
    assert.equal((await kept(store, 'wh_other', 'delivered')).length, 70);
    // With the records went the texts that only they needed, and that there were more stays visible.
    assert.equal(await payloadCount(store), 15 + 30);
    assert.equal((await findWebhook(store.read, listener_id))?.removed_records, 25);
  });

  test('of dead letters with large events fewer are kept: their texts have a bound in bytes', async () => {
    const { store } = fixture;
    const clock = new TestClock();
    const created_at_ms = clock.now();
    const row = { listener_id: 'dc_1', state: 'failed' as const, payload_bytes: 100, created_at_ms };
    await storeMany(store, 40, row);
    const options = { store, clock, logger: silentLogger, keptBytes: 1_050 };
    const pruner = new DeliveryPruner({ ...options, kept: { delivered: 50, dead: 30 } });
    pruner.ended('dc_1', 'dead', 40);
    await pruner.pruneEnded(1);
    const failed = await kept(store, 'dc_1', 'failed');
    assert.deepEqual([failed.length, failed[0]], [10, created_at_ms + 30]);
    assert.equal(await payloadCount(store), 10);
  });

  test('a sweep finds what was not counted, and what ended more than 30 days ago', async () => {
    const { store } = fixture;
    const clock = new TestClock();
    const nowMs = clock.now();
    const oldMs = nowMs - 31 * dayMs;
    for (let listener = 0; listener < 120; listener += 1) {
      const listener_id = `wh_${listener}`;
      await storeDelivery(store, { listener_id, state: 'delivered', created_at_ms: oldMs });
      await storeDelivery(store, { listener_id, state: 'blocked', created_at_ms: oldMs });
    }
    // Long on its way: it ended not so long ago.
    await storeDelivery(store, {
      listener_id: 'wh_0',
      state: 'failed',
      created_at_ms: oldMs,
      ended_at_ms: nowMs - dayMs,
    });
    await storeDelivery(store, { listener_id: 'wh_0', state: 'queued', created_at_ms: oldMs });
    await storeMany(store, 8, { listener_id: 'wh_119', state: 'delivered', created_at_ms: nowMs });
    await prunerOf(clock, { delivered: 5, dead: 5 }).sweep();
    const left = await store.read.selectFrom('deliveries').select(['listener_id', 'state']).execute();
    assert.deepEqual(left.map(({ listener_id, state }) => `${listener_id} ${state}`).sort(), [
      'wh_0 failed',
      'wh_0 queued',
      ...Array(5).fill('wh_119 delivered'),
    ]);
    assert.equal(await payloadCount(store), 2);
  });

  test('what is held for more than 30 days expires, with a record that is then kept for 30 days', async () => {
    const { store } = fixture;
    const clock = new TestClock();
    const old = { listener_id: 'wh_1', state: 'held', created_at_ms: clock.now() - 31 * dayMs } as const;
    const { id } = await storeDelivery(store, old);
    await storeDelivery(store, { ...old, created_at_ms: clock.now() - 29 * dayMs });
    const pruner = prunerOf(clock);
    await pruner.sweep();
    await pruner.sweep();
    const rows = await store.read
      .selectFrom('deliveries')
      .select(['id', 'state', 'reason', 'ended_at_ms', 'has_payload'])
      .orderBy('created_at_ms')
      .execute();
    assert.deepEqual(rows[0], {
      ...{ id, state: 'expired', reason: 'held_too_long', ended_at_ms: clock.now(), has_payload: 1 },
    });
    assert.equal(rows[1]?.state, 'held');
    clock.step(31 * dayMs);
    await pruner.sweep();
    assert.deepEqual(await kept(store, 'wh_1', 'expired'), [clock.now() - 60 * dayMs]);
  });

  test('texts that no delivery needs are found, in however many looks that takes', async () => {
    const { store } = fixture;
    const clock = new TestClock();
    const nowMs = clock.now();
    const orphan = (index: number, created_at_ms: number) => ({
      ...{ emit_id: `orphan_${index}`, owner_id: 'o_1', event: '1', fanning: 0, created_at_ms },
    });
    for (let part = 0; part < 13; part += 1) {
      const rows = Array.from({ length: 500 }, (_, index) => orphan(part * 500 + index, nowMs - 120_000));
      await store.transaction((tx) => insertPayloads(store, tx, rows));
    }
    await store.transaction((tx) =>
      insertPayloads(store, tx, [orphan(-1, nowMs), { ...orphan(-2, nowMs - 120_000), fanning: 1 }]),
    );
    const needed = await storeDelivery(store, {
      listener_id: 'wh_1',
      state: 'queued',
      created_at_ms: nowMs - 120_000,
    });
    const pruner = prunerOf(clock);
    for (let look = 0; look < 3; look += 1) await pruner.sweepPayloads();
    const left = await store.read
      .selectFrom('delivery_payloads')
      .select('emit_id')
      .orderBy('emit_id')
      .execute();
    assert.deepEqual(
      left.map(({ emit_id }) => emit_id).sort(),
      [needed.emit_id, 'orphan_-1', 'orphan_-2'].sort(),
    );
  });
});
