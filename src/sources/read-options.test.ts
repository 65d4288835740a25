import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readOptions } from './read-options.ts';

test('options are texts, numbers, pairs of label and value, or a page of them with its context', () => {
  assert.deepEqual(readOptions(['a', 'b']), {
    options: [
      { label: 'a', value: 'a' },
      { label: 'b', value: 'b' },
    ],
    stringOptions: ['a', 'b'],
    context: {},
  });
  assert.deepEqual(readOptions([1, true, 'x']), {
    options: [
      { label: '1', value: 1 },
      { label: 'true', value: true },
      { label: 'x', value: 'x' },
    ],
    stringOptions: null,
    context: {},
  });
  const pair = { label: 'One', value: { id: 1, parts: ['p'] } };
  assert.deepEqual(readOptions({ options: [pair], context: { cursor: 'c' } }), {
    options: [pair],
    stringOptions: null,
    context: { cursor: 'c' },
  });
});

test('an option without a label is called what its value is, one without a value is its own value', () => {
  assert.deepEqual(
    readOptions([
      { value: 7 },
      { label: null, value: 'v' },
      { label: 5, value: 'five' },
      { id: 3 },
      { __lv: { label: 'L', value: 2 } },
      null,
      undefined,
    ])?.options,
    [
      { label: '7', value: 7 },
      { label: 'v', value: 'v' },
      { label: '5', value: 'five' },
      { label: '{"id":3}', value: { id: 3 } },
      { label: 'L', value: 2 },
    ],
  );
});

test('nothing is no options, whatever kind of nothing, and what is no list is distinguished', () => {
  for (const nothing of [undefined, null, false, '', []])
    assert.deepEqual(readOptions(nothing), { options: [], stringOptions: null, context: {} });
  assert.deepEqual(readOptions({ context: { done: true } }), {
    options: [],
    stringOptions: null,
    context: { done: true },
  });
  for (const other of ['text', 5, true, { options: 'text' }, { options: { a: 1 } }])
    assert.equal(readOptions(other), undefined);
});
