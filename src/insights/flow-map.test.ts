import assert from 'node:assert/strict';
import { test } from 'node:test';
import { recordOutcome } from '#health/outcome-store.ts';
import type { Store } from '#storage/store.ts';
import type { SubscriptionTable, WebhookState } from '#storage/tables/delivery-tables.ts';
import type { RunState, RunTable, TriggerTable } from '#storage/tables/workflow-tables.ts';
import { sourceRow } from '../../test/support/source-row.ts';
import { storeDelivery } from '../../test/support/stored-deliveries.ts';
import { storeWorkflow } from '../../test/support/stored-workflows.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { flowEdgesMax, flowNodesMax, readFlowMap } from './flow-map.ts';

const ownerId = 'o_1';
const nowMs = 1_800_000_000_000;
const clock = new TestClock(nowMs);

const webhookRow = (id: string, state: WebhookState = 'active') => ({
  ...{ id, owner_id: ownerId, user_id: 'u_1', name: null, description: null, secret: 'sealed' },
  ...{ url: `https://example.com/${id}`, old_secret: null, old_secret_until_ms: null, state },
  ...{ failing_since_ms: state === 'disabled' ? 5 : null, disabled_reason: null, disabled_at_ms: null },
  ...{ removed_records: 0, created_at_ms: 1, updated_at_ms: 1 },
});

const subscriptionRow = (
  id: string,
  emitterId: string,
  listenerId: string,
  other: Partial<SubscriptionTable> = {},
): SubscriptionTable => ({
  ...{ id, emitter_owner_id: ownerId, emitter_id: emitterId, event_name: '', listener_id: listenerId },
  ...{ listener_owner_id: ownerId, user_id: 'u_1', created_at_ms: 1 },
  ...other,
});

/** Sources that emitted last at these times. */
async function storeSources(store: Store, lastMs: Record<string, number>, owner = ownerId): Promise<void> {
  const ids = Object.entries(lastMs);
  for (let from = 0; from < ids.length; from += 200) {
    const part = ids.slice(from, from + 200);
    await store.transaction(async (tx) => {
      await tx
        .insertInto('sources')
        .values(part.map(([id]) => sourceRow(id, { ownerId: owner })))
        .execute();
      await tx
        .insertInto('emitters')
        .values(part.map(([id, last]) => ({ id, owner_id: owner, last_ms: last, last_seq: 0, dedupe: '{}' })))
        .execute();
    });
  }
}

async function storeEvents(store: Store, emitterId: string, channel: string, atMs: number[]): Promise<void> {
  await store.transaction((tx) =>
    tx
      .insertInto('events')
      .values(
        atMs.map((ms, seq) => ({
          ...{
            emitter_id: emitterId,
            channel,
            ms,
            seq,
            owner_id: ownerId,
            emit_id: `${emitterId}${channel}${seq}`,
          },
          ...{ given_id: null, summary: null, ts_ms: null, event: '{}', deliver_channel: null },
          ...{ deliver_at_ms: null, hops: 0 },
        })),
      )
      .execute(),
  );
}

const nodeOf = (map: Awaited<ReturnType<typeof readFlowMap>>, id: string) =>
  map.nodes.find((node) => node.id === id);
const edgeOf = (map: Awaited<ReturnType<typeof readFlowMap>>, id: string) =>
  map.edges.find(({ subscription }) => subscription.id === id);

