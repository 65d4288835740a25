import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newId } from '#lib/ids.ts';
import { webhookTools } from '../../test/support/stored-deliveries.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { subscribe, subscribeToNew } from './manage-subscriptions.ts';
import { createWebhook } from './manage-webhooks.ts';

const caller = { userId: 'u_1', keyId: 'key_1', isAdmin: false };
const owner = { ownerId: 'u_1', userId: 'u_1' };
const url = 'http://127.0.0.1:9/hook';

forEachStore((fixture) => {
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
