import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type ActionFixture, startActionFixture } from '../../test/support/action-fixture.ts';
import { conditions } from './conditions.ts';

type Row = [
  condition: keyof typeof conditions,
  first: unknown,
  second: unknown,
  met: boolean,
  sensitive?: true,
];

const rows: Row[] = [
  ['CONTAINS', 'Hello World', 'world', true],
  ['CONTAINS', 'Hello World', 'world', false, true],
  ['CONTAINS', undefined, 'a', false],
  ['NOT_CONTAINS', '/output/a.pdf', '/output/', false],
  ['NOT_CONTAINS', '/input/a.pdf', '/output/', true],
  ['TEXT_EQUALS', 'Paid', 'paid', true],
  ['TEXT_EQUALS', 'Paid', 'paid', false, true],
  ['TEXT_EQUALS', 7, '7', true],
  ['TEXT_EQUALS', '', '', true],
  ['TEXT_NOT_EQUALS', 'open', 'paid', true],
  ['TEXT_NOT_EQUALS', 'open', undefined, true],
  ['TEXT_NOT_EQUALS', 'PAID', 'paid', false],
  ['STARTS_WITH', 'Invoice 7', 'invoice', true],
  ['STARTS_WITH', 'an invoice', 'invoice', false],
  ['NOT_STARTS_WITH', 'an invoice', 'invoice', true],
  ['ENDS_WITH', 'a.PDF', '.pdf', true],
  ['ENDS_WITH', 'a.PDF', '.pdf', false, true],
  ['NOT_ENDS_WITH', 'a.csv', '.pdf', true],
  ['IS_BLANK', '  ', undefined, true],
  ['IS_BLANK', undefined, undefined, true],
  ['IS_BLANK', 0, undefined, false],
  ['NOT_BLANK', 'a', undefined, true],
  ['NOT_BLANK', null, undefined, false],
  ['EQUALS', '1.0', 1, true],
  ['EQUALS', 1, 2, false],
  ['NOT_EQUALS', 1, '2', true],
  ['GREATER_THAN', 2, 1, true],
  ['GREATER_THAN', 1, 1, false],
  ['GREATER_THAN_EQUALS', '10', '9', true],
  ['GREATER_THAN_EQUALS', 1, 1, true],
  ['LESS_THAN', -1, 0, true],
  ['LESS_THAN', '10', '9', false],
  ['LESS_THAN_EQUALS', 1, 1, true],
  ['TRUE', 'https://example.com', undefined, true],
  ['TRUE', 'False', undefined, false],
  ['TRUE', undefined, undefined, false],
  ['TRUE', true, undefined, true],
  ['FALSE', false, undefined, true],
  ['FALSE', 0, undefined, true],
  ['FALSE', [], undefined, false],
  ['BOOLEAN_EQUALS', 'true', true, true],
  ['BOOLEAN_EQUALS', false, 'true', false],
  ['EXISTS', null, undefined, true],
  ['EXISTS', undefined, undefined, false],
  ['NOT_EXISTS', undefined, undefined, true],
  ['NOT_EXISTS', '', undefined, false],
  ['IS_NULL', null, undefined, true],
  ['IS_NULL', undefined, undefined, true],
  ['IS_NULL', '', undefined, false],
  ['NOT_NULL', 0, undefined, true],
  ['NOT_NULL', undefined, undefined, false],
  ['IS_STRING', '1', undefined, true],
  ['NOT_STRING', 1, undefined, true],
  ['IS_NUMBER', 1, undefined, true],
  ['IS_NUMBER', '1', undefined, false],
  ['NOT_NUMBER', '1', undefined, true],
  ['IS_BOOLEAN', false, undefined, true],
  ['NOT_BOOLEAN', 'false', undefined, true],
  ['IN_ARRAY', 'b', ['a', 'b'], true],
  ['IN_ARRAY', '2', '[1, 2]', true],
  ['IN_ARRAY', { a: 1 }, [{ a: 1 }], true],
  ['IN_ARRAY', ['a'], 'a', true],
  ['IN_ARRAY', 'c', ['a', 'b'], false],
  ['NOT_IN_ARRAY', 'c', ['a', 'b'], true],
  ['KEY_EXISTS', { id: 0 }, 'id', true],
  ['KEY_EXISTS', 'id', '{"id": 1}', true],
  ['KEY_EXISTS', { id: null }, 'id', false],
  ['KEY_EXISTS', {}, 'toString', false],
  ['KEY_NOT_EXISTS', { id: 1 }, 'name', true],
];

