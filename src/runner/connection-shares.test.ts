import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConnectionShares } from './connection-shares.ts';

/** Opens as many connections as the owner may have and returns their number. */
function takeAll(shares: ConnectionShares, ownerId: string): number {
  let count = 0;
  while (shares.take(ownerId)) count += 1;
  return count;
}

test('an owner leaves a quarter of the connections to others, and every other owner is guaranteed a quarter', () => {
  const shares = new ConnectionShares(100);
  assert.equal(takeAll(shares, 'greedy'), 75);
  assert.equal(takeAll(shares, 'other'), 25);
  assert.equal(shares.take('late'), false);
  for (let n = 0; n < 10; n += 1) shares.leave('greedy');
  assert.equal(shares.take('greedy'), false, 'what it gives back is for others first');
  assert.equal(takeAll(shares, 'late'), 10);
});

test('a closed connection can be opened again', () => {
  const shares = new ConnectionShares(8);
  assert.equal(takeAll(shares, 'a'), 6);
  shares.leave('a');
  assert.deepEqual([shares.of('a'), shares.take('a'), shares.take('a')], [5, true, false]);
});

test('the maximum is half of the descriptors of the service', () => {
  assert.ok(new ConnectionShares().max >= 128);
});
