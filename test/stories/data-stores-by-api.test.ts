import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forEachSharedService } from '../support/millrace.ts';

forEachSharedService((fixture) => {
  const data = async (method: string, path: string, body?: unknown, key?: string) => {
    const answer = await fixture.service.api(method, path, body, key === undefined ? {} : { key });
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body?.data;
  };
  const refused = async (method: string, path: string, body?: unknown, key?: string) => {
    const answer = await fixture.service.api(method, path, body, key === undefined ? {} : { key });
    return [answer.status, answer.body.code, answer.body.details.parameter];
  };

  test('a data store is created, filled, read in pages, emptied of an entry, and removed', async () => {
    const { service } = fixture;
    const created = await data('POST', '/v1/data_stores', { name: 'orders' });
    assert.match(created.id, /^ds_/);
    const me = await data('GET', '/v1/users/me');
    assert.deepEqual([created.name, created.owner_id, created.user_id], ['orders', me.id, me.id]);
    const path = `/v1/data_stores/${created.id}`;
    const key = encodeURIComponent('a/b ü?');
    const put = await data('PUT', `${path}/entries/${key}`, { value: { n: 1 }, ttl: 3600 });
    assert.deepEqual([put.key, put.value], ['a/b ü?', { n: 1 }]);
    assert.ok(Math.abs(put.expires_at - put.updated_at - 3600) <= 1);
    assert.deepEqual(await data('GET', `${path}/entries/${key}`), put);
    await data('PUT', `${path}/entries/b`, { value: null });
    await data('PUT', `${path}/entries/c`, { value: 'x'.repeat(5_000) });
    const first = await service.api('GET', `${path}/entries?limit=2`);
    assert.deepEqual(
      first.body.data.map((entry: { key: string; value: unknown }) => [entry.key, entry.value]),
      [
        ['a/b ü?', { n: 1 }],
        ['b', null],
      ],
    );
    assert.deepEqual([first.body.page_info.total_count, first.body.page_info.count], [3, 2]);
    const second = await service.api('GET', `${path}/entries?after=${first.body.page_info.end_cursor}`);
    const [large] = second.body.data;
    assert.deepEqual([large.key, large.truncated, 'value' in large], ['c', true, false]);
    const back = await service.api(
      'GET',
      `${path}/entries?before=${second.body.page_info.start_cursor}&limit=1`,
    );
    assert.deepEqual(
      back.body.data.map((entry: { key: string }) => entry.key),
      ['b'],
    );
    assert.equal((await data('GET', `${path}/entries/c`)).value.length, 5_000);
    await data('DELETE', `${path}/entries/b`);
    assert.deepEqual(await refused('DELETE', `${path}/entries/b`), [404, 'not_found', 'key']);
    assert.equal((await data('GET', path)).entries, 2);

    const listed = await data('GET', '/v1/users/me/data_stores');
    assert.deepEqual(
      listed.map((store: { id: string }) => store.id),
      [created.id],
    );
    await data('DELETE', path);
    assert.deepEqual(await refused('GET', path), [404, 'not_found', 'id']);
    assert.deepEqual(await refused('GET', `${path}/entries/c`), [404, 'not_found', 'id']);
  });

  test('what cannot be is refused, naming the parameter', async () => {
    const { id } = await data('POST', '/v1/data_stores', { name: 'strict' });
    const path = `/v1/data_stores/${id}/entries`;
    assert.deepEqual(await refused('POST', '/v1/data_stores', { name: 'strict' }), [409, 'conflict', 'name']);
    assert.deepEqual(await refused('POST', '/v1/data_stores', {}), [400, 'missing_parameter', 'name']);
    for (const [key, body, ...expected] of [
      ['k', {}, 400, 'missing_parameter', 'value'],
      ['k', { value: 1, ttl: -1 }, 400, 'invalid_parameter', 'ttl'],
      ['k', { value: 'x'.repeat(1_000_001) }, 400, 'invalid_parameter', 'value'],
      ['a%00b', { value: 1 }, 400, 'invalid_parameter', 'key'],
    ] as const) {
      assert.deepEqual(await refused('PUT', `${path}/${key}`, body), expected, key);
    }
    assert.deepEqual(await refused('GET', `${path}?after=nonsense!`), [400, 'unknown_cursor', 'after']);
  });

  test('data stores of a workspace are for its members, and viewers only read', async () => {
    const { service } = fixture;
    const [viewer, stranger] = [await service.createUser('viewer'), await service.createUser('stranger')];
    const workspace = await data('POST', '/v1/workspaces', { name: 'Team' });
    const { id } = await data('POST', '/v1/data_stores', { name: 'shared', org_id: workspace.id });
    await data('POST', `/v1/workspaces/${workspace.id}/members`, { user_id: viewer.id, role: 'viewer' });
    await data('PUT', `/v1/data_stores/${id}/entries/k`, { value: 1 });
    const path = `/v1/data_stores/${id}`;
    assert.equal((await data('GET', `${path}/entries/k`, undefined, viewer.key)).value, 1);
    assert.deepEqual(await refused('PUT', `${path}/entries/k`, { value: 2 }, viewer.key), [
      ...[403, 'forbidden', undefined],
    ]);
    for (const [method, of] of [
      ['GET', path],
      ['DELETE', path],
      ['GET', `${path}/entries`],
      ['GET', `${path}/entries/k`],
      ['DELETE', `${path}/entries/k`],
    ] as const) {
      assert.deepEqual(await refused(method, of, undefined, stranger.key), [404, 'not_found', 'id']);
    }
    const listed = await service.api('GET', `/v1/workspaces/${workspace.id}/data_stores`, undefined, {
      key: viewer.key,
    });
    assert.deepEqual([listed.body.data.length, listed.body.page_info.total_count], [1, 1]);
    assert.equal((await data('GET', '/v1/users/me/data_stores', undefined, viewer.key)).length, 0);
  });

  test('what a step keeps in a data store is seen by API, by other workflows of the owner, and the other way round', async () => {
    const { service } = fixture;
    const { id } = await data('POST', '/v1/data_stores', { name: 'counters' });
    await data('PUT', `/v1/data_stores/${id}/entries/runs`, { value: 40 });
    const code = `export default defineComponent({
      props: { counters: { type: 'data_store' } },
      async run({ steps, $ }) {
        const runs = (await this.counters.get('runs') ?? 0) + 1;
        await this.counters.set('runs', runs);
        await this.counters.set('last', { at: 'now' }, { ttl: 60 });
        const entries = [];
        for await (const [key, value] of this.counters) entries.push([key, value]);
        await $.respond({ status: 200, body: { runs, entries, missing: await this.counters.get('nothing') === undefined } });
      },
    });`;
    const call = async (props: object) => {
      const workflow = await service.createWorkflow({
        steps: [{ namespace: 'count', code, props }],
        triggers: [{ type: 'http', props: { custom_response: true } }],
      });
      return (await fetch(workflow.triggers[0].endpoint_url, { method: 'POST', body: '{}' })).json();
    };
    const last = ['last', { at: 'now' }];
    assert.deepEqual(await call({ counters: { id } }), {
      runs: 41,
      entries: [last, ['runs', 41]],
      missing: true,
    });
    assert.deepEqual(await call({ counters: id }), {
      runs: 42,
      entries: [last, ['runs', 42]],
      missing: true,
    });
    assert.equal((await data('GET', `/v1/data_stores/${id}/entries/runs`)).value, 42);
    const seen = await data('GET', `/v1/data_stores/${id}/entries/last`);
    assert.ok(Math.abs(seen.expires_at - seen.updated_at - 60) <= 1);
    // Without a value it is the store named default, made when it is first used.
    for (const runs of [1, 2]) {
      assert.deepEqual(await call({}), { runs, entries: [last, ['runs', runs]], missing: true });
    }
    const stores = await data('GET', '/v1/users/me/data_stores');
    assert.deepEqual([stores[0].name, stores[0].entries], ['default', 2]);
  });
});
