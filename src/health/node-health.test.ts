import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { JobRegistry } from '#jobs/job-registry.ts';
import { nodeStates, reportNode } from '#jobs/node-state-store.ts';
import { releaseNode } from '#jobs/node-store.ts';
import { WorkerPool } from '#jobs/worker-pool.ts';
import { silentLogger } from '#lib/logger.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { nodeHealth } from './node-health.ts';

const startMs = 1_800_000_000_000;
const leaseMs = 15_000;

describe('the health of nodes', () => {
  forEachStore((fixture) => {
    const report = (
      node: string,
      nowMs: number,
      more: Partial<Parameters<typeof reportNode>[2]> = {},
    ): Promise<void> =>
      fixture.store.transaction((tx) =>
        reportNode(tx, node, {
          ...{ nowMs, leaseMs, startedAtMs: startMs, clock: undefined, stoppingSinceMs: null },
          ...more,
        }),
      );
    const healthAt = async (nowMs: number) =>
      Object.fromEntries(
        (await nodeStates(fixture.store.read)).map((state) => [state.id, nodeHealth(state, nowMs)]),
      );

    test('a node without a heartbeat is failing since its last one, with what to do, and gone after an hour', async () => {
      await report('node_dead', startMs + 1_000);
      await report('node_alive', startMs + 20_000);
      const seen = await healthAt(startMs + 21_000);
      assert.deepEqual(seen.node_alive?.health, {
        ...{ state: 'healthy', since: startMs / 1000, reason: null, failures: 0, waiting: 0 },
      });
      assert.equal(seen.node_alive?.advice, null);
      const { health, advice } = seen.node_dead ?? assert.fail('it is not listed');
      assert.deepEqual([health.state, health.since], ['failing', startMs / 1000 + 1]);
      assert.match(health.reason ?? '', /^no heartbeat for 20 s; other nodes take over/);
      assert.match(advice ?? '', /^Check whether its process runs/);
      await report('node_alive', startMs + 3_602_000);
      assert.deepEqual(Object.keys(await healthAt(startMs + 3_602_000)), ['node_alive']);
    });

    test('a clock that is off fails since it was found off; one that stops is paused; one that stopped is not listed', async () => {
      const off = { state: 'unreliable', offsetMs: -3_600_000 } as const;
      await report('node_1', startMs, { clock: { state: 'synchronized', offsetMs: 3 } });
      await report('node_1', startMs + 5_000, { clock: off });
      await report('node_1', startMs + 10_000, { clock: off });
      const { health } = (await healthAt(startMs + 11_000)).node_1 ?? assert.fail('it is not listed');
      assert.deepEqual([health.state, health.since], ['failing', startMs / 1000 + 5]);
      assert.equal(health.reason, 'its clock is 3600 s behind that of the database: no timer fires there');
      await report('node_1', startMs + 12_000, { stoppingSinceMs: startMs + 12_000 });
      const stopping = (await healthAt(startMs + 12_000)).node_1;
      assert.deepEqual([stopping?.health.state, stopping?.health.since], ['paused', startMs / 1000 + 12]);
      await fixture.store.transaction((tx) => releaseNode(tx, 'node_1', startMs + 13_000));
      assert.deepEqual(await healthAt(startMs + 13_000), {});
    });

    test('a node that cannot write says why before anything else', async () => {
      await report('node_1', startMs);
      const [state] = await nodeStates(fixture.store.read);
      const { health, advice } = nodeHealth(
        state ?? assert.fail('it is not listed'),
        startMs + 60_000,
        'the disk of the store is full',
      );
      assert.deepEqual([health.state, health.reason], ['failing', 'the disk of the store is full']);
      assert.match(advice ?? '', /^Free disk space/);
    });

    test('a worker pool reports itself when it starts, and while it drains', async () => {
      const { store } = fixture;
      const running = Promise.withResolvers<void>();
      const end = Promise.withResolvers<void>();
      const pool = new WorkerPool({
        ...{ node: 'node_1', store, clock: new TestClock(startMs), logger: silentLogger, claims: true },
        jobs: new JobRegistry({
          run_source: {
            run: async () => {
              running.resolve();
              await end.promise;
            },
            quarantined: async () => {},
          },
        }) as never,
      });
      await pool.start();
      assert.deepEqual(
        (await nodeStates(store.read)).map(({ id, stopping_since_ms }) => [id, stopping_since_ms]),
        [['node_1', null]],
      );
      pool.run({
        ...{ id: 'job_1', kind: 'run_source', ownerId: 'o_1', lane: null, attempts: 1, bytes: 1 },
        ...{ payload: { source_id: 'dc_1', trigger: 'http', hops: 0 }, createdAtMs: 0 },
      });
      await running.promise;
      const stopped = pool.stop(60_000);
      await waitFor(async () => typeof (await nodeStates(store.read))[0]?.stopping_since_ms === 'number');
      end.resolve();
      await stopped;
      assert.deepEqual(await nodeStates(store.read), []);
    });
  });
});
