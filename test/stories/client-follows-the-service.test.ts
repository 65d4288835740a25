import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  Millrace as Client,
  MillraceError,
  type Source,
  verifyWebhook,
  type Webhook,
  WebhookVerificationError,
} from '../../sdk/src/millrace.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { Millrace, testApiKey } from '../support/millrace.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';
import { patienceMs, waitFor, within } from '../support/wait-for.ts';

/** Emits `{ n }` for each n of the body. */
const counting = `export default { name: 'Counting', props: { http: '$.interface.http' },
  run({ body }) { for (const n of body) this.$emit({ n }); } };`;

describe('the TypeScript client follows a real service', () => {
  let folder: TempFolder;
  let service: Millrace;
  let client: Client;
  let source: Source;

  /** On the same port each time, as a service has it. */
  async function start(port = '0') {
    service = await Millrace.start({
      dataFolder: `${folder.path}/data`,
      environment: { MILLRACE_PORT: port },
    });
  }
  async function emit(...numbers: number[]) {
    const { http } = source.configured_props as { http: { endpoint_url: string } };
    const { status } = await fetch(http.endpoint_url, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(numbers),
    });
    assert.equal(status, 200);
  }
  async function emitted(count: number) {
    await waitFor(
      async () => (await client.eventSummaries.listOfSource(source.id).take(100)).length === count,
    );
  }

  before(async () => {
    folder = await createTempFolder('client-follows');
    await start();
    client = new Client({ url: service.url, apiKey: testApiKey });
    source = await client.sources.create({ component_code: counting, name: 'counting' });
  });
  after(async () => {
    await service?.stop();
    await folder?.remove();
  });

  test('through restarts of the service a stream misses no event and repeats none', async () => {
    const stop = new AbortController();
    const seen: unknown[] = [];
    const reconnects: (string | undefined)[] = [];
    const reading = (async () => {
      const stream = client.events.streamOfSource<{ n: number }>(
        source.id,
        {},
        { signal: stop.signal, onReconnect: ({ lastEventId }) => reconnects.push(lastEventId) },
      );
      for await (const message of stream)
        seen.push(message.type === 'event' ? message.data.event.n : message.type);
    })();
    // A first event is emitted, since there is no signal that a stream of an emitter without events is open.
    await waitFor(async () => {
      if (seen.length === 0) await emit(0);
      return seen.length > 0;
    });
    const first = seen.length;
    await emit(1, 2);
    await waitFor(() => seen.includes(2));
    const { port } = new URL(service.url);
    await service.stop();
    await waitFor(() => reconnects.length > 1, { what: 'attempts while the service is away' });
    await start(port);
    // Emitted before the stream is back, most likely; in any case exactly once.
    await emit(3, 4);
    await waitFor(() => seen.includes(4));
    await service.kill();
    await start(port);
    await emit(5);
    await waitFor(() => seen.includes(5));
    stop.abort();
    await within(reading, patienceMs, 'the stream to end');
    assert.deepEqual(
      seen.slice(first).filter((one) => one !== 0),
      [1, 2, 3, 4, 5],
    );
    assert.ok(reconnects.every((id) => id !== undefined));
  });

  test('lists are read over several pages, newest first or by their cursors', async () => {
    await client.events.deleteOfSource(source.id);
    await emitted(0);
    await emit(...Array.from({ length: 25 }, (_, n) => n));
    await emitted(25);
    const numbers = async (limit: number) => {
      const list = client.eventSummaries.listOfSource(source.id, { limit, expand: 'event' });
      return (await Array.fromAsync(list)).map(({ event }) => (event as { n: number }).n);
    };
    const expected = Array.from({ length: 25 }, (_, n) => 24 - n);
    for (const limit of [4, 5, 25, 100]) assert.deepEqual(await numbers(limit), expected, `${limit} a page`);

    const stores = await Promise.all(
      Array.from({ length: 7 }, (_, n) => client.dataStores.create({ name: `store ${n}` })),
    );
    const listed = await Array.fromAsync(client.dataStores.list({ limit: 3 }));
    assert.deepEqual(listed.map(({ id }) => id).sort(), stores.map(({ id }) => id).sort());
    const pages = await Array.fromAsync(client.dataStores.list({ limit: 3 }).pages());
    assert.deepEqual(
      pages.map(({ data }) => data.length),
      [3, 3, 1],
    );
    const last = pages[2]?.page_info.start_cursor ?? '';
    const backwards = await Array.fromAsync(client.dataStores.list({ limit: 3, before: last }).pages());
    assert.deepEqual(
      backwards.flatMap(({ data }) => data.map(({ id }) => id)),
      [...listed.slice(3, 6), ...listed.slice(0, 3)].map(({ id }) => id),
    );
  });

  test('a delivery is verified as what it is, also with two secrets after a rotation, and nothing else is', async () => {
    await using receiver = await HttpReceiver.start();
    const webhook = await client.webhooks.create({ url: `${receiver.url}/hook` });
    await client.subscriptions.create({ emitter_id: source.id, listener_id: webhook.id });
    await emit(7);
    const { headers, body } = await receiver.waitForRequest(1);
    const secret = webhook.signing_secret;
    const verified = await verifyWebhook<{ n: number }>({ secret, headers, body });
    assert.deepEqual(verified.event, { n: 7 });
    assert.equal(verified.emitterId, source.id);
    const delivery = await client.deliveries.get(verified.deliveryId);
    assert.equal(delivery.event_id, verified.eventId);
    assert.ok(Math.abs(verified.signedAt.getTime() - Date.now()) < 60_000);
    const changed = Buffer.from(body.toString().replace('7', '8'));
    await assert.rejects(verifyWebhook({ secret, headers, body: changed }), WebhookVerificationError);

    const rotated = await client.webhooks.rotateSecret(webhook.id);
    await emit(8);
    const second = await receiver.waitForRequest(2);
    for (const one of [secret, rotated.signing_secret])
      assert.deepEqual(
        (await verifyWebhook({ secret: one, headers: second.headers, body: second.body })).event,
        { n: 8 },
      );
    const other: Webhook & { signing_secret: string } = await client.webhooks.create({
      url: `${receiver.url}/x`,
    });
    await assert.rejects(
      verifyWebhook({ secret: other.signing_secret, headers: second.headers, body: second.body }),
      WebhookVerificationError,
    );
    for (const { id } of [webhook, other]) await client.webhooks.delete(id);
  });

  test('what the service refuses has its status, code, details and the id of the request', async () => {
    const errorOf = async (asked: Promise<unknown>) => {
      const error = await asked.then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      assert.ok(error instanceof MillraceError, String(error));
      return error;
    };
    const missing = await errorOf(client.sources.get('dc_none'));
    assert.deepEqual([missing.status, missing.code, missing.details.parameter], [404, 'not_found', 'id']);
    assert.match(missing.requestId ?? '', /^[0-9a-f-]{36}$/);
    const wrong = await errorOf(client.workspaces.create({ name: '' }));
    assert.deepEqual([wrong.status, wrong.code, wrong.details.parameter], [400, 'invalid_parameter', 'name']);
    const stranger = new Client({ url: service.url, apiKey: 'nobody-has-this-key' });
    assert.equal((await errorOf(stranger.users.me())).code, 'unauthorized');
    const stream = Array.fromAsync(stranger.events.streamOfSource(source.id));
    assert.equal((await errorOf(stream)).status, 401);
    const robot = new Client({ url: service.url, clientId: 'oac_none', clientSecret: 'x' });
    assert.equal((await errorOf(robot.sources.get(source.id))).code, 'invalid_client');
  });

  test('a client of a workspace acts with access tokens, and gets another one when its own was revoked', async () => {
    const { id } = await client.workspaces.create({ name: 'Robots' });
    const made = await client.oauthClients.create(id, { name: 'robot' });
    const tokens: string[] = [];
    const robot = new Client({
      url: service.url,
      clientId: made.id,
      clientSecret: made.client_secret,
      fetch: (url, init) => {
        const { authorization } = init.headers as Record<string, string>;
        if (authorization !== undefined) tokens.push(authorization);
        return fetch(url, init);
      },
    });
    assert.equal((await robot.workspaces.get(id)).name, 'Robots');
    const token = tokens[0]?.slice('Bearer '.length) ?? '';
    await client.accessTokens.revoke({ token, client_id: made.id, client_secret: made.client_secret });
    assert.equal((await robot.workspaces.get(id)).name, 'Robots');
    assert.equal(tokens.length, 3);
    assert.equal(tokens[0], tokens[1]);
    assert.notEqual(tokens[1], tokens[2]);
    await assert.rejects(robot.users.me(), { code: 'user_key_required' });
  });

  test('an operation that the client does not know can be asked for by its path', async () => {
    const answer = await client.request<{ data: { id: string } }>({
      method: 'GET',
      path: `/v1/sources/${source.id}`,
    });
    assert.equal(answer.data.id, source.id);
  });
});
