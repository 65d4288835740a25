import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readAdditionalProps } from './additional-props.ts';

const props = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`p${n}`, { name: `p${n}`, type: 'string' }]));

test('the props that were returned and those that were changed in place, two thousand at most', () => {
  const previous = { a: { name: 'a', type: 'string' }, b: { name: 'b', type: 'string' } };
  const changed = { ...previous, b: { name: 'b', type: 'integer' } };
  const result = readAdditionalProps(JSON.stringify({ props: props(1_999), previous: changed }), previous);
  const names = Object.keys(JSON.parse(result) as object);
  assert.equal(names.length, 2_000);
  assert.ok(names.includes('b') && !names.includes('a'));
  assert.throws(() => readAdditionalProps(JSON.stringify({ props: props(2_001), previous }), previous), {
    code: 'invalid_component',
    message: 'additionalProps: found 2,001 props, expected at most 2,000',
  });
});
