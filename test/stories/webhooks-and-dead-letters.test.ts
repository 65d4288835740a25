import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createEmittingSource, createListeningWebhook } from '../support/emitting-source.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { type ApiAnswer, forEachSharedService, type ServiceClient } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

/** Deliveries of a list in a state, as soon as there are so many. */
async function deliveriesIn(service: ServiceClient, path: string, state: string, count = 1, key?: string) {
  return waitFor(
    async () => {
      const options = key === undefined ? {} : { key };
      const answer = await service.api('GET', `${path}?state=${state}&limit=100`, undefined, options);
      assert.equal(answer.status, 200, JSON.stringify(answer.body));
      return answer.body.data.length >= count && answer.body.data;
    },
    { what: `${count} of ${path} to be ${state}` },
  );
}

/** The answer without what is meant to differ: which id was asked for. */
function withoutId({ status, body }: ApiAnswer, id: string) {
  return { status, body: JSON.parse(JSON.stringify(body).replaceAll(id, '<id>')) };
}

/** Every operation on one webhook. */
const operations: [string, string, unknown?][] = [
  ['GET', ''],
  ['PUT', '', { name: 'Mine' }],
  ['DELETE', ''],
  ['POST', '/rotate_secret'],
  ['POST', '/pause'],
  ['POST', '/resume'],
  ['POST', '/redeliver'],
  ['GET', '/deliveries'],
];

