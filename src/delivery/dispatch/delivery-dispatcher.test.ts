import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from 'kysely';
import { insertChangeJob } from '#delivery/change-deliveries.ts';
import { type HeldDelivery, heldDelivery } from '#delivery/delivery.ts';
import { emitEvents } from '#events/emit-event.ts';
import { OutcomeRecorder } from '#health/outcome-store.ts';
import { Deferred } from '#lib/deferred.ts';
import { UnavailableError } from '#lib/errors.ts';
import { silentLogger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { DeliveryFixture } from '../../../test/support/delivery-fixture.ts';
import { HttpReceiver } from '../../../test/support/http-receiver.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { TestClock } from '../../../test/support/test-clock.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { DeliveryDispatcher } from './delivery-dispatcher.ts';
import { type LaneBounds, laneBounds } from './delivery-lanes.ts';
import { releaseOrphans } from './delivery-queue-store.ts';
import type { AttemptOutcome } from './delivery-retries.ts';

/** A receiver whose answers are given when the test says so. */
async function slowReceiver() {
  const answers: (() => void)[] = [];
  const receiver = await HttpReceiver.start({
    answer: () => new Promise((resolve) => answers.push(() => resolve({}))),
  });
  return {
    receiver,
    answers,
    async [Symbol.asyncDispose]() {
      for (const answer of answers) answer();
      await receiver.close();
    },
  };
}

/** For a lock of the database. */
async function isAnyoneWaiting({ read }: Store): Promise<boolean> {
  const { rows } = await sql`select 1 from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock' and query like '%deliveries%'`.execute(
    read,
  );
  return rows.length > 0;
}

/** Room for 64 deliveries of a listener. */
const littleRoom: LaneBounds = {
  ...laneBounds,
  heldMax: 1_024,
  heldBytesMax: 8 * 1024 * 1024,
  sendingMax: 128,
};

const numbers = (count: number) => Array.from({ length: count }, (_, n) => String(n));

forEachStore((fixture) => {
  test('what does not fit into memory waits in the store, and arrives once, in its turn', async () => {
    await using delivery = await DeliveryFixture.start(fixture.store, { lanes: littleRoom });
    await using receiver = await HttpReceiver.start();
    await delivery.emitter();
    const { id } = await delivery.webhook(receiver.url);
    await delivery.subscribe(id);
    const events = numbers(400);
    for (let at = 0; at < events.length; at += 40) await delivery.emit(events.slice(at, at + 40));
    await delivery.idle();
    const bodies = receiver.requests.map(({ body }) => Number(body.toString()));
    assert.deepEqual(
      [...bodies].sort((a, b) => a - b),
      events.map(Number),
    );
    // Many are under way at once, but none is far ahead of its place in the order.
    assert.ok(bodies.every((n, index) => Math.abs(n - index) < 200));
    assert.deepEqual([...new Set((await delivery.deliveries()).map(({ state }) => state))], ['delivered']);
    assert.equal(await delivery.payloads(), 0);
  });

  test('a receiver that does not answer holds up neither another one nor the memory', async () => {
    await using delivery = await DeliveryFixture.start(fixture.store, { lanes: littleRoom });
    await using slowly = await slowReceiver();
    const { receiver: hanging } = slowly;
    await using receiver = await HttpReceiver.start();
    await delivery.emitter();
    const slow = await delivery.webhook(hanging.url);
    await delivery.subscribe(slow.id);
    for (let n = 0; n < 10; n += 1) await delivery.emit(numbers(25));
    const good = await delivery.webhook(receiver.url);
    await delivery.subscribe(good.id, { eventName: 'good' });
    await delivery.emit(numbers(50), { channel: 'good' });
    await receiver.waitForRequest(50);
    const counts = delivery.service.dispatcher.counts();
    assert.ok(hanging.requests.length <= 32, `${hanging.requests.length} requests at once`);
    assert.ok(counts.held <= 64 + 50, `${counts.held} in memory`);
    await delivery.service.dispatcher.stop(0);
    const rows = await fixture.store.read.selectFrom('deliveries').select('lease_node').distinct().execute();
    assert.deepEqual(rows, [{ lease_node: null }]);
  });

  test('receivers that are behind at the same time are refilled with a few transactions, not one for each', async () => {
    const receivers = 40;
    const events = 10;
    await using delivery = await DeliveryFixture.start(fixture.store);
    const opened = new Deferred<object>();
    await using receiver = await HttpReceiver.start({ answer: () => opened.promise });
    await delivery.emitter();
    for (let n = 0; n < receivers; n += 1)
      await delivery.subscribe((await delivery.webhook(receiver.url)).id);
    for (let n = 0; n < events; n += 1) await delivery.emit([String(n)]);
    const { dispatcher } = delivery.service;
    const { held } = dispatcher.counts();
    assert.ok(held < receivers * events, `${held} of ${receivers * events} fit into memory`);
    const { transaction } = fixture.store;
    const allAreBehind = new Deferred<void>();
    let begun = 0;
    fixture.store.transaction = async (work) => {
      begun += 1;
      await allAreBehind.promise;
      return transaction(work);
    };
    try {
      opened.resolve({});
      await waitFor(() => dispatcher.counts().attempts.delivered >= held - receivers, { what: 'deliveries' });
      allAreBehind.resolve();
      await delivery.idle();
    } finally {
      fixture.store.transaction = transaction;
    }
    assert.equal(receiver.requests.length, receivers * events);
    assert.ok(begun < receivers / 2, `${begun} transactions`);
  });

  test('receivers that are not quick begin a few in a turn of the event loop, and a quick one waits for none of them', async () => {
    const started: string[] = [];
    const ended = new Deferred<AttemptOutcome>();
    const { store } = fixture;
    const clock = new TestClock();
    const dispatcher = new DeliveryDispatcher({
      ...{ node: 'node_1', store, clock, logger: silentLogger, sends: true },
      outcomes: new OutcomeRecorder(store, () => false),
      deliverTo: (listenerId) => () => {
        started.push(listenerId);
        return ended.promise;
      },
      turns: { owns: () => true, take: async (ids) => new Set(ids), onTaken: () => {} },
    });
    const to = (listenerId: string): HeldDelivery =>
      heldDelivery(
        {
          ...{
            id: `dlv_${listenerId}`,
            owner_id: 'o_1',
            listener_id: listenerId,
            emitter_id: 'dc_1',
            channel: '',
          },
          ...{
            ms: 1,
            seq: 0,
            emit_id: 'e',
            hops: 0,
            trace: null,
            attempts: 0,
            attempt_log: '[]',
            created_at_ms: 1,
          },
        },
        Buffer.from('1'),
      );
    const receivers = 100;
    dispatcher.take(Array.from({ length: receivers }, (_, n) => to(`wh_${n}`)));
    const inFirstTurn = started.length;
    assert.ok(inFirstTurn > 0 && inFirstTurn <= 20, `${inFirstTurn} begin at once`);
    dispatcher.take([to('wf_quick')]);
    assert.equal(started.at(-1), 'wf_quick');
    for (let before = -1; before < started.length; await new Promise(setImmediate)) {
      assert.ok(before === -1 || started.length - before <= 20, `${started.length - before} begin in a turn`);
      before = started.length;
    }
    assert.equal(started.length, receivers + 1);
    ended.resolve({ kind: 'postponed', delayMs: 1 });
    await dispatcher.stop(0);
  });

  test('what a node had when it died is sent by the next node, with the same webhook-id', async () => {
    const first = await DeliveryFixture.start(fixture.store);
    await using slowly = await slowReceiver();
    const { receiver, answers } = slowly;
    await first.emitter();
    await first.subscribe((await first.webhook(receiver.url)).id);
    await first.emit(['1', '2']);
    await receiver.waitForRequest(2);
    // As a crash leaves it: its lease runs out, and what it learns from then on is refused.
    await fixture.store.transaction((tx) => tx.deleteFrom('nodes').where('id', '=', first.node).execute());
    await using next = await DeliveryFixture.start(fixture.store, { vault: first.vault, clock: first.clock });
    await receiver.waitForRequest(4);
    for (const answer of answers) answer();
    await next.idle();
    await first.idle();
    const ids = receiver.requests.map(({ headers }) => headers['webhook-id']);
    assert.deepEqual(ids.slice(2).sort(), ids.slice(0, 2).sort());
    assert.deepEqual(
      (await next.deliveries()).map(({ state, attempts }) => [state, attempts]),
      [
        ['delivered', 1],
        ['delivered', 1],
      ],
    );
    await first[Symbol.asyncDispose]();
  });

  test('an outcome that the store does not take is written later, and the receiver is not asked again', async () => {
    await using delivery = await DeliveryFixture.start(fixture.store);
    await using slowly = await slowReceiver();
    const { receiver, answers } = slowly;
    await delivery.emitter();
    await delivery.subscribe((await delivery.webhook(receiver.url)).id);
    await delivery.emit(['1']);
    await receiver.waitForRequest();
    const { writes } = fixture.store;
    const submit = writes.submitLazily.bind(writes);
    let refused = 0;
    writes.submitLazily = ((write: never, item: never) => {
      if (refused > 0) return submit(write, item);
      refused += 1;
      return Promise.reject(new UnavailableError('storage_full', 'the disk is full'));
    }) as typeof writes.submitLazily;
    try {
      for (const answer of answers) answer();
      await delivery.idle();
    } finally {
      writes.submitLazily = submit;
    }
    assert.equal(refused, 1);
    assert.deepEqual(
      (await delivery.deliveries()).map(({ state }) => state),
      ['delivered'],
    );
    assert.equal(receiver.requests.length, 1);
  });

  test('a delivery that is cancelled while it is sent stays cancelled', async () => {
    await using delivery = await DeliveryFixture.start(fixture.store);
    await using slowly = await slowReceiver();
    const { receiver, answers } = slowly;
    await delivery.emitter();
    const { id } = await delivery.webhook(receiver.url);
    const subscription = await delivery.subscribe(id);
    await delivery.emit(['1']);
    await receiver.waitForRequest();
    await fixture.store.transaction((tx) =>
      insertChangeJob(fixture.store, tx, {
        ownerId: 'o_1',
        nowMs: delivery.clock.now(),
        change: {
          listener_id: id,
          subscription_id: subscription,
          from: ['queued', 'held'],
          to: 'cancelled',
          reason: 'subscription_removed',
        },
      }),
    );
    delivery.pool.poke();
    await waitFor(async () => (await delivery.deliveries())[0]?.state === 'cancelled');
    for (const answer of answers) answer();
    await delivery.idle();
    assert.deepEqual(
      (await delivery.deliveries()).map(({ state, reason }) => [state, reason]),
      [['cancelled', 'subscription_removed']],
    );
  });

  test('a delivery whose text is gone ends with a record: nothing else is sent in its place', async () => {
    await using delivery = await DeliveryFixture.start(fixture.store);
    await using receiver = await HttpReceiver.start({ answer: { status: 500 } });
    await delivery.emitter();
    await delivery.subscribe((await delivery.webhook(receiver.url)).id);
    await delivery.emit(['1']);
    await delivery.idle();
    await fixture.store.transaction((tx) => tx.deleteFrom('delivery_payloads').execute());
    await delivery.pass(5_000);
    assert.deepEqual(
      (await delivery.deliveries()).map(({ state, reason }) => [state, reason]),
      [['failed', 'event_gone']],
    );
    assert.equal(receiver.requests.length, 1);
  });

  if (fixture.dialect === 'postgres')
    test('of two nodes that take over from a dead one at once, the second leaves what the first has', async () => {
      await using delivery = await DeliveryFixture.start(fixture.store);
      const other = await fixture.open();
      await delivery.emitter();
      await delivery.subscribe((await delivery.webhook('http://127.0.0.1:9', { state: 'paused' })).id);
      await delivery.emit(['1']);
      const holder = { state: 'queued', lease_node: 'node_dead' } as const;
      await fixture.store.transaction((tx) => tx.updateTable('deliveries').set(holder).execute());
      const look = { nowMs: delivery.clock.now(), limit: 10 };
      let second: Promise<number> | undefined;
      await fixture.store.transaction(async (tx) => {
        assert.equal(await releaseOrphans(fixture.store, tx, { ...look, node: 'node_1' }), 1);
        second = other.transaction((own) => releaseOrphans(other, own, { ...look, node: 'node_2' }));
        // It has seen the row as it was, whether it waits for it or not.
        let hasEnded = false;
        const ended = second.finally(() => {
          hasEnded = true;
        });
        await Promise.race([ended, waitFor(async () => hasEnded || isAnyoneWaiting(fixture.store))]);
        await tx.updateTable('deliveries').set({ lease_node: 'node_1' }).execute();
      });
      assert.equal(await second, 0);
      const rows = await fixture.store.read.selectFrom('deliveries').select('lease_node').execute();
      assert.deepEqual(rows, [{ lease_node: 'node_1' }]);
    });

  if (fixture.dialect === 'postgres')
    test('a node that starts leaves what a live node sends to that node, also when its own clock is ahead', async () => {
      await using first = await DeliveryFixture.start(fixture.store);
      await using slowly = await slowReceiver();
      const { receiver, answers } = slowly;
      await first.emitter();
      await first.subscribe((await first.webhook(receiver.url)).id);
      await first.emit(['1', '2']);
      await receiver.waitForRequest(2);
      const clock = new TestClock(first.clock.now() + 86_400_000);
      const { vault } = first;
      await using next = await DeliveryFixture.start(await fixture.open(), { vault, clock });
      // When it took a delivery over it would send it, and wait for the answer.
      await Promise.race([next.idle(), receiver.waitForRequest(3)]);
      assert.equal(receiver.requests.length, 2);
      const held = await fixture.store.read.selectFrom('deliveries').select('lease_node').execute();
      assert.deepEqual(held, [{ lease_node: first.node }, { lease_node: first.node }]);
      for (const answer of answers) answer();
      await first.idle();
      assert.deepEqual(
        (await first.deliveries()).map(({ state, attempts }) => [state, attempts]),
        [
          ['delivered', 1],
          ['delivered', 1],
        ],
      );
    });

  if (fixture.dialect === 'postgres')
    test('several nodes on one store send each delivery once', async () => {
      const first = await DeliveryFixture.start(fixture.store);
      await using receiver = await HttpReceiver.start();
      await first.emitter();
      await first.subscribe((await first.webhook(receiver.url)).id);
      const others = await Promise.all(
        [1, 2].map(async () =>
          DeliveryFixture.start(await fixture.open(), { vault: first.vault, clock: first.clock }),
        ),
      );
      const nodes = [first, ...others];
      // Left in the store for the node that comes first, and sent by the node that emitted.
      await fixture.store.transaction(async (tx) => {
        const router = first.service.finder;
        const events = numbers(100).map((event) => ({ channel: '', event }));
        await emitEvents(fixture.store, tx, {
          emissions: [{ emitterId: 'dc_1', hops: 0, events }],
          router,
          nowMs: first.clock.now(),
        });
        await tx.updateTable('deliveries').set({ lease_node: null }).execute();
      });
      for (const node of nodes) node.service.dispatcher.poke();
      await Promise.all(nodes.map((node, n) => node.emit(numbers(20).map((text) => `"${n}-${text}"`))));
      await waitFor(() => receiver.requests.length >= 160, { what: '160 requests' });
      for (const node of nodes) await node.idle();
      assert.equal(receiver.requests.length, 160);
      assert.equal(new Set(receiver.requests.map(({ headers }) => headers['webhook-id'])).size, 160);
      for (const node of nodes) await node[Symbol.asyncDispose]();
    });
});
