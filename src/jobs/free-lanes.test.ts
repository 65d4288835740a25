import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FreeLanes } from './free-lanes.ts';

/** Lanes whose transactions end when the test says so. */
function heldLanes() {
  const rounds: { lanes: readonly string[]; end: PromiseWithResolvers<Set<string>> }[] = [];
  const take = (lanes: readonly string[]) => {
    const end = Promise.withResolvers<Set<string>>();
    rounds.push({ lanes, end });
    return end.promise;
  };
  return { rounds, free: new FreeLanes({ take }) };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

describe('lanes that no node has', () => {
  test('are asked for together, one transaction at a time, and a later request of a lane waits for the same', async () => {
    const { rounds, free } = heldLanes();
    const ended: string[] = [];
    const ask = (lane: string, name = lane) => free.take(lane).then(() => ended.push(name));
    const first = [ask('a'), ask('b')];
    await turn();
    assert.deepEqual(
      rounds.map(({ lanes }) => lanes),
      [['a', 'b']],
    );
    const second = [ask('a', 'a again'), ask('c'), ask('d')];
    await turn();
    assert.equal(rounds.length, 1);
    assert.deepEqual(ended, [], 'no request is before the first one of its lane');
    rounds[0]?.end.resolve(new Set());
    await Promise.all([...first, second[0]]);
    assert.deepEqual(ended.sort(), ['a', 'a again', 'b']);
    await turn();
    assert.deepEqual(rounds[1]?.lanes, ['c', 'd']);
    // A store that is away does not matter to the requests, nor to those that follow.
    rounds[1]?.end.reject(new Error('away'));
    await Promise.all(second);
    await ask('a', 'a moment later');
    assert.equal(rounds.length, 2);
  });

  test('are not waited for longer than a moment', async () => {
    const { rounds, free } = heldLanes();
    await free.take('a');
    assert.equal(rounds.length, 1, 'it was asked for, and there is no answer');
  });
});