forEachSharedService((fixture) => {
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

    const changes = { name: null, description: 'Two', url: 'https://127.0.0.1' };
    const changed = await service.api('PUT', path, changes);
    assert.equal(changed.status, 200, JSON.stringify(changed.body));
    const { name, description, url } = changed.body.data;
    assert.deepEqual({ name, description, url }, { ...changes, url: 'https://127.0.0.1/' });
    const narrowed = await service.api('GET', `${path}?include=id,url&exclude=id`);
    assert.deepEqual(narrowed.body, { data: { url: 'https://127.0.0.1/' } });

    assert.equal((await service.api('DELETE', path)).status, 204);
    const gone = await service.api('GET', path);
    assert.deepEqual([gone.status, gone.body.code], [404, 'not_found']);
    assert.equal((await service.api('DELETE', path)).status, 404);
  });

  test('lists of webhooks have pages, and a workspace has its own', async () => {
    const { service } = fixture;
    const { key } = await service.createUser('person');
    const workspace = (await service.api('POST', '/v1/workspaces', { name: 'Hooks' }, { key })).body.data.id;
    for (const name of ['a', 'b', 'c'])
      await service.api(
        'POST',
        `/v1/webhooks?url=http://127.0.0.1:9&name=${name}`,
        { org_id: workspace },
        { key },
      );
    await service.api('POST', '/v1/webhooks', { url: 'http://127.0.0.1:9', name: 'own' }, { key });
    const names = ({ body }: ApiAnswer) => body.data.map(({ name }: { name: string }) => name);
    assert.deepEqual(names(await service.api('GET', '/v1/users/me/webhooks', undefined, { key })), ['own']);
    const path = `/v1/workspaces/${workspace}/webhooks`;
    const first = await service.api('GET', `${path}?limit=2`, undefined, { key });
    assert.deepEqual([names(first), first.body.page_info.total_count], [['c', 'b'], 3]);
    const after = `${path}?limit=2&after=${first.body.page_info.end_cursor}`;
    assert.deepEqual(names(await service.api('GET', after, undefined, { key })), ['a']);
    const stranger = await service.createUser('person');
    const refused = await service.api('GET', path, undefined, { key: stranger.key });
    assert.deepEqual([refused.status, refused.body.details.parameter], [404, 'id']);
  });

  test('a URL that breaks a rule is refused with the name of the rule, at creation and at a change', async () => {
    const { service } = fixture;
    const rules: Record<string, string> = {
      'example.com/hook': 'protocol_missing',
      'ftp://example.com/hook': 'protocol_unknown',
      'https://user:password@example.com': 'credentials',
      'https:///hook': 'host_missing',
      'http://example.com:0/': 'port',
      'https://example.com/a b': 'characters',
      [`https://example.com/${'x'.repeat(2_048)}`]: 'too_long',
      'http://169.254.169.254/latest/meta-data': 'address_not_allowed',
      // The service itself.
      [`${service.url}/v1/users`]: 'address_not_allowed',
    };
    const created = await service.api('POST', '/v1/webhooks', { url: 'http://127.0.0.1:9/' });
    for (const [url, rule] of Object.entries(rules)) {
      for (const [method, path] of [
        ['POST', '/v1/webhooks'],
        ['PUT', `/v1/webhooks/${created.body.data.id}`],
      ] as const) {
        const { status, body } = await service.api(method, path, { url });
        assert.equal(status, 400, url);
        assert.equal(body.code, 'invalid_parameter', url);
        assert.deepEqual(body.details, { parameter: 'url', rule });
      }
    }
    const missing = await service.api('POST', '/v1/webhooks', { name: 'x' });
    assert.deepEqual([missing.status, missing.body.code], [400, 'missing_parameter']);
    assert.equal(missing.body.details.parameter, 'url');
    const long = await service.api('POST', '/v1/webhooks', {
      url: 'http://127.0.0.1:9/',
      name: 'x'.repeat(201),
    });
    assert.deepEqual([long.status, long.body.details.parameter], [400, 'name']);
  });

  test('strangers cannot distinguish a webhook from one that does not exist; viewers read it and change nothing', async () => {
    const { service } = fixture;
    const [admin, viewer, stranger] = [
      await service.createUser('person'),
      await service.createUser('person'),
      await service.createUser('person'),
    ];
    const options = { key: admin.key };
    const workspace = (await service.api('POST', '/v1/workspaces', { name: 'Ours' }, options)).body.data.id;
    const member = { user_id: viewer.id, role: 'viewer' };
    await service.api('POST', `/v1/workspaces/${workspace}/members`, member, options);
    const body = { url: 'http://127.0.0.1:9', org_id: workspace };
    const { id } = (await service.api('POST', '/v1/webhooks', body, options)).body.data;
    for (const [method, path, sent] of operations) {
      const ask = (key: string, of: string) =>
        service.api(method, `/v1/webhooks/${of}${path}`, sent, { key });
      const foreign = await ask(stranger.key, id);
      assert.equal(foreign.status, 404, `${method} ${path}`);
      const unknown = await ask(stranger.key, 'wh_nosuchhook12');
      assert.deepEqual(withoutId(foreign, id), withoutId(unknown, 'wh_nosuchhook12'));
      const seen = await ask(viewer.key, id);
      assert.equal(
        seen.status,
        method === 'GET' ? 200 : 403,
        `${method} ${path}: ${JSON.stringify(seen.body)}`,
      );
    }
    const created = await service.api('POST', '/v1/webhooks', body, { key: stranger.key });
    assert.deepEqual([created.status, created.body.details.parameter], [404, 'org_id']);
    assert.equal((await service.api('POST', '/v1/webhooks', body, { key: viewer.key })).status, 403);
    const untouched = (await service.api('GET', `/v1/webhooks/${id}`, undefined, options)).body.data;
    assert.deepEqual([untouched.state, untouched.name], ['active', null]);
  });

  test('removing a webhook ends what was still to be sent to it, with a record', async () => {
    const { service } = fixture;
    await using receiver = await HttpReceiver.start({ answer: { status: 500 } });
    const source = await createEmittingSource(service);
    const webhook = await createListeningWebhook(service, { url: receiver.url, emitterId: source.id });
    await source.emit(['never to arrive']);
    const list = `/v1/webhooks/${webhook.id}/deliveries`;
    const [queued] = await waitFor(async () => {
      const found = await deliveriesIn(service, list, 'queued');
      // A busy machine may have made the second one, after five seconds.
      return found[0].attempt_count >= 1 && found;
    });
    assert.equal((await service.api('DELETE', `/v1/webhooks/${webhook.id}`)).status, 204);
    const cancelled = await waitFor(async () => {
      const found = await deliveriesIn(service, '/v1/users/me/dead_letters', 'cancelled');
      return found.find(({ id }: { id: string }) => id === queued.id);
    });
    assert.equal(cancelled.reason, 'listener_removed');
    assert.equal(cancelled.attempts[0].status, 500);
    assert.ok(Number.isInteger(cancelled.ended_at) && cancelled.next_attempt_at === null);
    const subscriptions = (await service.api('GET', '/v1/users/me/subscriptions')).body.data;
    assert.ok(!subscriptions.some(({ listener_id }: Record<string, unknown>) => listener_id === webhook.id));
    const again = await service.api('POST', `/v1/deliveries/${queued.id}/redeliver`);
    assert.deepEqual([again.status, again.body.code], [409, 'conflict']);
    const before = receiver.requests.length;
    await source.emit(['nobody listens']);
    assert.equal(receiver.requests.length, before);
  });

  test('a dead letter, and one that was delivered, is sent again under its id; all since a time together', async () => {
    const { service } = fixture;
    await using receiver = await HttpReceiver.start({ answer: { status: 410 } });
    const source = await createEmittingSource(service);
    const webhook = await createListeningWebhook(service, { url: receiver.url, emitterId: source.id });
    const path = `/v1/webhooks/${webhook.id}`;
    await source.emit([{ n: 1 }]);
    const [dead] = await deliveriesIn(service, `${path}/deliveries`, 'failed');
    await waitFor(async () => (await service.api('GET', path)).body.data.state === 'disabled');
    await source.emit([{ n: 2 }, { n: 3 }]);
    await deliveriesIn(service, `${path}/deliveries`, 'blocked', 2);

    const one = `/v1/deliveries/${dead.id}`;
    // To a disabled webhook nothing is sent, and its last attempt is still the one that was answered.
    assert.equal((await service.api('POST', `${one}/redeliver`)).status, 200);
    const { status, latency_ms } = (await deliveriesIn(service, `${path}/deliveries`, 'blocked', 3)).at(-1);
    assert.deepEqual([status, latency_ms], [410, dead.latency_ms]);
    receiver.answerAlways({});
    await service.api('POST', `${path}/resume`);
    const queued = await service.api('POST', `${one}/redeliver`);
    assert.equal(queued.status, 200, JSON.stringify(queued.body));
    assert.equal(queued.body.data.id, dead.id);
    const second = await receiver.waitForRequest(2);
    assert.deepEqual(second.json(), { n: 1 });
    assert.equal(second.headers['webhook-id'], dead.id);
    const isDelivered = async () => (await service.api('GET', one)).body.data.state === 'delivered';
    await waitFor(isDelivered);
    // It was delivered: its text comes from the stored event now.
    assert.equal((await service.api('POST', `${one}/redeliver`)).status, 200);
    const third = await receiver.waitForRequest(3);
    assert.deepEqual([third.json(), third.headers['webhook-id']], [{ n: 1 }, dead.id]);
    await waitFor(isDelivered);
    const { attempts } = (await service.api('GET', one)).body.data;
    assert.deepEqual(
      attempts.map(({ status }: { status: number }) => status),
      [410, 200, 200],
    );

    const later = Math.ceil(Date.now() / 1000) + 60;
    const none = await service.api('POST', `${path}/redeliver`, { since: later });
    assert.deepEqual(none.body.data, { id: webhook.id, since: later, queued: 0 });
    const since = new Date(Date.now() - 3_600_000).toISOString();
    const all = await service.api('POST', `${path}/redeliver?since=${since}`);
    assert.equal(all.body.data.queued, 2, JSON.stringify(all.body));
    await receiver.waitForRequest(5);
    const bodies = receiver.requests.slice(3).map((request) => (request.json() as { n: number }).n);
    assert.deepEqual(bodies.sort(), [2, 3]);
    await deliveriesIn(service, `${path}/deliveries`, 'delivered', 3);

    // When the event is gone, too.
    const deleted = await service.api('DELETE', `/v1/sources/${source.id}/events`);
    assert.equal(deleted.status, 202);
    await waitFor(async () => (await service.events(source.id)).length === 0);
    const refused = await service.api('POST', `${one}/redeliver`);
    assert.deepEqual([refused.status, refused.body.code], [409, 'conflict']);
    assert.match(refused.body.error, /is no longer kept/);
    for (const wrong of [
      'yesterday',
      '2026-13-45',
      '2026-02-31',
      '1700000000000',
      '2026-01-01T00:00:00',
      '-1',
    ]) {
      const answer = await service.api('POST', `${path}/redeliver?since=${wrong}`);
      assert.deepEqual([answer.status, answer.body.details.parameter], [400, 'since'], wrong);
    }
  });

  test('a listening source has its deliveries too, and one that is inactive skips with a record', async () => {
    const { service } = fixture;
    const from = await createEmittingSource(service);
    const to = await service.createSource({
      component_code:
        "export default { name: 'Ear', props: { http: '$.interface.http' }, run(event) { this.$emit(event); } };",
    });
    const pair = { emitter_id: from.id, listener_id: to.id };
    const { id } = (await service.api('POST', '/v1/subscriptions', pair)).body.data;
    await from.emit(['heard']);
    const [delivered] = await deliveriesIn(service, `/v1/sources/${to.id}/deliveries`, 'delivered');
    assert.deepEqual([delivered.listener_id, delivered.subscription_id, delivered.status], [to.id, id, null]);
    await service.api('PUT', `/v1/sources/${to.id}`, { active: false });
    await from.emit(['unheard']);
    const [skipped] = await deliveriesIn(service, `/v1/subscriptions/${id}/deliveries`, 'skipped');
    assert.equal(skipped.reason, 'listener_inactive');
    await service.api('PUT', `/v1/sources/${to.id}`, { active: true });
    assert.equal((await service.api('POST', `/v1/deliveries/${skipped.id}/redeliver`)).status, 200);
    const heard = await waitFor(async () => {
      const events = await service.events(to.id);
      return events.length === 2 && events.map(({ event }) => event);
    });
    assert.deepEqual(heard, ['unheard', 'heard']);
  });

  test('a user who may read only the emitter sees the outcome of its events, but not what the receiver answered', async () => {
    const { service } = fixture;
    await using receiver = await HttpReceiver.start({ answer: { status: 200, body: 'for the listener' } });
    const [admin, colleague, stranger] = [
      await service.createUser('person'),
      await service.createUser('person'),
      await service.createUser('person'),
    ];
    const options = { key: admin.key };
    const workspace = (await service.api('POST', '/v1/workspaces', { name: 'Shared' }, options)).body.data.id;
    const member = { user_id: colleague.id, role: 'member' };
    await service.api('POST', `/v1/workspaces/${workspace}/members`, member, options);
    const source = await createEmittingSource(service, { ...options, workspace });
    // A webhook of the admin personally.
    const webhook = await createListeningWebhook(service, {
      ...{ url: receiver.url, emitterId: source.id },
      ...options,
    });
    await source.emit(['x']);
    const path = `/v1/subscriptions/${webhook.subscription_id}/deliveries`;
    const [own] = await deliveriesIn(service, path, 'delivered', 1, admin.key);
    assert.equal(own.attempts[0].response, 'for the listener');
    const [seen] = await deliveriesIn(service, path, 'delivered', 1, colleague.key);
    const { response: _, ...attempt } = own.attempts[0];
    assert.deepEqual(seen, { ...own, attempts: [attempt] });
    for (const other of [`/v1/deliveries/${own.id}`, `/v1/webhooks/${webhook.id}/deliveries`])
      assert.equal((await service.api('GET', other, undefined, { key: colleague.key })).status, 404, other);

    const foreign = await service.api('GET', path, undefined, { key: stranger.key });
    const nowhere = '/v1/subscriptions/sub_nosuchone123/deliveries';
    const unknown = await service.api('GET', nowhere, undefined, { key: stranger.key });
    assert.equal(foreign.status, 404);
    assert.deepEqual(withoutId(foreign, webhook.subscription_id), withoutId(unknown, 'sub_nosuchone123'));
    for (const method of ['GET', 'POST'] as const) {
      const of = (id: string) => `/v1/deliveries/${id}${method === 'POST' ? '/redeliver' : ''}`;
      const refused = await service.api(method, of(own.id), undefined, { key: stranger.key });
      const none = await service.api(method, of('dlv_none'), undefined, { key: stranger.key });
      assert.equal(refused.status, 404);
      assert.deepEqual(withoutId(refused, own.id), withoutId(none, 'dlv_none'));
    }
  });

  test('lists of deliveries have pages and take only states that exist', async () => {
    const { service } = fixture;
    await using receiver = await HttpReceiver.start();
    const source = await createEmittingSource(service);
    const webhook = await createListeningWebhook(service, { url: receiver.url, emitterId: source.id });
    await source.emit([1, 2, 3]);
    const list = `/v1/webhooks/${webhook.id}/deliveries`;
    const all = await deliveriesIn(service, list, 'delivered', 3);
    const first = await service.api('GET', `${list}?limit=2&state=delivered,failed`);
    assert.deepEqual(first.body.data, all.slice(0, 2));
    assert.equal(first.body.page_info.total_count, 3);
    const second = await service.api('GET', `${list}?after=${first.body.page_info.end_cursor}`);
    assert.deepEqual(second.body.data, all.slice(2));
    const back = await service.api('GET', `${list}?limit=1&before=${second.body.page_info.start_cursor}`);
    assert.deepEqual(back.body.data, all.slice(1, 2));
    for (const path of [
      `${list}?state=lost`,
      '/v1/users/me/dead_letters?state=delivered',
      `${list}?state=,`,
    ]) {
      const answer = await service.api('GET', path);
      assert.deepEqual([answer.status, answer.body.details?.parameter], [400, 'state'], path);
    }
    const foreign = await service.api('GET', '/v1/workspaces/o_nosuchone12/dead_letters');
    assert.equal(foreign.status, 404);
  });
});
