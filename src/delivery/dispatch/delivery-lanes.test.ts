import assert from 'node:assert/strict';
import { test } from 'node:test';
import { insertChangeJob } from '#delivery/change-deliveries.ts';
import type { HeldDelivery } from '#delivery/delivery.ts';
import { DeliveryFixture } from '../../../test/support/delivery-fixture.ts';
import { HttpReceiver } from '../../../test/support/http-receiver.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { type DeliveryLane, DeliveryLanes, type LaneBounds, laneBounds } from './delivery-lanes.ts';

/** A receiver that takes requests and answers none of them. */
const hanging = () => HttpReceiver.start({ answer: () => new Promise(() => {}) });

/** An eighth of what a node has. */
const eighth: LaneBounds = {
  ...laneBounds,
  heldMax: laneBounds.heldMax / 8,
  heldBytesMax: laneBounds.heldBytesMax / 8,
  sendingMax: laneBounds.sendingMax / 8,
};

const deliveryOf = ({ listenerId, ownerId }: DeliveryLane) =>
  ({ id: `${listenerId}_${Math.random()}`, listenerId, ownerId, body: Buffer.from('0') }) as HeldDelivery;

/** Gives a lane what it has room for, and sends what it may. */
function fill(lanes: DeliveryLanes, lane: DeliveryLane): HeldDelivery[] {
  while (lanes.room(lane.listenerId) > 0 && lanes.hasRoomFor(lane)) lanes.take(lane, deliveryOf(lane));
  const sent: HeldDelivery[] = [];
  for (let next = lanes.next(lane, 0); next !== undefined; next = lanes.next(lane, 0)) sent.push(next);
  return sent;
}

/** A lane whose receiver has answered quickly. */
function quickLane(lanes: DeliveryLanes, listenerId: string, ownerId: string): DeliveryLane {
  const lane = lanes.of(listenerId, ownerId, 0);
  lanes.take(lane, deliveryOf(lane));
  const first = lanes.next(lane, 0);
  assert.ok(first, listenerId);
  lanes.sent(lane, first, 'delivered');
  assert.equal(lane.kind, 'quick');
  return lane;
}

test('a node has 8,192 deliveries in memory and 1,024 under way; receivers of one owner that hang have a part of each', () => {
  const lanes = new DeliveryLanes();
  for (let n = 0; n < 100; n += 1) fill(lanes, lanes.of(`wh_${n}`, 'o_1', 0));
  assert.ok(lanes.held > 8_192 / 12 && lanes.held < 8_192 / 5.9, `${lanes.held} in memory`);
  assert.ok(lanes.sending > 1_024 / 7 && lanes.sending < 1_024 / 4, `${lanes.sending} under way`);
  const other = lanes.of('wh_other', 'o_2', 0);
  assert.equal(fill(lanes, other).length, 4);
  for (let n = 0; n < 10_000; n += 1) fill(lanes, lanes.of(`wh_more_${n}`, 'o_1', 0));
  assert.ok(lanes.sending <= (1_024 * 3) / 4, `${lanes.sending} under way`);
  assert.ok(lanes.held <= (8_192 * 3) / 4 + 1, `${lanes.held} in memory`);
});

test('quick receivers have room beside those of the same owner that hang, fail or are slow, however many', () => {
  const lanes = new DeliveryLanes();
  const quick = quickLane(lanes, 'wh_quick', 'o_1');
  for (let n = 0; n < 1_000; n += 1) fill(lanes, lanes.of(`wh_${n}`, 'o_1', 0));
  const sending = fill(lanes, quick);
  assert.deepEqual([sending.length, quick.held], [32, 256]);
});

test('when quick receivers hang all at once, one of the same owner that does not still has room for a few', () => {
  const names = Array.from({ length: 40 }, (_, n) => `wh_${n}`);
  const lanes = new DeliveryLanes();
  const hanging = names.map((name) => quickLane(lanes, name, 'o_1'));
  const well = quickLane(lanes, 'wh_well', 'o_1');
  for (const lane of hanging) fill(lanes, lane);
  const sending = fill(lanes, well);
  assert.ok(sending.length >= 2 && well.held >= 4, `${sending.length} of ${well.held}`);
});

