import assert from 'node:assert/strict';
import { test } from 'node:test';
import { emitEvents } from '#events/emit-event.ts';
import { insertEmitter } from '#events/event-store.ts';
import type { Store } from '#storage/store.ts';
import type { DeliveryState, DeliveryTable } from '#storage/tables/delivery-tables.ts';
import { noSubscribers } from '../../test/support/no-subscribers.ts';
import { storeDelivery, webhookTools } from '../../test/support/stored-deliveries.ts';
import { forEachStore } from '../../test/support/stores.ts';
import type { TestClock } from '../../test/support/test-clock.ts';
import { findDelivery, pageOfDeadLetters, pageOfDeliveries } from './delivery-store.ts';
import { dueDeliveries } from './dispatch/delivery-queue-store.ts';
import { readPayload } from './dispatch/payload-store.ts';
import { redeliver, viewDelivery } from './manage-deliveries.ts';
import { createWebhook, removeWebhook } from './webhooks/manage-webhooks.ts';

async function withWebhook(store: Store) {
  const queued: string[] = [];
  const tools = { ...webhookTools(store), onQueued: (listenerId: string) => queued.push(listenerId) };
  const { webhook } = await createWebhook(tools, {
    ownerId: 'o_1',
    userId: 'u_1',
    url: 'http://127.0.0.1:9',
  });
  return { tools, id: webhook.id, queued };
}

/** A stored event, and how a delivery names it. */
async function storeEvent(store: Store, clock: TestClock, event: string) {
  const stored = await store.transaction(async (tx) => {
    await insertEmitter(tx, { id: 'dc_1', ownerId: 'o_1' });
    const emission = { emitterId: 'dc_1', hops: 0, events: [{ channel: 'orders', event }] };
    const batch = { emissions: [emission], router: noSubscribers, nowMs: clock.now() };
    const [result] = await emitEvents(store, tx, batch);
    return result?.accepted === true ? result.stored : [];
  });
  const { ms = 0, seq = 0, emit_id = '' } = stored[0] ?? {};
  return { channel: 'orders', ms, seq, emit_id };
}

/** What a node would send now. */
async function sendable(store: Store, nowMs: number) {
  const due = await dueDeliveries(store.read, { nowMs, limit: 100 });
  const rows = await Promise.all(due.map(({ id }) => findDelivery(store.read, id)));
  return Promise.all(
    rows.map(async (row) => ({ ...row, event: await readPayload(store.read, row?.emit_id ?? '') })),
  );
}

