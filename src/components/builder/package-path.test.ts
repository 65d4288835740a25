import assert from 'node:assert/strict';
import { test } from 'node:test';
import { packagePath } from './package-path.ts';

test('a path of a package is kept in one form, and left out where it cannot be kept', () => {
  for (const [path, expected] of [
    ['actions/a.mjs', 'actions/a.mjs'],
    ['./actions//a/./a.mjs', 'actions/a/a.mjs'],
    ['ä/ü 😀.mjs', 'ä/ü 😀.mjs'],
    ['__proto__/a..b.mjs', '__proto__/a..b.mjs'],
    ['../a.mjs', null],
    ['a/../../b.mjs', null],
    ['a\u0000b.mjs', null],
    ['a\nb.mjs', null],
    ['a/'.repeat(600), null],
    ['', null],
    ['.', null],
  ] as const)
    assert.equal(packagePath(path.split('/')), expected, JSON.stringify(path.slice(0, 40)));
});
