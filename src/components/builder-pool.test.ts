import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pino } from 'pino';
import { auditContexts } from '#audit/audit-context.ts';
import type { ShareObserver } from '#metering/share-records.ts';
import { changeBy } from '../../test/support/change-by.ts';
import { BuilderPool } from './builder-pool.ts';

/** A pool of one, with what happened to the processes it was given. */
function watchedPool({
  waitingMax = 1,
  concurrency = 1,
  shares,
  admit,
  isHeld,
}: {
  waitingMax?: number;
  concurrency?: number;
  shares?: ShareObserver;
  admit?: (ownerId: string, uses: number) => void;
  isHeld?: (ownerId: string) => boolean;
} = {}) {
  const happened: string[] = [];
  const logged: { msg: string; running: number; waiting: number }[] = [];
  let started = 0;
  const pool = new BuilderPool<{
    name: string;
    isUsable: boolean;
    lowerPriority: () => void;
    stop: () => Promise<void>;
  }>({
    start: async () => {
      started += 1;
      const name = `process ${started}`;
      happened.push(`${name} starts`);
      return {
        ...{ name, isUsable: true, stop: async () => void happened.push(`${name} stops`) },
        lowerPriority: () => happened.push(`${name} is lowered`),
      };
    },
    ...{
      concurrency,
      waitingMax,
      waitMaxMs: 60_000,
      what: 'things wait',
      shares,
      admit,
      ...(isHeld && { isHeld }),
    },
    logger: pino({}, { write: (line) => void logged.push(JSON.parse(line)) }),
  });
  return { pool, happened, logged };
}

test('a process is kept for the next use until it was idle for ten seconds', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { pool, happened } = watchedPool();
  for (const waitMs of [9999, 9999, 10_000]) {
    assert.equal(await pool.use(async ({ name }) => name), 'process 1');
    t.mock.timers.tick(waitMs);
  }
  assert.equal(await pool.use(async ({ name }) => name), 'process 2');
  await pool.close();
  assert.deepEqual(happened, ['process 1 starts', 'process 1 stops', 'process 2 starts', 'process 2 stops']);
});

test('a process is replaced after 200 uses', async () => {
  const { pool, happened } = watchedPool();
  const used: string[] = [];
  for (let use = 0; use < 201; use += 1) used.push(await pool.use(async ({ name }) => name));
  assert.deepEqual(used.slice(-2), ['process 1', 'process 2']);
  assert.deepEqual(happened, ['process 1 starts', 'process 1 stops', 'process 2 starts']);
  await pool.close();
});

test('a process is gone before the next starts when its use failed or left it in no state for another', async () => {
  const { pool, happened } = watchedPool();
  const fails = async () => assert.fail('on purpose');
  await assert.rejects(pool.use(fails), /on purpose/);
  await pool.use(async (one) => {
    one.isUsable = false;
  });
  await assert.rejects(pool.use(fails, { isReusableAfter: () => true }), /on purpose/);
  assert.equal(await pool.use(async ({ name }) => name), 'process 3');
  await pool.close();
  assert.deepEqual(happened, [
    ...['process 1 starts', 'process 1 stops'],
    ...['process 2 starts', 'process 2 stops'],
    ...['process 3 starts', 'process 3 stops'],
  ]);
});

test('a use that comes when too many wait is refused with their number, and those that wait have their turn', async () => {
  const { pool, logged } = watchedPool();
  const { promise, resolve } = Promise.withResolvers<void>();
  const first = pool.use(() => promise);
  const second = pool.use(async ({ name }) => name);
  assert.deepEqual(pool.counts, { running: 1, waiting: 1 });
  await assert.rejects(
    pool.use(async () => {}),
    { code: 'builder_busy', message: /^too many things wait \(1\);/ },
  );
  assert.deepEqual(
    logged.map(({ msg, running, waiting }) => [msg, running, waiting]),
    [
      ['build.queued', 1, 1],
      ['build.refused', 1, 1],
    ],
  );
  resolve();
  await first;
  assert.equal(await second, 'process 1');
  assert.deepEqual(pool.counts, { running: 0, waiting: 0 });
  await pool.close();
});

