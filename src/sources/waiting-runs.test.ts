import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { insertJobs, jobRow } from '#jobs/job-store.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { WaitingRuns } from './waiting-runs.ts';

describe('requests that wait for their source', () => {
  forEachStore((fixture) => {
    const store = (id: string, lane: string) =>
      fixture.store.transaction((tx) =>
        insertJobs(tx, [
          jobRow({
            id,
            kind: 'run_source',
            ownerId: 'o_1',
            lane,
            payload: { source_id: lane, trigger: 'http', event: '{}', hops: 0 },
            runAtMs: 0,
            nowMs: 0,
          }),
        ]),
      );

    test('are bounded in number, for each source, by what the store holds and what was admitted since', async () => {
      const clock = new TestClock(1_000_000);
      const waiting = new WaitingRuns({ store: fixture.store, clock, limits: { jobs: 3, bytes: 1e6 } });
      await store('a', 'dc_1');
      const admitted = [
        await waiting.admit('dc_1', 1),
        await waiting.admit('dc_1', 1),
        await waiting.admit('dc_1', 1),
      ];
      assert.deepEqual(admitted, [true, true, false]);
      assert.equal(await waiting.admit('dc_2', 1), true);
      clock.step(1_000);
      assert.equal(await waiting.admit('dc_1', 1), true, 'those that were worked off leave room');
    });

    test('are counted once for all that come meanwhile, and again when the clock has stepped back', async () => {
      let counts = 0;
      const read = new Proxy(fixture.store.read, {
        get(target, name) {
          if (name === 'selectFrom') counts += 1;
          return Reflect.get(target, name).bind?.(target) ?? Reflect.get(target, name);
        },
      });
      const clock = new TestClock(1_000_000);
      const waiting = new WaitingRuns({
        store: { ...fixture.store, read },
        clock,
        limits: { jobs: 3, bytes: 1e6 },
      });
      const admitted = await Promise.all([1, 2, 3, 4, 5].map(() => waiting.admit('dc_1', 1)));
      assert.deepEqual([admitted.filter(Boolean).length, counts], [3, 1]);
      clock.step(-3_600_000);
      assert.deepEqual([await waiting.admit('dc_1', 1), counts], [true, 2]);
    });

    test('are bounded in bytes', async () => {
      const waiting = new WaitingRuns({
        store: fixture.store,
        clock: new TestClock(1_000_000),
        limits: { jobs: 100, bytes: 1_000 },
      });
      await store('a', 'dc_1');
      assert.equal(await waiting.admit('dc_1', 1_000), false);
      assert.equal(await waiting.admit('dc_1', 500), true);
      assert.equal(await waiting.admit('dc_1', 500), false);
    });
  });
});
