import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { insertDeliveries } from '#delivery/delivery-store.ts';
import { insertPayloads } from '#delivery/dispatch/payload-store.ts';
import { WaitingDeliveries } from '#delivery/dispatch/waiting-deliveries.ts';
import { emitEvents } from '#events/emit-event.ts';
import { insertJobs, jobRow, leasedJob } from '#jobs/job-store.ts';
import type { ActiveOwners } from '#lib/active-owners.ts';
import type { Store } from '#storage/store.ts';
import { DeliveryFixture } from '../../../test/support/delivery-fixture.ts';
import { HttpReceiver } from '../../../test/support/http-receiver.ts';
import { readEvents } from '../../../test/support/stored-events.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { fanOutBounds, makeDeliveries, payloadRow } from './find-subscribers.ts';
import {
  findSubscribersQuery,
  nextPageOfSubscribers,
  pageOfSubscribersQuery,
  type Subscriber,
  type SubscriberCursor,
} from './subscription-store.ts';

/** Subscriptions of these listeners to their emitters, stored in a few statements. */
async function subscribeMany(
  store: Store,
  listeners: readonly string[],
  emitterOf: (n: number) => string,
): Promise<void> {
  const rows = listeners.map((listener, n) => ({
    id: `sub_${n}`,
    emitter_owner_id: 'o_1',
    emitter_id: emitterOf(n),
    event_name: '',
    listener_id: listener,
    listener_owner_id: 'o_1',
    user_id: 'u_1',
    created_at_ms: 0,
  }));
  await store.transaction(async (tx) => {
    for (let at = 0; at < rows.length; at += 1_000)
      await tx
        .insertInto('subscriptions')
        .values(rows.slice(at, at + 1_000))
        .execute();
  });
}

