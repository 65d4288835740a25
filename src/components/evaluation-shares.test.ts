import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Deferred } from '#lib/deferred.ts';
import { EvaluationShares } from './evaluation-shares.ts';

function start() {
  const delayed: string[] = [];
  const refused: string[] = [];
  let ended = 0;
  const evaluations = new EvaluationShares({
    shares: {
      delayed: (ownerId) => delayed.push(ownerId),
      refused: (ownerId) => refused.push(ownerId),
    },
    onEnded: () => {
      ended += 1;
    },
  });
  const end = new Deferred<void>();
  let underWay = 0;
  /** Code whose top level does not end until `end`. */
  const endless = (ownerId: string, count: number) =>
    Array.from({ length: count }, () =>
      evaluations.run(ownerId, async () => {
        underWay += 1;
        await end.promise;
      }),
    );
  return { evaluations, delayed, refused, end, endless, underWay: () => underWay, ended: () => ended };
}

test('an owner has four evaluations at the same time, the others follow, and another owner waits for none of them', async () => {
  const { evaluations, delayed, end, endless, underWay, ended } = start();
  const greedy = endless('greedy', 20);
  await turn();
  assert.equal(underWay(), 4);
  assert.equal(await evaluations.run('other', async () => 'described'), 'described');
  assert.deepEqual([delayed.length, new Set(delayed)], [16, new Set(['greedy'])]);
  end.resolve();
  await Promise.all(greedy);
  assert.deepEqual([underWay(), ended()], [20, 21]);
});

test('an owner has enough built when two wait to be evaluated', async () => {
  const { evaluations, end, endless } = start();
  const first = endless('greedy', 5);
  assert.equal(evaluations.hasEnough('greedy'), false);
  const second = endless('greedy', 1);
  assert.deepEqual([evaluations.hasEnough('greedy'), evaluations.hasEnough('other')], [true, false]);
  end.resolve();
  await Promise.all([...first, ...second]);
  assert.equal(evaluations.hasEnough('greedy'), false);
});

test('evaluations of an owner that has gone end, under way or waiting, and those that come later are its first', async () => {
  const { evaluations, underWay } = start();
  const hang = () =>
    evaluations.run('gone', (signal) => {
      const { promise, reject } = Promise.withResolvers<never>();
      signal.addEventListener('abort', () => reject(signal.reason));
      return promise;
    });
  const all = Promise.allSettled(Array.from({ length: 10 }, hang));
  const other = evaluations.run('other', async (signal) => signal);
  await turn();
  evaluations.end('gone', new Error('the owner is gone'));
  const reasons = (await all).map((one) => one.status === 'rejected' && one.reason.message);
  assert.deepEqual(new Set(reasons), new Set(['the owner is gone']));
  assert.equal((await other).aborted, false);
  assert.equal(await evaluations.run('gone', async (signal) => signal.aborted), false);
  assert.deepEqual([evaluations.hasEnough('gone'), underWay()], [false, 0]);
});

test('when 64 wait, the next one is refused with the reason, another owner is not, and afterwards all have room', async () => {
  const { evaluations, refused, end, endless } = start();
  const greedy = endless('greedy', 68);
  await assert.rejects(
    evaluations.run('greedy', async () => 1),
    {
      code: 'builder_busy',
      message: /^4 components of this owner are being evaluated, .* and 64 wait; let the top level/,
    },
  );
  assert.deepEqual(refused, ['greedy']);
  assert.equal(await evaluations.run('other', async () => 2), 2);
  end.resolve();
  await Promise.all(greedy);
  assert.equal(await evaluations.run('greedy', async () => 3), 3);
});