test('a use leaves the line when no caller waits for it, or when it has waited too long', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { pool } = watchedPool();
  const { promise, resolve } = Promise.withResolvers<void>();
  const first = pool.use(() => promise);
  const stop = new AbortController();
  const left = pool.use(async () => assert.fail('it has left'), { signal: stop.signal });
  stop.abort(new Error('nobody waits'));
  await assert.rejects(left, /nobody waits/);
  const late = pool.use(async () => assert.fail('it is too late'));
  t.mock.timers.tick(60_000);
  await assert.rejects(late, {
    code: 'builder_busy',
    message: /^1 things wait, and this one was number 1 of its owner after 60 seconds;/,
  });
  assert.equal(pool.counts.waiting, 0);
  resolve();
  await first;
  await pool.close();
});

test('owners take turns: what one has in line does not hold up the first of another, nor take its place', async () => {
  const { pool } = watchedPool({ waitingMax: 3 });
  const { promise, resolve } = Promise.withResolvers<void>();
  const order: string[] = [];
  const use = (ownerId: string, name: string) => pool.use(async () => void order.push(name), { ownerId });
  const first = pool.use(() => promise, { ownerId: 'a' });
  // They have the processes beyond the first.
  const extra = ['x', 'y'].map((ownerId) => pool.use(() => promise, { ownerId }));
  const others = ['a1', 'a2', 'a3'].map((name) => use('a', name));
  await assert.rejects(use('a', 'a4'), { code: 'builder_busy', message: /^too many things wait \(3\);/ });
  others.push(use('b', 'b1'), use('b', 'b2'), use('c', 'c1'));
  assert.deepEqual(pool.counts, { running: 3, waiting: 6 });
  assert.ok(pool.oldestWaitMs > 0);
  resolve();
  await Promise.all([first, ...extra, ...others]);
  assert.deepEqual(order, ['a1', 'b1', 'c1', 'a2', 'b2', 'a3']);
  assert.equal(pool.oldestWaitMs, 0);
  await pool.close();
});

test('one owner that takes all processes does not hold up the first use of another', async () => {
  const { pool } = watchedPool({ concurrency: 2, waitingMax: 3 });
  const { promise, resolve } = Promise.withResolvers<void>();
  const order: string[] = [];
  const use = (ownerId: string, name: string) => pool.use(async () => void order.push(name), { ownerId });
  const endless = ['a', 'a'].map((ownerId) => pool.use(() => promise, { ownerId }));
  const waiting = use('a', 'a3');
  await use('b', 'b1');
  await Promise.all([use('b', 'b2'), use('c', 'c1')]);
  assert.deepEqual(order, ['b1', 'b2', 'c1']);
  assert.deepEqual(pool.counts, { running: 2, waiting: 1 });
  resolve();
  await Promise.all([...endless, waiting]);
  await pool.close();
});

test('owners without a process get one each while all are taken, two more at most; the next has its turn when any ends', async () => {
  const { pool } = watchedPool({ concurrency: 2, waitingMax: 3 });
  const ends = new Map(['a', 'b', 'c', 'd'].map((ownerId) => [ownerId, Promise.withResolvers<void>()]));
  const order: string[] = [];
  const endless = [...ends].map(([ownerId, { promise }]) => pool.use(() => promise, { ownerId }));
  assert.deepEqual(pool.counts, { running: 4, waiting: 0 }, 'a third owner and a fourth begin at once');
  const next = ['a', 'b', 'e'].map((ownerId) => pool.use(async () => void order.push(ownerId), { ownerId }));
  assert.deepEqual(pool.counts, { running: 4, waiting: 3 });
  ends.get('d')?.resolve();
  await next[2];
  assert.deepEqual(order, ['e'], 'before those of owners that have one under way');
  for (const { resolve } of ends.values()) resolve();
  await Promise.all([...endless, ...next]);
  assert.deepEqual(pool.counts, { running: 0, waiting: 0 });
  await pool.close();
});

