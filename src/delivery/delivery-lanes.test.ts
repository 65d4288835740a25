import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DeliveryFixture } from '../../test/support/delivery-fixture.ts';
import { HttpReceiver } from '../../test/support/http-receiver.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import type { HeldDelivery } from './delivery.ts';
import { DeliveryLanes, type LaneBounds, laneBounds } from './delivery-lanes.ts';

/** A receiver that takes requests and answers none of them. */
const hanging = () => HttpReceiver.start({ answer: () => new Promise(() => {}) });

/** An eighth of what a node has. */
const eighth: LaneBounds = {
  heldMax: laneBounds.heldMax / 8,
  heldBytesMax: laneBounds.heldBytesMax / 8,
  sendingMax: laneBounds.sendingMax / 8,
};

test('a node has 8,192 deliveries in memory and 1,024 under way; listeners of one owner that hang have a third of each', () => {
  const lanes = new DeliveryLanes();
  const deliveryOf = (listenerId: string, ownerId: string) =>
    ({ listenerId, ownerId, body: Buffer.from('0') }) as HeldDelivery;
  for (let n = 0; n < 300; n += 1) {
    const lane = lanes.of(`wh_${n}`, 'o_1', 0);
    while (lanes.room(lane.listenerId) > 0 && lanes.hasRoomFor('o_1'))
      lanes.take(lane, deliveryOf(lane.listenerId, 'o_1'));
    while (lanes.next(lane, 0) !== undefined);
  }
  assert.ok(lanes.held > 8_192 / 4 && lanes.held < 8_192 / 2.9, `${lanes.held} in memory`);
  assert.ok(lanes.sending > 1_024 / 4 && lanes.sending < 1_024 / 2.9, `${lanes.sending} under way`);
  const other = lanes.of('wh_other', 'o_2', 0);
  assert.ok(lanes.room('wh_other') > 100 && lanes.hasRoomFor('o_2'));
  lanes.take(other, deliveryOf('wh_other', 'o_2'));
  assert.ok(lanes.next(other, 0));
});

forEachStore((fixture) => {
  test('large events that nobody takes fill their part of the memory, and stop neither the service nor others', async () => {
    await using delivery = await DeliveryFixture.start(fixture.store, { lanes: eighth });
    await using slow = await hanging();
    await using receiver = await HttpReceiver.start();
    await delivery.emitter('dc_1', 'o_1');
    await delivery.emitter('dc_2', 'o_2');
    for (let n = 0; n < 3; n += 1) await delivery.subscribe((await delivery.webhook(slow.url)).id);
    const other = await delivery.webhook(receiver.url, { ownerId: 'o_2' });
    await delivery.subscribe(other.id, { emitterId: 'dc_2', ownerId: 'o_2' });
    const large = JSON.stringify('x'.repeat(500_000));
    for (let n = 0; n < 8; n += 1) await delivery.emit([large]);
    await delivery.emit(['1', large], { emitterId: 'dc_2' });
    await receiver.waitForRequest(2);
    assert.ok(delivery.service.dispatcher.counts().held < 10);
  });

  test('many receivers of one owner that hang, with a backlog, leave room for a new event and a retry of another', async () => {
    await using delivery = await DeliveryFixture.start(fixture.store, { lanes: eighth });
    await using slow = await hanging();
    await using receiver = await HttpReceiver.start();
    receiver.answerOnce({ status: 500 });
    await delivery.emitter('dc_1', 'o_1');
    await delivery.emitter('dc_2', 'o_2');
    for (let n = 0; n < 40; n += 1) await delivery.subscribe((await delivery.webhook(slow.url)).id);
    const other = await delivery.webhook(receiver.url, { ownerId: 'o_2' });
    await delivery.subscribe(other.id, { emitterId: 'dc_2', ownerId: 'o_2' });
    for (let n = 0; n < 30; n += 1) await delivery.emit(['0']);
    const { dispatcher } = delivery.service;
    await waitFor(() => dispatcher.counts().held > 2_000 / 8);
    await delivery.emit(['1'], { emitterId: 'dc_2' });
    await receiver.waitForRequest(1);
    await waitFor(async () => (await delivery.deliveries(other.id))[0]?.attempts === 1);
    // Behind more than a thousand of the others'.
    delivery.clock.step(6_000);
    dispatcher.poke();
    await receiver.waitForRequest(2);
    assert.ok(dispatcher.counts().held < 3_000 / 8, `${dispatcher.counts().held} in memory`);
    assert.ok(dispatcher.counts().sending < 400 / 8, `${dispatcher.counts().sending} requests`);
  });
});
