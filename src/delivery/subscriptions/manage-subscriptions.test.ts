import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createWebhook } from '#delivery/webhooks/manage-webhooks.ts';
import { insertEmitter } from '#events/event-store.ts';
import { newId } from '#lib/ids.ts';
import { insertSource } from '#sources/source-store.ts';
import type { Store } from '#storage/store.ts';
import { sourceRow } from '../../../test/support/source-row.ts';
import { webhookTools } from '../../../test/support/stored-deliveries.ts';
import { storeWorkflow } from '../../../test/support/stored-workflows.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import {
  addAutoSubscriptions,
  listenToSource,
  removeSubscriptionsOf,
  stopListening,
  subscribe,
  subscribeToNew,
  unsubscribe,
} from './manage-subscriptions.ts';
import { autoSubscriptionsOf, subscriptionsOf } from './subscription-store.ts';

const caller = { userId: 'u_1', keyId: 'key_1', isAdmin: false };
const owner = { ownerId: 'u_1', userId: 'u_1' };
const url = 'http://127.0.0.1:9/hook';

/** Their ends, as `emitter channel listener`. */
async function endsOf(store: Store, ownerId: string): Promise<string[]> {
  const rows = await subscriptionsOf(store.read, ownerId);
  return rows.map((row) => [row.emitter_id, row.event_name, row.listener_id].join(' ')).sort();
}

async function storeSource(store: Store, id: string, ownerId = 'u_1'): Promise<void> {
  await store.transaction(async (tx) => {
    await insertEmitter(tx, { id, ownerId });
    await insertSource(tx, sourceRow(id, { ownerId }), []);
  });
}

forEachStore((fixture) => {
  test('workflows are emitters and listeners of subscriptions, for those who may write them', async () => {
    const { store } = fixture;
    const tools = webhookTools(store);
    for (const id of ['p_1', 'p_2']) await storeWorkflow(store, { id, ownerId: 'u_1' });
    await storeWorkflow(store, { id: 'p_other', ownerId: 'u_2' });
    for (const emitterId of ['p_2', 'p_*', 'dc_*', 'u_1'])
      await subscribe(tools, caller, { emitterId, listenerId: 'p_1', eventName: '' });
    await subscribe(tools, caller, { emitterId: 'p_1', listenerId: 'p_1', eventName: '$errors' });
    assert.deepEqual(await endsOf(store, 'u_1'), [
      'dc_*  p_1',
      'p_*  p_1',
      'p_1 $errors p_1',
      'p_2  p_1',
      'u_1  p_1',
    ]);
    await unsubscribe(tools, caller, { emitterId: 'p_2', listenerId: 'p_1', eventName: '' });
    assert.equal((await endsOf(store, 'u_1')).length, 4);
    for (const [emitterId, listenerId, parameter] of [
      ['p_other', 'p_1', 'emitter_id'],
      ['p_1', 'p_other', 'listener_id'],
      ['p_none', 'p_1', 'emitter_id'],
      ['p_1', 'p_none', 'listener_id'],
    ] as const)
      await assert.rejects(subscribe(tools, caller, { emitterId, listenerId, eventName: '' }), {
        code: 'not_found',
        details: { parameter },
      });
  });

  test('a workflow that is made is subscribed to automatically; one that goes takes its subscriptions with it', async () => {
    const { store } = fixture;
    const tools = webhookTools(store);
    const { id: webhookId } = (await createWebhook(tools, { ...owner, url })).webhook;
    await subscribeToNew(tools, caller, { eventName: '$errors', listenerId: webhookId });
    const workflow = { id: await storeWorkflow(store, { ownerId: 'u_1' }), ownerId: 'u_1' };
    const nowMs = tools.clock.now();
    await store.transaction((tx) => addAutoSubscriptions(tx, workflow, nowMs));
    assert.deepEqual(await endsOf(store, 'u_1'), [`p_1 $errors ${webhookId}`]);
    await subscribeToNew(tools, caller, { eventName: '$errors', listenerId: 'p_1' });
    await subscribe(tools, caller, { emitterId: 'dc_*', listenerId: 'p_1', eventName: '' });
    await store.transaction((tx) => removeSubscriptionsOf(store, tx, workflow, nowMs));
    assert.deepEqual(await endsOf(store, 'u_1'), []);
    assert.equal((await autoSubscriptionsOf(store.read, 'u_1')).length, 1);
  });

  test('a source that triggers a workflow is a subscription, until it no longer triggers it', async () => {
    const { store } = fixture;
    await storeWorkflow(store, { ownerId: 'u_1' });
    await storeSource(store, 'dc_1');
    const workflow = { id: 'p_1', ownerId: 'u_1', userId: 'u_1' };
    const listen = (sourceId: string) =>
      store.transaction((tx) => listenToSource(store, tx, { workflow, sourceId }, 1));
    await listen('dc_1');
    await listen('dc_1');
    assert.deepEqual(await endsOf(store, 'u_1'), ['dc_1  p_1']);
    await assert.rejects(listen('dc_none'), { code: 'not_found', details: { parameter: 'source_id' } });
    await store.transaction((tx) => stopListening(store, tx, { workflowId: 'p_1', sourceId: 'dc_1' }, 1));
    assert.deepEqual(await endsOf(store, 'u_1'), []);
    const jobs = await store.read.selectFrom('jobs').select(['kind', 'payload']).execute();
    assert.ok(jobs.length > 0);
    for (const { kind, payload } of jobs) {
      assert.equal(kind, 'change_deliveries');
      assert.equal(JSON.parse(payload).reason, 'subscription_removed');
    }
  });

  test('listeners of one owner have at most 50,000 subscriptions; one that exists is still answered', async () => {
    const tools = webhookTools(fixture.store);
    const { id: listenerId } = (await createWebhook(tools, { ...owner, url })).webhook;
    const first = { emitterId: 'u_1', listenerId, eventName: '' };
    const made = await subscribe(tools, caller, first);
    for (let count = 1; count < 50_000; ) {
      const rows = Array.from({ length: Math.min(1_000, 50_000 - count) }, (_, index) => ({
        ...made,
        id: newId('sub'),
        event_name: `channel-${count + index}`,
      }));
      await fixture.store.transaction((tx) => tx.insertInto('subscriptions').values(rows).execute());
      count += rows.length;
    }
    const next = { ...first, eventName: 'one more' };
    await assert.rejects(subscribe(tools, caller, next), {
      code: 'conflict',
      message: /50000 subscriptions/,
    });
    assert.deepEqual(await subscribe(tools, caller, first), made);
    await fixture.store.transaction((tx) =>
      tx.deleteFrom('subscriptions').where('event_name', '=', 'channel-1').execute(),
    );
    assert.equal((await subscribe(tools, caller, next)).event_name, 'one more');
  });

  test('what one owner creates is subscribed to automatically by at most 100', async () => {
    const tools = webhookTools(fixture.store);
    const webhooks = [];
    for (let count = 0; count < 51; count++)
      webhooks.push((await createWebhook(tools, { ...owner, url })).webhook.id);
    const asked = webhooks.flatMap((listenerId) =>
      ['$errors', '$logs'].map((eventName) => ({ listenerId, eventName })),
    );
    const made = [];
    for (const request of asked.slice(0, 100)) made.push(await subscribeToNew(tools, caller, request));
    const [first, last] = [asked[0], asked[100]];
    assert.ok(first && last);
    await assert.rejects(subscribeToNew(tools, caller, last), { code: 'conflict', message: /100 automatic/ });
    assert.deepEqual(await subscribeToNew(tools, caller, first), made[0]);
  });
});
