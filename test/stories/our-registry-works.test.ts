import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachSharedService } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

/** An RSS feed whose newest item is the last of `titles`, as feeds are: newest first. */
function feedOf(titles: readonly string[]): string {
  const items = titles.map(
    (title, at) => `
    <item><title>${title}</title><link>https://news.example/${at}</link><guid isPermaLink="false">item-${at}</guid>
    <pubDate>${new Date(Date.UTC(2026, 0, at + 1)).toUTCString()}</pubDate></item>`,
  );
  return `<?xml version="1.0"?><rss version="2.0"><channel><title>News</title><link>https://news.example</link>
    <description>All of it</description>${items.reverse().join('')}</channel></rss>`;
}

forEachSharedService((fixture) => {
  test('rss-new-item-in-feed emits the items of a feed at once, and with the next run only what is new', async () => {
    const { service } = fixture;
    const titles = ['Monday', 'Tuesday &amp; more'];
    await using feed = await HttpReceiver.start({
      answer: ({ headers }) => {
        const etag = `"${titles.length}"`;
        if (headers['if-none-match'] === etag) return { status: 304 };
        return { headers: { 'content-type': 'application/rss+xml', etag }, body: feedOf(titles) };
      },
    });
    const source = await service.createSource({
      key: 'rss-new-item-in-feed',
      name: 'news',
      configured_props: { url: `${feed.url}/feed.xml`, timer: { intervalSeconds: 15 } },
    });
    assert.deepEqual(
      [source.name, source.name_slug, source.configured_props],
      ['news', 'news', { url: `${feed.url}/feed.xml`, timer: { cron: null, interval_seconds: 15 } }],
    );
    const first = await waitFor(async () => {
      const events = await service.events(source.id);
      return events.length === 2 && events;
    });
    assert.deepEqual(
      first.map(({ event: { guid, title, link } }) => ({ guid, title, link })),
      [
        { guid: 'item-1', title: 'Tuesday & more', link: 'https://news.example/1' },
        { guid: 'item-0', title: 'Monday', link: 'https://news.example/0' },
      ],
    );
    assert.ok('permalink' in first[0].event);
    // The stream is there first: its timer may run the source at any moment from then on.
    const stream = await service.stream(source.id);
    titles.push('Wednesday');
    // Activation runs the source immediately, so that this test does not wait for the next tick.
    for (const active of [false, true]) await service.api('PUT', `/v1/sources/${source.id}`, { active });
    const { data } = await stream.message(1);
    assert.equal(data.event.title, 'Wednesday');
    stream.close();
    const conditional = feed.requests.filter(({ headers }) => headers['if-none-match'] !== undefined);
    assert.ok(conditional.length > 0, 'asks only for what changed');
  });

  test('a feed that does not exist, or is none, is reported to the user who enters it', async () => {
    const { service } = fixture;
    await using web = await HttpReceiver.start({
      answer: ({ url }) => (url === '/page' ? { body: '<html><body>hello</body></html>' } : { status: 404 }),
    });
    for (const url of [`${web.url}/missing`, `${web.url}/page`, 'http://127.0.0.1:1/', 'no url']) {
      const { status, body } = await service.api('POST', '/v1/sources', {
        key: 'rss-new-item-in-feed',
        configured_props: { url },
      });
      assert.deepEqual([url, status, body.code], [url, 400, 'hook_failed']);
      assert.ok(body.error.length > 20, body.error);
    }
    const { status, body } = await service.api('POST', '/v1/sources', { key: 'rss-new-item-in-feed' });
    assert.deepEqual([status, body.details.parameter], [400, 'configured_props.url']);
  });

  test('http-new-requests replies as configured and emits requests', async () => {
    const { service } = fixture;
    const source = await service.createSource({
      key: 'http-new-requests',
      configured_props: {
        emitBodyOnly: true,
        resStatusCode: '201',
        resContentType: 'text/plain',
        resBody: 'thanks',
      },
    });
    const response = await fetch(source.configured_props.http.endpoint_url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"id":7}',
    });
    assert.deepEqual([response.status, await response.text()], [201, 'thanks']);
    const [event] = await waitFor(async () => {
      const events = await service.events(source.id);
      return events.length > 0 && events;
    });
    assert.deepEqual([event.event, event.metadata.summary], [{ id: 7 }, 'POST /']);
  });

  test('http-new-requests-payload-only answers success and emits bodies', async () => {
    const { service } = fixture;
    const source = await service.createSource({ key: 'http-new-requests-payload-only' });
    const response = await fetch(source.configured_props.http.endpoint_url, { method: 'POST', body: 'a=1' });
    assert.deepEqual([response.status, await response.json()], [200, { success: true }]);
    const [event] = await waitFor(async () => {
      const events = await service.events(source.id);
      return events.length > 0 && events;
    });
    assert.equal(event.event, 'a=1');
  });

  test('schedule-custom-interval and schedule-cron-schedule emit their ticks', async () => {
    const { service } = fixture;
    const { body } = await service.api('GET', '/v1/components/registry/schedule-cron-schedule');
    const timerOf = (component: { configurable_props: { name: string; type: string }[] }) =>
      component.configurable_props.find(({ type }) => type === '$.interface.timer')?.name ?? '';
    const interval = await service.api('GET', '/v1/components/registry/schedule-custom-interval');
    const source = await service.createSource({
      key: 'schedule-custom-interval',
      configured_props: { [timerOf(interval.body.data)]: { intervalSeconds: 60 } },
    });
    const [event] = await waitFor(async () => {
      const events = await service.events(source.id);
      return events.length > 0 && events;
    });
    assert.equal(event.event.interval_seconds, 60);
    const cron = await service.createSource({
      key: 'schedule-cron-schedule',
      configured_props: { [timerOf(body.data)]: { cron: '0 9 * * *', timezone: 'Europe/Berlin' } },
    });
    assert.equal(cron.configured_props[timerOf(body.data)].cron, '0 9 * * *');
  });

  test('the registry shows what each component needs, and says so when it has none', async () => {
    const { service } = fixture;
    for (const key of [
      'rss-new-item-in-feed',
      'http-new-requests',
      'http-new-requests-payload-only',
      'schedule-custom-interval',
      'schedule-cron-schedule',
    ]) {
      const { status, body } = await service.api('GET', `/v1/components/registry/${key}`);
      assert.equal(status, 200);
      const { id, key: found, version, code, code_hash, configurable_props } = body.data;
      assert.match(id, /^sc_/);
      assert.equal(found, key);
      assert.match(version, /^\d+\.\d+\.\d+$/);
      assert.match(code_hash, /^[0-9a-f]{64}$/);
      assert.ok(code.includes(key));
      assert.ok(configurable_props.length > 0);
      const again = await service.api('GET', `/v1/components/${key}`);
      assert.equal(again.body.data.id, id, 'nothing is saved twice');
    }
    const rss = (await service.api('GET', '/v1/components/registry/rss-new-item-in-feed')).body.data;
    const timer = rss.configurable_props.find(({ name }: { name: string }) => name === 'timer');
    assert.deepEqual(timer.default, { intervalSeconds: 900 });
    for (const key of ['no-such-component', '%2e%2e%2fpackage', 'rss']) {
      const { status, body } = await service.api('GET', `/v1/components/registry/${key}`);
      assert.deepEqual([key, status, typeof body.code], [key, 404, 'string']);
    }
    const source = await service.api('POST', '/v1/sources', { key: 'no-such-component' });
    assert.deepEqual([source.status, source.body.code], [404, 'not_found']);
  });

  test('built-in actions are found by what they do, and run by their key', async () => {
    const { service } = fixture;
    const search = async (query: string) => {
      const { body } = await service.api('GET', `/v1/components/search?query=${encodeURIComponent(query)}`);
      return body.actions;
    };
    assert.ok((await search('add time to a date')).includes('formatting-add-subtract-time'));
    assert.equal((await search('html markdown'))[0], 'formatting-convert-html-to-markdown');
    const listed = (await service.api('GET', '/v1/components?type=action&app=formatting&limit=100')).body
      .data;
    assert.ok(listed.length > 20);
    for (const { name, version, description, app_details } of listed) {
      assert.match(description, /Example: /, name);
      assert.deepEqual([version, app_details.name], ['0.0.1', 'Formatting']);
    }
    const run = (id: string, configured_props: object) =>
      service.api('POST', '/v1/actions/run', { id, configured_props });
    const { body } = await run('formatting-convert-html-to-markdown', { input: '<h1>News</h1>' });
    assert.deepEqual(
      [body.data.ret, body.data.exports.$summary],
      ['# News', 'Converted HTML to Markdown'],
      JSON.stringify(body),
    );
    const wrong = await run('formatting-date-time-format', { inputDate: 'soon', outputFormat: 'DD' });
    const [{ err }] = wrong.body.data.os;
    assert.deepEqual(
      [err.name, err.message],
      ['ConfigurationError', 'inputDate: found "soon", expected a date such as 2026-01-22T23:04:05Z'],
    );
  });
});
