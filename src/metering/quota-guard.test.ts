import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CallerError } from '#lib/errors.ts';
import { silentLogger } from '#lib/logger.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { usageOf } from './invocation-usage.ts';
import { QuotaGuard } from './quota-guard.ts';
import { putOwnerQuota } from './quota-store.ts';
import { addUsage, usageByDay } from './usage-store.ts';

const dayMs = 86_400_000;
const noon = Date.UTC(2027, 0, 31, 12);

forEachStore((fixture) => {
  const setUp = (enforced = true) => {
    const { store } = fixture;
    const clock = new TestClock(noon);
    const defaults = { credits: 10, computeMs: 60_000, invocations: 5, enforced };
    const guard = new QuotaGuard({ store, clock, logger: silentLogger, defaults });
    const use = (ownerId: string, used: { invocations: number; computeMs: number; memoryMb?: number }) =>
      store.transaction((tx) =>
        addUsage(store, tx, [usageOf(ownerId, clock.now(), { memoryMb: 256, ...used })]),
      );
    /** Asks as a caller does that returns once the answer is known. */
    const mayRun = async (ownerId: string) => {
      guard.mayRun(ownerId);
      await guard.settled();
      return guard.mayRun(ownerId);
    };
    const refusal = (ownerId: string) => {
      try {
        guard.check(ownerId);
      } catch (error) {
        assert.ok(error instanceof CallerError);
        return { code: error.code, ...error.details };
      }
      return undefined;
    };
    return { store, clock, guard, use, mayRun, refusal };
  };

  test('what was set for the processes of an owner holds from when it is known, and a change immediately', async () => {
    const { store, clock, guard } = setUp(false);
    const set = async (memory_mb_max: number | null) => {
      await store.transaction((tx) =>
        putOwnerQuota(tx, 'u_1', { processes_max: 3, memory_mb_max }, clock.now()),
      );
      guard.forget('u_1');
      await guard.settled();
    };
    assert.deepEqual(guard.limitsOf('u_1'), {});
    await set(512);
    assert.deepEqual(guard.limitsOf('u_1'), { processesMax: 3, memoryMbMax: 512 });
    await set(null);
    assert.deepEqual(guard.limitsOf('u_1'), { processesMax: 3 });
    guard.limitsOf('u_2');
    await guard.settled();
    assert.deepEqual(guard.limitsOf('u_2'), {});
  });

  test('who has used up any of the quotas of the day may not run until 00:00 UTC', async () => {
    const { clock, use, mayRun, refusal } = setUp();
    await use('u_1', { invocations: 5, computeMs: 1 });
    await use('u_2', { invocations: 1, computeMs: 60_000 });
    await use('u_3', { invocations: 1, computeMs: 1, memoryMb: 2560 });
    await use('o_1', { invocations: 3, computeMs: 1 });
    const about = { code: 'quota_exceeded', retry_after: 12 * 3600, reset_at: (noon + dayMs / 2) / 1000 };
    assert.equal(await mayRun('u_1'), false);
    assert.deepEqual(refusal('u_1'), { ...about, quota: 'invocations', limit: 5 });
    assert.equal(await mayRun('u_2'), false);
    assert.deepEqual(refusal('u_2'), { ...about, quota: 'compute_ms', limit: 60_000 });
    assert.equal(await mayRun('u_3'), false);
    assert.deepEqual(refusal('u_3'), { ...about, quota: 'credits', limit: 10 });
    assert.equal(await mayRun('o_1'), true);
    assert.equal(await mayRun('nobody'), true);
    clock.step(dayMs / 2);
    assert.equal(refusal('u_1'), undefined, 'a new day');
  });

  test('starts count before their usage is known, and no longer than that', async () => {
    const { clock, guard, use, mayRun, refusal } = setUp();
    await use('u_1', { invocations: 2, computeMs: 1 });
    assert.equal(await mayRun('u_1'), true);
    const refused = () => refusal('u_1') !== undefined;
    assert.deepEqual([refused(), refused(), refused(), refused()], [false, false, false, true]);
    assert.equal(guard.mayRun('u_1'), true, 'those that were let through may run');
    clock.step(1_001);
    assert.equal(refused(), true, 'what is known counts until it is read again');
    await guard.settled();
    assert.equal(refused(), false);
  });

  test('nothing is refused where nothing is enforced', async () => {
    const { store, clock, guard, use, mayRun } = setUp(false);
    await use('u_1', { invocations: 100, computeMs: 1 });
    assert.equal(await mayRun('u_1'), true);
    const put = (changes: Parameters<typeof putOwnerQuota>[2]) =>
      store.transaction((tx) => putOwnerQuota(tx, 'u_1', changes, clock.now()));
    await put({ enforced: 1 });
    assert.equal(guard.mayRun('u_1'), true, 'not looked at again yet');
    guard.forget('u_1');
    assert.equal(await mayRun('u_1'), false);
    await put({ invocations: 1_000 });
    guard.forget('u_1');
    assert.equal(await mayRun('u_1'), true, 'and the rest stays as it was set');
    await put({ invocations: null });
    guard.forget('u_1');
    assert.equal(await mayRun('u_1'), false, 'as the setting says');
  });

  test('a store that cannot be read refuses no owner', async () => {
    const { store } = fixture;
    const broken = new Proxy(store.read, {
      get: () => {
        throw new Error('the store is away');
      },
    });
    const guard = new QuotaGuard({
      store: { read: broken },
      clock: new TestClock(noon),
      logger: silentLogger,
      defaults: { credits: 0, computeMs: 0, invocations: 0, enforced: true },
    });
    assert.equal(guard.mayRun('u_1'), true);
    await guard.settled();
    assert.equal(guard.mayRun('u_1'), true);
  });

  test('usage by day has a row for each day, with zeros where nothing was used', async () => {
    const { store, clock, use } = setUp();
    await use('u_1', { invocations: 1, computeMs: 10 });
    clock.step(2 * dayMs);
    await use('u_1', { invocations: 2, computeMs: 20 });
    const days = await usageByDay(store.read, 'u_1', { fromMs: noon, toMs: clock.now() });
    assert.deepEqual(days, [
      { day: '2027-01-31', invocations: 1, computeMs: 10, credits: 1 },
      { day: '2027-02-01', invocations: 0, computeMs: 0, credits: 0 },
      { day: '2027-02-02', invocations: 2, computeMs: 20, credits: 1 },
    ]);
    const early = await usageByDay(store.read, 'u_1', {
      fromMs: Date.UTC(2027, 0, 31, 23),
      toMs: Date.UTC(2027, 1, 2, 1),
    });
    assert.deepEqual(early, days, 'whole days, whatever the time');
  });
});
