import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { forEachSharedService, type ServiceClient } from '../support/millrace.ts';
import { PublishedComponents, storeOrEmbedded } from '../support/published-components.ts';
import { startSlack } from '../support/service-standins/slack.ts';
import type { ServiceStandIn } from '../support/service-standins/stand-in.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';

const token = 'xoxp-canary-0123456789';
const channel = 'C123ABC456';

/** As Slack's Events API has it in `event`. */
function slackMessage(text: string) {
  return {
    client_msg_id: `msg-${text}`,
    type: 'message',
    text,
    user: 'U1',
    channel,
    ts: '1702506383.129070',
    event_ts: '1702506383.129070',
  };
}

describe('events of apps reach published components', () => {
  let published: PublishedComponents;
  let slack: ServiceStandIn | undefined;

  before(async () => {
    published = await PublishedComponents.prepare();
    slack = await startSlack(published.authority, token);
    const connectTo = [slack.connectTo];
    await published.start({ dialect: storeOrEmbedded('postgres'), apps: ['slack', 'shopify'], connectTo });
  });

  after(async () => {
    try {
      await published?.assertSealed([token]);
    } finally {
      await published?.close();
      await slack?.close();
    }
  });

  const push = (app: string, event_name: string | string[], payload: unknown) =>
    published.service.api('POST', '/v1/apphooks', { app, event_name, payload });

  test('slack: a message goes to the sources of its channel and to those of all channels, with names of Slack', async () => {
    const account = await published.account('slack', { oauth_access_token: token, oauth_uid: 'U1' });
    const all = await published.source('slack', 'new-message-in-channels', {
      slack: account,
      resolveNames: true,
    });
    const one = await published.source('slack', 'new-message-in-channels', {
      slack: account,
      conversations: [channel],
    });
    const other = await published.source('slack', 'new-message-in-channels', {
      slack: account,
      conversations: ['C000000000'],
    });
    assert.deepEqual(
      [all, one].map((source) => source.configured_props.slackApphook),
      [
        { app: 'slack', event_names: ['message'] },
        { app: 'slack', event_names: [channel] },
      ],
    );
    const streams = await Promise.all([all, one].map(({ id }) => published.service.stream(id)));
    const answer = await push('slack', ['message', channel], slackMessage('hello'));
    assert.deepEqual([answer.status, answer.body], [200, { data: { delivered: 2 } }]);
    const [ofAll, ofOne] = await Promise.all(streams.map((stream) => stream.message(1)));
    for (const stream of streams) stream.close();
    assert.deepEqual(ofOne?.data.event, slackMessage('hello'));
    assert.deepEqual(
      [
        ofAll?.data.event.text,
        ofAll?.data.event.channel,
        ofAll?.data.event.user,
        ofAll?.data.event.channel_id,
      ],
      ['hello', 'general', 'ada', channel],
    );
    assert.deepEqual(await published.service.events(other.id), []);

    // A source that is given other channels is found by those.
    const props = { slack: account, conversations: ['C000000000'] };
    const changed = await published.service.api('PUT', `/v1/sources/${one.id}`, {
      configured_props: props,
    });
    assert.equal(changed.status, 200, JSON.stringify(changed.body));
    assert.equal((await push('slack', channel, slackMessage('again'))).body.data.delivered, 0);
    assert.equal((await push('slack', 'C000000000', slackMessage('there'))).body.data.delivered, 2);
    for (const { id } of [all, one, other])
      assert.equal((await published.service.api('DELETE', `/v1/sources/${id}`)).status, 204);
    assert.equal((await push('slack', 'message', slackMessage('late'))).body.data.delivered, 0);
  });

  test('slack: a scoped name reaches the sources of the scope and of the event', async () => {
    const account = await published.account('slack', { oauth_access_token: token, oauth_uid: 'U1' });
    const make = (props: object) =>
      published.source('slack', 'new-interaction-event-received', { slack: account, ...props });
    const all = await make({});
    const ofChannel = await make({ conversations: [channel] });
    const ofAction = await make({ conversations: [channel], action_ids: ['approve'] });
    await make({ action_ids: ['refuse'] });
    const streams = await Promise.all(
      [all, ofChannel, ofAction].map(({ id }) => published.service.stream(id)),
    );
    const event = { type: 'block_actions', channel: { id: channel }, actions: [{ action_id: 'approve' }] };
    const name = `interaction_events:${channel}:approve`;
    assert.equal((await push('slack', name, event)).body.data.delivered, 3);
    for (const stream of streams) {
      assert.deepEqual((await stream.message(1)).data.event, { event });
      stream.close();
    }
  });

  test('shopify: customer-data-request emits the body of the request', async () => {
    const source = await published.source('shopify', 'customer-data-request', {});
    const stream = await published.service.stream(source.id);
    const body = { shop_id: 954889, customer: { id: 191167 } };
    assert.equal((await push('shopify', 'customers/data_request', { body })).body.data.delivered, 1);
    assert.deepEqual((await stream.message(1)).data.event, body);
    stream.close();
  });
});

