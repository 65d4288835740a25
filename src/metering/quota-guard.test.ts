import assert from 'node:assert/strict';
import { test } from 'node:test';
import { insertWorkspace } from '#identity/workspace-store.ts';
import { CallerError } from '#lib/errors.ts';
import { silentLogger } from '#lib/logger.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { usageOf } from './invocation-usage.ts';
import { noLimits } from './owner-limits.ts';
import { QuotaGuard } from './quota-guard.ts';
import { putOwnerQuota } from './quota-store.ts';
import { addUsage, usageByDay } from './usage-store.ts';

const dayMs = 86_400_000;
const none = { events: 0, deliveries: 0 };
const noon = Date.UTC(2027, 0, 31, 12);

forEachStore((fixture) => {
  const setUp = (enforced = true) => {
    const { store } = fixture;
    const clock = new TestClock(noon);
    const defaults = { credits: 10, computeMs: 60_000, invocations: 5, enforced, limits: noLimits };
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

  test('says which user created a workspace', async () => {
    const { store, clock, guard } = setUp(false);
    const values = { name: 'Team', email: '', createdBy: 'u_1' };
    const { id } = await store.transaction((tx) => insertWorkspace(tx, values, clock.now()));
    guard.limitsOf(id);
    await guard.settled();
    assert.deepEqual(guard.limitsOf(id), { createdBy: 'u_1' });
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

  test('events and deliveries are counted as they happen, up to the limits of the day, whether quotas are enforced or not', async () => {
    const { store, clock, guard, mayRun, refusal } = setUp(false);
    await store.transaction(async (tx) => {
      await putOwnerQuota(tx, 'u_1', { events_max: 5, deliveries_max: 3 }, clock.now());
      await addUsage(store, tx, [
        {
          ...usageOf('u_1', clock.now(), { invocations: 1, computeMs: 1, memoryMb: 256 }),
          events: 2,
          deliveries: 1,
        },
      ]);
    });
    assert.equal(guard.eventsLeft('u_1'), Number.POSITIVE_INFINITY, 'not known yet');
    await guard.settled();
    assert.equal(guard.eventsLeft('u_1'), 3);
    guard.emitted('u_1', 3);
    assert.equal(guard.eventsLeft('u_1'), 0, 'before they are stored');
    assert.match(guard.refuseEvents('u_1'), /^quota used up: 5 events a day; it starts over at 00:00 UTC$/);
    assert.deepEqual(refusal('u_1'), {
      ...{ code: 'quota_exceeded', quota: 'events', limit: 5 },
      ...{ retry_after: 12 * 3600, reset_at: (noon + dayMs / 2) / 1000 },
    });
    assert.equal(await mayRun('u_1'), true, 'what does not emit still runs');
    assert.deepEqual(
      [1, 2, 3].map(() => guard.takeDelivery('u_1')),
      [true, true, false],
    );
    const { events, deliveries, credits } = guard.refusals;
    assert.deepEqual([events, deliveries, credits], [2, 1, 0]);
    clock.step(dayMs);
    assert.deepEqual([guard.takeDelivery('u_1'), guard.eventsLeft('u_1') > 0], [true, true], 'a new day');
    assert.equal(guard.eventsLeft('u_2'), Number.POSITIVE_INFINITY);
  });

  test('an owner that stores as much as it may runs nothing and stores nothing until it was measured again', async () => {
    const { store, clock, guard, mayRun, refusal } = setUp(false);
    const file = { content_type: '', sha256: '', complete: 1, expires_at_ms: null };
    const times = { created_at_ms: noon, updated_at_ms: noon };
    await store.transaction(async (tx) => {
      await putOwnerQuota(tx, 'u_1', { stored_mb_max: 1 }, noon);
      await tx
        .insertInto('files')
        .values({
          id: 'file_1',
          owner_id: 'u_1',
          folder: 'files',
          path: 'a',
          size: 2 ** 20,
          ...file,
          ...times,
          content_in: 'store',
        })
        .execute();
    });
    assert.equal(await mayRun('u_1'), false);
    assert.equal(guard.eventsLeft('u_1'), 0);
    const sentence = /^quota used up: 1 MB of events, runs and files; delete some/;
    assert.match(guard.refuseEvents('u_1'), sentence);
    assert.throws(() => guard.requireStorage('u_1'), { code: 'quota_exceeded', message: sentence });
    assert.deepEqual(refusal('u_1'), {
      ...{ code: 'quota_exceeded', quota: 'stored_mb', limit: 1 },
      ...{ retry_after: 300, reset_at: noon / 1000 + 300 },
    });
    await store.transaction((tx) => tx.deleteFrom('files').where('owner_id', '=', 'u_1').execute());
    clock.step(2_000);
    assert.equal(await mayRun('u_1'), false, 'measured every five minutes');
    clock.step(300_000);
    assert.equal(await mayRun('u_1'), true);
    guard.requireStorage('u_1');
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
      defaults: { credits: 0, computeMs: 0, invocations: 0, enforced: true, limits: noLimits },
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
      { day: '2027-01-31', ...none, invocations: 1, computeMs: 10, credits: 1 },
      { day: '2027-02-01', ...none, invocations: 0, computeMs: 0, credits: 0 },
      { day: '2027-02-02', ...none, invocations: 2, computeMs: 20, credits: 1 },
    ]);
    const early = await usageByDay(store.read, 'u_1', {
      fromMs: Date.UTC(2027, 0, 31, 23),
      toMs: Date.UTC(2027, 1, 2, 1),
    });
    assert.deepEqual(early, days, 'whole days, whatever the time');
  });
});
