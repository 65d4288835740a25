import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Strand } from './strand.ts';

test('maps within maps run a thousand items at the same time, all together', () => {
  const within = (strand: Strand, concurrency: number) => {
    const atOnce = strand.itemsAtOnceOf({ concurrency });
    return { atOnce, item: strand.child({ index: 0, namespace: 'map', exports: '{}', atOnce }) };
  };
  const run = new Strand({ above: '{', bytes: 0 });
  const outer = within(run, 100);
  assert.equal(outer.atOnce, 100);
  const inner = within(outer.item.child(), 100);
  assert.equal(inner.atOnce, 10);
  assert.equal(within(inner.item, 100).atOnce, 1);
  assert.equal(within(within(run, 10).item, 10).atOnce, 10);
});