/** Emits what it gets. */
const listener = (eventNames: string) => `
export default {
  name: 'Listener', version: '0.0.1',
  props: {
    slack: { type: 'app', app: 'slack' },
    topic: { type: 'string', optional: true },
    key: { type: 'string', secret: true, optional: true },
    hook: { type: '$.interface.apphook', appProp: 'slack', ${eventNames} },
  },
  async run(event) { this.$emit({ event, isObject: typeof this.hook }); },
};`;

forEachSharedService((fixture) => {
  const push = (body: object, options?: Parameters<ServiceClient['api']>[3]) =>
    fixture.service.api('POST', '/v1/apphooks', { app: 'slack', payload: {}, ...body }, options);

  test('the payload is what run gets, any JSON; the app goes by slug or id', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: listener(`eventNames: ['any.*']`) });
    const { id } = (await service.api('GET', '/v1/apps/slack')).body.data;
    const stream = await service.stream(source.id);
    const payloads = [{ a: [1, 'ü'] }, null, 'text', 7, []];
    for (const [at, payload] of payloads.entries()) {
      const app = at === 0 ? id : 'slack';
      assert.deepEqual((await push({ app, event_name: 'any.thing', payload })).body, {
        data: { delivered: 1 },
      });
      assert.deepEqual((await stream.message(at + 1)).data.event.event, payload);
    }
    stream.close();
    await service.api('DELETE', `/v1/sources/${source.id}`);
  });

  test('an unknown app is refused, an unknown event reaches no source, an inactive source gets nothing', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: listener(`eventNames: ['message']`) });
    const unknown = await push({ app: 'slakc', event_name: 'message' });
    assert.deepEqual(
      [unknown.status, unknown.body.code, unknown.body.details.parameter],
      [404, 'not_found', 'app'],
    );
    assert.equal((await push({ event_name: 'massage' })).body.data.delivered, 0);
    const setActive = (active: boolean) => service.api('PUT', `/v1/sources/${source.id}`, { active });
    assert.equal((await setActive(false)).status, 200);
    assert.equal((await push({ event_name: 'message' })).body.data.delivered, 0);
    assert.equal((await setActive(true)).status, 200);
    assert.equal((await push({ event_name: 'message' })).body.data.delivered, 1);
    const wrong: [body: object, error: RegExp][] = [
      [{}, /^event_name: required$/],
      [{ event_name: 7 }, /^event_name: must be string$/],
      [{ event_name: '' }, /^event_name: must not have fewer than 1 characters$/],
      [{ event_name: [] }, /^event_name: must not have fewer than 1 items$/],
      [{ event_name: ['a', 7] }, /^event_name\[1\]: must be string$/],
      [{ event_name: Array.from('abcdefghijk') }, /^event_name: must not have more than 10 items$/],
    ];
    for (const [body, error] of wrong) {
      const answer = await push(body);
      assert.equal(answer.status, 400, JSON.stringify(body));
      assert.match(answer.body.error, error);
    }
    const noPayload = await service.api('POST', '/v1/apphooks', { app: 'slack', event_name: 'message' });
    assert.equal(noPayload.body.details.parameter, 'payload');
    const large = await push({ event_name: 'message', payload: 'x'.repeat(512 * 1024) });
    assert.deepEqual([large.status, large.body.code], [413, 'body_too_large']);
    await service.api('DELETE', `/v1/sources/${source.id}`);
  });

  test('an app that is in no catalogue can be pushed to by those who have sources of it', async () => {
    const { service } = fixture;
    const code = listener('static: []').replace(`app: 'slack'`, `app: 'of_our_own'`);
    assert.equal((await push({ app: 'of_our_own', event_name: 'a' })).status, 404);
    const source = await service.createSource({ component_code: code });
    assert.deepEqual(source.configured_props.hook, { app: 'of_our_own', event_names: ['*'] });
    assert.equal((await push({ app: 'of_our_own', event_name: 'a' })).body.data.delivered, 1);
  });

  test('events stay with their owner: members push, viewers may not, strangers find nothing', async () => {
    const { service } = fixture;
    const post = async (path: string, body: object, key?: string) =>
      (await service.api('POST', path, body, key === undefined ? {} : { key })).body.data;
    const workspace = await post('/v1/workspaces', { name: 'Apphooks' });
    const people = new Map<string, string>();
    for (const role of ['member', 'viewer', 'stranger']) {
      const user = await service.createUser(role);
      people.set(role, user.key);
      if (role !== 'stranger')
        await post(`/v1/workspaces/${workspace.id}/members`, { user_id: user.id, role });
    }
    const component_code = listener(`eventNames: ['message']`);
    await service.createSource({ component_code, org_id: workspace.id });
    const as = async (role: string, org?: string) => {
      const body = { event_name: 'message', ...(org === undefined ? {} : { org_id: org }) };
      const answer = await push(body, { key: people.get(role) ?? '' });
      return answer.body.data?.delivered ?? answer.status;
    };
    assert.equal(await as('member', workspace.id), 1);
    assert.equal(await as('member'), 0, 'personal sources are other ones');
    assert.equal(await as('viewer', workspace.id), 403);
    assert.equal(await as('stranger', workspace.id), 404);
    assert.equal(await as('stranger'), 0);
    const client = await post(`/v1/workspaces/${workspace.id}/oauth_clients`, { name: 'bridge' });
    const issued = await service.api('POST', '/v1/oauth/token', {
      grant_type: 'client_credentials',
      client_id: client.client_id,
      client_secret: client.client_secret,
    });
    const byToken = await push({ event_name: 'message' }, { key: issued.body.access_token });
    assert.deepEqual(byToken.body, { data: { delivered: 1 } });
  });

  test('event names that cannot be had fail the creation, which leaves nothing behind', async () => {
    const { service } = fixture;
    const create = (component_code: string, configured_props = {}) =>
      service.api('POST', '/v1/sources', { component_code, configured_props });
    const throws = await create(listener(`eventNames() { throw new Error('no names') }`));
    assert.deepEqual([throws.status, throws.body.code], [400, 'hook_failed']);
    assert.match(throws.body.error, /^eventNames: Error: no names/);
    const wrong = await create(listener('eventNames() { return [{}] }'));
    assert.deepEqual([wrong.body.code, wrong.body.details.prop], ['invalid_component', 'hook']);
    const nameless = await create(
      listener(`eventNames: ['a']`).replace("slack: { type: 'app', app: 'slack' },", ''),
    );
    assert.equal(nameless.body.code, 'invalid_component');
    const secret = await create(listener('eventNames() { return [this.key] }'), { key: 'canary-0123456789' });
    assert.equal(secret.body.code, 'invalid_component');
    const { body } = await service.api('GET', '/v1/users/me/sources');
    const left = body.data.filter((source: { name: string }) => source.name.startsWith('listener'));
    assert.equal(left.length, 1, 'the one of the test before');
  });

  test('a workflow that gets the events of Slack forwards them, as the manual has it', async () => {
    const { service } = fixture;
    const manual = await readFile(new URL('../../docs/how-it-works/apphooks.md', import.meta.url), 'utf8');
    const code = /```js\n(\/\/ Forwards.*?)```/s.exec(manual)?.[1];
    assert.ok(code, 'the manual has the step');
    const source = await service.createSource({ component_code: listener(`eventNames: ['C024BE91L']`) });
    const secret = 'signing-secret-0123456789';
    const { hostname, port } = new URL(service.url);
    await using proxy = await TcpProxy.start({ host: hostname, port: Number(port) });
    const serviceUrl = `http://127.0.0.1:${proxy.port}`;
    const workflow = await service.createWorkflow({
      triggers: [{ type: 'http', props: { custom_response: true } }],
      steps: [
        {
          namespace: 'forward',
          code,
          props: { serviceUrl, apiKey: service.key, signingSecret: secret },
        },
      ],
    });
    const send = async (body: object, signedWith = secret) => {
      const text = JSON.stringify(body);
      const time = Math.floor(Date.now() / 1000);
      const signature = createHmac('sha256', signedWith).update(`v0:${time}:${text}`).digest('hex');
      const response = await fetch(workflow.triggers[0].endpoint_url, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'x-slack-request-timestamp': String(time),
          'x-slack-signature': `v0=${signature}`,
        },
        body: text,
      });
      return [response.status, await response.text()];
    };
    assert.deepEqual(await send({ type: 'url_verification', challenge: 'c-1' }), [200, 'c-1']);
    const stream = await service.stream(source.id);
    const event = { type: 'message', channel: 'C024BE91L', channel_type: 'channel', text: 'hi' };
    assert.deepEqual((await send({ type: 'event_callback', event }, 'wrong'))[0], 401);
    assert.deepEqual((await send({ type: 'event_callback', event }))[0], 200);
    assert.deepEqual((await stream.message(1)).data.event.event, event);
    assert.equal(stream.messages.length, 1);
    stream.close();
  });
});
