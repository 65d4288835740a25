import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forEachSharedService } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

const echo = `
export default {
  name: 'Echo', key: 'test-echo', version: '0.0.1',
  props: { http: { type: '$.interface.http', customResponse: true }, db: '$.service.db' },
  async run(event) {
    const count = (this.db.get('count') ?? 0) + 1;
    this.db.set('count', count);
    this.http.respond({ status: 201, headers: { 'x-count': String(count) }, body: { count, got: event.body } });
    this.$emit({ count, method: event.method, path: event.path, query: event.query, body: event.body, bodyRaw: event.bodyRaw }, { summary: 'request ' + count });
  },
};`;

forEachSharedService((fixture) => {
  test('a request to the endpoint of a source runs its code, is answered by it, and its event can be read back', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: echo });
    assert.match(source.id, /^dc_/);
    assert.equal(source.name_slug, 'echo');
    assert.equal(source.active, true);
    const endpoint = source.configured_props.http.endpoint_url;
    assert.match(endpoint, new RegExp(`^${service.url}/in/[0-9a-f]{32}$`));

    const stream = await service.stream(source.id);
    const response = await fetch(`${endpoint}/orders/7?a=1&b=2&b=3`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"hello": "world"}',
    });
    assert.equal(response.status, 201);
    assert.equal(response.headers.get('x-count'), '1');
    assert.deepEqual(await response.json(), { count: 1, got: { hello: 'world' } });

    const live = await stream.message(1);
    stream.close();
    const [stored] = await service.events(source.id);
    assert.equal(live.id, stored.id);
    assert.deepEqual(live.data.event, stored.event);
    assert.deepEqual(stored.event, {
      count: 1,
      method: 'POST',
      path: '/orders/7',
      query: { a: '1', b: ['2', '3'] },
      body: { hello: 'world' },
      bodyRaw: '{"hello": "world"}',
    });
    assert.equal(stored.metadata.emitter_id, source.id);
    assert.equal(stored.metadata.name, '');
    assert.equal(stored.metadata.summary, 'request 1');
  });

  test('requests that arrive together are run one after another on one component db', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: echo });
    const endpoint = source.configured_props.http.endpoint_url;
    const counts = await Promise.all(
      Array.from({ length: 60 }, async () => {
        const response = await fetch(endpoint, { method: 'POST', body: 'x' });
        return ((await response.json()) as { count: number }).count;
      }),
    );
    assert.deepEqual(
      counts.sort((a, b) => a - b),
      Array.from({ length: 60 }, (_, index) => index + 1),
    );
    // The reply is the component's, and goes out when it responds; its events are stored when the run has ended.
    await waitFor(async () => (await service.events(source.id)).length === 60, { what: '60 events' });
    const ids = (await service.events(source.id)).map((event) => event.event.count);
    assert.deepEqual(
      ids,
      Array.from({ length: 60 }, (_, index) => 60 - index),
      'newest first, in the order of the runs',
    );
  });
});
