import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changeDeliveriesHandler } from '#delivery/change-deliveries.ts';
import { removeDeliveries } from '#delivery/delivery-store.ts';
import { WaitingDeliveries } from '#delivery/dispatch/waiting-deliveries.ts';
import { fanOutBounds, SubscriberFinder } from '#delivery/subscriptions/find-subscribers.ts';
import { subscribe, subscribeFrom, unsubscribe } from '#delivery/subscriptions/manage-subscriptions.ts';
import { type Emission, emitEvents } from '#events/emit-event.ts';
import type { StoredEvent } from '#events/event.ts';
import { formatEventId } from '#events/event-id.ts';
import { deleteEventRange, insertEmitter } from '#events/event-store.ts';
import type { Caller } from '#identity/permissions.ts';
import { claimJobs } from '#jobs/claim-store.ts';
import { LaneLeases } from '#jobs/lane-leases.ts';
import type { CallerError } from '#lib/errors.ts';
import { FairQueue } from '#lib/fair-queue.ts';
import { insertSource } from '#sources/source-store.ts';
import type { Store, Tx } from '#storage/store.ts';
import type { DeliveryState } from '#storage/tables/delivery-tables.ts';
import { placesForAny } from '../../../test/support/claim-places.ts';
import { sourceRow } from '../../../test/support/source-row.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { TestClock } from '../../../test/support/test-clock.ts';
import { ReplayQueue } from './queue-replay.ts';
import { cancelReplay, type ReplayRequest, requestReplay, viewReplays } from './replay-events.ts';
import { findReplay } from './replay-store.ts';

const caller: Caller = { userId: 'u_1', isAdmin: false, keyId: 'key_1' };
const node = 'node_1';

/** An emitter dc_from and a listener dc_to of the caller, and what makes and ends replays between them. */
class Setting {
  readonly store: Store;
  readonly clock = new TestClock();
  readonly replays: ReplayQueue;
  readonly finder: SubscriberFinder;
  /** Listeners that were reported. */
  readonly left: string[] = [];

  constructor(store: Store) {
    this.store = store;
    const waiting = new WaitingDeliveries({ store });
    this.replays = new ReplayQueue({
      store,
      node,
      clock: this.clock,
      waiting,
      turns: new FairQueue(1),
      onRouted: ({ left }) => this.left.push(...left),
    });
    this.finder = new SubscriberFinder({
      store,
      room: { node, places: () => ({ take: () => false }) },
      waiting,
      bounds: fanOutBounds,
      owners: undefined,
      onRouted: () => {},
    });
  }

  static async on(store: Store): Promise<Setting> {
    const setting = new Setting(store);
    await store.transaction(async (tx) => {
      for (const id of ['dc_from', 'dc_to']) {
        await insertEmitter(tx, { id, ownerId: 'u_1' });
        await insertSource(tx, sourceRow(id), []);
      }
    });
    return setting;
  }

  get tools() {
    return { store: this.store, clock: this.clock, replays: this.replays, onJobs: () => {} };
  }

  /** What `store` makes of it is what counts: one that fails at will may be given. */
  withStore(store: Store): Setting {
    return new Setting(store);
  }

  emitIn(tx: Tx, texts: readonly string[], channel = ''): Promise<StoredEvent[]> {
    const emission: Emission = {
      emitterId: 'dc_from',
      hops: 3,
      events: texts.map((text) => ({ channel, event: JSON.stringify(text) })),
    };
    const batch = { emissions: [emission], router: this.finder, nowMs: this.clock.now() };
    return emitEvents(this.store, tx, batch).then(([result]) =>
      result?.accepted === true ? result.stored : [],
    );
  }

  emit(texts: readonly string[], channel = ''): Promise<StoredEvent[]> {
    return this.store.transaction((tx) => this.emitIn(tx, texts, channel));
  }

  replay(request: Partial<ReplayRequest> = {}) {
    return requestReplay(this.tools, caller, {
      emitterId: 'dc_from',
      listenerId: 'dc_to',
      eventName: '',
      ...request,
    });
  }

  subscribeFrom(fromEventId: string, more: { emitterId?: string } = {}) {
    const request = { emitterId: 'dc_from', listenerId: 'dc_to', eventName: '', fromEventId, ...more };
    return subscribeFrom(this.tools, caller, request);
  }

  async seen(id: string) {
    const replay = await findReplay(this.store.read, id);
    assert.ok(replay !== undefined);
    const [view] = await viewReplays(this.store, [replay]);
    assert.ok(view !== undefined);
    return view;
  }

