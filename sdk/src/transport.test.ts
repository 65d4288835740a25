import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer, type Server } from 'node:net';
import { after, before, beforeEach, describe, test } from 'node:test';
import { HttpReceiver } from '../../test/support/http-receiver.ts';
import {
  clientVersion,
  Millrace,
  MillraceConnectionError,
  MillraceError,
  type MillraceOptions,
  MillraceTimeoutError,
} from './millrace.ts';

/** Every wait is short here, so that tests of retries take no time: the first is at least 125 ms. */
const unavailable = { status: 503, body: { error: 'busy', code: 'overloaded', details: {} } };
const refused = (seconds: string) => ({
  status: 429,
  headers: { 'retry-after': seconds },
  body: { error: 'slower', code: 'actions_busy', details: {} },
});
const answer = { body: { data: { id: 'dc_1' } } };

describe('requests', () => {
  let server: HttpReceiver;
  before(async () => {
    server = await HttpReceiver.start();
  });
  after(() => server.close());
  beforeEach(() => {
    server.requests.length = 0;
    server.answerAlways(answer);
  });
  const clientOf = (options: Partial<MillraceOptions> = {}) =>
    new Millrace({ url: server.url, apiKey: 'key', ...options });

  test('say who asks, what with, and what for', async () => {
    await clientOf({ headers: { 'x-own': '1' } }).sources.create(
      { name: 'ü' },
      { headers: { 'x-more': '2' } },
    );
    const [request] = server.requests;
    assert.equal(`${request?.method} ${request?.url}`, 'POST /v1/sources');
    const { authorization, 'content-type': type, 'user-agent': agent, ...headers } = request?.headers ?? {};
    assert.deepEqual(
      [authorization, type, agent],
      ['Bearer key', 'application/json', `millrace-client/${clientVersion}`],
    );
    assert.deepEqual([headers['x-own'], headers['x-more']], ['1', '2']);
    assert.deepEqual(request?.json(), { name: 'ü' });
    await clientOf({ userAgent: 'mine/1' }).health.get();
    assert.equal(server.requests[1]?.headers['user-agent'], `mine/1 millrace-client/${clientVersion}`);
    assert.equal(server.requests[1]?.headers.authorization, undefined, 'a public operation gets no key');
  });

  test('go below the path of the service, with encoded ids and without undefined parameters', async () => {
    const urls = [server.url, `${server.url}/`, `${server.url}/v1`, `${server.url}/v1/`];
    for (const url of urls) await clientOf({ url }).sources.get('a/../b?c', { include: undefined } as never);
    assert.deepEqual(
      new Set(server.requests.map((request) => request.url)),
      new Set(['/v1/sources/a%2F..%2Fb%3Fc']),
    );
    server.requests.length = 0;
    await clientOf({ url: `${server.url}/millrace` }).sources.get('dc_1', { include: 'id,name' });
    assert.equal(server.requests[0]?.url, '/millrace/v1/sources/dc_1?include=id%2Cname');
    for (const id of ['', '.', '..']) assert.throws(() => clientOf().sources.get(id), TypeError);
    for (const url of ['ftp://x', 'http://u:p@x', 'http://x?y', 'nothing'])
      assert.throws(() => clientOf({ url }), TypeError);
  });

  test('that read are tried again when the service is away for a moment', async () => {
    server.answerOnce(unavailable, { status: 502, body: '<html>' }, (_request, response) => {
      response.destroy();
      return undefined;
    });
    assert.deepEqual(await clientOf().sources.get('dc_1'), { id: 'dc_1' });
    assert.equal(server.requests.length, 4);
  });

  test('are tried again so often and no more', async () => {
    server.answerAlways(unavailable);
    await assert.rejects(clientOf({ retriesMax: 1 }).sources.get('dc_1'), { code: 'overloaded' });
    assert.equal(server.requests.length, 2);
    await assert.rejects(clientOf().sources.get('dc_1', {}, { retriesMax: 0 }), { code: 'overloaded' });
    assert.equal(server.requests.length, 3);
  });

  test('that change something are sent once when it is unknown whether they were carried out', async () => {
    server.answerAlways(unavailable);
    await assert.rejects(clientOf().sources.create({}), { status: 503 });
    await assert.rejects(clientOf().sources.delete('dc_1'), { status: 503 });
    assert.equal(server.requests.length, 2);
    server.answerAlways((_request, response) => {
      response.destroy();
      return undefined;
    });
    await assert.rejects(clientOf().sources.create({}), MillraceConnectionError);
    assert.equal(server.requests.length, 3);
    server.answerOnce(unavailable);
    server.answerAlways(answer);
    await clientOf().sources.create({}, { isRepeatable: true });
    server.answerOnce(unavailable);
    await clientOf().dataStores.putEntry('ds_1', 'k', { value: 1 });
    assert.equal(server.requests.length, 7, 'by the word of the caller, and where it replaces');
  });

  test('with an idempotency key are tried again with that key, also while the first attempt is under way', async () => {
    const goesOn = {
      status: 409,
      headers: { 'retry-after': '0' },
      body: { error: 'later', code: 'in_progress', details: {} },
    };
    server.answerOnce(unavailable);
    server.answerOnce(goesOn);
    await clientOf().sources.create({ name: 'a' }, { idempotencyKey: 'k-1', headers: { 'x-more': '2' } });
    assert.deepEqual(
      server.requests.map(({ headers }) => [headers['idempotency-key'], headers['x-more']]),
      Array.from({ length: 3 }, () => ['k-1', '2']),
    );
    server.requests.length = 0;
    server.answerAlways(unavailable);
    const twice = clientOf().sources.create({}, { idempotencyKey: 'k-2', isRepeatable: false });
    await assert.rejects(twice, { code: 'overloaded' });
    assert.equal(server.requests.length, 1);
    server.answerAlways({ ...goesOn, body: { ...goesOn.body, code: 'outcome_unknown' } });
    await assert.rejects(clientOf().sources.create({}, { idempotencyKey: 'k-3' }), {
      code: 'outcome_unknown',
    });
    assert.equal(server.requests.length, 2, 'an outcome that is not known stays so');
  });

  test('that were refused for now are sent again, whatever they do, after the time the service asks for', async () => {
    server.answerOnce(refused('1'));
    const startedMs = performance.now();
    await clientOf().sources.create({});
    assert.ok(performance.now() - startedMs >= 990, `${performance.now() - startedMs} ms`);
    assert.equal(server.requests.length, 2);
    server.answerOnce(refused('3600'));
    await assert.rejects(clientOf().sources.create({}), { code: 'actions_busy', retryAfterMs: 3_600_000 });
    assert.equal(server.requests.length, 3, 'an hour is not waited for');
    server.answerOnce({
      ...refused('0'),
      headers: { 'retry-after': new Date(Date.now() - 5000).toUTCString() },
    });
    await clientOf().sources.get('dc_1');
    assert.equal(server.requests.length, 5, 'a date is understood too');
  });

  test('that fail say what the service said', async () => {
    server.answerOnce({
      status: 400,
      headers: { 'x-request-id': 'r1' },
      body: { error: 'name: too long', code: 'invalid_parameter', details: { parameter: 'name' } },
    });
    await assert.rejects(clientOf().sources.get('dc_1'), (error) => {
      assert.ok(error instanceof MillraceError && error instanceof Error);
      const { name, message, status, code, details, requestId, method, path } = error;
      assert.deepEqual(
        { name, message, status, code, details, requestId, method, path },
        {
          name: 'MillraceError',
          message: 'name: too long',
          status: 400,
          code: 'invalid_parameter',
          details: { parameter: 'name' },
          requestId: 'r1',
          method: 'GET',
          path: '/v1/sources/dc_1',
        },
      );
      return true;
    });
    server.answerOnce({ status: 404, body: `<html>${'x'.repeat(10_000)}` });
    await assert.rejects(clientOf().sources.get('dc_1'), (error) => {
      assert.ok(error instanceof MillraceError);
      assert.equal(error.code, 'not_an_api_error');
      assert.equal(String(error.details.body).length, 500);
      return true;
    });
    server.answerOnce({ status: 302, headers: { location: `${server.url}/elsewhere` } });
    await assert.rejects(clientOf().sources.get('dc_1'), (error) => {
      assert.ok(error instanceof MillraceError);
      assert.deepEqual([error.status, error.details.location], [302, `${server.url}/elsewhere`]);
      return true;
    });
    assert.ok(
      server.requests.every(({ url }) => url !== '/elsewhere'),
      'a key is handed on to no other server',
    );
    server.answerOnce({ body: 'no JSON' });
    await assert.rejects(clientOf().sources.get('dc_1'), {
      status: 200,
      code: 'not_an_api_error',
      message: 'GET /v1/sources/dc_1: the answer is not JSON',
    });
    const piece = Buffer.alloc(1024 * 1024, ' ');
    server.answerOnce((_request, response) => {
      response.on('drain', () => response.write(piece));
      while (response.write(piece));
      return undefined;
    });
    await assert.rejects(clientOf().sources.get('dc_1'), /the answer is larger than 67108864 bytes/);
    assert.equal(server.requests.length, 5, 'what a proxy said is not asked for again');
  });

  test('that no method knows are sent as they are, to lists and streams too', async () => {
    const client = clientOf({ retriesMax: 0 });
    const seen: (string | null)[] = [];
    const onHeaders = (headers: Headers) => void seen.push(headers.get('x-own'));
    server.answerOnce({ headers: { 'x-own': 'yes' }, body: { any: 1 } }, { status: 204 });
    const request = { method: 'GET', path: '/v1/new', query: { q: 'a b' } };
    assert.deepEqual(await client.request(request, { onHeaders }), { any: 1 });
    assert.equal(server.requests[0]?.url, '/v1/new?q=a+b');
    assert.equal(await client.request({ method: 'DELETE', path: '/v1/new' }, { onHeaders }), undefined);
    assert.deepEqual(seen, ['yes', null]);
    server.answerOnce({ body: { page_info: { count: 1 }, data: [{ n: 1 }] } });
    assert.deepEqual(await Array.fromAsync(client.list(request)), [{ n: 1 }]);
    server.answerOnce((_request, response) => {
      response.end('data: {"n":2}\n\nevent: end\ndata: {"reason":"the emitter was removed"}\n\n');
      return undefined;
    });
    const messages = await Array.fromAsync(client.stream<{ n: number }>({ ...request, path: '/v1/new/sse' }));
    assert.deepEqual(
      messages.map((message) => message.type === 'event' && message.data.n),
      [2],
    );
  });

  test('end when the caller says so, also while they wait, and with the reason', async () => {
    server.answerAlways(unavailable);
    const stop = new AbortController();
    const asked = clientOf({ retriesMax: 100 }).sources.get('dc_1', {}, { signal: stop.signal });
    await server.waitForRequest(1);
    stop.abort(new Error('enough'));
    await assert.rejects(asked, { message: 'enough' });
    await assert.rejects(clientOf().sources.get('dc_1', {}, { signal: stop.signal }), { message: 'enough' });
    const sent = server.requests.length;
    assert.ok(sent <= 2, `${sent}`);
  });

  test('end after a time limit when no answer comes, or not all of it', async () => {
    server.answerAlways(() => undefined);
    const client = clientOf({ timeoutMs: 50, retriesMax: 0 });
    await assert.rejects(client.sources.get('dc_1'), MillraceTimeoutError);
    server.answerAlways((_request, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.write('{"data":');
      return undefined;
    });
    await assert.rejects(client.sources.get('dc_1'), (error) => {
      assert.ok(error instanceof MillraceTimeoutError && error instanceof MillraceConnectionError);
      assert.match(error.message, /^GET \/v1\/sources\/dc_1: no answer within 50 ms$/);
      return true;
    });
  });

  test('to no server say so', async () => {
    const closed: Server = createServer().listen(0, '127.0.0.1');
    await once(closed, 'listening');
    const { port } = closed.address() as AddressInfo;
    closed.close();
    await once(closed, 'close');
    const client = clientOf({ url: `http://127.0.0.1:${port}`, retriesMax: 1 });
    await assert.rejects(client.sources.get('dc_1'), (error) => {
      assert.ok(error instanceof MillraceConnectionError && !(error instanceof MillraceTimeoutError));
      assert.match(error.message, /ECONNREFUSED/);
      return true;
    });
  });

  test('take a token of an OAuth client, which is got once and renewed when it ends or is refused', async () => {
    let tokens = 0;
    let lifeSeconds = 3600;
    let isValid = (_token: string): boolean => true;
    server.answerAlways(({ url, headers, json }) => {
      if (url === '/v1/oauth/token') {
        assert.deepEqual(json(), {
          grant_type: 'client_credentials',
          client_id: 'oac_1',
          client_secret: 's',
        });
        tokens += 1;
        return { body: { access_token: `t${tokens}`, token_type: 'Bearer', expires_in: lifeSeconds } };
      }
      return isValid(String(headers.authorization))
        ? answer
        : { status: 401, body: { error: 'no', code: 'unauthorized', details: {} } };
    });
    const client = new Millrace({ url: server.url, clientId: 'oac_1', clientSecret: 's' });
    await Promise.all([1, 2, 3, 4].map(() => client.sources.get('dc_1')));
    assert.equal(tokens, 1, 'many requests at once share one');
    isValid = (token) => token === 'Bearer t2';
    await Promise.all([1, 2, 3, 4].map(() => client.sources.get('dc_1')));
    assert.equal(tokens, 2, 'one that is revoked is renewed once for all');
    isValid = () => false;
    await assert.rejects(client.sources.get('dc_1'), { code: 'unauthorized' });
    isValid = () => true;
    lifeSeconds = 0;
    const short = new Millrace({ url: server.url, clientId: 'oac_1', clientSecret: 's' });
    tokens = 0;
    for (let count = 0; count < 3; count += 1) await short.sources.get('dc_1');
    assert.ok(tokens >= 3, `one that has ended is not used again: ${tokens}`);
    server.answerAlways({
      status: 401,
      body: { error: 'invalid_client', error_description: 'no such client' },
    });
    await assert.rejects(short.sources.get('dc_1'), { code: 'invalid_client', message: 'no such client' });
  });

  test('need one kind of credentials, or none', async () => {
    for (const wrong of [
      { clientId: 'a' },
      { clientSecret: 'b' },
      { apiKey: 'k', clientId: 'a', clientSecret: 'b' },
    ])
      assert.throws(() => new Millrace({ url: server.url, ...wrong }), TypeError);
    await new Millrace({ url: server.url }).sources.get('dc_1');
    let asked = 0;
    const client = clientOf({
      apiKey: async () => {
        asked += 1;
        return `key ${asked}`;
      },
    });
    await client.sources.get('dc_1');
    await client.sources.get('dc_1');
    assert.deepEqual(
      server.requests.map(({ headers }) => headers.authorization),
      [undefined, 'Bearer key 1', 'Bearer key 2'],
    );
  });

  test('of lists go through every page, and stop where the caller stops', async () => {
    const all = Array.from({ length: 7 }, (_, n) => ({ id: `${n}` }));
    server.answerAlways(({ url }) => {
      const query = new URL(url, server.url).searchParams;
      const limit = Number(query.get('limit') ?? 10);
      const at = all.findIndex(({ id }) => id === (query.get('after') ?? query.get('before')));
      const data = query.has('before')
        ? all.slice(Math.max(0, at - limit), at)
        : all.slice(at + 1, at + 1 + limit);
      const cursors = data.length > 0 && { start_cursor: data[0]?.id, end_cursor: data.at(-1)?.id };
      return { body: { page_info: { count: data.length, ...cursors }, data } };
    });
    const ids = async (list: AsyncIterable<{ id: string }>) =>
      (await Array.fromAsync(list)).map(({ id }) => id).join('');
    const { sources } = clientOf();
    assert.equal(await ids(sources.list()), '0123456');
    assert.equal(server.requests.length, 1, '100 a page where nothing else is said');
    for (const limit of [1, 2, 3, 7, 100, 1000]) assert.equal(await ids(sources.list({ limit })), '0123456');
    assert.equal(await ids(sources.list({ limit: 2, after: '2' })), '3456');
    assert.equal(await ids(sources.list({ limit: 2, before: '5' })), '34120');
    server.requests.length = 0;
    for await (const { id } of sources.list({ limit: 2 })) if (id === '2') break;
    assert.equal(server.requests.length, 2);
    assert.deepEqual((await sources.list({ limit: 2 }).take(3)).length, 3);
    assert.deepEqual(await sources.list().take(0), []);
    assert.equal((await sources.list({ limit: 3, after: '0' }).firstPage()).page_info.count, 3);
    const pages = await Array.fromAsync(sources.list({ limit: 4 }).pages());
    assert.deepEqual(
      pages.map(({ data }) => data.length),
      [4, 3],
    );
  });
});
