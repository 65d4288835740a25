import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turnOfLoop } from 'node:timers/promises';
import { silentLogger } from '#lib/logger.ts';
import { forEachStore } from '../../test/support/stores.ts';
import type { LeaseClock } from './lease-clock.ts';
import { type Beat, NodeHeartbeat } from './node-heartbeat.ts';

const leaseMs = 60_000;

forEachStore((fixture) => {
  test('a node that could not renew its lease tries again after a second', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    let isAway = false;
    const failed = Promise.withResolvers<void>();
    const renewed = Promise.withResolvers<Beat>();
    const leaseClock = {
      nowMs: async () => {
        if (!isAway) return Date.now();
        failed.resolve();
        throw new Error('the store is away');
      },
    } as LeaseClock;
    const heartbeat = new NodeHeartbeat({
      ...{ node: 'n_1', store: fixture.store, leaseClock, logger: silentLogger, leaseMs, claims: true },
      predecessor: undefined,
      nodeClock: () => undefined,
      onLost: () => assert.fail('the lease was lost'),
      afterBeat: async (beat) => renewed.resolve(beat),
    });
    await heartbeat.register();
    heartbeat.start();
    isAway = true;
    t.mock.timers.tick(leaseMs / 3);
    await failed.promise;
    isAway = false;
    // The failed round is over, and the next one planned.
    await turnOfLoop();
    t.mock.timers.tick(1_000);
    assert.equal((await renewed.promise).wasLate, false);
    await heartbeat.stop();
  });
});
