import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forEachStore } from '../../test/support/stores.ts';
import { usageDay, usageOf } from './invocation-usage.ts';
import { addUsage, usageToday, usageTodayOf } from './usage-store.ts';

const noon = Date.UTC(2027, 0, 31, 12);

test('a credit is a started 30 seconds at 256 MB', () => {
  const credits = (computeMs: number, memoryMb: number) =>
    usageOf('u_1', noon, { invocations: 1, computeMs, memoryMb }).credits;
  assert.deepEqual(
    [
      credits(0, 256),
      credits(1, 256),
      credits(30_000, 256),
      credits(30_001, 256),
      credits(1, 512),
      credits(1, 300),
    ],
    [0, 1, 1, 2, 2, 2],
  );
});

test('a run of a workflow costs at least one credit', () => {
  const credits = (computeMs: number, memoryMb: number) =>
    usageOf('u_1', noon, { invocations: 1, computeMs, memoryMb, workflowRun: true }).credits;
  assert.deepEqual([credits(0, 256), credits(1, 1024), credits(31_000, 256)], [1, 4, 2]);
});

test('days are those of UTC', () => {
  assert.equal(usageDay(Date.UTC(2027, 0, 31, 23, 59, 59, 999)), '2027-01-31');
  assert.equal(usageDay(Date.UTC(2027, 1, 1)), '2027-02-01');
});

forEachStore((fixture) => {
  test('what owners use adds up per owner and day, also within one write', async () => {
    const { store } = fixture;
    const run = (ownerId: string, atMs: number) =>
      usageOf(ownerId, atMs, { invocations: 1, computeMs: 100.4, memoryMb: 256 });
    const add = (...rows: ReturnType<typeof run>[]) => store.transaction((tx) => addUsage(store, tx, rows));
    await add(run('u_1', noon), run('o_1', noon), run('u_1', noon));
    await add(run('u_1', noon + 86_400_000), run('u_1', noon));
    await add();
    assert.deepEqual(await usageToday(store.read, 'u_1', noon), {
      invocations: 3,
      events: 0,
      deliveries: 0,
      computeMs: 300,
      credits: 3,
    });
    assert.deepEqual(await usageToday(store.read, 'u_1', noon + 86_400_000), {
      invocations: 1,
      events: 0,
      deliveries: 0,
      computeMs: 100,
      credits: 1,
    });
    assert.deepEqual(await usageToday(store.read, 'u_2', noon), {
      ...{ invocations: 0, computeMs: 0, credits: 0 },
      ...{ events: 0, deliveries: 0 },
    });
    const both = await usageTodayOf(store.read, ['u_1', 'o_1', 'u_2'], noon);
    assert.deepEqual([...both.keys()].sort(), ['o_1', 'u_1']);
    assert.equal((await usageTodayOf(store.read, [], noon)).size, 0);
  });

  test('writes at the same moment lose nothing', async () => {
    const { store } = fixture;
    const row = usageOf('u_1', noon, { invocations: 1, computeMs: 10, memoryMb: 256 });
    await Promise.all(
      Array.from({ length: 20 }, () =>
        store.transaction((tx) => addUsage(store, tx, [row, { ...row, ownerId: 'o_1' }])),
      ),
    );
    assert.equal((await usageToday(store.read, 'u_1', noon)).invocations, 20);
  });
});
