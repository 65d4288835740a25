import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeParameters, hiddenText } from './describe-change.ts';

test('a body that is no object has no parameters: not one for each character, byte or item', () => {
  const bodies = [
    'client_secret=s3cret',
    Buffer.from('zip'),
    ['a', 'b'],
    new Map([['a', 1]]),
    7,
    null,
    undefined,
  ];
  for (const body of bodies) assert.deepEqual(describeParameters({ name: 'kept' }, body), { name: 'kept' });
  assert.deepEqual(describeParameters(Object.create(Object.create(null))), {});
});

test('a record has a bounded size, whatever names a caller sends', () => {
  const named = (count: number, name: (n: number) => string) =>
    Object.fromEntries(Array.from({ length: count }, (_, n) => [name(n), n]));
  const many = describeParameters(named(10_000, (n) => `p${n}`));
  assert.equal(Object.keys(many).length, 101);
  assert.equal(many['…'], hiddenText);
  const long = describeParameters(named(100, (n) => `${n}`.padEnd(100_000, 'x')));
  assert.ok(JSON.stringify(long).length < 12_000);
  assert.equal(describeParameters(named(100, (n) => `p${n}`))['…'], undefined);
});
