import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

/** Every component of the registry, by its path `<app>/<kind>s/<name>.ts`. */
const paths = globSync('*/{sources,actions}/*.ts', { cwd: import.meta.dirname }).filter(
  (path) => !path.endsWith('.test.ts'),
);

test('the registry has the sources that are promised', () => {
  const sources = paths.filter((path) => path.includes('/sources/'));
  assert.deepEqual(sources.map((path) => path.replace(/^(.*)\/sources\/(.*)\.ts$/, '$1-$2')).sort(), [
    'http-new-requests',
    'http-new-requests-payload-only',
    'rss-new-item-in-feed',
    'schedule-cron-schedule',
    'schedule-custom-interval',
  ]);
});

test('every action has an example, and every prop a label and a description', async () => {
  for (const path of paths.filter((path) => path.includes('/actions/'))) {
    const { default: action } = await import(join(import.meta.dirname, path));
    assert.match(action.description, /Example: .*\.$/, path);
    for (const [name, prop] of Object.entries<Record<string, unknown>>(action.props)) {
      const [app, inherited] = (prop.propDefinition ?? []) as [{ propDefinitions: object }?, string?];
      const whole = {
        ...Object.entries(app?.propDefinitions ?? {}).find(([one]) => one === inherited)?.[1],
        ...prop,
      };
      if (whole.type === 'app') continue;
      for (const text of ['label', 'description'])
        assert.equal(typeof whole[text], 'string', `${path} ${name} ${text}`);
    }
  }
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
