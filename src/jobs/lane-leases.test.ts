import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { releaseDeliveries } from '#delivery/dispatch/delivery-queue-store.ts';
import { storeDelivery } from '../../test/support/stored-deliveries.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { insertJobs, jobRow } from './job-store.ts';
import { lanesOfOthers } from './lane-lease-store.ts';
import { LaneLeases } from './lane-leases.ts';
import { recoverExpired, registerNode, releaseNode } from './node-store.ts';
import { sharedLane } from './shared-lane.ts';

const nothingBusy = () => false;
const leaseMs = 15_000;

describe('whose turn a lane is', () => {
  forEachStore((fixture) => {
    if (fixture.dialect === 'sqlite') {
      test('with one node it is always that node', async () => {
        const leases = new LaneLeases({ node: 'n1', store: fixture.store });
        assert.equal(leases.owns('dc_1'), true);
        assert.deepEqual(await leases.take(['dc_1', 'dc_2']), new Set(['dc_1', 'dc_2']));
        assert.equal(await leases.look({ nowMs: 0, isBusy: nothingBusy }), false);
      });
      return;
    }

    let nowMs = 1_000_000;
    const leasesOf = async (node: string, claims = true) => {
      await fixture.store.transaction((tx) => registerNode(tx, node, { nowMs: 0, leaseMs, claims }));
      return new LaneLeases({ node, store: fixture.store, nowMs: () => nowMs });
    };
    const lanes = (count: number) => Array.from({ length: count }, (_, index) => `dc_${index}`);
    const look = (leases: LaneLeases, isBusy: (lane: string) => boolean = nothingBusy) =>
      leases.look({ nowMs: 0, isBusy });
    const job = (id: string, lane: string, node?: string) =>
      jobRow(
        {
          ...{ id, kind: 'run_source', ownerId: 'o_1', lane, runAtMs: 0, nowMs: 0 },
          payload: { source_id: lane, trigger: 'http', hops: 0 },
        },
        node,
      );
    const insert = (...rows: ReturnType<typeof job>[]) =>
      fixture.store.transaction((tx) => insertJobs(tx, rows));

    test('those whose requests come to other nodes are handed over before others', async () => {
      const one = await leasesOf('n1');
      await one.take(lanes(8));
      await leasesOf('n2');
      nowMs += 1_000;
      const elsewhere = ['dc_6', 'dc_7'];
      // Used last, so that otherwise they would be the last to go.
      for (const lane of elsewhere) one.owns(lane);
      assert.equal(
        await one.look({ nowMs: 0, isBusy: nothingBusy, comesElsewhere: (lane) => elsewhere.includes(lane) }),
        true,
      );
      nowMs += 1_000;
      await one.giveUp(nothingBusy);
      const given = lanes(8).filter((lane) => !one.owns(lane));
      assert.ok(given.length > 0);
      assert.deepEqual(
        given.filter((lane) => !elsewhere.includes(lane)),
        [],
      );
    });

    test('other nodes are taken to be there until this one has looked, and for a minute after it saw any', async () => {
      const one = await leasesOf('n1');
      assert.equal(one.hasOthers, true);
      await look(one);
      assert.equal(one.hasOthers, false);
      await leasesOf('n2');
      await look(one);
      assert.equal(one.hasOthers, true);
      await fixture.store.transaction((tx) => releaseNode(tx, 'n2', 0));
      await look(one);
      assert.equal(one.hasOthers, true, 'it may only have stalled');
      nowMs += 60_000;
      await look(one);
      assert.equal(one.hasOthers, false);
    });

    test('of one lane it is one node, of a shared one every node', async () => {
      const [one, two] = [await leasesOf('n1'), await leasesOf('n2')];
      assert.equal(one.owns('dc_1'), false, 'no job has been claimed yet');
      assert.deepEqual(await one.take(['dc_1']), new Set(['dc_1']));
      const shared = sharedLane('dc_1');
      assert.deepEqual(await two.take(['dc_1', 'dc_2', shared]), new Set(['dc_2', shared]));
      assert.deepEqual([one.owns('dc_1'), one.owns('dc_2'), one.owns(shared)], [true, false, true]);
    });

    test('two that ask at once get different lanes, and all of them', async () => {
      const stores = [fixture.store, await fixture.open()];
      const nodes = await Promise.all(
        stores.map(async (store, index) => {
          await leasesOf(`n${index}`);
          return new LaneLeases({ node: `n${index}`, store });
        }),
      );
      const taken = await Promise.all(
        nodes.map((leases, index) => leases.take(index === 0 ? lanes(200) : lanes(200).reverse())),
      );
      assert.deepEqual((taken[0] ?? new Set()).intersection(taken[1] ?? new Set()), new Set());
      assert.equal((taken[0]?.size ?? 0) + (taken[1]?.size ?? 0), 200);
    });

    test('a transaction that fails takes no lane', async () => {
      const [one, two] = [await leasesOf('n1'), await leasesOf('n2')];
      const failed = one.taking(async (_tx, take) => {
        await take(['dc_1']);
        throw new Error('no');
      });
      await assert.rejects(failed, /no/);
      assert.equal(one.owns('dc_1'), false);
      assert.deepEqual(await two.take(['dc_1']), new Set(['dc_1']));
    });

    test('an idle lane is given up after a minute; one that is used, or busy, is not', async () => {
      const [one, two] = [await leasesOf('n1'), await leasesOf('n2', false)];
      await one.take(['idle', 'used', 'busy', 'leased']);
      await insert(job('j', 'leased', 'n1'));
      nowMs += 59_000;
      one.owns('used');
      await look(one, (lane) => lane === 'busy');
      assert.equal(one.owns('busy'), true);
      nowMs += 2_000;
      await look(one, (lane) => lane === 'busy');
      assert.equal(one.owns('idle'), false);
      assert.deepEqual(await two.take(['idle', 'used', 'busy', 'leased']), new Set(['idle']));
      assert.equal(one.owns('leased'), true, 'a job of it is leased to this node, whatever it knows');
    });

    test('a node that came later gets its share: what rests first, each when nothing of it is under way', async () => {
      const one = await leasesOf('n1');
      await one.take(lanes(12));
      assert.equal(await look(one), false, 'it is alone');
      const two = await leasesOf('n2');
      nowMs += 1_000;
      const inUse = lanes(6);
      for (const lane of inUse) one.owns(lane);
      assert.equal(await look(one), true);
      const leaving = lanes(12).filter((lane) => !one.owns(lane));
      assert.equal(leaving.length, 2, 'a quarter of what it has beyond its share, rounded up');
      assert.ok(!leaving.some((lane) => inUse.includes(lane)));
      const [busy = '', free = ''] = leaving;
      await one.giveUp((lane) => lane === busy);
      assert.deepEqual(await two.take(leaving), new Set([free]), 'of the other one something is under way');
      assert.equal(one.mayTake(busy), false, 'nothing new of it begins here');
      await one.giveUp(nothingBusy);
      assert.deepEqual(await two.take(leaving), new Set(leaving));
    });

    test('a lane that was handed over and not taken comes back after a moment', async () => {
      const [one] = [await leasesOf('n1'), await leasesOf('n2')];
      await one.take(lanes(4));
      nowMs += 1_000;
      await look(one);
      const [leaving] = lanes(4).filter((lane) => !one.owns(lane));
      assert.ok(leaving !== undefined);
      await one.giveUp(nothingBusy);
      assert.deepEqual(await one.take([leaving]), new Set(), 'others come first');
      nowMs += 2_000;
      assert.deepEqual(await one.take([leaving]), new Set([leaving]));
    });

    test('a node that takes no lanes has no share', async () => {
      const one = await leasesOf('n1');
      await one.take(lanes(8));
      await leasesOf('ingress', false);
      assert.equal(await look(one), false);
    });

    test('lanes of a node that is gone are free when nothing is leased to it, neither job nor delivery', async () => {
      const [one, two] = [await leasesOf('n1'), await leasesOf('n2')];
      await one.take(['dc_1']);
      await insert(job('j', 'dc_1', 'n1'));
      const { id } = await storeDelivery(fixture.store, {
        ...{ listener_id: 'dc_1', state: 'queued', created_at_ms: 0, lease_node: 'n1' },
      });
      const recover = () =>
        recoverExpired(fixture.store, { node: 'n2', nowMs: leaseMs + 1, retryDelayMs: () => 0 });
      assert.equal((await recover()).requeued, 1);
      assert.deepEqual(await two.take(['dc_1']), new Set(), 'a delivery is with the dead node');
      await fixture.store.transaction((tx) => releaseDeliveries(tx, 'n1', [id]));
      await recover();
      assert.deepEqual(await two.take(['dc_1']), new Set(['dc_1']));
    });

    test('a node that stops leaves its lanes to be released when all of it has stopped', async () => {
      const [one, two] = [await leasesOf('n1'), await leasesOf('n2')];
      await one.take(['dc_1']);
      await insert(job('j', 'dc_1', 'n1'));
      await fixture.store.transaction((tx) => releaseNode(tx, 'n1', 0));
      assert.deepEqual(await two.take(['dc_1']), new Set());
      assert.deepEqual(await lanesOfOthers(fixture.store.read, 'n2', ['dc_1', 'dc_2']), new Set(['dc_1']));
      await recoverExpired(fixture.store, { node: 'n2', nowMs: 1, retryDelayMs: () => 0 });
      assert.deepEqual(await two.take(['dc_1']), new Set(['dc_1']));
    });
  });
});
