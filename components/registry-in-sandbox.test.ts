import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { build } from 'esbuild';
import { type RunnerFixture, startRunnerFixture } from '../test/support/runner-fixture.ts';

let fixture: RunnerFixture;
before(async () => {
  fixture = await startRunnerFixture();
});
after(() => fixture.close());

async function bundle(path: string): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [join(import.meta.dirname, path)],
    bundle: true,
    platform: 'node',
    format: 'cjs',
    write: false,
    logLevel: 'silent',
  });
  return outputFiles[0]?.text ?? '';
}

async function describeProps(path: string): Promise<unknown> {
  const described = await fixture.describe(await bundle(path));
  if (described.status !== 'described') throw new Error(`${path}: ${JSON.stringify(described)}`);
  const { configurableProps } = JSON.parse(described.shape);
  return configurableProps.map((prop: Record<string, unknown>) => [
    prop.name,
    prop.type,
    prop.optional,
    prop.default,
  ]);
}

test('rss-new-item-in-feed asks for a url and looks every 900 seconds', async () => {
  assert.deepEqual(await describeProps('rss/sources/new-item-in-feed.ts'), [
    ['url', 'string', undefined, undefined],
    ['timer', '$.interface.timer', undefined, { intervalSeconds: 900 }],
    ['db', '$.service.db', undefined, undefined],
  ]);
});

test('http-new-requests needs nothing', async () => {
  assert.deepEqual(await describeProps('http/sources/new-requests.ts'), [
    ['http', '$.interface.http', undefined, undefined],
    ['emitBodyOnly', 'boolean', true, false],
    ['resStatusCode', 'string', true, '200'],
    ['resContentType', 'string', true, 'application/json'],
    ['resBody', 'string', true, '{ "success": true }'],
  ]);
  assert.deepEqual(await describeProps('http/sources/new-requests-payload-only.ts'), [
    ['http', '$.interface.http', undefined, undefined],
  ]);
});

test('the schedules need a timer only', async () => {
  assert.deepEqual(await describeProps('schedule/sources/custom-interval.ts'), [
    ['cron', '$.interface.timer', undefined, { intervalSeconds: 900 }],
  ]);
  assert.deepEqual(await describeProps('schedule/sources/cron-schedule.ts'), [
    ['cron', '$.interface.timer', undefined, { cron: '0 0 * * *' }],
  ]);
});

test('http-new-requests replies and emits from inside the sandbox', async () => {
  const event = { method: 'PUT', path: '/a', query: {}, headers: {}, body: { x: 1 }, bodyRaw: '{"x":1}' };
  const outcome = await fixture.call(await bundle('http/sources/new-requests.ts'), {
    call: { kind: 'run', event: JSON.stringify(event) },
    props: { http: { endpoint: 'https://example.com/x' }, resStatusCode: '202', resBody: 'thanks' },
  });
  assert.equal(outcome.status, 'finished', JSON.stringify(outcome.error));
  assert.equal(outcome.response?.status, 202);
  assert.equal(outcome.response?.body.toString(), 'thanks');
  assert.deepEqual(
    outcome.emits.map((emit) => [JSON.parse(emit.event), emit.summary]),
    [[event, 'PUT /a']],
  );
});

test('a feed that may not be reached fails the activate hook with a clear message', async () => {
  const outcome = await fixture.call(await bundle('rss/sources/new-item-in-feed.ts'), {
    call: { kind: 'hook', hook: 'activate' },
    props: { url: 'http://127.0.0.1:9999/feed.xml' },
  });
  assert.equal(outcome.status, 'threw');
  assert.match(
    outcome.error?.message ?? '',
    /^Could not read the feed at http:\/\/127\.0\.0\.1:9999\/feed\.xml: ./,
  );
});
