import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { readYaml, yamlText } from './folder-yaml.ts';

/** Texts of every kind: with half surrogate pairs, line ends, spaces and signs that YAML has a meaning for. */
const anyText = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({
    unit: fc.constantFrom(...' \t\n\r:#-?&*!|>\'"%@`{}[],~=aé😀\u2028\u0085\ufeff\u0007'),
    maxLength: 12,
  }),
  fc.constantFrom(
    'Yes',
    'no',
    'null',
    '~',
    '0777',
    '0o17',
    '0x1f',
    '1e3',
    '.inf',
    '-.NaN',
    '12:30',
    '2026-11-23',
    '<<',
    '=',
    '__proto__',
  ),
);
const anyValue = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    anyText,
    fc.boolean(),
    fc.integer(),
    fc.constant(null),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    tie('list'),
    tie('fields'),
  ),
  list: fc.array(tie('value'), { maxLength: 4 }),
  fields: fc.dictionary(
    anyText.filter((name) => name !== '__proto__'),
    tie('value'),
    { maxKeys: 4, noNullPrototype: true },
  ),
}));

test('every value that the API has is the same after it was written and read, and its text ends no line by accident', () => {
  fc.assert(
    fc.property(anyValue.fields, (value) => {
      const fields = { ...(value as object), schema: 'x' };
      const text = yamlText(fields);
      assert.equal(JSON.stringify(readYaml(text, 'x.yaml')), JSON.stringify(fields));
      assert.equal(yamlText(fields), text);
      assert.doesNotMatch(text, /[\r\u0085\u2028\ufeff]/);
    }),
    { numRuns: 500 },
  );
});

test('a file that is no YAML is named with its line, and aliases have a bound', () => {
  assert.throws(() => readYaml('a: 1\nb: [', 'w.yaml'), /^CliError: w\.yaml: .* line 2/s);
  assert.throws(() => readYaml('- a', 'w.yaml'), /w\.yaml: expected fields/);
  assert.throws(() => readYaml('a: 1\na: 2', 'w.yaml'), /w\.yaml: Map keys must be unique/);
});
