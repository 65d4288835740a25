import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

/** Every component of the registry, by its path `<app>/<kind>s/<name>.ts`. */
const paths = globSync('*/{sources,actions}/*.ts', { cwd: import.meta.dirname }).filter(
  (path) => !path.endsWith('.test.ts'),
);

test('the registry has the components that are promised', () => {
  const keys = paths.map((path) => path.replace(/^(.*)\/sources\/(.*)\.ts$/, '$1-$2')).sort();
  assert.deepEqual(keys, [
    'http-new-requests',
    'http-new-requests-payload-only',
    'rss-new-item-in-feed',
    'schedule-cron-schedule',
    'schedule-custom-interval',
  ]);
});

for (const path of paths) {
  test(`${path} has a key that is its path, and name, version, description and type`, async () => {
    const { default: component } = await import(join(import.meta.dirname, path));
    const [app, kind, file] = path.split('/');
    assert.equal(component.key, `${app}-${file?.replace(/\.ts$/, '')}`);
    assert.equal(`${component.type}s`, kind);
    assert.match(component.version, /^\d+\.\d+\.\d+$/);
    for (const field of ['name', 'description']) assert.ok(component[field].length > 3, field);
    assert.equal(typeof component.run, 'function');
  });
}
