import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DeliveryFixture } from '../../test/support/delivery-fixture.ts';
import { HttpReceiver } from '../../test/support/http-receiver.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { waitFor } from '../../test/support/wait-for.ts';

/** A receiver that takes requests and answers none of them. */
const hanging = () => HttpReceiver.start({ answer: () => new Promise(() => {}) });

forEachStore((fixture) => {
  test('large events that nobody takes fill their part of the memory, and stop neither the service nor others', async () => {
    await using delivery = await DeliveryFixture.start(fixture.store);
    await using slow = await hanging();
    await using receiver = await HttpReceiver.start();
    await delivery.emitter('dc_1', 'o_1');
    await delivery.emitter('dc_2', 'o_2');
    for (let n = 0; n < 3; n += 1) await delivery.subscribe((await delivery.webhook(slow.url)).id);
    const other = await delivery.webhook(receiver.url, { ownerId: 'o_2' });
    await delivery.subscribe(other.id, { emitterId: 'dc_2', ownerId: 'o_2' });
    const large = JSON.stringify('x'.repeat(4_000_000));
    for (let n = 0; n < 8; n += 1) await delivery.emit([large]);
    await delivery.emit(['1', large], { emitterId: 'dc_2' });
    await receiver.waitForRequest(2);
    assert.ok(delivery.service.dispatcher.counts().held < 10);
  });

  test('many receivers of one owner that hang, with a backlog, leave room for a new event and a retry of another', async () => {
    await using delivery = await DeliveryFixture.start(fixture.store);
    await using slow = await hanging();
    await using receiver = await HttpReceiver.start();
    receiver.answerOnce({ status: 500 });
    await delivery.emitter('dc_1', 'o_1');
    await delivery.emitter('dc_2', 'o_2');
    for (let n = 0; n < 300; n += 1) await delivery.subscribe((await delivery.webhook(slow.url)).id);
    const other = await delivery.webhook(receiver.url, { ownerId: 'o_2' });
    await delivery.subscribe(other.id, { emitterId: 'dc_2', ownerId: 'o_2' });
    for (let n = 0; n < 30; n += 1) await delivery.emit(['0']);
    const { dispatcher } = delivery.service;
    await waitFor(() => dispatcher.counts().held > 2_000);
    await delivery.emit(['1'], { emitterId: 'dc_2' });
    await receiver.waitForRequest(1);
    await waitFor(async () => (await delivery.deliveries(other.id))[0]?.attempts === 1);
    // Behind nine thousand of the others'.
    delivery.clock.step(6_000);
    dispatcher.poke();
    await receiver.waitForRequest(2, 5_000);
    assert.ok(dispatcher.counts().held < 3_000, `${dispatcher.counts().held} in memory`);
    assert.ok(dispatcher.counts().sending < 400, `${dispatcher.counts().sending} requests`);
  });
});
