import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findDelivery } from '#delivery/delivery-store.ts';
import { redeliver } from '#delivery/manage-deliveries.ts';
import { requestReplay } from '#delivery/replay/replay-events.ts';
import { subscribeFrom } from '#delivery/subscriptions/manage-subscriptions.ts';
import { formatEventId } from '#events/event-id.ts';
import { newId } from '#lib/ids.ts';
import type { Store } from '#storage/store.ts';
import type { RunState, WorkflowState } from '#storage/tables/workflow-tables.ts';
import type { WorkflowSettings } from '#workflows/definitions/workflow-definition.ts';
import { updateWorkflow } from '#workflows/definitions/workflow-store.ts';
import { DeliveryFixture } from '../../../test/support/delivery-fixture.ts';
import { HttpReceiver } from '../../../test/support/http-receiver.ts';
import { readEvents } from '../../../test/support/stored-events.ts';
import { deployAgain, RecordedRuns, storeWorkflow } from '../../../test/support/stored-workflows.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { TestClock } from '../../../test/support/test-clock.ts';

interface Setting extends AsyncDisposable {
  delivery: DeliveryFixture;
  runs: RecordedRuns;
}

/** dc_1, and a workflow p_1 that listens to it. */
async function setUp(
  store: Store,
  options: { settings?: Partial<WorkflowSettings>; here?: boolean; state?: WorkflowState } = {},
): Promise<Setting> {
  const clock = new TestClock();
  const node = newId('node');
  const runs = new RecordedRuns(clock, options.here === true ? node : undefined);
  const delivery = await DeliveryFixture.start(store, { clock, node, runs, claims: false });
  await delivery.emitter();
  const { settings = {}, state = 'active' } = options;
  await storeWorkflow(store, { settings, state });
  await delivery.subscribe('p_1');
  return { delivery, runs, [Symbol.asyncDispose]: () => delivery[Symbol.asyncDispose]() };
}

async function storedRuns(store: Store) {
  return store.read
    .selectFrom('runs')
    .innerJoin('jobs', 'jobs.id', 'runs.id')
    .select([
      'runs.id',
      'runs.event',
      'runs.deployment_id',
      'runs.emitter_id',
      'runs.source_type',
      'runs.hops',
    ])
    .select(['runs.owner_id', 'runs.state', 'jobs.lane', 'jobs.run_at_ms', 'jobs.lease_node', 'jobs.kind'])
    .orderBy('jobs.run_at_ms')
    .orderBy('jobs.created_at_ms')
    .orderBy('jobs.id')
    .execute();
}

async function errorsOf(store: Store, emitterId: string) {
  const events = await readEvents(store.read, { emitterId, channel: '$errors', limit: 100 });
  return events.map(({ event }) => JSON.parse(event)).reverse();
}

const outcomes = async ({ delivery }: Setting) =>
  (await delivery.deliveries('p_1')).map(({ state, reason }) => [state, reason]);

