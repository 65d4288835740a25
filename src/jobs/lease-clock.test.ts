import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { LeaseClock } from './lease-clock.ts';
import { databaseTimeMs } from './node-store.ts';

forEachStore((fixture) => {
  test('leases are in the time of the database where nodes share a store, else in that of the process', async () => {
    const { store } = fixture;
    const clock = new TestClock();
    const leaseClock = new LeaseClock({ store, clock });
    if (!store.isShared) {
      assert.equal(await leaseClock.nowMs(), clock.now());
      return;
    }
    const beforeMs = await databaseTimeMs(store.read);
    const nowMs = await leaseClock.nowMs();
    const afterMs = await databaseTimeMs(store.read);
    assert.ok(beforeMs <= nowMs && nowMs <= afterMs, `${beforeMs} <= ${nowMs} <= ${afterMs}`);
  });
});
