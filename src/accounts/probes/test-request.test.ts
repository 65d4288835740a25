import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { after, before, describe, type TestContext, test } from 'node:test';
import type { AppDefinition, AppTest } from '#accounts/apps/app-definition.ts';
import { AddressPolicy } from '#egress/address-policy.ts';
import { createGuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import { CertificateAuthority } from '../../../test/support/certificates.ts';
import { createTestDatabase, postgresSkip, type TestDatabase } from '../../../test/support/databases.ts';
import { HttpReceiver, type ReceiverScript } from '../../../test/support/http-receiver.ts';
import { startPostgresTls } from '../../../test/support/postgres-tls.ts';
import { testAccount } from './test-request.ts';

const canary = 'CANARY-7f3b-very-secret';
const policy = new AddressPolicy({ allow: ['127.0.0.0/8'], deny: () => [] });
const authority = new CertificateAuthority();
const dispatcher = createGuardedDispatcher({ policy, extraCa: authority.pem });
const parts = { dispatcher, policy };
after(() => dispatcher.destroy());

type HttpTest = Extract<AppTest, { kind: 'http' }>;

function appWith(appTest: AppTest | undefined, more: Partial<AppDefinition> = {}): AppDefinition {
  return {
    slug: 'stand_in',
    name: 'Stand-in',
    description: '',
    categories: [],
    authType: 'keys',
    customFields: [],
    oauth: undefined,
    test: appTest,
    ...more,
  };
}

function httpTest(url: string, more: Partial<HttpTest> = {}): HttpTest {
  return {
    kind: 'http',
    method: 'GET',
    url,
    headers: { Authorization: 'Bearer {{api_key}}' },
    body: undefined,
    basic: undefined,
    statuses: [],
    expect: undefined,
    ...more,
  };
}

async function provider(t: TestContext, answer: ReceiverScript): Promise<HttpReceiver> {
  const receiver = await HttpReceiver.start({ answer });
  t.after(() => receiver.close());
  return receiver;
}

const credentials = { api_key: canary };

describe('a test request over HTTP', () => {
  test('works where the provider takes the credentials, and says what was asked and answered', async (t) => {
    const receiver = await provider(t, { status: 200, body: { id: 1 } });
    const url = `http://127.0.0.1:${receiver.port}/v1/me?key={{api_key}}`;
    const found = await testAccount(parts, { app: appWith(httpTest(url)), credentials });
    assert.deepEqual(found, {
      outcome: 'works',
      message: `GET http://127.0.0.1:${receiver.port}/v1/me answered 200`,
    });
    assert.equal(receiver.requests[0]?.headers.authorization, `Bearer ${canary}`);
    assert.equal(receiver.requests[0]?.url, `/v1/me?key=${canary}`);
  });

  for (const [answer, outcome] of [
    [{ status: 204 }, 'works'],
    [{ status: 401 }, 'refused'],
    [{ status: 403 }, 'refused'],
    [{ status: 404 }, 'refused'],
    [{ status: 403, headers: { 'retry-after': '60' } }, 'unreachable'],
    [{ status: 403, headers: { 'x-ratelimit-remaining': '0' } }, 'unreachable'],
    [{ status: 408 }, 'unreachable'],
    [{ status: 429 }, 'unreachable'],
    [{ status: 500 }, 'unreachable'],
    [{ status: 503 }, 'unreachable'],
  ] as const) {
    const how = 'headers' in answer ? ` with ${Object.keys(answer.headers).join()}` : '';
    test(`${answer.status}${how} means: ${outcome}`, async (t) => {
      const receiver = await provider(t, answer);
      const app = appWith(httpTest(`http://127.0.0.1:${receiver.port}/`));
      const found = await testAccount(parts, { app, credentials });
      assert.equal(found?.outcome, outcome);
      assert.match(found?.message ?? '', new RegExp(`answered ${answer.status}`));
    });
  }

  test('statuses of the definition are those of success, and no others', async (t) => {
    const receiver = await provider(t, { status: 404 });
    const url = `http://127.0.0.1:${receiver.port}/`;
    const listed = await testAccount(parts, {
      app: appWith(httpTest(url, { statuses: [404] })),
      credentials,
    });
    assert.equal(listed?.outcome, 'works');
    const other = await testAccount(parts, { app: appWith(httpTest(url, { statuses: [200] })), credentials });
    assert.equal(other?.outcome, 'refused');
  });

  test('what the answer must hold decides; an answer that is no JSON says nothing', async (t) => {
    const receiver = await provider(t, { body: { ok: true } });
    const expect = { path: 'data.0.ok', equals: true };
    const app = appWith(httpTest(`http://127.0.0.1:${receiver.port}/`, { expect }));
    receiver.answerOnce({ body: { data: [{ ok: true }] } });
    assert.equal((await testAccount(parts, { app, credentials }))?.outcome, 'works');
    receiver.answerOnce({ body: { data: [{ ok: false, error: canary }] } });
    const refused = await testAccount(parts, { app, credentials });
    assert.equal(refused?.outcome, 'refused');
    assert.match(refused.message, /answered 200, where data\.0\.ok is not true/);
    receiver.answerOnce({ body: '<html>' });
    assert.equal((await testAccount(parts, { app, credentials }))?.outcome, 'unreachable');
    receiver.answerOnce({ body: ' '.repeat(2 * 1024 * 1024) });
    assert.match((await testAccount(parts, { app, credentials }))?.message ?? '', /more than 256 KB/);
    for (const body of ['['.repeat(50_000) + ']'.repeat(50_000), `[${'1,'.repeat(60_000)}1]`]) {
      receiver.answerOnce({ body });
      assert.match(
        (await testAccount(parts, { app, credentials }))?.message ?? '',
        /with no JSON that could be read/,
      );
    }
  });

  test('credentials follow a redirect within the origin, and never to another one', async (t) => {
    const other = await provider(t, {});
    const receiver = await provider(t, (request) => {
      if (request.url === '/a') return { status: 302, headers: { location: '/b' } };
      if (request.url === '/away')
        return { status: 307, headers: { location: `http://127.0.0.1:${other.port}/` } };
      return { status: request.url === '/b' ? 200 : 500 };
    });
    const origin = `http://127.0.0.1:${receiver.port}`;
    const near = await testAccount(parts, { app: appWith(httpTest(`${origin}/a`)), credentials });
    assert.equal(near?.outcome, 'works');
    assert.equal(receiver.requests[1]?.headers.authorization, `Bearer ${canary}`);
    const key = { headers: { 'X-Api-Key': '{{api_key}}' } };
    const away = await testAccount(parts, { app: appWith(httpTest(`${origin}/away`, key)), credentials });
    assert.equal(away?.outcome, 'unreachable');
    assert.equal(other.requests.length, 0);
  });

  test('basic credentials and bodies are filled, JSON as JSON and forms as forms', async (t) => {
    const receiver = await provider(t, {});
    const url = `http://127.0.0.1:${receiver.port}/`;
    const odd = { user: 'ada', api_key: 'a"b&c=d \\' };
    const basic = { username: '{{user}}', password: '{{api_key}}' };
    const post = { method: 'POST', headers: {}, basic } as const;
    const json = appWith(httpTest(url, { ...post, body: '{"token":"{{api_key}}"}' }));
    await testAccount(parts, { app: json, credentials: odd });
    assert.deepEqual(receiver.requests[0]?.json(), { token: odd.api_key });
    assert.equal(receiver.requests[0]?.headers['content-type'], 'application/json');
    const expected = `Basic ${Buffer.from(`ada:${odd.api_key}`).toString('base64')}`;
    assert.equal(receiver.requests[0]?.headers.authorization, expected);
    const headers = { 'Content-Type': 'application/x-www-form-urlencoded' };
    const form = appWith(httpTest(url, { ...post, headers, body: 'token={{api_key}}&x=1' }));
    await testAccount(parts, { app: form, credentials: odd });
    assert.equal(new URLSearchParams(receiver.requests[1]?.body.toString()).get('token'), odd.api_key);
  });

  test('credentials that lack a field, or cannot stand in a header, are refused without being sent', async (t) => {
    const receiver = await provider(t, {});
    const app = appWith(httpTest(`http://127.0.0.1:${receiver.port}/`));
    const lacking = await testAccount(parts, { app, credentials: { other: 1 } });
    assert.deepEqual(lacking, { outcome: 'refused', message: 'api_key: has no value' });
    for (const bad of [`${canary}\n`, `${canary}…`]) {
      const found = await testAccount(parts, { app, credentials: { api_key: bad } });
      assert.equal(found?.outcome, 'refused');
      assert.doesNotMatch(found.message, /CANARY/);
    }
    assert.equal(receiver.requests.length, 0);
  });

  test('a host that is not there, not allowed, or without a trusted certificate is unreachable; no text has a secret', async (t) => {
    const receiver = await provider(t, (_request, response) => {
      response.destroy();
      return undefined;
    });
    const untrusted = await HttpReceiver.start({ tls: new CertificateAuthority().issue(['127.0.0.1']) });
    t.after(() => untrusted.close());
    const closed = await HttpReceiver.start();
    const closedPort = closed.port;
    await closed.close();
    for (const [target, message] of [
      [`http://127.0.0.1:${receiver.port}`, /the connection was cut/],
      [`http://127.0.0.1:${closedPort}`, /the connection was refused/],
      [`https://127.0.0.1:${untrusted.port}`, /failed \(\w+\)/],
      ['http://10.255.1.2', /may not connect there/],
    ] as const) {
      const app = appWith(httpTest(`${target}/bot{{api_key}}/me?key={{api_key}}`));
      const found = await testAccount(parts, { app, credentials });
      assert.equal(found?.outcome, 'unreachable');
      assert.match(found.message, message);
      assert.match(found.message, /^GET https?:\/\/[\d.:]+\/bot\{\{api_key\}\}\/me: /);
      assert.doesNotMatch(found.message, /CANARY/);
    }
    // The host is reported, so a secret that is the host is taken out of the text.
    const api_key = 'canary-that-is-a-host';
    const app = appWith(httpTest('http://{{api_key}}.example.invalid/me'));
    const found = await testAccount(parts, { app, credentials: { api_key } });
    assert.match(found?.message ?? '', /^GET http:\/\/\[redacted\]\.example\.invalid\/me: /);
  });

  test('HTTPS with a trusted certificate works', async (t) => {
    const receiver = await HttpReceiver.start({ tls: authority.issue(['127.0.0.1']) });
    t.after(() => receiver.close());
    const app = appWith(httpTest('{{base_url}}/me'));
    const base_url = `https://127.0.0.1:${receiver.port}/`;
    const found = await testAccount(parts, { app, credentials: { ...credentials, base_url } });
    assert.deepEqual(found, {
      outcome: 'works',
      message: `GET https://127.0.0.1:${receiver.port}/me answered 200`,
    });
  });

  test('an app without a test, and one whose requests need a signature, are not tested', async () => {
    assert.equal(await testAccount(parts, { app: appWith(undefined), credentials }), undefined);
    const oauth = { version: 1 } as NonNullable<AppDefinition['oauth']>;
    const app = appWith(httpTest('https://127.0.0.1/'), { oauth });
    assert.equal(await testAccount(parts, { app, credentials }), undefined);
  });

  test('ends with the reason of the signal', async (t) => {
    const receiver = await provider(t, () => new Promise(() => {}));
    const app = appWith(httpTest(`http://127.0.0.1:${receiver.port}/`));
    const stop = new AbortController();
    const found = testAccount(parts, { app, credentials }, stop.signal);
    await receiver.waitForRequest();
    stop.abort(new Error('stopped'));
    await assert.rejects(found, /stopped/);
  });
});

describe('a server that greets', () => {
  const mysqlGreeting = Buffer.concat([
    Buffer.from([74, 0, 0, 0, 10]),
    Buffer.from('8.0.36\0'),
    Buffer.alloc(62),
  ]);
  const mysqlError = Buffer.concat([
    Buffer.from([69, 0, 0, 0, 0xff, 0x6a, 0x04]),
    Buffer.from('Host blocked'),
  ]);
  for (const [kind, greeting, outcome] of [
    ['ssh', Buffer.from('Welcome\r\nSSH-2.0-OpenSSH_9.6\r\n'), 'works'],
    ['ssh', Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n'), 'unreachable'],
    ['mysql', mysqlGreeting, 'works'],
    ['mysql', mysqlError, 'unreachable'],
    ['mysql', Buffer.from('SSH-2.0-x\r\n'), 'unreachable'],
    ['tcp', Buffer.alloc(0), 'works'],
  ] as const) {
    test(`${kind}: ${JSON.stringify(greeting.toString('latin1', 0, 20))} means ${outcome}`, async (t) => {
      const server = createServer((socket) => socket.on('error', () => {}).end(greeting)).listen(
        0,
        '127.0.0.1',
      );
      t.after(() => server.close());
      await once(server, 'listening');
      const { port } = server.address() as AddressInfo;
      const app = appWith({ kind, host: '{{host}}', port: '{{port}}' });
      const found = await testAccount(parts, { app, credentials: { host: '127.0.0.1', port } });
      assert.equal(found?.outcome, outcome, found?.message ?? '');
      assert.match(found?.message ?? '', new RegExp(`^${kind} 127\\.0\\.0\\.1:${port} `));
    });
  }

  test('an address that is none is refused', async () => {
    const app = appWith({ kind: 'ssh', host: '{{host}}', port: '{{port}}' });
    for (const bad of [
      { host: '127.0.0.1', port: '99999' },
      { host: 'a b', port: '22' },
    ]) {
      assert.equal((await testAccount(parts, { app, credentials: bad }))?.outcome, 'refused');
    }
  });
});

describe('a PostgreSQL login', { skip: postgresSkip() }, () => {
  let database: TestDatabase;
  let login: Record<string, unknown>;
  before(async () => {
    database = await createTestDatabase();
    const url = new URL(database.url);
    login = {
      host: url.hostname,
      port: url.port,
      user: url.username,
      password: decodeURIComponent(url.password),
      database: url.pathname.slice(1),
    };
  });
  after(() => database.drop());
  const app = appWith({ kind: 'postgresql', host: '{{host}}', port: '{{port}}' });

  test('works with the right password, with and without TLS of the server', async (t) => {
    const plain = await testAccount(parts, { app, credentials: login });
    assert.equal(plain?.outcome, 'works', plain?.message ?? '');
    const tls = await startPostgresTls(
      { host: '127.0.0.1', port: Number(login.port) },
      new CertificateAuthority().issue(['db.example.com']),
    );
    t.after(() => tls.close());
    const behindTls = { ...login, port: tls.port };
    const results = [];
    for (const mode of [undefined, 'skip_verification', 'verify_full'])
      results.push(
        (await testAccount(parts, { app, credentials: { ...behindTls, ssl_verification_mode: mode } }))
          ?.outcome,
      );
    assert.deepEqual(results, ['works', 'works', 'unreachable']);
  });

  test('verify_ca checks the authority, verify_full the name too', async (t) => {
    const tls = await startPostgresTls(
      { host: '127.0.0.1', port: Number(login.port) },
      authority.issue(['db.example.com']),
    );
    t.after(() => tls.close());
    const results = [];
    for (const mode of ['verify_ca', 'verify_full']) {
      const given = { ...login, port: tls.port, ca: authority.pem, ssl_verification_mode: mode };
      results.push((await testAccount(parts, { app, credentials: given }))?.outcome);
    }
    assert.deepEqual(results, ['works', 'unreachable']);
  });

  test('a server without TLS is unreachable for who asks for TLS', async () => {
    const given = { ...login, ssl_verification_mode: 'skip_verification' };
    assert.equal((await testAccount(parts, { app, credentials: given }))?.outcome, 'unreachable');
  });

  test('a wrong password and a database that is not there are refused, a wrong port is unreachable', async () => {
    const wrong = await testAccount(parts, { app, credentials: { ...login, password: canary } });
    assert.deepEqual(wrong, {
      outcome: 'refused',
      message: `postgresql 127.0.0.1:${login.port} refused the login: wrong user or password`,
    });
    const none = await testAccount(parts, { app, credentials: { ...login, database: 'nowhere' } });
    assert.match(none?.message ?? '', /no such database/);
    const away = await testAccount(parts, { app, credentials: { ...login, port: '1' } });
    assert.equal(away?.outcome, 'unreachable');
  });
});
