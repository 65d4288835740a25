import assert from 'node:assert/strict';
import { test } from 'node:test';
import { validateProps } from './validate-props.ts';

const definitions = [
  { name: 'count', type: 'integer', min: 1 },
  { name: 'flag', type: 'boolean' },
  { name: 'list', type: 'integer[]' },
  { name: 'app', type: 'app', app: 'x', optional: true },
];
const good = { count: 1, flag: true, list: [1] };
const check = (more: object, expressions: boolean) =>
  validateProps(definitions, { ...good, ...more }, { unknown: 'refuse', expressions });

test('where expressions are allowed, text that is one passes for a value of any type', () => {
  const values = { count: '{{steps.a.n}}', flag: ' {{ true }} ', list: [1, '{{2}}'] };
  assert.deepEqual(check(values, true), values);
  for (const [name, value] of Object.entries(values))
    if (name !== 'list') assert.throws(() => check({ [name]: value }, false), { code: 'invalid_prop' }, name);
  assert.throws(() => check({ list: values.list }, false), {
    details: { parameter: 'configured_props.list[1]' },
  });
});

test('text with an expression in it is text, and an account is never given by an expression', () => {
  for (const values of [
    { count: 'n {{1}}' },
    { flag: '{{true}}!' },
    { list: 'a {{1}}' },
    { app: '{{account}}' },
  ])
    assert.throws(() => check(values, true), { code: 'invalid_prop' }, JSON.stringify(values));
});