forEachStore((fixture) => {
  test('no event without its deliveries, no delivery without its event: a failed transaction leaves neither', async () => {
    await using delivery = await DeliveryFixture.start(fixture.store);
    await using receiver = await HttpReceiver.start();
    await delivery.emitter();
    await delivery.subscribe((await delivery.webhook(receiver.url)).id);
    const emission = { emitterId: 'dc_1', hops: 0, events: [{ channel: '', event: '1' }] };
    const batch = { emissions: [emission], router: delivery.service.finder, nowMs: delivery.clock.now() };
    await assert.rejects(
      fixture.store.transaction(async (tx) => {
        await emitEvents(fixture.store, tx, batch);
        throw new Error('the invocation could not be stored');
      }),
    );
    assert.deepEqual(await delivery.deliveries(), []);
    assert.equal(await delivery.payloads(), 0);
    await delivery.emit(['2']);
    await delivery.idle();
    assert.equal((await delivery.deliveries()).length, 1);
    assert.equal(
      (await readEvents(fixture.store.read, { emitterId: 'dc_1', channel: '', limit: 10 })).length,
      1,
    );
    assert.deepEqual(
      receiver.requests.map(({ body }) => body.toString()),
      ['2'],
    );
  });

  test('each subscription that matches gets a delivery of its own: exact, of the kind, and of the owner', async () => {
    await using delivery = await DeliveryFixture.start(fixture.store);
    await using receiver = await HttpReceiver.start();
    await delivery.emitter();
    await delivery.emitter('dc_2', 'o_2');
    const { id } = await delivery.webhook(receiver.url);
    await delivery.subscribe(id);
    await delivery.subscribe(id, { emitterId: 'dc_*' });
    await delivery.subscribe(id, { emitterId: 'o_1' });
    await delivery.subscribe(id, { emitterId: 'p_*' });
    await delivery.subscribe(id, { emitterId: 'dc_*', eventName: 'other' });
    await delivery.subscribe(id, { emitterId: 'dc_*', ownerId: 'o_3' });
    await delivery.emit(['1']);
    await delivery.emit(['2'], { emitterId: 'dc_2' });
    await delivery.emit(['3'], { channel: 'other' });
    await delivery.idle();
    assert.deepEqual(receiver.requests.map(({ body }) => body.toString()).sort(), ['1', '1', '1', '3']);
    assert.equal(new Set(receiver.requests.map(({ headers }) => headers['webhook-id'])).size, 4);
  });

  test('a listener to the errors of all of its kind or owner gets those of others, and not its own', async () => {
    await using delivery = await DeliveryFixture.start(fixture.store);
    for (const id of ['p_1', 'p_2']) await delivery.emitter(id);
    const rows = ['p_*', 'o_1'].flatMap((emitterId, n) =>
      ['$errors', ''].map((channel) => ({
        ...{ id: `sub_${n}${channel}`, emitter_owner_id: 'o_1', emitter_id: emitterId, event_name: channel },
        ...{ listener_id: 'p_1', listener_owner_id: 'o_1', user_id: 'u_1', created_at_ms: 0 },
      })),
    );
    await fixture.store.transaction((tx) => tx.insertInto('subscriptions').values(rows).execute());
    const found = async (emitterId: string, channel: string) => {
      const query = findSubscribersQuery(fixture.store, [{ emitterId, channel }], 10);
      const exact = (await fixture.store.transaction((tx) => tx.executeQuery(query))).rows.length;
      return [exact, await countByPages({ emitterId, channel, ownerId: 'o_1' })];
    };
    const countByPages = async (emitted: { emitterId: string; channel: string; ownerId: string }) => {
      let count = 0;
      let after: SubscriberCursor | undefined = { place: 0, listenerId: '' };
      while (after !== undefined) {
        const page: { after: SubscriberCursor; limit: number } = { after, limit: 1 };
        const query = pageOfSubscribersQuery(fixture.store.read, emitted, page);
        const { rows } = await fixture.store.read.executeQuery(query);
        count += rows.length;
        after = nextPageOfSubscribers(emitted, page, rows);
      }
      return count;
    };
    assert.deepEqual(await found('p_2', '$errors'), [2, 2]);
    assert.deepEqual(await found('p_1', '$errors'), [0, 0]);
    assert.deepEqual(await found('p_1', ''), [2, 2], 'on other channels it may listen to itself');
  });

  for (const max of ['deliveriesPerEventMax', 'deliveriesPerCommitMax'] as const)
    test(`an event with more subscribers than ${max} reaches each of them once, and others wait for none`, async () => {
      await using delivery = await DeliveryFixture.start(fixture.store);
      await using receiver = await HttpReceiver.start();
      await delivery.emitter();
      await delivery.emitter('dc_2', 'o_2');
      await delivery.subscribe((await delivery.webhook(receiver.url, { ownerId: 'o_2' })).id, {
        emitterId: 'dc_2',
        ownerId: 'o_2',
      });
      const listeners = Array.from(
        { length: fanOutBounds[max] + 1 },
        (_, n) => `dc_listener${String(n).padStart(5, '0')}`,
      );
      await subscribeMany(fixture.store, listeners, (n) => (n % 2 === 0 ? 'dc_1' : 'dc_*'));
      const emissions = ['dc_1', 'dc_2'].map((emitterId) => ({
        emitterId,
        hops: 0,
        events: [{ channel: '', event: '"many"' }],
      }));
      const nowMs = delivery.clock.now();
      const stored = await fixture.store.transaction(async (tx) => {
        const results = await emitEvents(fixture.store, tx, {
          emissions,
          router: delivery.service.finder,
          nowMs,
        });
        return results.flatMap((result) => (result.accepted ? result.stored : []));
      });
      assert.equal((await delivery.deliveries()).length, 1);
      delivery.bus.publish(stored);
      await receiver.waitForRequest();
      await delivery.idle();
      const rows = await fixture.store.read
        .selectFrom('deliveries')
        .select(['listener_id', 'state', 'reason'])
        .where('owner_id', '=', 'o_1')
        .orderBy('listener_id')
        .execute();
      assert.equal(rows.map(({ listener_id }) => listener_id).join(), listeners.join());
      // None of these listeners exists: each of their deliveries ended with a record, and the text went with the last.
      assert.deepEqual(
        [...new Set(rows.map(({ state, reason }) => `${state} ${reason}`))],
        ['cancelled listener_removed'],
      );
      assert.equal(await delivery.payloads(), 0);
    });

  test('however many events have very many subscribers, one transaction at a time makes their deliveries', async () => {
    const fanOut = {
      deliveriesPerEventMax: 40,
      deliveriesPerCommitMax: 40,
      deliveriesPerSharedCommitMax: 40,
      pageRows: 10,
    };
    await using delivery = new DeliveryFixture(fixture.store, { fanOut });
    await delivery.emitter();
    const { store } = fixture;
    const listeners = Array.from({ length: fanOut.deliveriesPerCommitMax + 1 }, (_, n) => `dc_x${n}`);
    await subscribeMany(store, listeners, () => 'dc_1');
    const { transaction } = store;
    let atOnce = 0;
    let most = 0;
    store.transaction = (work) => {
      atOnce += 1;
      most = Math.max(most, atOnce);
      return transaction(work).finally(() => {
        atOnce -= 1;
      });
    };
    try {
      for (let n = 0; n < 12; n += 1) await delivery.emit(['1']);
      // The jobs of all events are there when the first of them begins.
      await delivery.start();
      await delivery.idle();
    } finally {
      store.transaction = transaction;
    }
    assert.equal((await delivery.deliveries()).length, 12 * listeners.length);
    // In addition to that page: the emitters, the claims of jobs and deliveries, and the heartbeat of this node. Twelve pages at
    // once would be more.
    assert.ok(most <= 6, `${most} transactions at once`);
  });

  test('while several owners are active a commit makes fewer deliveries, and jobs make the rest of them', async () => {
    const fanOut = { ...fanOutBounds, deliveriesPerSharedCommitMax: 7 };
    const owners = { areSeveral: true, note: () => {} };
    await using delivery = new DeliveryFixture(fixture.store, {
      fanOut,
      owners: owners as unknown as ActiveOwners,
    });
    await delivery.emitter();
    const listeners = ['dc_listener_1', 'dc_listener_2', 'dc_listener_3'];
    await subscribeMany(fixture.store, listeners, () => 'dc_1');
    const texts = ['1', '2', '3', '4', '5'];
    await delivery.emit(texts);
    assert.equal((await delivery.deliveries()).length, 6, 'of two events: a third one would make nine');
    await delivery.start();
    await waitFor(async () => (await delivery.deliveries()).length === listeners.length * texts.length);
    owners.areSeveral = false;
    await delivery.emit(texts);
    assert.equal((await delivery.deliveries()).length, 2 * listeners.length * texts.length);
  });

  test('while several owners are active, the jobs that make deliveries leave two thirds of the time to others', async () => {
    const { store } = fixture;
    const pageMs = 50;
    const fanOut = { ...fanOutBounds, deliveriesPerEventMax: 4, deliveriesPerCommitMax: 4, pageRows: 2 };
    const owners = { areSeveral: true, note: () => {} } as unknown as ActiveOwners;
    await using delivery = new DeliveryFixture(store, { fanOut, owners });
    await delivery.emitter();
    const listeners = Array.from({ length: 10 }, (_, n) => `dc_listener${n}`);
    await subscribeMany(store, listeners, () => 'dc_1');
    const { ask } = store;
    const rests: number[] = [];
    let endedMs: number | undefined;
    store.ask = async (tx, statements) => {
      const isPage = 'subscribers' in (statements as object);
      if (isPage && endedMs !== undefined) rests.push(performance.now() - endedMs);
      const answers = await ask(tx, statements);
      if (!isPage) return answers;
      await delay(pageMs);
      endedMs = performance.now();
      return answers;
    };
    try {
      await delivery.emit(['1']);
      await delivery.start();
      await waitFor(async () => (await delivery.deliveries()).length === listeners.length);
    } finally {
      store.ask = ask;
    }
    assert.ok(rests.length >= 2, `${rests.length} rests`);
    for (const rest of rests.slice(1)) assert.ok(rest >= 1.9 * pageMs, `a rest of ${rest} ms`);
  });

  test('the job of an event with very many subscribers continues after the last page that was stored', async () => {
    const fanOut = {
      deliveriesPerEventMax: 40,
      deliveriesPerCommitMax: 40,
      deliveriesPerSharedCommitMax: 40,
      pageRows: 10,
    };
    const { store } = fixture;
    await using delivery = new DeliveryFixture(store, { fanOut });
    await delivery.emitter();
    const listeners = Array.from({ length: 45 }, (_, n) => `dc_listener${String(n).padStart(2, '0')}`);
    await subscribeMany(store, listeners, () => 'dc_1');
    const { ask } = store;
    const pages: unknown[] = [];
    store.ask = async (tx, statements) => {
      const page = (statements as Record<string, { parameters: readonly unknown[] } | undefined>).subscribers;
      if (page !== undefined) {
        pages.push(page.parameters.find((parameter) => listeners.includes(String(parameter))));
        if (pages.length === 3) throw new Error('the third page is not stored');
      }
      return ask(tx, statements);
    };
    try {
      await delivery.emit(['1']);
      await delivery.start();
      const isQueuedAgain = () =>
        store.read.selectFrom('jobs').select('id').where('state', '=', 'queued').executeTakeFirst();
      await waitFor(async () => pages.length === 3 && isQueuedAgain(), { what: 'the job to be tried again' });
      await delivery.pass(2_000);
    } finally {
      store.ask = ask;
    }
    const rows = await store.read
      .selectFrom('deliveries')
      .select('listener_id')
      .orderBy('listener_id')
      .execute();
    assert.deepEqual(
      rows.map(({ listener_id }) => listener_id),
      listeners,
    );
    const ends = [listeners[9], listeners[19], listeners[29], listeners[39]];
    assert.deepEqual(pages.slice(0, 6), [undefined, ends[0], ends[1], ends[1], ends[2], ends[3]]);
  });

  test('the job of an event with very many subscribers makes nothing when this node does not hold it', async () => {
    const fanOut = {
      deliveriesPerEventMax: 4,
      deliveriesPerCommitMax: 4,
      deliveriesPerSharedCommitMax: 4,
      pageRows: 2,
    };
    const { store } = fixture;
    await using delivery = new DeliveryFixture(store, { fanOut });
    await delivery.emitter();
    const listeners = Array.from({ length: 5 }, (_, n) => `dc_listener${n}`);
    await subscribeMany(store, listeners, () => 'dc_1');
    const nowMs = delivery.clock.now();
    const ids = {
      emitter_id: 'dc_1',
      owner_id: 'o_1',
      channel: '',
      ms: nowMs,
      seq: 0,
      emit_id: 'e',
      hops: 0,
    };
    const row = jobRow({
      ...{ id: 'fan_e', kind: 'fan_out_event', ownerId: 'o_1', nowMs },
      payload: { ...ids, after: { place: 0, listenerId: '' } },
      // It waits in the store, and this node does not claim it meanwhile.
      runAtMs: nowMs + 3_600_000,
    });
    await store.transaction(async (tx) => {
      await insertPayloads(store, tx, [payloadRow({ ...ids, event: '1' }, nowMs, { fanning: true })]);
      await insertJobs(tx, [row]);
    });
    const find = () => store.read.selectFrom('jobs').selectAll().where('id', '=', row.id).executeTakeFirst();
    const before = await find();
    assert.ok(before !== undefined);
    await delivery.service.jobs.fan_out_event.run(leasedJob(before), new AbortController().signal);
    assert.equal((await delivery.deliveries()).length, 0);
    assert.deepEqual(await find(), before);
  });

  test('past the bound of what may wait for a listener, deliveries are blocked, with a record', async () => {
    await using delivery = await DeliveryFixture.start(fixture.store);
    await delivery.emitter();
    const { id } = await delivery.webhook('http://127.0.0.1:9', { state: 'paused' });
    const waiting = new WaitingDeliveries({ store: fixture.store, max: { count: 2, bytes: 100 } });
    const subscriber: Subscriber = {
      emitter_id: 'dc_1',
      event_name: '',
      subscription_id: 'sub_1',
      listener_id: id,
      listener_owner_id: 'o_1',
      webhook_state: 'paused',
    };
    const event = {
      emitter_id: 'dc_1',
      owner_id: 'o_1',
      channel: '',
      ms: 1,
      seq: 0,
      emit_id: 'e',
      hops: 0,
      event: '1',
    };
    const rows = makeDeliveries({
      subscribers: [subscriber, subscriber, subscriber],
      event,
      nowMs: 1,
      node: delivery.node,
      places: delivery.service.dispatcher.places(),
      waiting,
    });
    assert.deepEqual(
      rows.map(({ state, reason, has_payload }) => [state, reason, has_payload]),
      [
        ['held', 'webhook_paused', 1],
        ['held', 'webhook_paused', 1],
        ['blocked', 'backlog_full', 1],
      ],
    );
    await fixture.store.transaction((tx) => insertDeliveries(fixture.store, tx, rows));
    const afresh = new WaitingDeliveries({ store: fixture.store, max: { count: 3, bytes: 100 } });
    assert.equal(afresh.admit(id, 1), true);
    await afresh.counted();
    assert.equal(afresh.admit(id, 1), false, 'two are there, and one was admitted since');
  });

  if (fixture.dialect === 'sqlite')
    test('subscribers are found by index alone, however many subscriptions there are', async () => {
      const query = findSubscribersQuery(fixture.store, [{ emitterId: 'dc_1', channel: '' }], 10);
      const { rows } = await fixture.store.read.executeQuery<{ detail: string }>({
        ...query,
        sql: `explain query plan ${query.sql}`,
      });
      const plan = rows.map(({ detail }) => detail);
      assert.ok(
        plan.some((line) =>
          /SEARCH s USING .*\(emitter_owner_id=\? AND emitter_id=\? AND event_name=\?\)/.test(line),
        ),
        plan.join('\n'),
      );
      assert.equal(
        plan.some((line) => /SCAN (s|w|e)\b/.test(line)),
        false,
        plan.join('\n'),
      );
    });
});