  /** State and counts of a replay. */
  async progress(id: string) {
    const { state, total, sent, failed, waiting, missed } = await this.seen(id);
    return { state, total, sent, failed, waiting, missed };
  }

  /** Deliveries with their texts, in the order in which they are due. */
  async deliveries() {
    const rows = await this.store.read
      .selectFrom('deliveries as d')
      .leftJoin('delivery_payloads as p', 'p.emit_id', 'd.emit_id')
      .select(['d.id', 'd.listener_id', 'd.subscription_id', 'd.replay_id', 'd.ms', 'd.seq', 'd.hops'])
      .select(['d.state', 'd.reason', 'd.run_at_ms', 'd.lease_node', 'p.event'])
      .orderBy('d.run_at_ms')
      .orderBy('d.id')
      .execute();
    return rows.map((row) => ({ ...row, eventId: formatEventId(row) }));
  }

  /** Every event of these that is on its way to the subscription, once for each time. */
  async deliveredIds(subscriptionId: string): Promise<string[]> {
    const rows = await this.deliveries();
    return rows
      .filter(({ subscription_id }) => subscription_id === subscriptionId)
      .map(({ eventId }) => eventId)
      .sort();
  }

  claim(kind: 'queue_replay' | 'change_deliveries') {
    const nowMs = this.clock.now();
    return claimJobs(this.store, {
      node,
      lanes: new LaneLeases({ node, store: this.store }),
      kinds: [kind],
      limit: 100,
      ...placesForAny(100),
      runningByLane: new Map(),
      nowMs,
    });
  }

  async runChanges(): Promise<void> {
    const { store, clock } = this;
    const turns = new FairQueue(1);
    const handler = changeDeliveriesHandler({
      store,
      node,
      clock,
      turns,
      onChanged: () => {},
      onQueued: () => {},
      onEnded: () => {},
    });
    const signal = new AbortController().signal;
    for (const job of await this.claim('change_deliveries')) await handler.run(job, signal);
  }

  async runQueueing(): Promise<number> {
    const jobs = await this.claim('queue_replay');
    for (const job of jobs) await this.replays.job.run(job, new AbortController().signal);
    return jobs.length;
  }

  async jobsLeft(): Promise<number> {
    return (await this.store.read.selectFrom('jobs').select('id').execute()).length;
  }

  async setStates(state: DeliveryState, count: number): Promise<string[]> {
    const ids = (await this.deliveries()).slice(0, count).map(({ id }) => id);
    await this.store.transaction((tx) =>
      tx.updateTable('deliveries').set({ state }).where('id', 'in', ids).execute(),
    );
    return ids;
  }
}

/** A store whose n-th transaction from now on fails when its work is done. */
function failingAt(store: Store, n: number): Store {
  let count = 0;
  return new Proxy(store, {
    get(target, name) {
      const value = Reflect.get(target, name);
      if (name !== 'transaction') return typeof value === 'function' ? value.bind(target) : value;
      return <T>(work: (tx: Tx) => Promise<T>) =>
        store.transaction(async (tx) => {
          const result = await work(tx);
          count += 1;
          if (count === n) throw new Error('interrupted');
          return result;
        });
    },
  });
}

/** Two of them fill a batch. */
const largeText = (name: string) => name.repeat(300_000);

const codeOf = (code: string) => (error: unknown) => (error as CallerError).code === code;

