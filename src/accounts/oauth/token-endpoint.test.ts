import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, beforeEach, describe, test } from 'node:test';
import type { AppDefinition } from '#accounts/apps/app-definition.ts';
import { parseApp } from '#accounts/apps/parse-app.ts';
import { AddressPolicy } from '#egress/address-policy.ts';
import { createGuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import { OAuthProvider } from '../../../test/support/oauth-provider.ts';
import { TestClock } from '../../../test/support/test-clock.ts';
import { GrantError, type OAuthClient } from './grant.ts';
import { createTokenEndpoint } from './token-endpoint.ts';

/** What a request to the stand-in was. */
interface Seen {
  method: string;
  path: string;
  headers: IncomingMessage['headers'];
  body: string;
}

interface Canned {
  status?: number;
  headers?: Record<string, string>;
  body: unknown;
}

/** A token endpoint that answers what a provider is known to answer. */
class CannedProvider {
  readonly seen: Seen[] = [];
  answer: Canned = { body: {} };
  profile: Canned = { body: {} };
  readonly #server: Server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      this.seen.push({ method, path: url, headers, body: Buffer.concat(chunks).toString() });
      const { status = 200, headers: more = {}, body } = method === 'GET' ? this.profile : this.answer;
      response.writeHead(status, { 'content-type': 'application/json', ...more });
      response.end(typeof body === 'string' ? body : JSON.stringify(body));
    });
  });

  async listen(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get last(): Seen {
    const seen = this.seen.at(-1);
    assert.ok(seen !== undefined);
    return seen;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

const policy = new AddressPolicy({ allow: ['public', 'local'], deny: () => [] });
const client: OAuthClient = {
  id: 'oa_1',
  clientId: 'the client',
  clientSecret: 'a-b_c.d~e/f+g:h%20 canary',
  scopes: undefined,
};
const codeRequest = {
  code: 'the-code-canary',
  verifier: 'v'.repeat(43),
  nonce: undefined,
  redirectUri: 'https://m.example/connect/callback',
};

describe('a token endpoint', () => {
  const clock = new TestClock(Date.now());
  const dispatcher = createGuardedDispatcher({ policy });
  const tokens = createTokenEndpoint({ dispatcher, clock });
  const provider = new CannedProvider();

  before(() => provider.listen());
  after(async () => {
    await dispatcher.destroy();
    provider.close();
  });
  beforeEach(() => {
    provider.seen.length = 0;
    provider.answer = { body: { access_token: 'at', token_type: 'Bearer' } };
    provider.profile = { body: {} };
  });

  function app(oauth: Record<string, unknown> = {}, more: Record<string, unknown> = {}): AppDefinition {
    return parseApp({
      slug: 'odd',
      name: 'Odd',
      auth_type: 'oauth',
      oauth: {
        authorization_url: `${provider.url}/auth`,
        token_url: `${provider.url}/token`,
        scopes: ['a', 'b'],
        ...oauth,
      },
      ...more,
    });
  }

  const refresh = (oauth = {}, fields = {}) =>
    tokens.refresh({ app: app(oauth), client, fields }, { refreshToken: 'the-refresh-canary' });
  const exchange = (oauth = {}, request = {}) =>
    tokens.exchangeCode({ app: app(oauth), client, fields: {} }, { ...codeRequest, ...request });

  test('cannot fill an account with what it answers, however large or deep', async () => {
    const many = `[${'1,'.repeat(40_000)}1]`;
    const long = 'x'.repeat(200_000);
    const answers = {
      access_token: `{"access_token":"${long}"}`,
      refresh_token: `{"access_token":"at","refresh_token":"${long}"}`,
      site: `{"access_token":"at","site":${many}}`,
      name: `{"access_token":"at","name":"${long}"}`,
    };
    for (const [name, body] of Object.entries(answers)) {
      provider.answer = { body };
      await assert.rejects(refresh({ response_fields: { site: 'site', name: 'name' } }), (error: unknown) => {
        assert.ok(error instanceof GrantError, String(error));
        assert.equal(error.reach, 'moment');
        assert.equal(error.message, `Odd answered with ${name} that is far too large`);
        return true;
      });
    }
    for (const costly of [`${'['.repeat(50_000)}${']'.repeat(50_000)}`, `[${'1,'.repeat(60_000)}1]`]) {
      provider.answer = { body: `{"access_token":"at","site":${costly}}` };
      const { reach, message } = await refused(refresh({ response_fields: { site: 'site' } }));
      assert.equal(reach, 'moment');
      assert.match(message, /nothing that can be understood/);
    }
    provider.answer = { body: '{"access_token":"at","site":{"hosts":["a"]},"__proto__":{"polluted":true}}' };
    const { fields } = await refresh({ response_fields: { site: 'site', polluted: 'polluted' } });
    assert.deepEqual(fields, { site: { hosts: ['a'] } });
  });

  test('is asked as RFC 6749 and RFC 7636 say', async () => {
    await exchange({ client_auth: 'post', token_parameters: { audience: 'x y' } });
    const { body, headers, method } = provider.last;
    assert.equal(method, 'POST');
    assert.equal(headers['content-type'], 'application/x-www-form-urlencoded;charset=UTF-8');
    assert.equal(headers.accept, 'application/json');
    assert.deepEqual(Object.fromEntries(new URLSearchParams(body)), {
      grant_type: 'authorization_code',
      code: codeRequest.code,
      code_verifier: codeRequest.verifier,
      redirect_uri: codeRequest.redirectUri,
      client_id: client.clientId,
      client_secret: client.clientSecret,
      audience: 'x y',
    });
  });

  test('that takes HTTP basic gets id and secret form-encoded, and what needs no encoding as it is', async () => {
    await refresh({ client_auth: 'basic' });
    const { headers, body } = provider.last;
    const sent = Buffer.from(String(headers.authorization).replace('Basic ', ''), 'base64').toString();
    assert.equal(sent, 'the+client:a-b_c.d%7Ee%2Ff%2Bg%3Ah%2520+canary');
    assert.doesNotMatch(body, /secret|canary=|client_id/);
  });

  test('that takes JSON gets it', async () => {
    await refresh({ token_body: 'json', client_auth: 'post' });
    assert.equal(provider.last.headers['content-type'], 'application/json');
    assert.deepEqual(JSON.parse(provider.last.body), {
      grant_type: 'refresh_token',
      refresh_token: 'the-refresh-canary',
      client_id: client.clientId,
      client_secret: client.clientSecret,
    });
  });

  test('of its own for refreshing is asked there', async () => {
    await refresh({ refresh_url: `${provider.url}/refresh` });
    assert.equal(provider.last.path, '/refresh');
  });

  for (const [what, oauth, body, expected] of [
    ['no token_type', {}, { access_token: 'at', expires_in: 60 }, { expiresInSeconds: 60 }],
    ['the type "bot"', {}, { access_token: 'at', token_type: 'bot' }, {}],
    ['expires_in as text', {}, { access_token: 'at', expires_in: '7200' }, { expiresInSeconds: 7200 }],
    [
      'expires_in null',
      { expires_in_seconds: 99 },
      { access_token: 'at', expires_in: null },
      { expiresInSeconds: 99 },
    ],
    ['expires_in 0, which means never', {}, { access_token: 'at', expires_in: 0 }, {}],
    ['a year of a million days', {}, { access_token: 'at', expires_in: 1e300 }, {}],
    ['scopes with commas', {}, { access_token: 'at', scope: 'x:read, y' }, { scopes: ['x:read', 'y'] }],
    ['scopes in an array', {}, { access_token: 'at', scope: ['x', 'y z'] }, { scopes: ['x', 'y', 'z'] }],
    ['an empty refresh token', {}, { access_token: 'at', refresh_token: '' }, {}],
    ['a form', {}, 'access_token=at&scope=x&refresh_token=r', { scopes: ['x'], refreshToken: 'r' }],
    ['an unrequested id_token', {}, { access_token: 'at', id_token: 'no token at all' }, {}],
    [
      'tokens of a bot and of a user',
      { access_token_path: 'authed_user.access_token', response_fields: { team: 'team.id' } },
      {
        ok: true,
        access_token: 'bot-token',
        refresh_token: 'bot-refresh',
        team: { id: 'T1' },
        authed_user: { access_token: 'at', refresh_token: 'r', expires_in: 5 },
      },
      { refreshToken: 'r', expiresInSeconds: 5, fields: { team: 'T1' } },
    ],
    [
      'everything within an object',
      { access_token_path: 'data.access_token' },
      { data: { access_token: 'at' }, refresh_token: 'r', expires_in: 5 },
      { refreshToken: 'r', expiresInSeconds: 5 },
    ],
  ] as const) {
    test(`that answers ${what} is understood`, async () => {
      provider.answer = { body };
      const nothing = {
        refreshToken: undefined,
        expiresInSeconds: undefined,
        scopes: undefined,
        uid: undefined,
      };
      assert.deepEqual(await refresh(oauth), { accessToken: 'at', ...nothing, fields: {}, ...expected });
    });
  }

  const refused = async (asked: Promise<unknown>): Promise<GrantError> => {
    const error = await asked.then(
      () => assert.fail('it was granted'),
      (thrown: unknown) => thrown,
    );
    assert.ok(error instanceof GrantError, String(error));
    assert.equal(error.cause, undefined);
    assert.doesNotMatch(`${error.message} ${error.stack} ${JSON.stringify(error)}`, /canary/);
    return error;
  };

  for (const [reach, status, body, code] of [
    ['grant', 400, { error: 'invalid_grant' }, 'invalid_grant'],
    ['grant', 200, { error: 'bad_refresh_token', error_description: 'x' }, 'bad_refresh_token'],
    ['grant', 200, { ok: false, error: 'token_revoked' }, 'token_revoked'],
    ['grant', 400, 'error=invalid_grant', 'invalid_grant'],
    ['client', 401, { error: 'invalid_client' }, 'invalid_client'],
    ['client', 401, 'who are you?', undefined],
    ['client', 400, { error: { code: 'unauthorized_client', message: 'm' } }, 'unauthorized_client'],
    ['client', 200, { ok: false, error: 'bad_client_secret', access_token: 'at' }, 'bad_client_secret'],
    ['client', 400, { error: 'something_new' }, 'something_new'],
    ['moment', 400, { error: 'temporarily_unavailable' }, 'temporarily_unavailable'],
    ['moment', 500, { error: 'invalid_grant' }, 'invalid_grant'],
    ['moment', 429, { error: 'x' }, 'x'],
    ['moment', 503, '<html>', undefined],
    ['moment', 200, '<html>', undefined],
    ['moment', 200, '[]', undefined],
    ['moment', 200, {}, undefined],
    ['moment', 403, 'blocked', undefined],
    ['moment', 302, '', undefined],
  ] as const) {
    test(`that answers ${status} ${JSON.stringify(body)} refuses the ${reach}`, async () => {
      provider.answer = { status, body, headers: { location: '/elsewhere' } };
      const error = await refused(refresh());
      assert.deepEqual([error.reach, error.providerCode], [reach, code]);
      assert.equal(provider.seen.length, 1, 'redirects are not followed');
    });
  }

  test('that asks for patience is given it, in seconds or until a date', async () => {
    provider.answer = { status: 429, body: {}, headers: { 'retry-after': '17' } };
    assert.equal((await refused(refresh())).retryAfterSeconds, 17);
    const date = new Date(Math.ceil(clock.now() / 1000) * 1000 + 60_000).toUTCString();
    provider.answer = { status: 503, body: {}, headers: { 'retry-after': date } };
    const { retryAfterSeconds = 0 } = await refused(refresh());
    assert.ok(retryAfterSeconds >= 60 && retryAfterSeconds <= 61);
    provider.answer = { status: 503, body: {}, headers: { 'retry-after': 'soon' } };
    assert.equal((await refused(refresh())).retryAfterSeconds, undefined);
  });

  test('that repeats what it was sent is not quoted with it, and not at any length', async () => {
    const echo = `${client.clientSecret} ${encodeURIComponent(client.clientSecret ?? '')} the-refresh-canary
      old-access-canary\u0000\u202e ${'x'.repeat(1_000)}`;
    provider.answer = { status: 400, body: { error: 'invalid_grant', error_description: echo } };
    const error = await refused(refresh({}, { oauth_access_token: 'old-access-canary' }));
    assert.match(
      error.message,
      /^Odd refused the refresh token \(status 400\): invalid_grant: \[redacted\] \[redacted\]/,
    );
    assert.ok(error.message.length < 400);
    assert.doesNotMatch(error.message, /[\p{Cc}\p{Cf}]/u);
    provider.answer = {
      status: 400,
      body: { error: 'the-code-canary', error_description: 'the-code-canary' },
    };
    assert.equal((await refused(exchange())).providerCode, '[redacted]');
  });

  test('that sends more than 256 KB, or cannot be reached, is away for the moment', async () => {
    provider.answer = { body: `{"access_token":"${'x'.repeat(256 * 1024)}"}` };
    assert.match((await refused(refresh())).message, /ERR_BODY_TOO_LARGE/);
    const { reach, message } = await refused(refresh({ token_url: 'http://127.0.0.1:1/token' }));
    assert.deepEqual([reach, message], ['moment', 'Odd cannot be reached at 127.0.0.1:1: ECONNREFUSED']);
  });

  test('without encryption is asked on this machine only, and only where connections may go', async () => {
    const open = app();
    assert.ok(open.oauth?.version === 2);
    const context = {
      app: { ...open, oauth: { ...open.oauth, tokenUrl: 'http://t.example/token' } },
      client,
      fields: {},
    };
    const error = await refused(tokens.refresh(context, { refreshToken: 'the-refresh-canary' }));
    assert.match(error.message, /not encrypted: expected https/);
    const strict = createGuardedDispatcher({
      policy: new AddressPolicy({ allow: ['public'], deny: () => [] }),
    });
    const guarded = createTokenEndpoint({ dispatcher: strict, clock });
    const denied = guarded.refresh(
      { app: app(), client, fields: {} },
      { refreshToken: 'the-refresh-canary' },
    );
    assert.match((await refused(denied)).message, /EACCES/);
    await strict.destroy();
    assert.equal(provider.seen.length, 0);
  });

  test('of a client without the secret that it needs is not asked', async () => {
    const bare = { ...client, clientSecret: undefined };
    const error = await refused(
      tokens.refresh({ app: app(), client: bare, fields: {} }, { refreshToken: 'x' }),
    );
    assert.equal(error.reach, 'client');
    assert.equal(provider.seen.length, 0);
    await tokens.refresh(
      { app: app({ client_auth: 'none' }), client: bare, fields: {} },
      { refreshToken: 'x' },
    );
    assert.equal(new URLSearchParams(provider.last.body).get('client_id'), client.clientId);
  });

  test('identifies the user: in the answer, or when asked with the token', async () => {
    provider.answer = { body: { access_token: 'at', team: { id: 42 } } };
    assert.equal((await exchange({ uid: { from: 'token', path: 'team.id' } })).uid, '42');
    assert.equal((await exchange({ uid: { from: 'token', path: '__proto__.toString' } })).uid, undefined);
    provider.profile = { body: { data: [{ id: 'u1' }] } };
    const uid = { from: 'request', url: `${provider.url}/me`, path: 'data.0.id' };
    assert.equal((await exchange({ uid })).uid, 'u1');
    assert.equal(provider.last.headers.authorization, 'Bearer at');
    provider.profile = { status: 403, body: {} };
    assert.match((await refused(exchange({ uid }))).message, /answered 403 when asked/);
    // A refresh does not change who it is.
    const before = provider.seen.length;
    assert.equal((await refresh({ uid })).uid, undefined);
    assert.equal(provider.seen.length, before + 1);
  });

  test('identifies the user of a token that was refreshed for the first time here, and returns it in any case', async () => {
    const bring = (uid: object | undefined) =>
      tokens.refresh(
        { app: app({ uid }), client, fields: {} },
        { refreshToken: 'the-refresh-canary', asksUid: true },
      );
    const uid = { from: 'request', url: `${provider.url}/me`, path: 'id' };
    provider.profile = { body: { id: 'u1' } };
    assert.equal((await bring(uid)).uid, 'u1');
    for (const profile of [{ status: 403, body: {} }, { body: 'no JSON' }, { body: {} }]) {
      provider.profile = profile;
      const grant = await bring(uid);
      assert.deepEqual([grant.accessToken, grant.uid], ['at', undefined]);
    }
    provider.answer = { body: { access_token: 'at', data: { gid: 7 } } };
    assert.equal((await bring({ from: 'token', path: 'data.gid' })).uid, '7');
    assert.equal((await bring(undefined)).uid, undefined);
    const claims = { sub: 's', aud: client.clientId, exp: clock.now() / 1000 + 60 };
    provider.answer = { body: { access_token: 'at', id_token: idToken(claims) } };
    assert.equal((await bring({ from: 'id_token', path: 'sub' })).uid, 's');
    provider.answer = { body: { access_token: 'at', id_token: idToken({ ...claims, aud: 'another' }) } };
    const grant = await bring({ from: 'id_token', path: 'sub' });
    assert.deepEqual([grant.accessToken, grant.uid], ['at', undefined]);
  });

  const idToken = (claims: object) =>
    ['{"alg":"none"}', JSON.stringify(claims), '']
      .map((part) => Buffer.from(part).toString('base64url'))
      .join('.');

  test('has its id_token checked: audience, end, nonce, issuer', async () => {
    const uid = { uid: { from: 'id_token', path: 'sub' } };
    const good = {
      sub: 's',
      aud: ['x', client.clientId],
      exp: clock.now() / 1000 + 60,
      nonce: 'n',
      iss: 'i',
    };
    const sent = { nonce: 'n', issuer: 'i' };
    const ask = (claims: object) => {
      provider.answer = { body: { access_token: 'at', id_token: idToken(claims) } };
      return exchange(uid, sent);
    };
    assert.equal((await ask(good)).uid, 's');
    assert.match((await refused(ask({ ...good, aud: 'other' }))).message, /another client/);
    assert.match((await refused(ask({ ...good, exp: 1 }))).message, /has ended/);
    assert.match((await refused(ask({ ...good, nonce: 'm' }))).message, /nonce/);
    assert.match((await refused(ask({ ...good, nonce: undefined }))).message, /nonce/);
    assert.match((await refused(ask({ ...good, iss: 'j' }))).message, /issuer/);
    provider.answer = { body: { access_token: 'at', id_token: 'garbage' } };
    assert.match((await refused(exchange(uid, sent))).message, /no JSON Web Token/);
  });

  test('gives client credentials with the scopes of the client', async () => {
    const asked = { app: app({ scope_separator: ',' }), fields: {} };
    await tokens.clientCredentials({ ...asked, client });
    assert.equal(new URLSearchParams(provider.last.body).get('scope'), 'a,b');
    await tokens.clientCredentials({ ...asked, client: { ...client, scopes: [] } });
    assert.equal(new URLSearchParams(provider.last.body).get('scope'), null);
    assert.equal(new URLSearchParams(provider.last.body).get('grant_type'), 'client_credentials');
  });
});

describe('the token endpoint of a real provider', () => {
  test('gives client credentials, refuses strangers, and takes revocations', async () => {
    const real = await OAuthProvider.start(['https://m.example/connect/callback']);
    const dispatcher = createGuardedDispatcher({ policy });
    const tokens = createTokenEndpoint({ dispatcher, clock: new TestClock(Date.now()) });
    const own = { id: 'oa_1', clientId: real.clientId, clientSecret: real.clientSecret, scopes: ['api'] };
    const context = { app: parseApp(real.app('real')), client: own, fields: {} };
    const grant = await tokens.clientCredentials(context);
    assert.ok(grant.accessToken.length > 10);
    assert.deepEqual([grant.expiresInSeconds, grant.scopes], [3600, ['api']]);
    await tokens.revoke(context, { token: grant.accessToken, hint: 'access_token' });
    assert.equal(real.revocations, 1);
    const stranger = { ...context, client: { ...own, clientSecret: 'wrong-secret' } };
    await assert.rejects(tokens.clientCredentials(stranger), {
      reach: 'client',
      providerCode: 'invalid_client',
    });
    await assert.rejects(tokens.refresh(context, { refreshToken: 'none' }), {
      reach: 'grant',
      providerCode: 'invalid_grant',
    });
    await real.close();
    await assert.rejects(tokens.clientCredentials(context), { reach: 'moment' });
    await dispatcher.destroy();
  });
});
