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

test('JSON text stands for the object or array that it is, and any value may be a text', () => {
  const structured = [
    { name: 'row', type: 'object', optional: true },
    { name: 'names', type: 'string[]', optional: true },
    { name: 'free', type: 'any', optional: true },
  ];
  const kept = (values: object, expressions = false) =>
    validateProps(structured, { ...values }, { unknown: 'refuse', expressions });
  assert.deepEqual(kept({ row: ' {"id": 1, "note": "{{x}}"}' }), { row: { id: 1, note: '{{x}}' } });
  assert.deepEqual(kept({ row: '[{"id": 1}]', names: '["a"]' }), { row: [{ id: 1 }], names: ['a'] });
  assert.deepEqual(kept({ free: '{"id": 1}' }), { free: '{"id": 1}' });
  const later = { row: '{"id": {{steps.a.n}}}', names: '[{{steps.a.names}}]' };
  assert.deepEqual(kept(later, true), later, 'it is JSON only when its expressions are evaluated');
  for (const row of ['{"id": {{steps.a.n}}}', '{"id": 1', 'id 1', '"id"', '', '[1] and more'])
    assert.throws(() => kept({ row }), /configured_props\.row: expected an object, or JSON text/, row);
  assert.throws(() => kept({ names: '[1]' }), { details: { parameter: 'configured_props.names[0]' } });
  assert.throws(() => kept({ names: '{"a": 1}' }), /expected an array \(string\[\]\), or JSON text/);
  assert.throws(() => kept({ row: '['.repeat(501) }), /nested more than 500 levels/);
  const { row } = kept({ row: '{"__proto__": {"polluted": 1}}' });
  assert.equal((row as { polluted?: unknown }).polluted, undefined);
  assert.equal(Object.getPrototypeOf(row), Object.prototype);
});
