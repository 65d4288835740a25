import assert from 'node:assert/strict';
import { test } from 'node:test';
import { draftProps, validateProps } from './validate-props.ts';

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
    { name: 'request', type: 'http_request', optional: true },
  ];
  const kept = (values: object, expressions = false) =>
    validateProps(structured, { ...values }, { unknown: 'refuse', expressions });
  assert.deepEqual(kept({ row: ' {"id": 1, "note": "{{x}}"}' }), { row: { id: 1, note: '{{x}}' } });
  assert.deepEqual(kept({ row: '[{"id": 1}]', names: '["a"]' }), { row: [{ id: 1 }], names: ['a'] });
  assert.deepEqual(kept({ free: '{"id": 1}' }), { free: '{"id": 1}' });
  assert.deepEqual(kept({ request: '{"url": "{{x}}"}' }), { request: { url: '{{x}}' } });
  assert.deepEqual(kept({ request: '{{steps.a.request}}' }, true), { request: '{{steps.a.request}}' });
  for (const request of ['https://x.example', '[{"url": "https://x.example"}]', 7])
    assert.throws(() => kept({ request }), /configured_props\.request: expected an object with the url/);
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

type Definition = { type: string; [attribute: string]: unknown };
type Case = [definition: Definition, given: unknown, kept: unknown];

const keptOf = (definition: Definition, given: unknown) =>
  validateProps([{ name: 'p', ...definition }], { p: given }, { unknown: 'refuse' }).p;

test('a value of each type is kept as it is, or as the choice or id that it wraps', () => {
  const cases: Case[] = [
    [{ type: 'string' }, '', ''],
    [{ type: 'string', format: 'file-ref' }, '/tmp/a.pdf', '/tmp/a.pdf'],
    [{ type: 'string', format: 'file-ref' }, 'https://x.example/a', 'https://x.example/a'],
    [{ type: 'integer', min: 1, max: 3 }, 3, 3],
    [{ type: 'number', min: 0.5 }, 0.5, 0.5],
    [{ type: 'boolean' }, false, false],
    [{ type: 'object' }, { a: 1 }, { a: 1 }],
    [{ type: 'any' }, [{ a: null }, 1], [{ a: null }, 1]],
    [{ type: 'any' }, false, false],
    [{ type: 'string[]' }, [], []],
    [{ type: 'integer[]', min: 1 }, [1, 2], [1, 2]],
    [{ type: 'boolean[]' }, [true], [true]],
    [{ type: 'string' }, { __lv: { label: 'A', value: 'a' } }, 'a'],
    [{ type: 'integer' }, { __lv: { label: 'A', value: 1 } }, 1],
    [{ type: 'string[]' }, { __lv: [{ label: 'A', value: 'a' }] }, ['a']],
    [{ type: 'integer[]' }, [{ __lv: { label: 'A', value: 1 } }, 2], [1, 2]],
    [{ type: 'string', withLabel: true }, { __lv: { label: 'A', value: 'a' } }, { label: 'A', value: 'a' }],
    [
      { type: 'integer', withLabel: true },
      { label: 'A', value: 1 },
      { label: 'A', value: 1 },
    ],
    [{ type: 'string', withLabel: true }, 'a', 'a'],
    [
      { type: 'string[]', withLabel: true },
      [{ __lv: { label: 'A', value: 'a' } }, 'b'],
      [{ label: 'A', value: 'a' }, 'b'],
    ],
    [
      { type: 'string[]', withLabel: true },
      { __lv: [{ label: 'A', value: 'a' }] },
      [{ label: 'A', value: 'a' }],
    ],
    [{ type: 'string', options: ['a', { label: 'B', value: 2 }] }, 2, 2],
    [{ type: 'integer[]', options: ['all', 1] }, ['all', 5], ['all', 5]],
    [{ type: 'string', remoteOptions: true }, 17, 17],
    [{ type: 'string', remoteOptions: true }, { __lv: { label: 'A', value: { id: 1 } } }, { id: 1 }],
    [{ type: 'string[]', remoteOptions: true }, [17, 'a'], [17, 'a']],
    [{ type: '$.airtable.baseId' }, 'app1', 'app1'],
    [{ type: '$.airtable.tableId' }, { value: 'tbl1', label: 'T' }, 'tbl1'],
    [{ type: '$.airtable.table' }, { __lv: { label: 'T', value: 'tbl1' } }, 'tbl1'],
    [{ type: '$.discord.channel' }, { value: 'c1' }, 'c1'],
    [{ type: '$.discord.channel[]' }, [{ value: 'c1' }, 'c2'], ['c1', 'c2']],
    [{ type: 'app' }, { authProvisionId: 'apn_1' }, { authProvisionId: 'apn_1' }],
    [{ type: 'app' }, undefined, undefined],
    [{ type: 'data_store' }, 'ds_1', 'ds_1'],
    [{ type: 'data_store' }, { storeId: 'ds_1' }, 'ds_1'],
    [{ type: 'dir' }, { id: 'stash_1' }, { id: 'stash_1' }],
    [{ type: 'dir' }, true, true],
    [{ type: 'dir' }, undefined, undefined],
    [{ type: 'sql' }, { app: 'a', query: 'q', params: [] }, { app: 'a', query: 'q', params: [] }],
    [{ type: 'http_request' }, { url: 'https://x.example' }, { url: 'https://x.example' }],
    [{ type: 'alert' }, 'x'.repeat(100_000), undefined],
    [{ type: '$.service.db' }, {}, undefined],
    [{ type: '$.interface.http' }, { endpoint_url: 'https://x.example' }, undefined],
    [{ type: '$.interface.apphook' }, { app: 'a', event_names: [] }, undefined],
    [
      { type: '$.interface.timer' },
      { cron: null, interval_seconds: 60 },
      { cron: null, interval_seconds: 60 },
    ],
    [{ type: '$.interface.timer', static: { intervalSeconds: 60 }, hidden: true }, undefined, undefined],
    [{ type: '$.interface.timer', intervalSeconds: 60 }, undefined, undefined],
    [{ type: 'string', default: 'a' }, undefined, undefined],
    [{ type: 'string', default: 'a' }, null, undefined],
    [{ type: 'string', hidden: true }, undefined, undefined],
    [{ type: 'string', disabled: true }, undefined, undefined],
    [{ type: 'string', optional: true }, null, undefined],
  ];
  for (const [definition, given, kept] of cases)
    assert.deepEqual(keptOf(definition, given), kept, JSON.stringify([definition, given]));
});

