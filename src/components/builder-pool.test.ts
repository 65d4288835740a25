import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BuilderPool } from './builder-pool.ts';

/** A pool of one, with what happened to the processes it was given. */
function watchedPool() {
  const happened: string[] = [];
  let started = 0;
  const pool = new BuilderPool<{ name: string; isUsable: boolean; stop: () => Promise<void> }>({
    start: async () => {
      started += 1;
      const name = `process ${started}`;
      happened.push(`${name} starts`);
      return { name, isUsable: true, stop: async () => void happened.push(`${name} stops`) };
    },
    ...{ concurrency: 1, waitingMax: 1, what: 'things wait' },
  });
  return { pool, happened };
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
  await assert.rejects(
    pool.use(fails, () => true),
    /on purpose/,
  );
  assert.equal(await pool.use(async ({ name }) => name), 'process 3');
  await pool.close();
  assert.deepEqual(happened, [
    ...['process 1 starts', 'process 1 stops'],
    ...['process 2 starts', 'process 2 stops'],
    ...['process 3 starts', 'process 3 stops'],
  ]);
});

test('who comes when too many wait is told so, and those that wait have their turn', async () => {
  const { pool } = watchedPool();
  const { promise, resolve } = Promise.withResolvers<void>();
  const first = pool.use(() => promise);
  const second = pool.use(async ({ name }) => name);
  await assert.rejects(
    pool.use(async () => {}),
    { code: 'builder_busy', message: /^too many things wait;/ },
  );
  resolve();
  await first;
  assert.equal(await second, 'process 1');
  await pool.close();
});
