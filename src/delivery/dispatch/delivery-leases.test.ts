import assert from 'node:assert/strict';
import { test } from 'node:test';
import { databaseTimeMs, registerNode } from '#jobs/node-store.ts';
import { silentLogger } from '#lib/logger.ts';
import type { DeliveryTable } from '#storage/tables/delivery-tables.ts';
import { storeDelivery } from '../../../test/support/stored-deliveries.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { TestClock } from '../../../test/support/test-clock.ts';
import { DeliveryLeases } from './delivery-leases.ts';
import {
  claimDeliveries,
  dueDeliveries,
  heldBy,
  listenersWithDue,
  nextDueMs,
  releaseDeliveries,
  type SettledDelivery,
  settleDeliveriesQuery,
} from './delivery-queue-store.ts';

const nowMs = 1_800_000_000_000;
const minuteMs = 60_000;
const dayMs = 86_400_000;

forEachStore((fixture) => {
  const store = (listener_id: string, more: Partial<DeliveryTable> = {}) =>
    storeDelivery(fixture.store, { listener_id, state: 'queued', created_at_ms: nowMs, ...more });
  /** The node that each listener's only delivery is leased to. */
  const holders = async () => {
    const rows = await fixture.store.read
      .selectFrom('deliveries')
      .select(['listener_id', 'lease_node'])
      .execute();
    return Object.fromEntries(rows.map(({ listener_id, lease_node }) => [listener_id, lease_node]));
  };
  const leases = (node: string, clock = new TestClock(nowMs)) =>
    new DeliveryLeases({ store: fixture.store, node, clock, logger: silentLogger });

  test('a delivery that is leased to a node is not due for the other nodes, which cannot claim it', async () => {
    const free = await store('wh_both');
    const leased = await store('wh_both', { lease_node: 'node_1' });
    await store('wh_leased', { lease_node: 'node_1' });
    await store('wh_later', { run_at_ms: nowMs + 2_000 });
    await store('wh_later', { lease_node: 'node_1' });
    await store('wh_later', { lease_node: 'node_1', run_at_ms: nowMs + 1_000 });
    const { read } = fixture.store;
    const due = (more: { listenerId?: string } = {}) => dueDeliveries(read, { nowMs, limit: 10, ...more });
    assert.deepEqual(
      (await due()).map(({ id }) => id),
      [free.id],
    );
    assert.deepEqual(await due({ listenerId: 'wh_leased' }), []);
    assert.deepEqual(
      (await listenersWithDue(read, { nowMs, after: '', limit: 10 })).map(({ listener_id }) => listener_id),
      ['wh_both'],
    );
    assert.equal(await nextDueMs(read, nowMs), nowMs + 2_000);
    // Another node may have claimed it after this node looked.
    const claimed = await claimDeliveries(fixture.store, 'node_2', [leased.id, free.id], nowMs);
    assert.deepEqual(
      claimed.map(({ id }) => id),
      [free.id],
    );
    assert.deepEqual(await heldBy(read, 'node_2', 10), [free.id]);
  });

  for (const [what, aheadMs] of [
    ['ahead', dayMs],
    ['behind', -dayMs],
  ] as const)
    test(`a node takes over from dead nodes only, also when its own clock is ${what}`, async () => {
      const isShared = fixture.dialect === 'postgres';
      const leaseTimeMs = isShared ? await databaseTimeMs(fixture.store.read) : nowMs;
      await fixture.store.transaction(async (tx) => {
        await registerNode(tx, 'node_live', { nowMs: leaseTimeMs, leaseMs: 10 * minuteMs });
        await registerNode(tx, 'node_dead', { nowMs: leaseTimeMs - minuteMs, leaseMs: minuteMs - 1 });
        // The node that asks is alive, however late it renews its lease.
        await registerNode(tx, 'node_asking', { nowMs: leaseTimeMs - minuteMs, leaseMs: 1 });
      });
      for (const node of ['live', 'dead', 'unknown', 'asking'])
        await store(`wh_${node}`, { lease_node: `node_${node}` });
      // One process has an embedded store, so there is one clock.
      const clock = new TestClock(leaseTimeMs + (isShared ? aheadMs : 0));
      assert.equal(await leases('node_asking', clock).releaseOrphans(), 2);
      assert.deepEqual(await holders(), {
        wh_live: 'node_live',
        wh_dead: null,
        wh_unknown: null,
        wh_asking: 'node_asking',
      });
    });

  test('a node gives back only what it holds itself', async () => {
    const mine = await store('wh_mine', { lease_node: 'node_1' });
    const others = await store('wh_others', { lease_node: 'node_2' });
    assert.deepEqual(await heldBy(fixture.store.read, 'node_1', 10), [mine.id]);
    // Between a look and the release another node may have taken a delivery over.
    await fixture.store.transaction((tx) => releaseDeliveries(tx, 'node_1', [mine.id, others.id]));
    assert.deepEqual(await holders(), { wh_mine: null, wh_others: 'node_2' });
  });

  test('a node that stops gives back everything it holds, and nothing of the other nodes', async () => {
    await store('wh_mine', { lease_node: 'node_1' });
    await store('wh_others', { lease_node: 'node_2' });
    await leases('node_1').releaseAll();
    assert.deepEqual(await holders(), { wh_mine: null, wh_others: 'node_2' });
  });

  test('what a node holds without knowing is given back at the second look, not at the first', async () => {
    const known = await store('wh_known', { lease_node: 'node_1' });
    await store('wh_unknown', { lease_node: 'node_1' });
    await store('wh_others', { lease_node: 'node_2' });
    const node = leases('node_1');
    const look = () => node.releaseUnknown((id) => id === known.id);
    const first = await look();
    assert.deepEqual([first.released, first.held?.has(known.id), first.held?.size], [0, true, 2]);
    assert.deepEqual(await holders(), { wh_known: 'node_1', wh_unknown: 'node_1', wh_others: 'node_2' });
    assert.equal((await look()).released, 1);
    assert.deepEqual(await holders(), { wh_known: 'node_1', wh_unknown: null, wh_others: 'node_2' });
  });

  test('the outcome of a node that lost a delivery is refused', async () => {
    const { id, emit_id } = await store('wh_taken', { lease_node: 'node_2' });
    const outcome: SettledDelivery = {
      ...{ id, emit_id, state: 'delivered', reason: null, run_at_ms: nowMs, attempts: 1, attempt_log: '[]' },
      ...{ status: 200, latency_ms: 1, has_payload: 0, ended_at_ms: nowMs },
    };
    const settle = (node: string) =>
      fixture.store.transaction((tx) =>
        tx.executeQuery(settleDeliveriesQuery(fixture.store, node, [outcome])),
      );
    assert.deepEqual((await settle('node_1')).rows, []);
    assert.deepEqual(await holders(), { wh_taken: 'node_2' });
    assert.deepEqual((await settle('node_2')).rows, [{ id }]);
  });
});
