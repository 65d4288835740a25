import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newTimeOrderedId } from './ids.ts';

test('ids of one millisecond sort in the order in which they were made', () => {
  const ids = Array.from({ length: 10_000 }, () => newTimeOrderedId(5_000));
  assert.deepEqual([...ids].sort(), ids);
});

test('this holds when others with an earlier time are made between them', () => {
  const ids = Array.from({ length: 1_000 }, (_, n) => {
    newTimeOrderedId(6_000 - (n % 3));
    return newTimeOrderedId(6_000);
  });
  assert.deepEqual([...ids].sort(), ids);
});
