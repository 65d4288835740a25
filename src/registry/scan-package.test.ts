import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PackageFetcher } from '#components/package-fetcher.ts';
import { silentLogger } from '#lib/logger.ts';
import { scanPackage } from './scan-package.ts';

const code = (key: string, type?: string) =>
  `export default { key: "${key}", ${type === undefined ? '' : `type: "${type}", `}version: "0.0.1" }`;

async function scan(files: Record<string, string>) {
  const fetcher = new PackageFetcher({ cacheFolder: '/nowhere', registry: '', logger: silentLogger });
  try {
    return await scanPackage(
      Object.entries(files).map(([path, text]) => ({ path, text })),
      fetcher,
    );
  } finally {
    await fetcher.close();
  }
}

test('components are found by where they are, or by what they say; helpers are not', async () => {
  const { components, problems, apps } = await scan({
    'package.json': '{}',
    'demo.app.mjs': 'export default { type: "app", app: "demo_app" }',
    'actions/a/a.mjs': code('demo-a', 'action'),
    'actions/untyped/untyped.mjs': code('demo-untyped'),
    'actions/common/base.mjs': code('demo-base', 'action'),
    'actions/a/helper.mjs': 'export default { limit: 3 }',
    'actions/a/test-event.mjs': code('demo-test', 'action'),
    'sources/s.ts': code('demo-s', 'source'),
    'dist/actions/a/a.mjs': code('demo-a', 'action'),
    'mine.mjs': code('demo-mine', 'action'),
    'lib.mjs': code('demo-lib'),
    'node_modules/x/actions/x.mjs': code('demo-x', 'action'),
  });
  assert.deepEqual(problems, []);
  assert.deepEqual(apps, ['demo_app']);
  assert.deepEqual(components.map(({ key, kind, app }) => [key, kind, app]).sort(), [
    ['demo-a', 'actions', 'demo_app'],
    ['demo-mine', 'actions', 'demo_app'],
    ['demo-s', 'sources', 'demo_app'],
    ['demo-untyped', 'actions', 'demo_app'],
  ]);
});

test('each file that is no component though it should be one is told with the reason', async () => {
  const { components, problems } = await scan({
    'actions/a/a.mjs': code('demo-a', 'action'),
    'actions/b/b.mjs': code('demo-a', 'action'),
    'actions/broken/broken.mjs': 'export default {',
    'actions/computed/computed.mjs': 'export default { key: process.env.KEY, type: "action" }',
    'actions/empty/empty.mjs': 'console.log(1)',
    'actions/other/other.mjs': code('demo-other', 'widget'),
    'actions/slash/slash.mjs': code('demo/x', 'action'),
  });
  assert.deepEqual(
    components.map(({ key }) => key),
    ['demo-a'],
  );
  assert.deepEqual(
    problems.map(({ path, message }) => [path.split('/')[1], message.replace(/: .*/s, '')]),
    [
      ['b', 'the key demo-a is that of actions/a/a.mjs already'],
      ['broken', 'the file does not parse'],
      ['computed', 'no key could be read'],
      ['empty', 'the file exports no object that could be read as a component'],
      ['other', 'the type "widget" is neither "source" nor "action"'],
      ['slash', 'the key "demo/x" cannot be used'],
    ],
  );
});