let actions: ActionFixture;
before(async () => {
  actions = await startActionFixture();
});
after(() => actions?.close());

for (const [condition, initialValue, secondValue, met, caseSensitive] of rows) {
  const what = JSON.stringify(
    [initialValue ?? String(initialValue), secondValue].slice(0, secondValue === undefined ? 1 : 2),
  );
  test(`${condition} of ${what}${caseSensitive ? ', case sensitive,' : ''} is ${met ? '' : 'not '}met`, async () => {
    const props = { initialValue, condition, secondValue, caseSensitive };
    const continues = await actions.run('filter-continue-based-on-condition', props);
    assert.equal(continues.error, undefined);
    assert.equal(continues.flow?.kind, met ? undefined : 'exit');
    const ends = await actions.run('filter-end-based-on-condition', props);
    assert.equal(ends.flow?.kind, met ? 'exit' : undefined);
  });
}

test('every condition has a row that is met, and one of the options', async () => {
  const met = new Set(rows.filter(([, , , isMet]) => isMet).map(([condition]) => condition));
  assert.deepEqual([...met].sort(), Object.keys(conditions).sort());
});

test('the reasons are what the step returns, and what the run ends with', async () => {
  const props = { condition: 'TRUE', messageOnContinue: 'go on', messageOnEnd: 'enough' };
  const continued = await actions.run('filter-continue-based-on-condition', { ...props, initialValue: 1 });
  assert.deepEqual([continued.ret, continued.exports.$summary], ['go on', 'go on']);
  const ended = await actions.run('filter-continue-based-on-condition', { ...props, initialValue: 0 });
  assert.deepEqual(ended.flow, { kind: 'exit', reason: 'enough' });
  const unnamed = await actions.run('filter-end-based-on-condition', { condition: 'TRUE', initialValue: 1 });
  assert.deepEqual(unnamed.flow, { kind: 'exit', reason: 'Ended: the condition TRUE is met' });
});

const mistakes: [props: object, message: RegExp][] = [
  [{ condition: 'LIKE' }, /^condition: found "LIKE", expected one of CONTAINS, /],
  [{ condition: 'toString' }, /^condition: found "toString"/],
  [
    { condition: 'GREATER_THAN', initialValue: 'many', secondValue: 1 },
    /^initialValue: found "many", expected a number$/,
  ],
  [{ condition: 'LESS_THAN', initialValue: 1 }, /^secondValue: found nothing, expected a number$/],
  [{ condition: 'CONTAINS', initialValue: 'a' }, /^secondValue: found nothing, expected text to compare$/],
  [
    { condition: 'IN_ARRAY', initialValue: 'a', secondValue: 'b' },
    /^secondValue: found "b", expected an array/,
  ],
  [
    { condition: 'KEY_EXISTS', initialValue: 'a', secondValue: 'b' },
    /^initialValue: found "a", expected an object/,
  ],
];
for (const [props, message] of mistakes) {
  test(`says what is wrong with ${JSON.stringify(props)}`, async () => {
    const { error, flow } = await actions.run('filter-continue-based-on-condition', { ...props });
    assert.equal(error?.name, 'ConfigurationError');
    assert.match(error?.message ?? '', message);
    assert.equal(flow, undefined);
  });
}
