import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDeeperThan } from './json-depth.ts';

test('the depth of a JSON text is that of its brackets, not of those in its strings', () => {
  const nested = (depth: number) => `${'[{"a":'.repeat(depth / 2)}1${'}]'.repeat(depth / 2)}`;
  assert.equal(isDeeperThan(nested(10), 10), false);
  assert.equal(isDeeperThan(nested(12), 10), true);
  assert.equal(isDeeperThan(JSON.stringify(['[[[[', '"[[[[', '\\"[[[[', '\\\\', '[[[[']), 3), false);
  assert.equal(isDeeperThan(JSON.stringify(Array.from({ length: 100 }, () => [[]])), 3), false);
  assert.equal(isDeeperThan('["[[[[', 3), false);
  assert.equal(isDeeperThan('', 0), false);
});

test('a text of the largest body is looked through in no time, whatever is in it', () => {
  const startedMs = performance.now();
  for (const text of ['"', '\\', '[]', '""', '"\\"', 'x'].map((part) => part.repeat(6_000_000 / part.length)))
    isDeeperThan(text, 500);
  const tookMs = performance.now() - startedMs;
  assert.ok(tookMs < 1_500, `${tookMs} ms for six`);
});
