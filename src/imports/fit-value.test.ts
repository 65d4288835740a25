import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fitValue } from './fit-value.ts';

type Row = [expected: string, path: string, value: unknown, fitted: unknown];

const choice = (value: unknown) => ({ __lv: { label: 'Half', value } });
const rows: Row[] = [
  ['an integer', '', '200', 200],
  ['an integer', '', ' -3 ', -3],
  ['an integer', '', '2.5', undefined],
  ['an integer', '', 2.5, undefined],
  ['an integer', '', '', undefined],
  ['an integer', '', 'many', undefined],
  ['an integer', '', '9007199254740993', undefined],
  ['a number', '', '2.5', 2.5],
  ['a number', '', '1e400', undefined],
  ['a string', '', 0.5, '0.5'],
  ['a string', '', false, 'false'],
  ['a string', '', { a: 1 }, undefined],
  ['a string', '', choice(0.5), choice('0.5')],
  ['a string', '[1]', ['a', 2, 3], ['a', '2', 3]],
  ['a string', '[0]', [choice(7), 'b'], [choice('7'), 'b']],
  ['a string', '[0]', 7, undefined],
  ['a string', '[2]', ['a'], undefined],
  ['true or false', '', 'true', true],
  ['true or false', '', 'false', false],
  ['true or false', '', 'Yes', undefined],
  ['an array (string[]), or JSON text of one', '', 'a', ['a']],
  ['an array (string[]), or JSON text of one', '', '', []],
  ['an array (string[]), or JSON text of one', '', 3, [3]],
  ['an array (string[]), or JSON text of one', '', { a: 1 }, undefined],
  ['at least 200', '', 100, undefined],
  ['an object, or JSON text of one', '', 'a', undefined],
  ['a string', '.deep', { deep: 1 }, undefined],
];
for (const [expected, path, value, fitted] of rows)
  test(`${JSON.stringify(value)}${path} as ${expected} is ${JSON.stringify(fitted) ?? 'not possible'}`, () => {
    assert.deepEqual(fitValue(value, { expected: `expected ${expected}`, path }), fitted);
  });
