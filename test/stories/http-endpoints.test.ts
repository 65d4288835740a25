import assert from 'node:assert/strict';
import { request as httpRequest } from 'node:http';
import { test } from 'node:test';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachService, type Millrace } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

type Source = { id: string; configured_props: { http: { endpoint_url: string } } };

/** Answers with what `run` got; a `reply` in the query is the name of a reply below. */
const mirror = `
const replies = {
  text: { status: '202', headers: { 'content-type': 'text/plain', 'x-two': ['a', 'b'] }, body: 'plain' },
  object: { status: 200, body: { a: [1] } },
  buffer: { status: 200, headers: { 'content-type': 'image/gif' }, body: Buffer.from([0, 255, 1, 254]) },
  empty: { status: 204 },
  nothing: {},
  redirect: { status: 302, headers: { Location: 'https://example.com/' } },
  number: { status: 200, body: 5 },
  framing: { status: 200, headers: { 'content-length': '3', 'transfer-encoding': 'chunked', connection: 'close' }, body: 'complete body' },
  evil: { status: 200, headers: { 'x-a': 'one\\r\\nx-evil: 1' }, body: 'x' },
  wrong: { status: 99, body: 'x' },
};
export default {
  name: 'Mirror', props: { http: { type: '$.interface.http', customResponse: true } },
  run(event) {
    this.http.respond(event.query.reply ? replies[event.query.reply] : { status: 200, headers: { 'content-type': 'application/json' }, body: JSON.stringify(event) });
    this.http.respond({ status: 500, body: 'only the first counts' });
  },
};`;

const quiet = `export default { name: 'Quiet', props: { http: '$.interface.http' }, run(event) { this.$emit(event); this.http.respond({ status: 418 }); } };`;

interface RawAnswer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: Buffer;
}

/** Any method, body and header, also what fetch does not send (a GET with a body, a Host of one's own). */
function send(
  url: string,
  options: { method?: string; headers?: Record<string, string>; body?: string | Buffer } = {},
): Promise<RawAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<RawAnswer>();
  const body = options.body === undefined ? undefined : Buffer.from(options.body);
  const request = httpRequest(url, {
    method: options.method ?? 'GET',
    headers: { ...(body === undefined ? {} : { 'content-length': String(body.length) }), ...options.headers },
    agent: false,
  });
  request.on('response', (response) => {
    const chunks: Buffer[] = [];
    response.on('data', (chunk: Buffer) => chunks.push(chunk));
    response.on('end', () =>
      resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) }),
    );
    response.on('error', reject);
  });
  request.on('error', reject);
  request.end(body);
  return promise;
}

const eventOf = (answer: RawAnswer) => {
  assert.equal(answer.status, 200, answer.body.toString());
  return JSON.parse(answer.body.toString());
};

let mirrors: WeakMap<Millrace, Promise<Source>> = new WeakMap();

/** One mirror for all tests of a service. */
function mirrorOf(service: Millrace): Promise<Source> {
  const known = mirrors.get(service) ?? service.createSource({ component_code: mirror });
  mirrors = mirrors.set(service, known);
  return known;
}

