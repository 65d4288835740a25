import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forEachService } from '../support/millrace.ts';

forEachService((fixture) => {
  test('a webhook is created from query or body, listed, read, changed and deleted', async () => {
    const { service } = fixture;
    const query = new URLSearchParams({ url: 'http://127.0.0.1:9/hook?a=1#part', name: 'One' });
    const created = await service.api('POST', `/v1/webhooks?${query}`);
    assert.equal(created.status, 200, JSON.stringify(created.body));
    const { signing_secret, ...webhook } = created.body.data;
    assert.match(webhook.id, /^wh_[0-9A-Za-z]{12}$/);
    assert.match(signing_secret, /^whsec_[0-9A-Za-z+/]{43}=$/);
    assert.equal(webhook.url, 'http://127.0.0.1:9/hook?a=1');
    assert.equal(webhook.name, 'One');
    assert.equal(webhook.description, null);
    assert.equal(webhook.active, true);
    assert.ok(Number.isInteger(webhook.created_at) && webhook.created_at > 1.6e9);

    const path = `/v1/webhooks/${webhook.id}`;
    assert.deepEqual((await service.api('GET', path)).body, { data: webhook });
    const list = await service.api('GET', '/v1/users/me/webhooks/');
    assert.deepEqual(list.body.data[0], webhook);
    assert.equal(list.body.page_info.total_count, list.body.data.length);

    const changed = await service.api('PUT', path, {
      name: null,
      description: 'Two',
      url: 'https://127.0.0.1',
    });
    assert.equal(changed.status, 200, JSON.stringify(changed.body));
    const { name, description, url } = changed.body.data;
    assert.deepEqual(
      { name, description, url },
      { name: null, description: 'Two', url: 'https://127.0.0.1/' },
    );

    assert.equal((await service.api('DELETE', path)).status, 204);
    const gone = await service.api('GET', path);
    assert.deepEqual([gone.status, gone.body.code], [404, 'not_found']);
    assert.equal((await service.api('DELETE', path)).status, 404);
  });
});
