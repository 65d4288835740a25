import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pinTags } from './pin-tags.ts';

test('tags become the versions that are locked, also behind an alias and further up; ranges stay', () => {
  const packages = {
    '': {
      dependencies: { a: 'latest', b: 'npm:@of/real@next', c: '^1.0.0', d: 'npm:real@^2' },
      peerDependencies: { gone: 'latest' },
    },
    'node_modules/a': { version: '1.1.0', dependencies: { c: 'latest', e: '' } },
    'node_modules/a/node_modules/c': { version: '3.0.0', optionalDependencies: { a: 'beta', c: 'latest' } },
    'node_modules/@of/x': { version: '1.0.0', dependencies: { c: 'latest' } },
    'node_modules/b': { version: '2.2.2' },
    'node_modules/c': { version: '1.5.0' },
    'node_modules/d': { version: '2.0.1' },
    'node_modules/e': { version: '5.0.0' },
  };
  pinTags(packages);
  assert.deepEqual(packages[''], {
    dependencies: { a: '1.1.0', b: 'npm:@of/real@2.2.2', c: '^1.0.0', d: 'npm:real@^2' },
    peerDependencies: { gone: 'latest' },
  });
  assert.deepEqual(packages['node_modules/a'].dependencies, { c: '3.0.0', e: '' });
  assert.deepEqual(packages['node_modules/a/node_modules/c'].optionalDependencies, {
    a: '1.1.0',
    c: '3.0.0',
  });
  assert.deepEqual(packages['node_modules/@of/x'].dependencies, { c: '1.5.0' });
});