forEachStore((fixture) => {
  test('a dead letter is queued again with the text that was kept for it, and a new count of attempts', async () => {
    const { store } = fixture;
    const { tools, id, queued } = await withWebhook(store);
    const nowMs = tools.clock.now();
    const attempt_log = '[{"at":1,"latency_ms":2,"status":500}]';
    const failed = await storeDelivery(store, {
      ...{ listener_id: id, state: 'failed', created_at_ms: nowMs - 9_000, attempts: 8, status: 500 },
      attempt_log,
    });
    const again = await redeliver(tools, failed);
    assert.deepEqual(
      [again.state, again.reason, again.attempts, again.ended_at_ms, again.attempt_log],
      ['queued', null, 0, null, attempt_log],
    );
    assert.deepEqual(queued, [id]);
    const [held] = await sendable(store, nowMs);
    assert.deepEqual([held?.id, held?.event, held?.attempts], [failed.id, '"it"', 0]);
    // By a caller that read it before.
    await assert.rejects(redeliver(tools, failed), { code: 'conflict' });
    assert.deepEqual(queued, [id]);
  });

  test('what was delivered is sent again from the stored event, under a text of its own', async () => {
    const { store } = fixture;
    const { tools, id } = await withWebhook(store);
    const place = await storeEvent(store, tools.clock, '{"n":"ż"}');
    const made = { listener_id: id, created_at_ms: tools.clock.now(), ...place };
    const delivered = await storeDelivery(store, { ...made, state: 'delivered' });
    const again = await redeliver(tools, delivered);
    assert.notEqual(again.emit_id, delivered.emit_id);
    assert.equal(again.payload_bytes, 10);
    const [held] = await sendable(store, tools.clock.now());
    assert.deepEqual([held?.id, held?.event], [delivered.id, '{"n":"ż"}']);
  });

  test('without its event, without its listener, or while it is open it cannot be sent again', async () => {
    const { store } = fixture;
    const { tools, id, queued } = await withWebhook(store);
    const made = { listener_id: id, created_at_ms: tools.clock.now() };
    const refused: [DeliveryState, RegExp][] = [
      ['delivered', /is no longer kept/],
      ['queued', /will be sent/],
      ['held', /will be sent/],
    ];
    for (const [state, message] of refused) {
      const delivery = await storeDelivery(store, { ...made, state });
      await assert.rejects(redeliver(tools, delivery), { code: 'conflict', message });
      assert.equal((await findDelivery(store.read, delivery.id))?.state, state);
    }
    const failed = await storeDelivery(store, { ...made, state: 'failed' });
    await removeWebhook(tools, id);
    await assert.rejects(redeliver(tools, failed), { code: 'conflict', message: /no longer exists/ });
    const toSource = await storeDelivery(store, { ...made, listener_id: 'dc_gone', state: 'skipped' });
    await assert.rejects(redeliver(tools, toSource), { code: 'conflict', message: /no longer exists/ });
    assert.deepEqual(queued, []);
  });

  test('lists are newest first and narrowed by subscription and state; dead letters are those of an owner', async () => {
    const { store } = fixture;
    const make = (state: DeliveryState, at: number, more = {}) =>
      storeDelivery(store, { listener_id: 'wh_1', state, created_at_ms: at, ...more });
    const first = await make('failed', 1);
    const second = await make('delivered', 2, { subscription_id: 'sub_1' });
    const third = await make('queued', 3, { subscription_id: 'sub_1' });
    const fourth = await make('blocked', 4);
    await make('failed', 5, { listener_id: 'wh_2', owner_id: 'o_2' });
    const ids = ({ rows }: { rows: { id: string }[] }) => rows.map(({ id }) => id);
    const list = (filter: object) =>
      pageOfDeliveries(store.read, { listenerId: 'wh_1', ...filter }, { limit: 10 });
    assert.deepEqual(ids(await list({})), [fourth.id, third.id, second.id, first.id]);
    assert.deepEqual(ids(await list({ subscriptionId: 'sub_1' })), [third.id, second.id]);
    assert.deepEqual(ids(await list({ states: ['failed', 'queued'] })), [third.id, first.id]);
    const page = await pageOfDeliveries(store.read, { listenerId: 'wh_1' }, { limit: 2, after: fourth.id });
    assert.deepEqual([ids(page), page.totalCount], [[third.id, second.id], 4]);
    const dead = await pageOfDeadLetters(store.read, { ownerId: 'o_1' }, { limit: 10 });
    assert.deepEqual(ids(dead), [fourth.id, first.id]);
    const blocked = await pageOfDeadLetters(
      store.read,
      { ownerId: 'o_1', states: ['blocked'] },
      { limit: 10 },
    );
    assert.deepEqual(ids(blocked), [fourth.id]);
  });
});

test('a delivery shows its attempts in the conventions of the API, and the answers only to some', async () => {
  const row: DeliveryTable = {
    ...{ id: 'dlv_1', owner_id: 'o_1', listener_id: 'wh_1', subscription_id: 'sub_1', replay_id: null },
    ...{
      emitter_id: 'dc_1',
      channel: '',
      ms: 1_700_000_000_000,
      seq: 3,
      emit_id: 'e',
      hops: 0,
      trace: null,
    },
    state: 'queued',
    ...{
      reason: null,
      run_at_ms: 1_700_000_009_999,
      lease_node: null,
      attempts: 1,
      status: 503,
      latency_ms: 7,
    },
    attempt_log: '[{"at":1700000001234,"latency_ms":7,"status":503,"response":"secret"}]',
    ...{ has_payload: 1, payload_bytes: 4, created_at_ms: 1_700_000_000_999, ended_at_ms: null },
  };
  const shown = {
    ...{ id: 'dlv_1', listener_id: 'wh_1', subscription_id: 'sub_1', replay_id: null, emitter_id: 'dc_1' },
    ...{ event_name: '', event_id: '1700000000000-3', state: 'queued', reason: null, attempt_count: 1 },
    attempts: [{ at_ms: 1_700_000_001_234, latency_ms: 7, status: 503, response: 'secret' }],
    ...{
      status: 503,
      latency_ms: 7,
      next_attempt_at: 1_700_000_009,
      created_at: 1_700_000_000,
      ended_at: null,
    },
  };
  assert.deepEqual(viewDelivery(row, { withResponses: true }), shown);
  const attempts = [{ at_ms: 1_700_000_001_234, latency_ms: 7, status: 503 }];
  assert.deepEqual(viewDelivery(row, { withResponses: false }), { ...shown, attempts });
  const beingSent = viewDelivery({ ...row, lease_node: 'node_1' }, { withResponses: true });
  assert.equal(beingSent.next_attempt_at, null);
});