forEachService(
  (fixture) => {
    const endpointKey = (source: Source) => {
      const url = new URL(source.configured_props.http.endpoint_url);
      assert.match(url.href, /^https:\/\/[0-9a-f]{32}\.hooks\.example\.test\/$/);
      return url.hostname.split('.')[0] ?? '';
    };
    const pathUrl = (source: Source, rest = '') => `${fixture.service.url}/in/${endpointKey(source)}${rest}`;

    test('an endpoint answers at its own host name and at its path, and below both', async () => {
      const { service } = fixture;
      const source = await mirrorOf(service);
      const key = endpointKey(source);
      for (const host of [`${key}.hooks.example.test`, `${key.toUpperCase()}.HOOKS.example.test:8443`]) {
        const event = eventOf(
          await send(`${service.url}/orders/7?a=1&b=2&b=3&__proto__=x`, { headers: { host } }),
        );
        assert.equal(event.path, '/orders/7');
        assert.deepEqual(event.query, JSON.parse('{"a":"1","b":["2","3"],"__proto__":"x"}'));
        assert.equal(event.url, `${host}/orders/7?a=1&b=2&b=3&__proto__=x`);
      }
      assert.equal(
        eventOf(await send(`${service.url}/`, { headers: { host: `${key}.hooks.example.test` } })).path,
        '/',
      );
      for (const [rest, path] of [
        ['', '/'],
        ['/', '/'],
        ['/a/b%20c', '/a/b%20c'],
        ['/v1/sources', '/v1/sources'],
        ['?x=1', '/'],
        ['/a/', '/a/'],
      ] as const) {
        assert.equal(eventOf(await send(pathUrl(source, rest))).path, path);
      }
      const api = await send(`${service.url}/v1/users/me`, {
        headers: { host: `${key}.hooks.example.test` },
      });
      assert.equal(
        eventOf(api).path,
        '/v1/users/me',
        'the API is not reachable through the host of an endpoint',
      );
    });

    test('unknown keys, hosts and inactive sources are 404', async () => {
      const { service } = fixture;
      for (const url of [
        `${service.url}/in/${'0'.repeat(32)}`,
        `${service.url}/in/x`,
        `${service.url}/in/${'0'.repeat(32)}/a`,
      ]) {
        const answer = await send(url, { method: 'POST', body: 'x' });
        assert.deepEqual([answer.status, JSON.parse(answer.body.toString()).code], [404, 'unknown_endpoint']);
      }
      const host = await send(`${service.url}/`, {
        headers: { host: `${'0'.repeat(32)}.hooks.example.test` },
      });
      assert.equal(host.status, 404);
    });

    test('every method reaches the component, and OPTIONS is answered for browsers', async () => {
      const { service } = fixture;
      const source = await mirrorOf(service);
      for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE']) {
        const event = eventOf(
          await send(pathUrl(source), {
            method,
            body: '{"m":1}',
            headers: { 'content-type': 'application/json' },
          }),
        );
        assert.deepEqual([event.method, event.body, event.bodyRaw], [method, { m: 1 }, '{"m":1}']);
      }
      const head = await send(pathUrl(source), { method: 'HEAD' });
      assert.deepEqual([head.status, head.body.length], [200, 0]);
      const options = await send(pathUrl(source, '/x'), { method: 'OPTIONS' });
      assert.ok(options.status === 200 || options.status === 204);
      assert.equal(options.headers['access-control-allow-origin'], '*');
      assert.match(String(options.headers['access-control-allow-methods']), /PATCH/);
    });

    test('a body is parsed by its content type, and its exact text is there too', async () => {
      const { service } = fixture;
      const source = await mirrorOf(service);
      const post = async (contentType: string | undefined, body: string | Buffer) => {
        const headers = contentType === undefined ? {} : { 'content-type': contentType };
        const event = eventOf(
          await send(pathUrl(source), { method: 'POST', headers: headers as Record<string, string>, body }),
        );
        return { body: event.body, raw: event.bodyRaw };
      };
      const json = '{ "a" : [1, 2.50, "ü"] }';
      for (const type of [
        'application/json',
        'application/json; charset=utf-8',
        'application/vnd.api+json',
        'APPLICATION/JSON',
      ]) {
        assert.deepEqual(await post(type, json), { body: { a: [1, 2.5, 'ü'] }, raw: json });
      }
      for (const text of ['{"broken":', 'not json', 'NaN'])
        assert.deepEqual(await post('application/json', text), { body: text, raw: text });
      assert.deepEqual(await post('application/json', '"text"'), { body: 'text', raw: '"text"' });
      assert.deepEqual(await post('application/x-www-form-urlencoded', 'a=1&b=x+y&b=%C3%BC'), {
        body: { a: '1', b: ['x y', 'ü'] },
        raw: 'a=1&b=x+y&b=%C3%BC',
      });
      assert.deepEqual(await post('text/plain', '{"a":1}'), { body: '{"a":1}', raw: '{"a":1}' });
      assert.deepEqual(await post(undefined, 'just text'), { body: 'just text', raw: 'just text' });
      assert.deepEqual(await post('no media type', 'x'), { body: 'x', raw: 'x' });
      assert.equal((await post('application/xml', '<a/>')).body, '<a/>');
      const binary = await post('application/octet-stream', Buffer.from([0, 1, 2, 0x80]));
      assert.equal(typeof binary.body, 'string');
      assert.ok(binary.raw.startsWith('\u0000\u0001\u0002'));
      const empty = await post('application/json', '');
      assert.deepEqual(empty, { body: undefined, raw: '' });
    });

    test('a form with a file arrives as fields and a file with its name, type and content', async () => {
      const { service } = fixture;
      const source = await mirrorOf(service);
      const form = new FormData();
      form.append('title', 'Grüße');
      form.append('tag', 'a');
      form.append('tag', 'b');
      form.append('photo', new File([Buffer.from([1, 2, 3])], 'photo.png', { type: 'image/png' }));
      const response = await fetch(pathUrl(source), { method: 'POST', body: form });
      const { body } = (await response.json()) as { body: Record<string, unknown> };
      assert.deepEqual(body, {
        title: 'Grüße',
        tag: ['a', 'b'],
        photo: { filename: 'photo.png', mimetype: 'image/png', url: 'data:image/png;base64,AQID' },
      });
      const broken = await send(pathUrl(source), {
        method: 'POST',
        headers: { 'content-type': 'multipart/form-data' },
        body: 'no boundary',
      });
      assert.equal(eventOf(broken).body, 'no boundary');
      const cut = await send(pathUrl(source), {
        method: 'POST',
        headers: { 'content-type': 'multipart/form-data; boundary=x' },
        body: '--x\r\ncontent-disposition: form-data; name="a"; filename="f"\r\n\r\nnever ends',
      });
      assert.equal(cut.status, 200, 'a form that breaks off is an event as well');
    });

    test('headers are lower case; the address of the client is there', async () => {
      const { service } = fixture;
      const source = await mirrorOf(service);
      const event = eventOf(
        await send(pathUrl(source), { headers: { 'X-Hub-Signature': 'abc', Cookie: 'a=1' } }),
      );
      assert.equal(event.headers['x-hub-signature'], 'abc');
      assert.equal(event.headers.cookie, 'a=1');
      assert.equal(event.client_ip, '127.0.0.1');
    });

    test('512 KB are taken, more is 413, and nothing of it runs', async () => {
      const { service } = fixture;
      const source: Source = await service.createSource({ component_code: quiet });
      const most = 'x'.repeat(512 * 1024);
      const tooMuch = await send(pathUrl(source), { method: 'POST', body: `${most}x` });
      assert.deepEqual([tooMuch.status, JSON.parse(tooMuch.body.toString()).code], [413, 'body_too_large']);
      const fits = await send(pathUrl(source), { method: 'POST', body: most });
      assert.equal(fits.status, 200);
      const events = await waitFor(async () => {
        const stored = await service.events(source.id);
        return stored.length > 0 && stored;
      });
      assert.deepEqual(
        events.map(({ event }) => event.bodyRaw.length),
        [512 * 1024],
      );
    });

    test('large bodies for one owner are read in turns while there are requests for another one, those that are set aside too', async () => {
      const { service } = fixture;
      const source: Source = await service.createSource({ component_code: quiet });
      const { key } = await service.createUser('neighbour');
      const neighbours: Source = (
        await service.api('POST', '/v1/sources', { component_code: quiet }, { key })
      ).body.data;
      assert.equal((await send(pathUrl(neighbours))).status, 200);
      const post = async (bytes: number, headers = {}) => {
        const sent = { method: 'POST', body: 'x'.repeat(bytes), headers };
        assert.equal((await send(pathUrl(source), sent)).status, 200);
      };
      await send(pathUrl(source));
      const startedAt = performance.now();
      await Promise.all(Array.from({ length: 12 }, () => post(512 * 1024)));
      const inTurns = performance.now();
      assert.ok(inTurns - startedAt > 500, 'six megabytes');
      await Promise.all(Array.from({ length: 4 }, () => post(3 * 1024 * 1024, { 'x-pd-upload-body': '1' })));
      assert.ok(performance.now() - inTurns > 500, 'twelve megabytes, twice as fast');
    });

    test('the component replies with status, headers and body of every form; only the first reply counts', async () => {
      const { service } = fixture;
      const source = await mirrorOf(service);
      const reply = (name: string) => send(pathUrl(source, `?reply=${name}`));
      const text = await reply('text');
      assert.deepEqual(
        [text.status, text.body.toString(), text.headers['content-type']],
        [202, 'plain', 'text/plain'],
      );
      assert.equal(text.headers['x-two'], 'a, b');
      const object = await reply('object');
      assert.deepEqual([object.status, object.body.toString()], [200, '{"a":[1]}']);
      assert.match(String(object.headers['content-type']), /^application\/json/);
      const buffer = await reply('buffer');
      assert.deepEqual([...buffer.body], [0, 255, 1, 254]);
      assert.equal(buffer.headers['content-type'], 'image/gif');
      const empty = await reply('empty');
      assert.deepEqual([empty.status, empty.body.length], [204, 0]);
      assert.equal((await reply('nothing')).status, 200);
      const redirect = await reply('redirect');
      assert.deepEqual([redirect.status, redirect.headers.location], [302, 'https://example.com/']);
      assert.equal((await reply('number')).body.toString(), '5');
      const framing = await reply('framing');
      assert.deepEqual([framing.status, framing.body.toString()], [200, 'complete body']);
      const evil = await reply('evil');
      assert.deepEqual(
        [evil.status, evil.headers['x-evil']],
        [500, undefined],
        'no header can be smuggled in',
      );
      const wrong = await reply('wrong');
      assert.ok(wrong.status >= 200 && wrong.status < 600);
    });

    test('a reply has the type of its body unless it names one, and an interim status is an error of the run', async () => {
      const { service } = fixture;
      const source: Source = await service.createSource({
        component_code: `
          const replies = {
            text: { body: 'plain' }, number: { status: 201, body: 5 }, object: { body: { a: 1 } }, empty: { body: '' }, nothing: {},
            html: { headers: { 'Content-Type': 'text/html' }, body: '<p>' }, interim: { status: 103, body: 'x' },
          };
          export default {
            name: 'Typed', props: { http: { type: '$.interface.http', customResponse: true } },
            run(event) { this.http.respond(replies[event.query.reply]); },
          };`,
      });
      const types: Record<string, string | undefined> = {
        text: 'text/plain; charset=utf-8',
        number: 'text/plain; charset=utf-8',
        object: 'application/json; charset=utf-8',
        empty: undefined,
        nothing: undefined,
        html: 'text/html',
      };
      for (const [name, type] of Object.entries(types)) {
        const answer = await send(pathUrl(source, `?reply=${name}`));
        assert.equal(answer.status, name === 'number' ? 201 : 200, name);
        assert.equal(answer.headers['content-type'], type, name);
      }
      const interim = await send(pathUrl(source, '?reply=interim'));
      assert.deepEqual([interim.status, JSON.parse(interim.body.toString()).code], [500, 'no_response']);
    });

    test('when too many callers wait for one source, the next is told to come back; other sources answer', async () => {
      const { service } = fixture;
      const release = Promise.withResolvers<void>();
      await using outside = await HttpReceiver.start({
        answer: async () => {
          await release.promise;
          return { body: 'done' };
        },
      });
      const slow: Source = await service.createSource({
        component_code: `export default { name: 'Slow', props: { http: { type: '$.interface.http', customResponse: true } },
          async run() { await (await fetch('${outside.url}')).text(); this.http.respond({ status: 200, body: 'late' }); } };`,
      });
      const other: Source = await service.createSource({ component_code: mirror });
      const waiting: Promise<RawAnswer>[] = [];
      const refused: RawAnswer[] = [];
      for (let sent = 0; sent < 300; sent += 1) {
        const answer = send(pathUrl(slow, '/'));
        answer.then((early) => early.status === 429 && refused.push(early)).catch(() => {});
        waiting.push(answer);
      }
      await waitFor(() => refused.length === 300 - 256);
      const headers: RawAnswer['headers'] = refused[0]?.headers ?? {};
      assert.deepEqual(
        [headers['retry-after'], headers['x-ratelimit-limit'], headers['x-ratelimit-remaining']],
        ['5', '256', '0'],
      );
      assert.ok(Number(headers['x-ratelimit-reset']) * 1000 > Date.now() - 60_000);
      assert.equal(JSON.parse(refused[0]?.body.toString() ?? '').code, 'source_busy');
      assert.equal((await send(pathUrl(other, '/'))).status, 200);
      release.resolve();
      const statuses = (await Promise.all(waiting)).map(({ status }) => status);
      assert.equal(statuses.filter((status) => status === 200).length, 256);
    });

    test('without a custom response the answer is success as soon as the request is stored, whatever the run does', async () => {
      const { service } = fixture;
      const source: Source = await service.createSource({ component_code: quiet });
      const answer = await send(pathUrl(source, '/ping'), { method: 'POST', body: 'hello' });
      assert.deepEqual([answer.status, answer.body.toString()], [200, '{"success":true}']);
      const [event] = await waitFor(async () => {
        const events = await service.events(source.id);
        return events.length > 0 && events;
      });
      assert.deepEqual([event.event.path, event.event.body], ['/ping', 'hello']);
      const plain: Source = await service.createSource({
        component_code: `export default { name: 'no http', run() {} };`,
      });
      assert.deepEqual(plain.configured_props, {});
    });
  },
  { environment: { MILLRACE_ENDPOINT_DOMAIN: 'hooks.example.test' }, inTurns: true },
);
