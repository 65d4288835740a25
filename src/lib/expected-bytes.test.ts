import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ExpectedBytes } from './expected-bytes.ts';

test('the largest is expected, and forgotten slowly; what moves little is not remembered, nor more kinds than may be', () => {
  const expected = new ExpectedBytes({ much: 100, kindsMax: 2 });
  const see = (kind: string, moved: number) => expected.saw(kind, { moved, expected: expected.of(kind) });
  see('a', 1_000);
  assert.equal(expected.of('a'), 1_000);
  see('a', 10);
  assert.equal(expected.of('a'), 900);
  see('a', 2_000);
  assert.equal(expected.of('a'), 2_000);
  see('b', 99);
  assert.equal(expected.of('b'), 0);
  see('b', 100);
  see('c', 5_000);
  assert.equal(expected.of('c'), 0, 'there are two already');
  for (let n = 0; n < 30; n += 1) see('a', 0);
  assert.equal(expected.of('a'), 0);
  see('c', 5_000);
  assert.equal(expected.of('c'), 5_000);
  expected.forget('c');
  assert.equal(expected.of('c'), 0);
});

test('what was seen since one began is not forgotten when it ends', () => {
  const expected = new ExpectedBytes({ much: 100, kindsMax: 2 });
  expected.saw('a', { moved: 5_000, expected: 0 });
  for (let n = 0; n < 10; n += 1) expected.saw('a', { moved: 0, expected: 0 });
  assert.equal(expected.of('a'), 5_000);
  expected.saw('a', { moved: 6_000, expected: 0 });
  assert.equal(expected.of('a'), 6_000);
});
