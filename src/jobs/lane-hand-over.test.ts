import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Deferred } from '#lib/deferred.ts';
import type { Logger } from '#lib/logger.ts';
import { LaneHandOver } from './lane-hand-over.ts';

test('lanes are given until none is left to go, whether the store takes it or not, and a stop waits', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const given: Deferred<void>[] = [];
  const logged: unknown[] = [];
  const lanes = {
    node: 'n_1',
    isLeaving: true,
    giveUp: () => {
      const end = new Deferred<void>();
      given.push(end);
      return end.promise;
    },
  };
  const settled = () => new Promise(setImmediate);
  const handOver = new LaneHandOver({
    lanes,
    isBusy: () => false,
    logger: { warn: (about: unknown) => logged.push(about) } as unknown as Logger,
  });
  handOver.begin();
  handOver.begin();
  assert.equal(given.length, 1);
  given[0]?.reject(new Error('away'));
  await settled();
  assert.deepEqual(logged, [{ node: 'n_1', error: 'away' }]);
  t.mock.timers.tick(250);
  assert.equal(given.length, 2);
  lanes.isLeaving = false;
  given[1]?.resolve();
  await settled();
  t.mock.timers.tick(250);
  assert.equal(given.length, 2);
  handOver.begin();
  let hasStopped = false;
  const stop = handOver.stop().then(() => {
    hasStopped = true;
  });
  await settled();
  assert.equal(hasStopped, false);
  given[2]?.resolve();
  await stop;
  handOver.begin();
  assert.equal(given.length, 3);
});
