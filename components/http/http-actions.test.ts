import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type ActionFixture, startActionFixture } from '../../test/support/action-fixture.ts';
import { HttpReceiver, type ReceivedRequest } from '../../test/support/http-receiver.ts';

const pdf = Buffer.from([0x25, 0x50, 0x44, 0x46, 0x00, 0xff]);

let actions: ActionFixture;
let server: HttpReceiver;
before(async () => {
  actions = await startActionFixture();
  server = await HttpReceiver.start({
    answer: ({ url }, response) => {
      if (url === '/missing?key=canary') return { status: 404, body: { why: 'gone' } };
      if (url !== '/report.pdf') return { status: 201, body: { ok: true } };
      response.writeHead(200, { 'content-type': 'application/pdf' }).end(pdf);
      return undefined;
    },
  });
});
after(async () => {
  await actions?.close();
  await server?.close();
});

const request = async (key: string, httpRequest: object, props: object = {}) => {
  const sent = server.requests.length;
  const outcome = await actions.run(key, {
    httpRequest: { url: `${server.url}/x`, ...httpRequest },
    ...props,
  });
  return { ...outcome, received: server.requests[sent] };
};

for (const [key, method] of Object.entries({
  'http-custom-request': 'GET',
  'http-get-request': 'GET',
  'http-post-request': 'POST',
  'http-put-request': 'PUT',
  'http-delete-request': 'DELETE',
})) {
  test(`${key} sends ${method} unless another method is chosen, and returns the body`, async () => {
    const { received, ret, exports } = await request(key, {});
    assert.equal(received?.method, method);
    assert.deepEqual(ret, { ok: true });
    assert.equal(exports.$summary, `${method} ${server.url}/x: 201 Created`);
    assert.equal((exports.response as { status: number }).status, 201);
    assert.equal((await request(key, { method: 'PATCH' })).received?.method, 'PATCH');
  });
}

const basic = `Basic ${Buffer.from('ada:open').toString('base64')}`;
const bodies: [what: string, httpRequest: object, check: (received: ReceivedRequest) => void][] = [
  [
    'no authentication',
    { auth: { type: 'none' } },
    ({ headers }) => assert.equal(headers.authorization, undefined),
  ],
  [
    'name and password',
    { auth: { type: 'basic', username: 'ada', password: 'open' } },
    ({ headers }) => assert.equal(headers.authorization, basic),
  ],
  [
    'a bearer token',
    { auth: { type: 'bearer', token: 't' } },
    ({ headers }) => assert.equal(headers.authorization, 'Bearer t'),
  ],
  [
    'the request of an exported workflow',
    {
      auth: { type: 'integrated_auth', username: '', password: '', token: '', app: { nameSlug: 'http' } },
      body: { contentType: 'none', fields: [], mode: 'fields', type: 'raw' },
      params: [{ name: '', value: '', disabled: true }],
      url: ' PLACE/x ',
      tab: 'Auth',
    },
    ({ url, headers, body }) =>
      assert.deepEqual([url, headers.authorization, String(body)], ['/x', undefined, '']),
  ],
  [
    'headers, parameters and JSON',
    {
      headers: [{ name: 'x-source', value: 'test' }],
      params: [{ name: 'a', value: 'b c' }],
      body: { contentType: 'application/json', mode: 'raw', raw: '{"id":1}' },
    },
    ({ url, headers, json }) => {
      assert.deepEqual([url, headers['x-source']], ['/x?a=b+c', 'test']);
      assert.deepEqual(json(), { id: 1 });
    },
  ],
  [
    'fields of a form',
    {
      body: {
        contentType: 'application/x-www-form-urlencoded',
        mode: 'fields',
        fields: [{ name: 'a', value: 'b c' }],
      },
    },
    ({ body }) => assert.equal(String(body), 'a=b+c'),
  ],
];
for (const [what, httpRequest, check] of bodies) {
  test(`http-custom-request sends ${what}`, async () => {
    const given = JSON.parse(JSON.stringify(httpRequest).replace('PLACE', server.url));
    const { received, error } = await request('http-custom-request', { method: 'POST', ...given });
    assert.equal(error, undefined);
    assert.ok(received);
    check(received);
  });
}