forEachStore((fixture) => {
  test('an event becomes a run of the current deployment, stored with its job in the write that ends the delivery', async () => {
    await using setting = await setUp(fixture.store, { here: true });
    const { delivery, runs } = setting;
    await delivery.emit(['{"a":1}'], { hops: 2 });
    await delivery.service.dispatcher.untilIdle();
    const [run] = await storedRuns(fixture.store);
    assert.ok(run !== undefined);
    assert.deepEqual(runs.stored, [run.id]);
    assert.deepEqual(await outcomes(setting), [['delivered', null]]);
    assert.equal(run.event, '{"a":1}');
    assert.equal(run.deployment_id, 'd_p_1_1');
    assert.deepEqual([run.emitter_id, run.source_type, run.hops], ['dc_1', 'COMPONENT', 3]);
    assert.deepEqual([run.owner_id, run.lane, run.kind], ['o_1', 'p_1', 'run_workflow']);
    assert.equal(run.lease_node, delivery.node);
    assert.equal(await delivery.payloads(), 0);
  });

  test('what a workflow emits is heard by its listeners, by id, by p_* and by owner, and starts runs of type WORKFLOW', async () => {
    await using setting = await setUp(fixture.store);
    const { delivery } = setting;
    await storeWorkflow(fixture.store, { id: 'p_2' });
    await storeWorkflow(fixture.store, { id: 'p_3' });
    await delivery.subscribe('p_2', { emitterId: 'p_1', eventName: 'done' });
    await delivery.subscribe('p_2', { emitterId: 'p_*' });
    await delivery.subscribe('p_3', { emitterId: 'o_1', eventName: '$errors' });
    await delivery.subscribe('p_3', { emitterId: 'dc_*' });
    await delivery.emit(['1'], { emitterId: 'p_1', channel: 'done' });
    await delivery.emit(['2'], { emitterId: 'p_1' });
    await delivery.emit(['3'], { emitterId: 'p_1', channel: '$errors' });
    await delivery.service.dispatcher.untilIdle();
    const made = (await storedRuns(fixture.store)).map(({ lane, event, source_type, emitter_id }) =>
      [lane, event, source_type, emitter_id].join(' '),
    );
    assert.deepEqual(made.sort(), ['p_2 1 WORKFLOW p_1', 'p_2 2 WORKFLOW p_1', 'p_3 3 WORKFLOW p_1']);
  });

  test('a workflow that is inactive, or gone, gets no run, and the delivery says why', async () => {
    await using setting = await setUp(fixture.store, { state: 'inactive' });
    const { delivery } = setting;
    await delivery.subscribe('p_gone');
    await delivery.emit(['1']);
    await delivery.service.dispatcher.untilIdle();
    assert.deepEqual(await outcomes(setting), [['skipped', 'listener_inactive']]);
    const [gone] = await delivery.deliveries('p_gone');
    assert.deepEqual([gone?.state, gone?.reason], ['cancelled', 'listener_removed']);
    assert.deepEqual(await storedRuns(fixture.store), []);
  });

  test('the eleventh hop of a loop is dropped', async () => {
    await using setting = await setUp(fixture.store);
    await setting.delivery.emit(['1'], { hops: 9 });
    await setting.delivery.emit(['2'], { hops: 10 });
    await setting.delivery.service.dispatcher.untilIdle();
    assert.deepEqual(await outcomes(setting), [
      ['delivered', null],
      ['dropped', 'too_many_hops'],
    ]);
    assert.deepEqual(
      (await storedRuns(fixture.store)).map(({ event, hops }) => [event, hops]),
      [['1', 10]],
    );
  });

  test('a new deployment, and deactivation, apply to new events once the directory was notified', async () => {
    await using setting = await setUp(fixture.store);
    const { delivery } = setting;
    await delivery.emit(['1']);
    await delivery.service.dispatcher.untilIdle();
    await deployAgain(fixture.store, { id: 'p_1', number: 2, settings: {} });
    delivery.workflows.forget('p_1');
    await delivery.emit(['2']);
    await delivery.service.dispatcher.untilIdle();
    await fixture.store.transaction((tx) =>
      updateWorkflow(tx, 'p_1', { state: 'inactive', updated_at_ms: 3 }),
    );
    delivery.workflows.forget('p_1');
    await delivery.emit(['3']);
    await delivery.service.dispatcher.untilIdle();
    assert.deepEqual(
      (await storedRuns(fixture.store)).map(({ event, deployment_id }) => [event, deployment_id]),
      [
        ['1', 'd_p_1_1'],
        ['2', 'd_p_1_2'],
      ],
    );
    assert.deepEqual((await outcomes(setting)).at(-1), ['skipped', 'listener_inactive']);
  });

  for (const [name, settings] of [
    ['concurrency', { concurrency: 1 }],
    ['a throttle', { throttle: { limit: 1, seconds: 60 } }],
  ] as const)
    test(`runs of a workflow with ${name} wait in the store, in the order of their events`, async () => {
      await using setting = await setUp(fixture.store, { here: true, settings });
      const { delivery, runs } = setting;
      const events = Array.from({ length: 40 }, (_, n) => String(n));
      for (const event of events.slice(0, 10)) {
        await delivery.emit([event]);
        delivery.clock.step(1);
      }
      await delivery.emit(events.slice(10));
      await delivery.service.dispatcher.untilIdle();
      assert.ok(runs.prepared.every(({ inStore }) => inStore));
      const stored = await storedRuns(fixture.store);
      assert.deepEqual(
        stored.map(({ event }) => event),
        events,
      );
      assert.ok(stored.every(({ lease_node }) => lease_node === null));
    });

  test('what was stored first is run first, also when it is delivered later', async () => {
    await using setting = await setUp(fixture.store, { settings: { concurrency: 1, queueSize: 1 } });
    const { delivery } = setting;
    await delivery.emit(['1', '2', '3']);
    await delivery.service.dispatcher.untilIdle();
    delivery.clock.step(10_000);
    await fixture.store.transaction((tx) => tx.deleteFrom('runs').execute());
    await fixture.store.transaction((tx) => tx.deleteFrom('jobs').execute());
    await delivery.emit(['4']);
    await delivery.service.dispatcher.untilIdle();
    const dropped = (await delivery.deliveries('p_1')).find(({ state }) => state === 'dropped');
    const row = await findDelivery(fixture.store.read, dropped?.id ?? '');
    assert.ok(row !== undefined);
    const { store, clock } = delivery;
    const { dispatcher } = delivery.service;
    await redeliver({ store, clock, onQueued: (id) => dispatcher.leftInStore(id) }, row);
    await dispatcher.untilIdle();
    assert.deepEqual(
      (await storedRuns(fixture.store)).map(({ event }) => event),
      ['3', '4'],
    );
  });

  test('an event beyond the queue is dropped, with a record and an error event that its listeners get', async () => {
    await using receiver = await HttpReceiver.start();
    await using setting = await setUp(fixture.store, { settings: { concurrency: 1, queueSize: 2 } });
    const { delivery } = setting;
    await delivery.subscribe((await delivery.webhook(receiver.url)).id, {
      emitterId: 'p_1',
      eventName: '$errors',
    });
    // One begins, two wait.
    await delivery.emit(['{"n":1}', '{"n":2}', '{"n":3}', '{"n":4}'], { hops: 1 });
    await delivery.service.dispatcher.untilIdle();
    assert.deepEqual(await outcomes(setting), [
      ['delivered', null],
      ['delivered', null],
      ['delivered', null],
      ['dropped', 'queue_full'],
    ]);
    const [error, ...others] = await errorsOf(fixture.store, 'p_1');
    assert.deepEqual(others, []);
    assert.deepEqual(error.original_event, { n: 4 });
    const dropped = (await delivery.deliveries('p_1')).find(({ state }) => state === 'dropped');
    assert.equal(error.original_context.id, dropped?.id);
    assert.equal(error.original_context.workflow_id, 'p_1');
    assert.equal(error.original_context.deployment_id, 'd_p_1_1');
    assert.equal(error.original_context.source_type, 'COMPONENT');
    assert.equal(error.error.code, 'Event Queue Full');
    assert.equal(error.error.ts, new Date(delivery.clock.now()).toISOString());
    assert.match(error.error.msg, /2 runs .* dropped.*redeliver/);
    assert.equal(error.metadata.emitter_id, 'p_1');
    assert.equal(error.metadata.name, '$errors');
    const [request] = receiver.requests;
    assert.deepEqual(JSON.parse(request?.body.toString() ?? ''), error);
  });

  test('nothing is dropped for what was counted before: runs that have begun or ended since make room', async () => {
    await using setting = await setUp(fixture.store, { settings: { concurrency: 1, queueSize: 2 } });
    const { delivery } = setting;
    const emit = async (event: string) => {
      await delivery.emit([event]);
      await delivery.service.dispatcher.untilIdle();
    };
    for (const event of ['1', '2', '3']) await emit(event);
    const [first, second] = await storedRuns(fixture.store);
    const setState = (id: string | undefined, state: RunState, endedAtMs: number | null) =>
      fixture.store.transaction((tx) =>
        tx
          .updateTable('runs')
          .set({ state, ended_at_ms: endedAtMs })
          .where('id', '=', id ?? '')
          .execute(),
      );
    await setState(first?.id, 'running', null);
    await emit('4 is one too many: one runs, two wait');
    await setState(first?.id, 'succeeded', 1);
    await setState(second?.id, 'running', null);
    await emit('5');
    await emit('6 is one too many');
    assert.deepEqual(
      (await outcomes(setting)).map(([state]) => state),
      ['delivered', 'delivered', 'delivered', 'dropped', 'delivered', 'dropped'],
    );
  });

  test('what a workflow emitted earlier is sent to another one again, by a replay and by a late subscription', async () => {
    await using setting = await setUp(fixture.store);
    const { delivery } = setting;
    for (const id of ['p_2', 'p_3']) await storeWorkflow(fixture.store, { id, ownerId: 'u_1' });
    const [first] = await delivery.emit(['1', '2'], { emitterId: 'p_2' });
    assert.ok(first !== undefined);
    const { store, clock, service } = delivery;
    const tools = { store, clock, replays: service.replays, onJobs: () => {} };
    const caller = { userId: 'u_1', isAdmin: false, keyId: 'key_1' };
    const ends = { emitterId: 'p_2', listenerId: 'p_3', eventName: '' };
    const replay = await requestReplay(tools, caller, ends);
    assert.equal(replay.total, 2);
    const late = await subscribeFrom(tools, caller, { ...ends, fromEventId: formatEventId(first) });
    assert.equal(late.replay.total, 2);
    for (let n = 0; n < 3; n += 1) {
      clock.step(1_000);
      service.dispatcher.poke();
      await service.dispatcher.untilIdle();
    }
    const runs = await storedRuns(fixture.store);
    assert.deepEqual(runs.map(({ event }) => event).sort(), ['1', '1', '2', '2']);
    assert.ok(runs.every(({ source_type, hops }) => source_type === 'WORKFLOW' && hops === 1));
  });

  test('a workflow that listens to its own errors does not go round for ever when its queue is full', async () => {
    await using setting = await setUp(fixture.store, { settings: { concurrency: 1, queueSize: 1 } });
    const { delivery } = setting;
    await delivery.subscribe('p_1', { emitterId: 'p_1', eventName: '$errors' });
    await delivery.emit(['1', '2', '3']);
    await delivery.service.dispatcher.untilIdle();
    const states = await outcomes(setting);
    assert.deepEqual(states.at(-1), ['dropped', 'failure_loop']);
    // The event that found the queue full, and its failure, which found it full too.
    assert.equal((await errorsOf(fixture.store, 'p_1')).length, 2);
  });
});
