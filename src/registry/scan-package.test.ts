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

test('each file that is no component though it should be one is reported with the reason', async () => {
  const { components, problems } = await scan({
    'actions/a/a.mjs': code('demo-a', 'action'),
    'actions/b/b.mjs': code('demo-a', 'action'),
    'actions/broken/broken.mjs': 'export default {',
    'actions/computed/computed.mjs': 'export default { key: process.env.KEY, type: "action" }',
    'actions/empty/empty.mjs': 'console.log(1)',
    'actions/other/other.mjs': code('demo-other', 'widget'),
    'actions/proto/proto.mjs': code('__proto__', 'action'),
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
      ['proto', 'the key "__proto__" cannot be used'],
      ['slash', 'the key "demo/x" cannot be used'],
    ],
  );
});

test('what a hostile text says is bounded, and can be stored', async () => {
  const long = 'b'.repeat(100_000);
  const { components, problems, apps } = await scan({
    'x.app.mjs': `export default { type: "app", app: "a\\0${long}" }`,
    'actions/a/a.mjs': `export default { key: "demo-a", type: "action", name: "a\\0b\\ud800", description: "\\u0000${long}", version: "1\\0${long}" }`,
    'actions/b/b.mjs': `export default { a ${long} }`,
  });
  const [a] = components;
  assert.equal(a?.name, 'ab\ufffd');
  assert.deepEqual([a?.version.length, a?.description.length, a?.app.length], [200, 4000, 200]);
  assert.ok(!JSON.stringify([components, apps]).includes('\\u0000'));
  assert.ok(
    problems.length === 1 && (problems[0]?.message.length ?? 0) < 400,
    'what a message quotes is cut',
  );
});

test('a text that ends the parser is left out alone', async () => {
  const deep = 500_000;
  const { components, problems } = await scan({
    'actions/a/a.mjs': `const x = ${'['.repeat(deep)}${']'.repeat(deep)}; ${code('demo-a', 'action')}`,
    ...Object.fromEntries(
      Array.from({ length: 4 }, (_, n) => [
        `actions/n${n}/n${n}.mjs`,
        `const x = [${'"abc",'.repeat(20_000)}]; ${code(`demo-n${n}`, 'action')}`,
      ]),
    ),
  });
  assert.equal(components.length, 4);
  assert.equal(problems.length, 1);
  assert.equal(problems[0]?.path, 'actions/a/a.mjs');
  // On a busy machine the time is up before the stack is.
  assert.match(
    problems[0]?.message ?? '',
    /^the file does not parse: it (is nested too deeply|takes longer than 20 seconds to read)$/,
  );
});