test('a receiver that hangs gives back what is beyond its share', () => {
  const lanes = new DeliveryLanes({ ...laneBounds, slowAfterMs: 0 });
  const fresh = lanes.of('wh_1', 'o_1', 0);
  for (let n = 0; n < 60; n += 1) lanes.take(fresh, deliveryOf(fresh));
  assert.ok(!lanes.noteOverdue(fresh), 'nothing is under way');
  assert.ok(lanes.next(fresh, 0));
  while (!lanes.noteOverdue(fresh));
  assert.ok(!lanes.noteOverdue(fresh), 'once');
  assert.deepEqual([fresh.kind, lanes.takeExcess(fresh).length, fresh.held], ['troubled', 52, 8]);
});

test('a receiver is what its last answer showed, and its load moves with it', () => {
  const lanes = new DeliveryLanes();
  const lane = quickLane(lanes, 'wh_1', 'o_1');
  const [first, second, ...rest] = fill(lanes, lane);
  assert.ok(first && second);
  lanes.sent(lane, first, 'failed');
  assert.equal(lane.kind, 'troubled');
  assert.equal(lanes.takeExcess(lane).length, 256 - 32, 'what is under way stays');
  assert.equal(lanes.next(lane, 0), undefined);
  for (const delivery of [second, ...rest]) lanes.sent(lane, delivery);
  assert.equal(lane.kind, 'troubled', 'no attempt, nothing shown');
  assert.deepEqual([lanes.held, lanes.sending], [0, 0]);
  lanes.take(lane, deliveryOf(lane));
  const again = lanes.next(lane, 0);
  assert.ok(again);
  lanes.sent(lane, again, 'delivered');
  assert.equal(lane.kind, 'quick');
  const source = lanes.of('dc_1', 'o_1', 0);
  assert.equal(fill(lanes, source).length, 1, 'one event after another');
  lanes.noteOverdue(source);
  assert.equal(source.kind, 'quick', 'a run takes as long as it takes');
});

forEachStore((fixture) => {
  test('large events that no receiver takes fill their part of the memory, and stop neither the service nor others', async () => {
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
    await waitFor(() => dispatcher.counts().sending > 100 / 8);
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

  test('receivers that hang hold up no healthy one of the same owner, not even one that is new', async () => {
    await using delivery = await DeliveryFixture.start(fixture.store, {
      lanes: { ...eighth, slowAfterMs: 200 },
    });
    await using slow = await hanging();
    await using receiver = await HttpReceiver.start();
    await delivery.emitter('dc_1', 'o_1');
    for (let n = 0; n < 60; n += 1) await delivery.subscribe((await delivery.webhook(slow.url)).id);
    const { id } = await delivery.webhook(receiver.url);
    await delivery.subscribe(id);
    for (let n = 1; n <= 40; n += 1) {
      await delivery.emit([`${n}`]);
      await receiver.waitForRequest(n);
    }
    await waitFor(() => delivery.service.dispatcher.counts().held < 300);
    assert.ok(slow.requests.length < 128, `${slow.requests.length} requests hang`);
  });

  test('what waits in memory for a receiver that hangs is let go when it is cancelled, here or through another node', async () => {
    await using delivery = await DeliveryFixture.start(fixture.store);
    await using slow = await hanging();
    await delivery.emitter('dc_1', 'o_1');
    const cancelled = await delivery.webhook(slow.url);
    const subscription = await delivery.subscribe(cancelled.id);
    await delivery.emit(['1', '2', '3', '4', '5', '6', '7', '8']);
    const { dispatcher } = delivery.service;
    await waitFor(() => dispatcher.counts().sending === 4);
    assert.equal(dispatcher.counts().held, 8);
    const change = {
      ...{ listener_id: cancelled.id, subscription_id: subscription },
      from: ['queued', 'held'] as ['queued', 'held'],
      to: 'cancelled' as const,
      reason: 'subscription_removed' as const,
    };
    const nowMs = delivery.clock.now();
    await fixture.store.transaction((tx) =>
      insertChangeJob(fixture.store, tx, { ownerId: 'o_1', nowMs, change }),
    );
    delivery.pool.poke();
    await waitFor(() => dispatcher.counts().held === 4, { what: 'what is not under way to be let go' });

    const other = await delivery.webhook(slow.url);
    await delivery.subscribe(other.id, { eventName: 'other' });
    await delivery.emit(['1', '2', '3', '4', '5', '6', '7', '8'], { channel: 'other' });
    await waitFor(() => dispatcher.counts().held === 12);
    await fixture.store.transaction((tx) =>
      tx
        .updateTable('deliveries')
        .set({ state: 'cancelled', lease_node: null, ended_at_ms: nowMs })
        .where('listener_id', '=', other.id)
        .execute(),
    );
    await waitFor(() => dispatcher.counts().held === 8, { what: 'what another node cancelled to be let go' });
  });
});
