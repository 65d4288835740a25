import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changedValue, type ValueChange } from './change-value.ts';

function changed(change: ValueChange, found: string | undefined): unknown {
  const result = changedValue(change, found);
  return 'value' in result ? JSON.parse(result.value) : result;
}

const append = (value: unknown, found: string | undefined) =>
  changed({ op: 'append', value: JSON.stringify(value) }, found);

test('a value is appended to an array, whatever the spaces around it and in it', () => {
  for (const found of ['[]', ' [ ] ', '[\n]', 'null', ' null ', undefined])
    assert.deepEqual(append({ a: 1 }, found), [{ a: 1 }], String(found));
  for (const found of ['[1,"]"]', ' [ 1 , "]" ] \n'])
    assert.deepEqual(append([2], found), [1, ']', [2]], found);
  assert.deepEqual(changed({ op: 'append', value: ' "x" ' }, '[1]'), [1, 'x']);
});

test('a text is appended to a text, with its quotes, escapes and halves of characters', () => {
  for (const [before, after] of [
    ['', ''],
    ['a"', '"b'],
    ['\\', '\\'],
    ['line\n', '\u0000é'],
    ['\ud83d', '\ude00'],
  ] as const)
    assert.equal(append(after, JSON.stringify(before)), before + after);
  assert.equal(append('b', ' "a" '), 'ab');
});

test('what is no array is appended nothing to, and a text only a text', () => {
  for (const [value, found] of [
    [1, '"text"'],
    ['x', '5'],
    ['x', '{"a":[]}'],
    [[], '"["'],
    [null, 'true'],
  ] as const)
    assert.deepEqual(append(value, found), { expected: 'an array, or text for a text' });
});

test('a number is added to a number, to a text that is one, and to nothing', () => {
  const add = (amount: number, found: string | undefined) => changed({ op: 'increment', amount }, found);
  assert.deepEqual(
    [undefined, 'null', '5', ' 5 ', '-1.5e2', '"7"', '" 7 "'].map((found) => add(1, found)),
    [1, 1, 6, 6, -149, 8, 8],
  );
  for (const found of [
    '"x"',
    '" "',
    '[]',
    '{}',
    'true',
    '"Infinity"',
    '1e308',
    JSON.stringify('y'.repeat(1_000)),
  ])
    assert.deepEqual(add(1e308, found), { expected: 'a number' }, found.slice(0, 20));
});
