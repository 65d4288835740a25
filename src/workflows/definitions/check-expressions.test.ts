import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PropDefinition } from '#components/component-shape.ts';
import type { CallerError } from '#lib/errors.ts';
import { ExpressionChecker } from './check-expressions.ts';
import { checkOptions } from './check-options.ts';
import { checkRule, ruleProp } from './rule-input.ts';

const propsOf = (type: string, more: Partial<PropDefinition> = {}): PropDefinition[] => [
  { name: 'text', type, ...more },
];
const check = (text: unknown, definitions = propsOf('any')) =>
  new ExpressionChecker().checkProps(definitions, { text });

test('an expression that does not compile is refused with its prop, its position and what the parser said', async () => {
  await assert.rejects(check('a {{ steps.a b }}'), {
    code: 'invalid_prop',
    message: `configured_props.text: the expression "{{ steps.a b }}" is not valid JavaScript (line 1, column 14): Unexpected identifier 'b'`,
    details: { parameter: 'configured_props.text', line: 1, column: 14 },
  });
  await assert.rejects(check([1, { deep: 'first\nline {{1 +\n  2 3}}' }]), {
    details: { parameter: 'configured_props.text[1].deep', line: 3, column: 5 },
  });
  await assert.rejects(check('{{steps.a.}}'), /\(line 1, column 11\): it ends too early/);
  await assert.rejects(check('{{ }}'), /\(line 1, column 4\): it ends too early/);
  await assert.rejects(check('{{#each items}}'), /is not valid JavaScript/);
});

test('what compiles in the sandbox is accepted: braces in texts, comments, objects, and text without an end', async () => {
  for (const text of [
    '{{ "}}" + steps.a }}',
    '{{ {a: {b: 1}} }}',
    '{{ steps.a // a comment }}',
    'a {{ and no end',
    '{{a}} and {{b.c?.[0] ?? `d`}}',
    '{{await}}',
  ])
    await check(text);
  const nested = `{{${'('.repeat(20_000)}1${')'.repeat(20_000)}}}`;
  await assert.rejects(check(nested), /Maximum call stack size exceeded/, 'and the service continues');
});

test('types whose texts are not evaluated are not searched, and of a secret prop nothing is quoted', async () => {
  for (const type of ['app', 'data_store', 'dir', 'sql', '$.interface.timer'])
    await check('{{ a b }}', propsOf(type));
  await assert.rejects(
    check('{{ "secret-token" b }}', propsOf('string', { secret: true })),
    (error: CallerError) =>
      !error.message.includes('secret-token') && /line 1, column 19/.test(error.message),
  );
});

test('a definition is compiled within a budget, and what is beyond it is accepted', async () => {
  const checker = new ExpressionChecker();
  const long = `{{${'a+'.repeat(100_000)}1}}`;
  for (let at = 0; at < 5; at += 1) await checker.checkProps(propsOf('any'), { text: long });
  await checker.checkProps(propsOf('any'), { text: '{{a b}}' });
});

test('many short expressions use up the budget too, each as much as 90 characters', async () => {
  const checker = new ExpressionChecker();
  await checker.checkProps(propsOf('any'), { text: '{{a}}'.repeat(5_000) });
  await assert.rejects(checker.checkProps(propsOf('any'), { text: '{{a b}}' }), { code: 'invalid_prop' });
  await checker.checkProps(propsOf('any'), { text: '{{a}}'.repeat(100_000) });
  await checker.checkProps(propsOf('any'), { text: '{{a b}}' });
});

test('a value that is not among the static options of its prop is refused with the first of them', () => {
  const options = ['a', { label: 'B', value: 'b' }];
  const of = (definition: Partial<PropDefinition>, text: unknown) =>
    checkOptions(propsOf('string', { options, ...definition }), { text });
  for (const value of [
    'a',
    'b',
    '{{steps.x}}',
    'a{{steps.x}}',
    undefined,
    { __lv: { label: 'B', value: 'b' } },
  ])
    of({}, value);
  assert.throws(() => of({}, 'c'), {
    code: 'invalid_prop',
    message: 'configured_props.text: found "c", expected one of "a", "b"',
  });
  const many = Array.from({ length: 12 }, (_, index) => index);
  assert.throws(() => of({ options: many, type: 'integer' }, 12), /one of 0, .*, 9 and 2 more$/);
  of({ options: many, type: 'integer' }, '11');
  assert.throws(() => of({ type: 'string[]' }, ['a', 'c']), /configured_props.text\[1\]: found "c"/);
  of({ type: 'string[]' }, ['a', '{{steps.x}}', 'b']);
  of({ remoteOptions: true }, 'c');
  of({ otherValues: true }, 'c');
  of({ optional: true }, '');
});

test('a rule that no event could meet or miss is refused, and spaces around an expression do not count', () => {
  const refused = (rule: unknown, pattern: RegExp) => assert.throws(() => checkRule(rule, 'if'), pattern);
  refused('{{a}} and {{b}}', /^CallerError: if: a text must be one expression/);
  refused({ condition: 'GREATER_THAN', value: '{{a}}' }, /if.second_value: .*GREATER_THAN, found nothing/);
  refused(
    { condition: 'EQUALS', value: 'ten', second_value: 1 },
    /if.value: expected a number .*found "ten"/,
  );
  refused({ condition: 'CONTAINS', value: '{{a}}', second_value: '' }, /if.second_value: expected text/);
  refused({ condition: 'IN_ARRAY', value: 'a', second_value: 'b' }, /if.second_value: expected a list/);
  refused(
    { not: { condition: 'KEY_EXISTS', value: 1, second_value: 'b' } },
    /if.not.value: expected an object/,
  );
  for (const rule of [
    { condition: 'GREATER_THAN', value: '{{a}}', second_value: '10' },
    { condition: 'TEXT_EQUALS', value: '{{a}}' },
    { condition: 'IN_ARRAY', value: '{{a}}', second_value: ['b'] },
    { condition: 'KEY_EXISTS', value: '{"b":1}', second_value: 'b' },
    { condition: 'EXISTS', value: '{{a}}' },
    ' {{a}} ',
  ])
    checkRule(rule, 'if');
  assert.deepEqual(ruleProp(' {{a}} '), { value: '{{a}}', condition: 'TRUE' });
});