test('a response is saved to a file as it is, and sent again from there', async () => {
  const saved = await request(
    'http-get-request',
    { url: `${server.url}/report.pdf` },
    { saveTo: '/tmp/in/report.pdf' },
  );
  assert.deepEqual(saved.ret, {
    path: '/tmp/in/report.pdf',
    name: 'report.pdf',
    size: pdf.length,
    content_type: 'application/pdf',
  });
  const json = await request('http-get-request', {}, { saveTo: '/tmp/answer.json' });
  assert.equal((json.ret as { size: number }).size, '{"ok":true}'.length, 'JSON too');
  const asBody = await request('http-put-request', {
    body: { mode: 'file', file: '/tmp/in/report.pdf', contentType: 'application/pdf' },
  });
  assert.deepEqual(asBody.received?.body, pdf);
  assert.equal(asBody.received?.headers['content-type'], 'application/pdf');
  const asPart = await request('http-post-request', {
    body: {
      contentType: 'multipart/form-data',
      mode: 'fields',
      fields: [{ name: 'upload', type: 'file', value: '/tmp/in/report.pdf' }],
    },
  });
  assert.match(String(asPart.received?.body), /name="upload"; filename="report\.pdf"/);
  assert.ok(asPart.received?.body.includes(pdf));
});

test('a refused request is an error, with the response among the exports and without the query', async () => {
  const { error, exports } = await request('http-get-request', { url: `${server.url}/missing?key=canary` });
  assert.equal(error?.message, 'Request failed with status code 404: {"why":"gone"}');
  assert.deepEqual((exports.response as { data: unknown }).data, { why: 'gone' });
  assert.equal(exports.$summary, `GET ${server.url}/missing: 404 Not Found`);
});

const mistakes: [httpRequest: object, message: RegExp][] = [
  [{ url: '' }, /httpRequest: the request has no url/],
  [{ url: 'example.com/orders' }, /"example.com\/orders" is not a url/],
  [{ auth: { type: 'digest' } }, /auth.type is none, basic or bearer, found "digest"/],
  [
    { method: 'POST', body: { mode: 'file', file: '/tmp/none' } },
    /body.file: cannot read \/tmp\/none: ENOENT/,
  ],
];
for (const [httpRequest, message] of mistakes) {
  test(`http-custom-request says what is wrong with ${JSON.stringify(httpRequest)}`, async () => {
    const { error, received } = await request('http-custom-request', httpRequest);
    assert.match(error?.message ?? '', message);
    assert.equal(received, undefined);
  });
}

test('http-return-http-response responds with status, headers and a body of text or JSON', async () => {
  const text = await actions.run('http-return-http-response', {
    resStatusCode: 202,
    resHeaders: { 'Content-Type': 'application/xml' },
    resBody: '<a/>',
  });
  assert.deepEqual([text.reply?.status, text.reply?.body], [202, '<a/>']);
  assert.match(JSON.stringify(text.reply?.headers), /application\/xml/);
  assert.equal(text.exports.$summary, 'Response with status 202, if the caller still waits');
  const json = await actions.run('http-return-http-response', { resBody: { photos: [1] } });
  assert.deepEqual([json.reply?.status, json.reply?.body], [200, '{"photos":[1]}']);
  for (const resStatusCode of ['abc', 100, 600, 200.5]) {
    const { error, reply } = await actions.run('http-return-http-response', { resStatusCode });
    assert.equal(error?.name, 'ConfigurationError');
    assert.equal(
      error?.message,
      `resStatusCode: found ${JSON.stringify(resStatusCode)}, expected an integer from 200 to 599`,
    );
    assert.equal(reply, undefined);
  }
});
