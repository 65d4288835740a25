import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { FairQueue } from './fair-queue.ts';

test('each asker has one slot at a time, and askers take turns', async () => {
  const queue = new FairQueue(2);
  const begun: string[] = [];
  const finish = new Map<string, () => void>();
  const ask = (asker: object, name: string) =>
    queue.run(asker, () => {
      begun.push(name);
      return new Promise<string>((resolve) => finish.set(name, () => resolve(name)));
    });
  const end = async (name: string) => {
    finish.get(name)?.();
    await turn();
  };
  const greedy = {};
  const modest = {};
  const third = {};
  const all = [ask(greedy, 'g1'), ask(greedy, 'g2'), ask(greedy, 'g3')];
  await turn();
  assert.deepEqual(begun, ['g1'], 'one asker never has all slots');
  all.push(ask(modest, 'm1'), ask(third, 't1'), ask(modest, 'm2'));
  await turn();
  assert.deepEqual(begun, ['g1', 'm1']);
  await end('m1');
  assert.deepEqual(begun, ['g1', 'm1', 't1']);
  await end('g1');
  await end('t1');
  assert.deepEqual(begun.slice(3).sort(), ['g2', 'm2']);
  await end('g2');
  await end('m2');
  await end('g3');
  assert.deepEqual(await Promise.all(all), ['g1', 'g2', 'g3', 'm1', 't1', 'm2']);
});

test('an asker may have several slots, and never more than its number of all', async () => {
  const queue = new FairQueue(3, { perAsker: 2 });
  const begun: string[] = [];
  const finish = new Map<string, () => void>();
  const ask = (asker: string, name: string) =>
    queue.run(asker, () => {
      begun.push(name);
      return new Promise<void>((resolve) => finish.set(name, resolve));
    });
  const all = [
    ask('g', 'g1'),
    ask('g', 'g2'),
    ask('g', 'g3'),
    ask('m', 'm1'),
    ask('m', 'm2'),
    ask('t', 't1'),
  ];
  await turn();
  assert.deepEqual(begun, ['g1', 'g2', 'm1']);
  finish.get('m1')?.();
  await turn();
  assert.deepEqual(begun.slice(3), ['m2'], 'the greedy asker has its number');
  finish.get('g1')?.();
  await turn();
  assert.deepEqual(begun.slice(4), ['g3']);
  finish.get('m2')?.();
  await turn();
  assert.deepEqual(begun.slice(5), ['t1']);
  for (const name of ['g2', 'g3', 't1']) finish.get(name)?.();
  await Promise.all(all);
});

test('work that fails gives its slot back', async () => {
  const queue = new FairQueue(1);
  const asker = {};
  await assert.rejects(
    queue.run(asker, () => Promise.reject(new Error('no'))),
    /no/,
  );
  assert.equal(await queue.run(asker, async () => 'yes'), 'yes');
});

test('an asker whose work takes long rests, and others do not wait for that', async () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  let nowMs = 0;
  mock.method(performance, 'now', () => nowMs);
  try {
    const queue = new FairQueue(1, { rest: () => 2, restAfterMs: 50 });
    const begun: string[] = [];
    const work = (asker: string, ms: number) =>
      queue.run(asker, async () => {
        begun.push(asker);
        nowMs += ms;
      });
    await work('greedy', 49);
    await work('greedy', 50);
    const again = work('greedy', 1);
    await work('modest', 1);
    assert.deepEqual(begun, ['greedy', 'greedy', 'modest']);
    mock.timers.tick(99);
    await turn();
    assert.equal(begun.length, 3);
    mock.timers.tick(1);
    await again;
    assert.deepEqual(begun, ['greedy', 'greedy', 'modest', 'greedy']);
  } finally {
    mock.timers.reset();
    mock.restoreAll();
  }
});
