import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parsePackageSpecifier } from './package-specifier.ts';

test('an import of a package has a name, maybe a version, range or tag, and maybe a path in it', () => {
  for (const [text, name, range, subpath] of [
    ['lodash', 'lodash', undefined, ''],
    ['lodash/fp', 'lodash', undefined, '/fp'],
    ['@scope/a.b-c_d', '@scope/a.b-c_d', undefined, ''],
    ['@scope/a@^1.2.0/sub/path.js', '@scope/a', '^1.2.0', '/sub/path.js'],
    ['a@>=1 <2', 'a', '>=1 <2', ''],
    ['a@latest', 'a', 'latest', ''],
    ["Legacy~!'()*", "Legacy~!'()*", undefined, ''],
  ] as const) {
    const parsed = parsePackageSpecifier(text);
    assert.deepEqual([parsed?.name, parsed?.range, parsed?.subpath], [name, range, subpath], text);
  }
});

test('what no registry has a package for is none', () => {
  for (const text of [
    '',
    './a',
    '../a',
    '/a',
    '.a',
    '_a',
    '#a',
    'C:\\a',
    'node:fs',
    'npm:a@1',
    'a@npm:b@1',
    'https://x/y',
    'a@file:../b',
    'a/../b',
    '@scope',
    'a b',
    'a?b',
    'a%2f',
    'ä',
    '\u202e',
    '\ud800',
    'a@\ud800',
    'a\0',
    'a@\0',
    `a${'a'.repeat(500)}`,
  ]) {
    assert.equal(parsePackageSpecifier(text), null, JSON.stringify(text));
  }
});
