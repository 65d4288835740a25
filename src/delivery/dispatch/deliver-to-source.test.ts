import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { heldDelivery } from '#delivery/delivery.ts';
import { releaseLanes } from '#jobs/lane-lease-store.ts';
import { insertSource } from '#sources/source-store.ts';
import type { WaitingRuns } from '#sources/waiting-runs.ts';
import { DeliveryFixture } from '../../../test/support/delivery-fixture.ts';
import { sourceRow } from '../../../test/support/source-row.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { TestClock } from '../../../test/support/test-clock.ts';
import { deliverToSource } from './deliver-to-source.ts';

describe('delivering to a source', () => {
  forEachStore((fixture) => {
    test('an event ends as a job of the source, written with the end of the delivery, with its place kept until then', async (t) => {
      await using delivery = await DeliveryFixture.start(fixture.store, { claims: false });
      const promise = t.mock.method(delivery.pool, 'promise');
      const run = t.mock.method(delivery.pool, 'run');
      await delivery.emitter();
      await fixture.store.transaction((tx) => insertSource(tx, sourceRow('dc_2', { ownerId: 'o_1' }), []));
      await delivery.pool.lanes.take(['dc_2']);
      await delivery.subscribe('dc_2');
      await delivery.emit(['1', '2']);
      await delivery.service.dispatcher.untilIdle();
      assert.deepEqual(
        (await delivery.deliveries('dc_2')).map(({ state }) => state),
        ['delivered', 'delivered'],
      );
      const promised = promise.mock.calls.map(({ arguments: [id] }) => id);
      assert.equal(promised.length, 2);
      assert.deepEqual(
        promised,
        run.mock.calls.map(({ arguments: [job] }) => job.id),
      );
    });

    test('an event that could not be handed over goes before those that come after it', async (t) => {
      await using delivery = await DeliveryFixture.start(fixture.store, { claims: false });
      const run = t.mock.method(delivery.pool, 'run');
      await delivery.emitter();
      await fixture.store.transaction((tx) => insertSource(tx, sourceRow('dc_2', { ownerId: 'o_1' }), []));
      await delivery.pool.lanes.take(['dc_2']);
      await delivery.subscribe('dc_2');
      const attempt = Promise.withResolvers<void>();
      const fails = (): never => {
        attempt.resolve();
        throw new Error('the store was away');
      };
      t.mock.method(delivery.pool, 'hasRoom', fails, { times: 1 });
      await delivery.emit(['1', '2']);
      await attempt.promise;
      await delivery.emit(['3']);
      assert.equal(run.mock.callCount(), 0, 'they wait for the first one');
      delivery.clock.step(1_000);
      delivery.service.dispatcher.poke();
      await delivery.service.dispatcher.untilIdle();
      assert.deepEqual(
        run.mock.calls.map(({ arguments: [{ payload }] }) => 'event' in payload && payload.event),
        ['1', '2', '3'],
      );
    });

    test('a run that waits in the store is on its way there until it is stored, or never will be', async () => {
      await fixture.store.transaction((tx) => insertSource(tx, sourceRow('dc_2', { ownerId: 'o_1' }), []));
      const events: string[] = [];
      const pool = {
        node: 'n_1',
        hasRoom: () => false,
        promise: () => assert.fail('it has no place here'),
        run: () => assert.fail('it does not run here'),
        goesToStore: (lane: string) => {
          events.push(`${lane} goes`);
          return () => events.push('arrived');
        },
      };
      const waiting = { admit: async () => true } as unknown as WaitingRuns;
      const event = {
        emitter_id: 'dc_1',
        owner_id: 'o_1',
        channel: '',
        ms: 0,
        seq: 0,
        emit_id: 'e',
        hops: 0,
        event: '1',
      };
      for (const end of ['stored', 'refused'] as const) {
        const outcome = await deliverToSource(
          { store: fixture.store, pool, waiting, clock: new TestClock(), onHeld: () => {} },
          heldDelivery(
            {
              ...event,
              id: 'dlv_1',
              listener_id: 'dc_2',
              trace: null,
              attempts: 0,
              attempt_log: '[]',
              created_at_ms: 0,
            },
            Buffer.from(event.event),
          ),
        );
        assert.ok(outcome.kind === 'delivered' && outcome.handover?.job.lease_node === null);
        assert.deepEqual(events.splice(0), ['dc_2 goes']);
        outcome.handover[end]?.();
        assert.deepEqual(events.splice(0), ['arrived'], end);
      }
    });

    if (fixture.dialect === 'sqlite') return;

    test('only the node with the turn of the source delivers to it: others leave events to it, new and old', async () => {
      await using one = await DeliveryFixture.start(fixture.store, { claims: false });
      await using two = await DeliveryFixture.start(await fixture.open(), { claims: false });
      await one.emitter();
      await fixture.store.transaction((tx) => insertSource(tx, sourceRow('dc_2', { ownerId: 'o_1' }), []));
      await two.pool.lanes.take(['dc_2']);
      await one.subscribe('dc_2');
      const states = async () => (await one.deliveries('dc_2')).map(({ state }) => state);
      const nodesOf = async () => {
        const jobs = await fixture.store.read.selectFrom('jobs').select('lease_node').execute();
        return new Set(jobs.map(({ lease_node }) => lease_node));
      };
      await one.emit(['1', '2', '3']);
      // Whatever comes of these, they are not this node's.
      one.service.dispatcher.poke();
      await one.service.dispatcher.untilIdle();
      await two.service.dispatcher.untilIdle();
      assert.equal((await nodesOf()).has(one.node), false);
      two.service.dispatcher.poke();
      await two.service.dispatcher.untilIdle();
      assert.deepEqual(await states(), ['delivered', 'delivered', 'delivered']);
      assert.deepEqual(await nodesOf(), new Set([two.node]));
    });

    test('what waits in the store when a node gets the turn of a source is delivered before what is emitted then', async () => {
      const before = new DeliveryFixture(await fixture.open(), { claims: false });
      await using now = await DeliveryFixture.start(fixture.store, { claims: false });
      await now.emitter();
      await fixture.store.transaction((tx) => insertSource(tx, sourceRow('dc_2', { ownerId: 'o_1' }), []));
      await before.pool.lanes.take(['dc_2']);
      await now.subscribe('dc_2');
      await now.emit(['1', '2']);
      await now.service.dispatcher.untilIdle();
      assert.deepEqual(
        (await now.deliveries('dc_2')).map(({ state }) => state),
        ['queued', 'queued'],
      );
      await fixture.store.transaction((tx) => releaseLanes(tx, before.node));
      let hadPlace: boolean | undefined;
      now.pool.lanes.onTaken(() => {
        hadPlace = now.service.dispatcher.places().take('dc_2', 'o_1', 1);
      });
      // As a request to the source does, whose run this node takes.
      await now.pool.lanes.take(['dc_2']);
      assert.equal(hadPlace, false, 'an event that is emitted now would overtake those that wait');
      await now.service.dispatcher.untilIdle();
      assert.equal(now.service.dispatcher.places().take('dc_2', 'o_1', 1), true);
    });
  });
});
