import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { insertSource } from '#sources/source-store.ts';
import { DeliveryFixture } from '../../test/support/delivery-fixture.ts';
import { sourceRow } from '../../test/support/source-row.ts';
import { forEachStore } from '../../test/support/stores.ts';

describe('delivering to a source', () => {
  forEachStore((fixture) => {
    test('an event ends as a job of the source, written with the end of the delivery', async () => {
      await using delivery = await DeliveryFixture.start(fixture.store, { claims: false });
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
  });
});