forEachStore((fixture) => {
  test('what is kept of a channel is sent again, oldest first, as new deliveries at the given rate', async () => {
    const setting = await Setting.on(fixture.store);
    const stored = await setting.emit(['a', 'b', 'c']);
    await setting.emit(['elsewhere'], 'orders');
    setting.clock.step(60_000);
    const nowMs = setting.clock.now();
    const replay = await setting.replay({ rate: 3 });
    const deliveries = await setting.deliveries();
    assert.deepEqual(
      deliveries.map(({ event, run_at_ms }) => [event, run_at_ms - nowMs]),
      [
        ['"a"', 0],
        ['"b"', 334],
        ['"c"', 667],
      ],
    );
    assert.deepEqual(
      deliveries.map(({ eventId }) => eventId),
      stored.map(formatEventId),
    );
    for (const delivery of deliveries) {
      const { listener_id, replay_id, subscription_id, hops, state, lease_node } = delivery;
      assert.deepEqual(
        { listener_id, replay_id, subscription_id, hops, state, lease_node },
        {
          listener_id: 'dc_to',
          replay_id: replay.id,
          subscription_id: null,
          hops: 0,
          state: 'queued',
          lease_node: null,
        },
      );
    }
    assert.deepEqual(setting.left, ['dc_to', 'dc_to', 'dc_to']);
    const progress = { state: 'sending', total: 3, sent: 0, failed: 0, waiting: 3, missed: 0 };
    assert.deepEqual(await setting.progress(replay.id), progress);
    await setting.setStates('delivered', 2);
    assert.deepEqual(await setting.progress(replay.id), { ...progress, sent: 2, waiting: 1 });
    await setting.setStates('failed', 3);
    assert.deepEqual(await setting.progress(replay.id), {
      ...progress,
      state: 'finished',
      failed: 3,
      waiting: 0,
    });
    assert.equal(await setting.jobsLeft(), 0);
  });

  test('both ends of the range are in it, and only what is readable', async () => {
    const setting = await Setting.on(fixture.store);
    const stored = await setting.emit(Array.from({ length: 130 }, (_, n) => String(n)));
    const idOf = (n: number) => formatEventId(stored[n] ?? { ms: 0, seq: 0 });
    const rangeOf = async (request: Partial<ReplayRequest>) => {
      const { id } = await setting.replay(request);
      const { start_id, end_id, total } = await setting.seen(id);
      return { start_id, end_id, total };
    };
    assert.deepEqual(await rangeOf({}), { start_id: idOf(30), end_id: idOf(129), total: 100 });
    assert.deepEqual(await rangeOf({ startId: idOf(3) }), {
      start_id: idOf(30),
      end_id: idOf(129),
      total: 100,
    });
    assert.deepEqual(await rangeOf({ startId: idOf(127) }), {
      start_id: idOf(127),
      end_id: idOf(129),
      total: 3,
    });
    assert.deepEqual(await rangeOf({ endId: idOf(31) }), { start_id: idOf(30), end_id: idOf(31), total: 2 });
    assert.deepEqual(await rangeOf({ startId: idOf(50), endId: idOf(50) }), {
      start_id: idOf(50),
      end_id: idOf(50),
      total: 1,
    });
    assert.equal((await setting.deliveries()).length, 100 + 100 + 3 + 2 + 1);
    const none = { start_id: null, end_id: null, total: 0 };
    assert.deepEqual(await rangeOf({ endId: idOf(29) }), none);
    assert.deepEqual(await rangeOf({ startId: '9999999999999-0' }), none);
    const { id } = await setting.replay({ eventName: 'silent' });
    assert.equal((await setting.progress(id)).state, 'finished');
    assert.equal(await setting.jobsLeft(), 0);
    await assert.rejects(setting.replay({ startId: idOf(5), endId: idOf(4) }), codeOf('invalid_range'));
    await assert.rejects(setting.replay({ startId: 'x' }), codeOf('invalid_event_id'));
  });

  test('what is more than one transaction takes is queued by a job, which makes nothing twice when it is interrupted', async () => {
    const setting = await Setting.on(fixture.store);
    const stored = await setting.emit(['a', 'b', 'c', 'd', 'e', 'f', 'g'].map(largeText));
    const replay = await setting.replay({ rate: 10 });
    assert.equal((await setting.deliveries()).length, 2);
    assert.equal((await setting.progress(replay.id)).state, 'queueing');
    const [job] = await setting.claim('queue_replay');
    assert.ok(job !== undefined);
    const signal = new AbortController().signal;
    for (const [failAt, made] of [
      [1, 2],
      [2, 4],
      [2, 6],
    ] as const) {
      const failing = setting.withStore(failingAt(fixture.store, failAt));
      failing.clock.set(setting.clock.now());
      await assert.rejects(failing.replays.job.run(job, signal), /interrupted/);
      assert.equal((await setting.deliveries()).length, made);
      assert.equal(await setting.jobsLeft(), 1);
    }
    await setting.replays.job.run(job, signal);
    const deliveries = await setting.deliveries();
    assert.deepEqual(
      deliveries.map(({ eventId }) => eventId),
      stored.map(formatEventId),
    );
    const [first = 0] = deliveries.map(({ run_at_ms }) => run_at_ms);
    assert.deepEqual(
      deliveries.map(({ run_at_ms }) => run_at_ms - first),
      [0, 100, 200, 300, 400, 500, 600],
    );
    assert.deepEqual(await setting.progress(replay.id), {
      state: 'sending',
      total: 7,
      sent: 0,
      failed: 0,
      waiting: 7,
      missed: 0,
    });
    assert.equal(await setting.jobsLeft(), 0);
  });

  test('an event that is removed before its turn came is counted as missed', async () => {
    const setting = await Setting.on(fixture.store);
    const stored = await setting.emit(['a', 'b', 'c', 'd', 'e'].map(largeText));
    const replay = await setting.replay();
    const [, , third, , fifth] = stored;
    assert.ok(third !== undefined && fifth !== undefined);
    await fixture.store.transaction(async (tx) => {
      for (const id of [third, fifth])
        await deleteEventRange(tx, { emitterId: 'dc_from', channel: '', start: id, end: id, limit: 1 });
    });
    assert.equal(await setting.runQueueing(), 1);
    const { state, total, waiting, missed } = await setting.progress(replay.id);
    assert.deepEqual(
      { state, total, waiting, missed },
      { state: 'sending', total: 5, waiting: 3, missed: 2 },
    );
    assert.equal(await setting.jobsLeft(), 0);
  });

  test('a replay that is cancelled in the middle queues nothing more, and what is queued is cancelled', async () => {
    const setting = await Setting.on(fixture.store);
    await setting.emit(['a', 'b', 'c', 'd', 'e'].map(largeText));
    const replay = await setting.replay();
    await setting.setStates('delivered', 1);
    await cancelReplay(setting.tools, caller, replay.id);
    await setting.runQueueing();
    await setting.runChanges();
    const deliveries = await setting.deliveries();
    assert.deepEqual(deliveries.map(({ state, reason }) => [state, reason]).sort(), [
      ['cancelled', 'replay_cancelled'],
      ['delivered', null],
    ]);
    const progress = await setting.progress(replay.id);
    assert.deepEqual(progress, {
      state: 'cancelled',
      total: 5,
      sent: 1,
      failed: 1,
      waiting: 0,
      missed: 0,
    });
    assert.equal((await setting.seen(replay.id)).reason, 'replay_cancelled');
    await cancelReplay(setting.tools, caller, replay.id);
    assert.equal(await setting.jobsLeft(), 0);
  });

  test('a replay that is over stays finished when a user cancels it', async () => {
    const setting = await Setting.on(fixture.store);
    await setting.emit(['a']);
    const replay = await setting.replay();
    await setting.setStates('delivered', 1);
    await cancelReplay(setting.tools, caller, replay.id);
    assert.equal((await setting.progress(replay.id)).state, 'finished');
    const stranger = { ...caller, userId: 'u_2' };
    await assert.rejects(cancelReplay(setting.tools, stranger, replay.id), codeOf('not_found'));
  });

  test('a replay whose listener or subscription is gone queues nothing more', async () => {
    const setting = await Setting.on(fixture.store);
    const [first] = await setting.emit(['a', 'b', 'c'].map(largeText));
    assert.ok(first !== undefined);
    const toListener = await setting.replay();
    const { subscription, replay } = await setting.subscribeFrom(formatEventId(first));
    await unsubscribe(setting.tools, caller, {
      emitterId: 'dc_from',
      listenerId: 'dc_to',
      eventName: '',
    });
    await fixture.store.transaction((tx) => tx.deleteFrom('sources').where('id', '=', 'dc_to').execute());
    assert.equal(await setting.runQueueing(), 2);
    const ends = [await setting.seen(toListener.id), await setting.seen(replay.id)];
    assert.deepEqual(
      ends.map(({ state, reason }) => [state, reason]),
      [
        ['cancelled', 'listener_removed'],
        ['cancelled', 'subscription_removed'],
      ],
    );
    await setting.runChanges();
    const own = (await setting.deliveries()).filter(
      ({ subscription_id }) => subscription_id === subscription.id,
    );
    assert.deepEqual(
      own.map(({ state, reason }) => [state, reason]),
      Array(2).fill(['cancelled', 'subscription_removed']),
    );
  });

  test('deliveries whose records were removed stay counted', async () => {
    const setting = await Setting.on(fixture.store);
    await setting.emit(['a', 'b', 'c']);
    const replay = await setting.replay();
    await setting.setStates('delivered', 3);
    const failed = await setting.setStates('failed', 1);
    const before = await setting.progress(replay.id);
    assert.deepEqual([before.sent, before.failed, before.state], [2, 1, 'finished']);
    const ids = (await setting.deliveries()).map(({ id }) => id);
    assert.equal(await fixture.store.transaction((tx) => removeDeliveries(tx, ids, ['delivered'])), 2);
    assert.equal(await fixture.store.transaction((tx) => removeDeliveries(tx, failed, ['failed'])), 1);
    assert.deepEqual(await setting.progress(replay.id), before);
  });

  test('old records go when a new replay begins, and one listener has 100 replays that are not over at most', async () => {
    const setting = await Setting.on(fixture.store);
    await setting.emit(['a']);
    const over = await setting.replay();
    await setting.setStates('delivered', 1);
    const waits = await setting.replay();
    setting.clock.step(31 * 86_400_000);
    const next = await setting.replay();
    assert.equal(await findReplay(fixture.store.read, over.id), undefined);
    assert.equal((await setting.seen(waits.id)).state, 'sending');
    await fixture.store.transaction(async (tx) => {
      for (let n = 0; n < 97; n += 1)
        await tx
          .insertInto('replays')
          .values({ ...next, id: `rpl_${n}`, state: 'queueing' })
          .execute();
    });
    const last = await setting.replay();
    await assert.rejects(setting.replay(), codeOf('conflict'));
    await cancelReplay(setting.tools, caller, last.id);
    await setting.replay();
  });

  test('a late subscription gets each event from the given one on exactly once, also while others are emitted', async () => {
    const setting = await Setting.on(fixture.store);
    const stored = await setting.emit(['before 0', 'before 1', 'before 2']);
    const [, from] = stored;
    assert.ok(from !== undefined);
    // Many emissions under way at once, and the subscription in the middle of them.
    const emissions: Promise<StoredEvent[]>[] = [];
    const emitSome = () => {
      for (let n = 0; n < 20; n += 1) emissions.push(setting.emit([`${emissions.length}`]));
    };
    emitSome();
    const subscribing = setting.subscribeFrom(formatEventId(from));
    emitSome();
    const { subscription, replay } = await subscribing;
    emitSome();
    const later = (await Promise.all(emissions)).flat();
    const wanted = [...stored.slice(1), ...later].map(formatEventId).sort();
    assert.deepEqual(await setting.deliveredIds(subscription.id), wanted);
    const { total, start_id, subscription_id } = await setting.seen(replay.id);
    assert.equal(start_id, formatEventId(from));
    assert.equal(subscription_id, subscription.id);
    assert.ok(total >= 2 && total < wanted.length, `${total} of ${wanted.length} replayed`);
  });

  test('a late subscription waits for an emission that was matched before it and is not on disk yet', async () => {
    const setting = await Setting.on(fixture.store);
    const [from] = await setting.emit(['first']);
    assert.ok(from !== undefined);
    const matched = Promise.withResolvers<void>();
    const mayCommit = Promise.withResolvers<void>();
    const emitting = fixture.store.transaction(async (tx) => {
      const stored = await setting.emitIn(tx, ['matched before']);
      matched.resolve();
      await mayCommit.promise;
      return stored;
    });
    await matched.promise;
    const subscribing = setting.subscribeFrom(formatEventId(from));
    // Time in which a subscription that does not wait would be through.
    for (let n = 0; n < 50; n += 1) await findReplay(fixture.store.read, 'rpl_none');
    mayCommit.resolve();
    const [second] = await emitting;
    assert.ok(second !== undefined);
    const { subscription } = await subscribing;
    assert.deepEqual(await setting.deliveredIds(subscription.id), [from, second].map(formatEventId).sort());
  });

  test('a late subscription starts with the oldest event that is kept, and says what cannot be', async () => {
    const setting = await Setting.on(fixture.store);
    await setting.emit(['a', 'b']);
    const refused = [
      setting.subscribeFrom('1-0', { emitterId: 'dc_*' }),
      setting.subscribeFrom('1-0', { emitterId: 'u_1' }),
      setting.subscribeFrom('yesterday'),
      setting.subscribeFrom('1-0', { emitterId: 'dc_unknown' }),
    ];
    const codes = (await Promise.allSettled(refused)).map((result) =>
      result.status === 'rejected' ? (result.reason as CallerError).code : 'accepted',
    );
    assert.deepEqual(codes, ['invalid_parameter', 'invalid_parameter', 'invalid_event_id', 'not_found']);
    assert.equal((await setting.deliveries()).length, 0);
    const { replay } = await setting.subscribeFrom('1-0');
    assert.equal(replay.total, 2);
    await assert.rejects(setting.subscribeFrom('1-0'), codeOf('conflict'));
    const request = { emitterId: 'dc_from', listenerId: 'dc_to', eventName: '' };
    await subscribe(setting.tools, caller, request);
    assert.equal((await setting.deliveries()).length, 2);
  });
});
