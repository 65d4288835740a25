import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cpuMsOf } from '../../test/support/cpu-time.ts';
import { hasMoreMembersThan, isDeeperThan } from './json-depth.ts';

test('the depth of a JSON text is that of its brackets, not of those in its strings', () => {
  const nested = (depth: number) => `${'[{"a":'.repeat(depth / 2)}1${'}]'.repeat(depth / 2)}`;
  assert.equal(isDeeperThan(nested(10), 10), false);
  assert.equal(isDeeperThan(nested(12), 10), true);
  assert.equal(isDeeperThan(JSON.stringify(['[[[[', '"[[[[', '\\"[[[[', '\\\\', '[[[[']), 3), false);
  assert.equal(isDeeperThan(JSON.stringify(Array.from({ length: 100 }, () => [[]])), 3), false);
  assert.equal(isDeeperThan('["[[[[', 3), false);
  assert.equal(isDeeperThan('', 0), false);
});

test('the members of all objects are counted, not colons in strings, nor the items of lists', () => {
  const members = (count: number) =>
    JSON.stringify(Array.from({ length: count / 2 }, (_, n) => ({ a: n, b: ':::' })));
  assert.equal(hasMoreMembersThan(members(1_000), 1_000), false);
  assert.equal(hasMoreMembersThan(members(1_002), 1_000), true);
  assert.equal(hasMoreMembersThan(JSON.stringify(Array.from({ length: 10_000 }, () => ':"\\:')), 3), false);
  assert.equal(hasMoreMembersThan('{"a":', 0), true);
  assert.equal(hasMoreMembersThan('{"a::::', 1), false);
});

test('a text of the largest body is looked through in no time, whatever is in it', async () => {
  const texts = ['"', '\\', '[]', '""', '"\\"', 'x'].map((part) => part.repeat(6_000_000 / part.length));
  const tookMs = await cpuMsOf(() => {
    for (const text of texts) {
      isDeeperThan(text, 500);
      hasMoreMembersThan(text, 100_000);
    }
  });
  assert.ok(tookMs < 2_000, `${tookMs} ms for six`);
});
