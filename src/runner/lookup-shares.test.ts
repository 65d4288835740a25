import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Deferred } from '#lib/deferred.ts';
import { LookupShares } from './lookup-shares.ts';

function start() {
  let nowMs = 0;
  const delayed: string[] = [];
  const refused: string[] = [];
  const shares = new LookupShares({
    records: { delayed: (ownerId) => delayed.push(ownerId), refused: (ownerId) => refused.push(ownerId) },
    nowMs: () => nowMs,
  });
  const answer = new Deferred<void>();
  let underWay = 0;
  /** Look-ups whose name server does not answer until `answer`. */
  const hang = (ownerId: string, count: number) =>
    Array.from({ length: count }, () =>
      shares.run(ownerId, async () => {
        underWay += 1;
        await answer.promise;
      }),
    );
  const wait = (ms: number) => {
    nowMs += ms;
  };
  return { shares, delayed, refused, answer, hang, wait, underWay: () => underWay };
}

test('an owner whose names are not answered has a quarter of the look-ups, and another looks up at once', async () => {
  const { shares, delayed, answer, hang, underWay } = start();
  const greedy = hang('greedy', 500);
  await turn();
  assert.equal(underWay(), 64);
  assert.equal(await shares.run('other', async () => 'found'), 'found');
  assert.deepEqual([delayed.length, new Set(delayed)], [436, new Set(['greedy'])]);
  answer.resolve();
  await Promise.all(greedy);
  assert.equal(underWay(), 500);
});

test('when all look-ups are taken, owners take turns', async () => {
  const { shares, answer, hang, underWay } = start();
  const greedy = ['a', 'b', 'c', 'd'].flatMap((ownerId) => hang(ownerId, 200));
  await turn();
  assert.equal(underWay(), 256);
  let others = 0;
  const other = shares.run('other', async () => {
    others = underWay();
  });
  answer.resolve();
  await other;
  assert.ok(others < 270, `after ${others} of the others`);
  await Promise.all(greedy);
});

test('beyond its waiting look-ups an owner is refused with EMFILE, and another is not', async () => {
  const { shares, refused, answer, hang } = start();
  const greedy = hang('greedy', 64 + 1_024);
  await assert.rejects(
    shares.run('greedy', async () => {}),
    { code: 'EMFILE', message: /its share/ },
  );
  await shares.run('other', async () => {});
  assert.deepEqual(refused, ['greedy']);
  answer.resolve();
  await Promise.all(greedy);
  await shares.run('greedy', async () => {});
});

test('a look-up that waited for too long is not made', async () => {
  const { shares, answer, hang, wait } = start();
  const greedy = hang('greedy', 64);
  let isMade = false;
  const late = shares.run('greedy', async () => {
    isMade = true;
  });
  await turn();
  wait(9_000);
  answer.resolve();
  await assert.rejects(late, { code: 'EAI_AGAIN' });
  assert.equal(isMade, false);
  await Promise.all(greedy);
});
