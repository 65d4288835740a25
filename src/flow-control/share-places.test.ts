import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { blockOf, type Room, shareOfAccount, sharePlaces } from './share-places.ts';

const room = (more: Partial<Room> = {}): Room => ({
  concurrency: new Map(),
  throttle: new Map(),
  source: Number.POSITIVE_INFINITY,
  rate: Number.POSITIVE_INFINITY,
  total: 1_000,
  ...more,
});

const group = (name: string, count: number, concurrencyKey = name, throttleKey = name) => ({
  ...{ groupKey: name, concurrencyKey, throttleKey },
  runIds: Array.from({ length: count }, (_, n) => `${name}${n}`),
});

describe('places are shared', () => {
  test('one in turn, so that a long queue leaves the others their part', () => {
    const given = sharePlaces([group('a', 100), group('b', 2), group('c', 1)], room({ total: 6 }));
    assert.deepEqual(
      [...given],
      [
        ['a', ['a0', 'a1', 'a2']],
        ['b', ['b0', 'b1']],
        ['c', ['c0']],
      ],
    );
  });

  test('and no more of a key than its limits leave, whatever the others leave', () => {
    const left = room({ concurrency: new Map([['x', 1]]), throttle: new Map([['b', 0]]) });
    const groups = [group('a', 5, 'x'), group('b', 5, 'x'), group('c', 2, 'x', 'c'), group('d', 2)];
    const given = sharePlaces(groups, left);
    assert.deepEqual(
      groups.map(({ groupKey }) => given.get(groupKey)?.length),
      [1, 0, 0, 2],
    );
    assert.deepEqual(
      groups.map((one) => blockOf(one, left)),
      ['concurrency', 'throttle', 'concurrency', undefined],
    );
  });

  test('between workflows with one account: the part of each, or one for those that were served longest ago', () => {
    assert.equal(shareOfAccount(10, { servedMs: 5 }, []), 10);
    assert.equal(shareOfAccount(10, { servedMs: 5 }, [{ servedMs: 1 }, { servedMs: 9 }]), 3);
    assert.equal(shareOfAccount(1, { servedMs: 5 }, [{ servedMs: 9 }]), 1);
    assert.equal(shareOfAccount(1, { servedMs: 5 }, [{ servedMs: 1 }]), 0);
  });
});