test('what one user asks for in several workspaces counts together, and leaves room for the first use of another user', async () => {
  const { pool, happened } = watchedPool({ concurrency: 2, waitingMax: 3 });
  const { promise, resolve } = Promise.withResolvers<void>();
  const order: string[] = [];
  const use = (user: string, ownerId: string, work: () => Promise<void>) =>
    auditContexts.run(changeBy(user), () => pool.use(work, { ownerId }));
  const noteOrder = (user: string, ownerId: string) =>
    use(user, ownerId, async () => void order.push(ownerId));
  const endless = ['o_1', 'o_2'].map((ownerId) => use('u_1', ownerId, () => promise));
  const others = [noteOrder('u_1', 'o_3'), noteOrder('u_1', 'o_4')];
  assert.deepEqual(pool.counts, { running: 2, waiting: 2 }, 'no further one for workspaces of this user');
  await noteOrder('u_2', 'o_5');
  assert.deepEqual(order, ['o_5']);
  resolve();
  await Promise.all([...endless, ...others]);
  await pool.close();
  const lowered = happened.filter((what) => what.endsWith('lowered'));
  assert.ok(lowered.length > 0, 'a user with a line in other workspaces has the lower priority');
});

test('what waits and what is refused is reported with its owner, and nothing of what belongs to the instance', async () => {
  const reported: string[] = [];
  const shares = {
    delayed: (ownerId: string, resource: string) => void reported.push(`${ownerId} ${resource} delayed`),
    refused: (ownerId: string, resource: string) => void reported.push(`${ownerId} ${resource} refused`),
  };
  const { pool } = watchedPool({ shares });
  const { promise, resolve } = Promise.withResolvers<void>();
  const uses = ['a', 'a'].map((ownerId) => pool.use(() => promise, { ownerId }));
  await assert.rejects(
    pool.use(() => promise, { ownerId: 'a' }),
    { code: 'builder_busy' },
  );
  uses.push(
    pool.use(() => promise),
    pool.use(() => promise),
  );
  assert.deepEqual(reported, ['a builds delayed', 'a builds refused']);
  resolve();
  await Promise.all(uses);
  await pool.close();
});

test('an owner may have a limit of uses under way and in line; what belongs to the instance has none', async () => {
  const admit = (ownerId: string, uses: number) => {
    if (uses >= 2) throw new Error(`${ownerId} has ${uses}`);
  };
  const { pool } = watchedPool({ waitingMax: 9, admit });
  const held = Promise.withResolvers<void>();
  const use = (ownerId?: string) => pool.use(() => held.promise, ownerId === undefined ? {} : { ownerId });
  const uses = [use('a'), use('a'), use('b'), use(), use(), use()];
  assert.deepEqual([pool.usesOf('a'), pool.usesOf('b'), pool.usesOf('c')], [2, 1, 0]);
  await assert.rejects(use('a'), /^Error: a has 2$/);
  held.resolve();
  await Promise.all(uses);
  await use('a');
  await pool.close();
});

test('builds of an owner that has a line have a lower priority, and their process serves no other owner', async () => {
  const { pool, happened } = watchedPool({ waitingMax: 5 });
  const { promise, resolve } = Promise.withResolvers<void>();
  const greedy = [pool.use(() => promise, { ownerId: 'greedy' })];
  greedy.push(pool.use(async () => {}, { ownerId: 'greedy' }));
  resolve();
  await Promise.all(greedy);
  const nameFor = (ownerId: string) => pool.use(async ({ name }) => name, { ownerId });
  assert.deepEqual([await nameFor('other'), await nameFor('other')], ['process 2', 'process 2']);
  assert.equal(await nameFor('greedy'), 'process 1');
  assert.deepEqual(happened, ['process 1 starts', 'process 1 is lowered', 'process 2 starts']);
  await pool.close();
});

test('while an owner is held, its uses wait and those of others do not', async () => {
  let held = 'greedy';
  const { pool } = watchedPool({ waitingMax: 5, isHeld: (ownerId) => ownerId === held });
  const begun: string[] = [];
  const use = (ownerId: string) => pool.use(async () => void begun.push(ownerId), { ownerId });
  const greedy = [use('greedy'), use('greedy')];
  await use('other');
  assert.deepEqual(begun, ['other']);
  assert.equal(pool.oldestWaitMs, 0, 'the owner waits for itself');
  held = '';
  pool.beginNext();
  await Promise.all(greedy);
  assert.deepEqual(begun, ['other', 'greedy', 'greedy']);
  await pool.close();
});