test('a value that a type does not have is refused by the name of the prop', () => {
  const large = 'x'.repeat(64 * 1024);
  const cases: [definition: Definition, given: unknown, message: RegExp][] = [
    [
      { type: 'string', label: 'Name' },
      undefined,
      /^configured_props\.p: a value is required \(Name, string\)/,
    ],
    [{ type: 'string' }, null, /a value is required/],
    [{ type: 'string' }, 1, /expected a string, found 1/],
    [{ type: 'string', options: ['a'] }, 1, /expected a string, found 1/],
    [{ type: 'string' }, { label: 'A', value: 'a' }, /expected a string/],
    [{ type: 'integer' }, '1', /expected an integer, found "1"/],
    [{ type: 'integer', remoteOptions: true }, 'x', /expected an integer/],
    [{ type: 'integer', min: 1 }, 0, /expected at least 1, found 0/],
    [{ type: 'integer[]', max: 3 }, [3, 4], /p\[1\]: expected at most 3, found 4/],
    [{ type: 'number', max: 1 }, 1.5, /expected at most 1/],
    [{ type: 'boolean' }, 'true', /expected true or false/],
    [{ type: 'string[]' }, 'a', /expected an array/],
    [{ type: 'string[]' }, [{ __lv: { label: 'A', value: 1 } }], /p\[0\]: expected a string, found 1/],
    [{ type: 'app' }, 'apn_1', /expected an object with authProvisionId/],
    [{ type: '$.airtable.baseId' }, 4, /expected an id/],
    [{ type: '$.airtable.viewId' }, undefined, /a value is required/],
    [{ type: '$.discord.channel[]' }, [{}], /p\[0\]: expected an id/],
    [{ type: 'dir' }, 7, /expected true, or the id of a file stash/],
    [{ type: '$.interface.timer' }, undefined, /a value is required/],
    [{ type: 'string' }, large, /a value may have 64 KB of JSON, found 65,538 bytes/],
    [{ type: 'any' }, ['é'.repeat(32 * 1024)], /a value may have 64 KB of JSON/],
    [{ type: 'string[]' }, { __lv: [{ label: large, value: 'a' }] }, /a value may have 64 KB of JSON/],
  ];
  for (const [definition, given, message] of cases)
    assert.throws(
      () => keptOf(definition, given),
      (error: { code?: string; message: string }) =>
        error.code === 'invalid_prop' && message.test(error.message),
      JSON.stringify([definition, given]).slice(0, 200),
    );
});

test('a draft keeps and reports what does not fit its definition yet, and refuses what fits no prop', () => {
  const values = { count: 'text', flag: { __lv: { label: 'Yes', value: true } }, later: { a: 1 } };
  const draft = draftProps(definitions, values);
  assert.deepEqual(draft.values, { count: 'text', flag: true, later: { a: 1 } });
  assert.equal(draft.problem?.message, 'configured_props.count: expected an integer, found "text"');
  assert.equal(draftProps(definitions, good).problem, undefined);
  assert.throws(() => draftProps(definitions, { later: 'x'.repeat(64 * 1024) }), {
    code: 'invalid_prop',
    details: { parameter: 'configured_props.later' },
  });
});

test('a prop may be called as something that every object has', () => {
  const odd = ['constructor', 'toString', 'hasOwnProperty'].map((name) => ({
    name,
    type: 'string',
    optional: true,
  }));
  assert.deepEqual(validateProps(odd, {}, { unknown: 'refuse' }), {});
  assert.deepEqual(validateProps(odd, { toString: 'x' }, { unknown: 'refuse' }), { toString: 'x' });
});
