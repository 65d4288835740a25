import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readEnvFile } from './env-file.ts';

test('a .env file is read with the lines of its variables', () => {
  const { variables, remarks } = readEnvFile(
    '# shop\nexport GREETING="good day"\n\nCERT="one\ntwo=2\nthree"\r\nPLAIN = a=b # note\n',
  );
  assert.deepEqual(variables, [
    { name: 'CERT', value: 'one\ntwo=2\nthree', line: 4 },
    { name: 'GREETING', value: 'good day', line: 2 },
    { name: 'PLAIN', value: 'a=b', line: 7 },
  ]);
  assert.deepEqual(remarks, []);
});

test('lines that set nothing, variables that are set again, and references that stay are reported', () => {
  const reference = '$'.concat('{A}');
  const { variables, remarks } = readEnvFile(`A=1\nno equals sign\n=x\nA=2\nURL=http://${reference}/\n`);
  assert.deepEqual(
    variables.map(({ name, value }) => [name, value]),
    [
      ['A', '2'],
      ['URL', `http://${reference}/`],
    ],
  );
  assert.deepEqual(remarks, [
    'line 2 sets nothing: expected NAME=value',
    'line 3 sets nothing: expected NAME=value',
    'line 4 sets A again: its value counts, not that of line 1',
    'line 5: URL keeps its references: they are not expanded',
  ]);
});