forEachStore((fixture) => {
  test('what flows from emitters to listeners is shown with its rates and failures', async () => {
    const { store } = fixture;
    await storeSources(store, { dc_1: nowMs - 1_000 });
    const workflowId = await storeWorkflow(store);
    await store.transaction(async (tx) => {
      await tx
        .insertInto('webhooks')
        .values([webhookRow('wh_1'), webhookRow('wh_2', 'disabled')])
        .execute();
      await tx
        .insertInto('subscriptions')
        .values([
          subscriptionRow('sub_1', 'dc_1', 'wh_1'),
          subscriptionRow('sub_2', 'dc_1', workflowId),
          subscriptionRow('sub_3', 'dc_*', 'wh_2', { event_name: '$errors' }),
        ])
        .execute();
    });
    for (let n = 0; n < 3; n += 1)
      await storeDelivery(store, {
        ...{ listener_id: 'wh_1', subscription_id: 'sub_1', state: 'delivered' },
        created_at_ms: nowMs - 10_000 - n,
      });
    const ofFirst = { listener_id: 'wh_1', subscription_id: 'sub_1' };
    await storeDelivery(store, { ...ofFirst, state: 'delivered', created_at_ms: nowMs - 120_000 });
    await storeDelivery(store, { ...ofFirst, state: 'queued', attempts: 2, created_at_ms: nowMs - 130_000 });
    await storeDelivery(store, {
      ...{ listener_id: 'wh_2', subscription_id: 'sub_3', state: 'failed' },
      created_at_ms: nowMs - 7_200_000,
    });
    await storeEvents(store, 'dc_1', '', [nowMs - 90_000, nowMs - 30_000, nowMs - 1_000]);
    await storeEvents(store, 'dc_1', '$errors', [nowMs - 7_200_000, nowMs - 60_001]);
    await store.transaction((tx) =>
      tx
        .insertInto('runs')
        .values([run('run_1', workflowId, 'dc_1', 'failed'), run('run_2', workflowId, 'hi_1', 'succeeded')])
        .execute(),
    );
    await store.transaction((tx) =>
      recordOutcome(store, tx, { subjectId: 'dc_1', ownerId, failure: null, atMs: nowMs }),
    );
    await store.transaction((tx) => tx.insertInto('triggers').values(httpTrigger(workflowId)).execute());
    const map = await readFlowMap({ store, clock }, ownerId);
    assert.deepEqual(map.totals, { sources: 1, workflows: 1, webhooks: 2, subscriptions: 3 });
    assert.deepEqual(edgeOf(map, 'sub_1')?.figures, { perMinute: 3, failed: 1, lastMs: nowMs - 10_000 });
    assert.deepEqual(edgeOf(map, 'sub_2')?.figures, { perMinute: 0, failed: 0, lastMs: null });
    assert.equal(edgeOf(map, 'sub_3')?.deadLetters, 1);
    assert.equal(nodeOf(map, 'wh_2')?.deadLetters, 1);
    assert.equal(nodeOf(map, 'wh_2')?.thing?.state, 'disabled');
    assert.deepEqual(nodeOf(map, 'dc_1')?.emitted, { perMinute: 2, failed: 1, lastMs: nowMs - 1_000 });
    assert.equal(nodeOf(map, 'dc_*')?.kind, 'all');
    // What counts is what happened last, as in every other answer.
    assert.deepEqual(
      ['dc_1', 'wh_1', 'wh_2', 'dc_*'].map((id) => nodeOf(map, id)?.health?.state),
      ['healthy', 'waiting', 'disabled', undefined],
    );
    assert.deepEqual(
      ['sub_1', 'sub_2', 'sub_3'].map((id) => edgeOf(map, id)?.isFailing),
      [false, false, true],
    );
    const workflow = nodeOf(map, workflowId);
    assert.deepEqual(workflow?.runs, { perMinute: 2, failed: 1, lastMs: nowMs - 5_000 });
    assert.deepEqual(
      workflow?.triggers.map(({ id, kind, figures }) => [id, kind, figures.perMinute]),
      [['hi_1', 'http', 1]],
    );
  });

  test('a rate is true where more came within a minute than is looked at', async () => {
    const { store } = fixture;
    await storeSources(store, { dc_1: nowMs });
    await storeEvents(
      store,
      'dc_1',
      '',
      Array.from({ length: 150 }, (_, n) => nowMs - n * 100),
    );
    const map = await readFlowMap({ store, clock }, ownerId);
    const perMinute = nodeOf(map, 'dc_1')?.emitted?.perMinute ?? 0;
    assert.ok(Math.abs(perMinute - 600) < 20, `${perMinute} instead of 600`);
  });

  test('things of others are neither named nor counted, but that a subscription leads there', async () => {
    const { store } = fixture;
    await storeSources(store, { dc_1: 1 });
    await storeSources(store, { dc_2: 1, dc_3: 1 }, 'o_2');
    await store.transaction((tx) =>
      tx
        .insertInto('subscriptions')
        .values([
          subscriptionRow('sub_1', 'dc_1', 'dc_2', { listener_owner_id: 'o_2' }),
          subscriptionRow('sub_2', 'dc_3', 'dc_2', { listener_owner_id: 'o_2', emitter_owner_id: 'o_2' }),
        ])
        .execute(),
    );
    await storeDelivery(store, {
      ...{ listener_id: 'dc_2', subscription_id: 'sub_1', state: 'delivered', owner_id: 'o_2' },
      created_at_ms: nowMs - 1,
    });
    const map = await readFlowMap({ store, clock }, ownerId, 'dc_3');
    assert.deepEqual(map.nodes.map(({ id }) => id).sort(), ['dc_1', 'dc_2']);
    assert.equal(nodeOf(map, 'dc_2')?.thing, null);
    assert.deepEqual([edgeOf(map, 'sub_1')?.figures, edgeOf(map, 'sub_2')], [null, undefined]);
    assert.deepEqual(map.totals, { sources: 1, workflows: 0, webhooks: 0, subscriptions: 1 });
    const nobody = await readFlowMap({ store, clock }, 'o_3');
    assert.deepEqual([nobody.nodes, nobody.edges], [[], []]);
    for (const focus of ['o_1', 'u_1', 'dc_*', 'dc_1', 'nothing'])
      assert.deepEqual((await readFlowMap({ store, clock }, 'o_3', focus)).nodes, [], focus);
  });

  test('of very many, a bounded number is shown: the one asked for, what fails, what had traffic last', async () => {
    const { store } = fixture;
    const count = 1_000;
    await storeSources(
      store,
      Object.fromEntries(Array.from({ length: count }, (_, n) => [`dc_${n}`, n + 1])),
    );
    const subscriptions = Array.from({ length: count }, (_, n) =>
      subscriptionRow(`sub_${n}`, `dc_${n}`, 'wh_1', { created_at_ms: n }),
    );
    await store.transaction(async (tx) => {
      await tx.insertInto('webhooks').values(webhookRow('wh_1')).execute();
      for (let from = 0; from < count; from += 200)
        await tx
          .insertInto('subscriptions')
          .values(subscriptions.slice(from, from + 200))
          .execute();
    });
    await storeDelivery(store, {
      ...{ listener_id: 'wh_1', subscription_id: 'sub_7', state: 'failed' },
      created_at_ms: nowMs - 1,
    });
    await store.transaction((tx) =>
      recordOutcome(store, tx, { subjectId: 'dc_5', ownerId, failure: 'TypeError: x', atMs: 1 }),
    );
    const map = await readFlowMap({ store, clock }, ownerId, 'dc_3');
    assert.equal(map.nodes.length, flowNodesMax);
    assert.ok(map.edges.length <= flowEdgesMax);
    assert.deepEqual(map.totals, { sources: count, workflows: 0, webhooks: 1, subscriptions: count });
    const shown = new Set(map.nodes.map(({ id }) => id));
    for (const id of ['dc_3', 'dc_5', 'dc_7', 'wh_1', 'dc_999', 'dc_700']) assert.ok(shown.has(id), id);
    assert.ok(!shown.has('dc_8'), 'a source that was quiet for longest is left out');
    for (const { subscription } of map.edges)
      assert.ok(shown.has(subscription.emitter_id) && shown.has(subscription.listener_id));
  });
});

function run(id: string, workflowId: string, emitterId: string, state: RunState): RunTable {
  return {
    ...{ id, owner_id: ownerId, workflow_id: workflowId, deployment_id: 'd_1', state, emitter_id: emitterId },
    ...{ source_type: 'SDK', event: '{}', trace_id: id, token: 't', hops: 0, no_store: 0, replay_of: null },
    ...{ wait_kind: null, wait_until_ms: null, position: 0, resumption: null, failures: 0, error: null },
    ...{
      reason: null,
      flow_warning: null,
      created_at_ms: nowMs - 5_000,
      started_at_ms: nowMs - 5_000,
      ended_at_ms: nowMs,
    },
  };
}

function httpTrigger(workflowId: string): TriggerTable {
  return {
    ...{ workflow_id: workflowId, id: 'hi_1', owner_id: ownerId, kind: 'http', position: 0, key: 'eo1' },
    ...{ custom_response: 0, auth: null, interval_seconds: null, cron: null, timezone: 'UTC', owned: 0 },
    ...{ schedule_changed_at_ms: 1, created_at_ms: 1, updated_at_ms: 1 },
  };
}
