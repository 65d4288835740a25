import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compareVersions, newestOf } from './component-versions.ts';

test('versions are ordered as numbers, a pre-release before its release, and none at all first', () => {
  const ordered = [
    '',
    '0.0.9',
    '0.0.10',
    '0.1.0-beta.2',
    '0.1.0-beta.10',
    '0.1.0-rc',
    '0.1.0',
    'v1.0.0',
    '1.0.1+b',
  ];
  assert.deepEqual(ordered.toReversed().toSorted(compareVersions), ordered);
});

test('of equal versions the package that was added last counts', () => {
  const one = { version: '1.0.0', package_created_at_ms: 1 };
  const two = { version: '1.0.0', package_created_at_ms: 2 };
  const old = { version: '0.9.0', package_created_at_ms: 3 };
  assert.equal(newestOf([one, two, old]), two);
  assert.equal(newestOf([]), undefined);
});
