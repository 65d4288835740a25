import assert from 'node:assert/strict';
import { createHmac, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import { AddressPolicy } from '#egress/address-policy.ts';
import { createGuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import { silentLogger } from '#lib/logger.ts';
import { CertificateAuthority } from '../../test/support/certificates.ts';
import { HttpReceiver } from '../../test/support/http-receiver.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { IdentityProvider } from './identity-provider.ts';
import { ProviderFault } from './provider-fault.ts';
import { checksOf, newSignIn } from './sign-in-cookie.ts';

const redirectUri = 'https://millrace.example/oidc/callback';
const clientId = 'millrace';
const clientSecret = 's3cr3t-of.the_client';
const code = 'code-0123456789abcdef';
const accessToken = 'access-token-0123456789';

interface SigningKey {
  kid: string;
  privateKey: KeyObject;
  jwk: object;
}

function newKey(kid: string): SigningKey {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return { kid, privateKey, jwk: { ...publicKey.export({ format: 'jwk' }), kid, alg: 'RS256', use: 'sig' } };
}

const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

function jwt(header: object, claims: object, signature: (text: string) => Buffer): string {
  const text = `${encoded(header)}.${encoded(claims)}`;
  return `${text}.${signature(text).toString('base64url')}`;
}

function signed(claims: object, { kid, privateKey }: SigningKey): string {
  return jwt({ alg: 'RS256', kid }, claims, (text) => sign('sha256', Buffer.from(text), privateKey));
}

describe('a provider of single sign-on', () => {
  const key = newKey('one');
  const clock = new TestClock();
  const authority = new CertificateAuthority();
  const policy = new AddressPolicy({ allow: ['local'], deny: () => [] });
  const dispatcher = createGuardedDispatcher({ policy, extraCa: authority.pem });
  let receiver: HttpReceiver;
  let provider: IdentityProvider;
  /** What the provider says; a test changes a part of it. */
  let metadata: Record<string, unknown>;
  let jwks: object;
  let idToken: string | undefined;
  let userinfo: object | undefined;
  let answers: Map<string, { status: number; body?: unknown }>;
  let checks: ReturnType<typeof checksOf>;

  const claims = (changes: object = {}) => {
    const now = Math.floor(Date.now() / 1000);
    return {
      iss: receiver.url,
      sub: 'ada',
      aud: clientId,
      iat: now,
      exp: now + 300,
      nonce: checks.nonce,
      ...changes,
    };
  };
  const open = (settings: { issuer?: string; clientSecret?: string } = {}, guarded = dispatcher) =>
    new IdentityProvider({
      settings: { issuer: receiver.url, clientId, clientSecret, scopes: 'openid  profile', ...settings },
      ...{ dispatcher: guarded, clock, logger: silentLogger },
    });
  const callback = (parameters: Record<string, string> = {}) =>
    new URL(`${redirectUri}?${new URLSearchParams({ code, state: checks.state, ...parameters })}`);
  const claimed = (parameters?: Record<string, string>) => provider.claims(callback(parameters), checks);

  async function fault(promise: Promise<unknown>): Promise<ProviderFault> {
    const error = await promise.then(
      (value) => assert.fail(`it was accepted: ${JSON.stringify(value)}`),
      (thrown) => thrown,
    );
    assert.ok(error instanceof ProviderFault, String(error?.stack));
    for (const secret of [
      clientSecret,
      code,
      accessToken,
      checks.verifier,
      checks.nonce,
      idToken ?? accessToken,
    ])
      assert.ok(!`${error.message} ${error.reason} ${error.cause ?? ''}`.includes(secret), error.reason);
    return error;
  }

  before(async () => {
    receiver = await HttpReceiver.start();
    receiver.answerAlways(({ url }) => {
      const path = url.split('?')[0] ?? '';
      const given = answers.get(path);
      if (given !== undefined) return given;
      if (path === '/.well-known/openid-configuration') return { body: metadata };
      if (path === '/jwks') return { body: jwks };
      if (path === '/userinfo') return { body: userinfo };
      return { body: { access_token: accessToken, token_type: 'Bearer', expires_in: 60, id_token: idToken } };
    });
  });
  after(async () => {
    await receiver.close();
    await dispatcher.close();
  });
  beforeEach(() => {
    checks = checksOf(newSignIn({ returnTo: '/' }, 0));
    metadata = {
      issuer: receiver.url,
      authorization_endpoint: `${receiver.url}/auth?tenant=1`,
      token_endpoint: `${receiver.url}/token`,
      jwks_uri: `${receiver.url}/jwks`,
      id_token_signing_alg_values_supported: ['RS256', 'HS256', 'none'],
      authorization_response_iss_parameter_supported: true,
    };
    jwks = { keys: [key.jwk] };
    idToken = signed(claims(), key);
    userinfo = undefined;
    answers = new Map();
    receiver.requests.length = 0;
    provider = open();
  });

  test('gets the code with PKCE and the secret of the client, and says who the user is', async () => {
    const url = new URL(await provider.authorizationUrl(redirectUri, checks));
    assert.equal(url.searchParams.get('tenant'), '1');
    assert.equal(url.searchParams.get('scope'), 'openid profile');
    idToken = signed(claims({ groups: ['devs'], aud: [clientId] }), key);
    assert.deepEqual((await claimed({ iss: receiver.url })).groups, ['devs']);
    const asked = receiver.requests.find(({ url }) => url === '/token');
    const form = new URLSearchParams(asked?.body.toString());
    assert.deepEqual(
      [form.get('code_verifier'), form.get('code'), form.get('redirect_uri'), form.get('client_secret')],
      [checks.verifier, code, redirectUri, null],
    );
    const basic = Buffer.from(`${clientId}:${clientSecret}`).toString('base64');
    assert.equal(asked?.headers.authorization, `Basic ${basic}`);
    // As the provider says it takes it; and a public client has none.
    metadata.token_endpoint_auth_methods_supported = ['client_secret_post'];
    for (const secret of [clientSecret, '']) {
      provider = open({ clientSecret: secret });
      await claimed({ iss: receiver.url });
      const last = receiver.requests.findLast(({ url }) => url === '/token');
      assert.equal(last?.headers.authorization, undefined);
      assert.equal(new URLSearchParams(last?.body.toString()).get('client_secret') ?? '', secret);
    }
  });

  test('adds what the userinfo response says, unless that is about another user', async () => {
    metadata.userinfo_endpoint = `${receiver.url}/userinfo`;
    userinfo = { sub: 'ada', groups: ['ops'], iss: 'https://evil.example', email: 'ada@a.example' };
    const found = await claimed({ iss: receiver.url });
    assert.deepEqual([found.groups, found.email, found.iss], [['ops'], 'ada@a.example', receiver.url]);
    const asked = receiver.requests.find(({ url }) => url === '/userinfo');
    assert.equal(asked?.headers.authorization, `Bearer ${accessToken}`);
    userinfo = { sub: 'root', groups: ['admins'] };
    assert.equal((await fault(claimed({ iss: receiver.url }))).kind, 'untrusted');
  });

  const other = newKey('one');
  const hour = 3_600;
  const now = () => Math.floor(Date.now() / 1000);
  const forgeries: Record<string, () => string | undefined> = {
    'is missing': () => undefined,
    'is no JWT': () => 'not-a-token',
    'is of another issuer': () => signed(claims({ iss: 'https://evil.example' }), key),
    'is for another client': () => signed(claims({ aud: 'another-client' }), key),
    'is for several clients without saying for which': () =>
      signed(claims({ aud: [clientId, 'another-client'] }), key),
    'was asked for by another client': () =>
      signed(claims({ aud: [clientId, 'another-client'], azp: 'another-client' }), key),
    'names another authorized party': () => signed(claims({ azp: 'another-client' }), key),
    'has expired': () => signed(claims({ exp: now() - 120 }), key),
    'never expires': () => signed(claims({ exp: undefined }), key),
    'is not valid yet': () => signed(claims({ nbf: now() + hour }), key),
    'has no subject': () => signed(claims({ sub: undefined }), key),
    'has the nonce of another sign-in': () =>
      signed(claims({ nonce: randomBytes(32).toString('base64url') }), key),
    'has no nonce': () => signed(claims({ nonce: undefined }), key),
    'is signed with a key of another': () => signed(claims(), other),
    'names a key that the provider does not have': () => signed(claims(), { ...key, kid: 'two' }),
    'is not signed': () => jwt({ alg: 'none' }, claims(), () => Buffer.alloc(0)),
    'is signed with the secret of the client': () =>
      jwt({ alg: 'HS256' }, claims(), (text) => createHmac('sha256', clientSecret).update(text).digest()),
    'is signed with the public key as if it were a secret': () =>
      jwt({ alg: 'HS256', kid: key.kid }, claims(), (text) =>
        createHmac('sha256', JSON.stringify(key.jwk)).update(text).digest(),
      ),
    'was changed after it was signed': () => {
      const [header, , signature] = signed(claims(), key).split('.');
      return `${header}.${encoded(claims({ sub: 'root' }))}.${signature}`;
    },
  };
  for (const [what, forge] of Object.entries(forgeries)) {
    test(`is not trusted when its ID token ${what}`, async () => {
      idToken = forge();
      assert.equal((await fault(claimed({ iss: receiver.url }))).kind, 'untrusted');
    });
  }

  test('may have a clock that is a minute off', async () => {
    idToken = signed(claims({ exp: now() - 30, iat: now() - 90, nbf: now() - 90 }), key);
    assert.equal((await claimed({ iss: receiver.url })).sub, 'ada');
  });

  test('has to name itself in its answer where it says that it does, so that no other provider can answer for it', async () => {
    assert.equal((await fault(claimed({ iss: 'https://evil.example' }))).kind, 'untrusted');
    assert.equal((await fault(claimed())).kind, 'untrusted');
    assert.equal(receiver.requests.filter(({ url }) => url === '/token').length, 0, 'it got the code');
    assert.equal((await fault(claimed({ iss: receiver.url, state: 'x' }))).kind, 'untrusted');
  });

  test('may replace its keys at any time, and an old key is not trusted from then on', async () => {
    assert.equal((await claimed({ iss: receiver.url })).sub, 'ada');
    const next = newKey('two');
    jwks = { keys: [next.jwk] };
    assert.equal((await fault(claimed({ iss: receiver.url }))).kind, 'untrusted');
    idToken = signed(claims(), next);
    assert.equal((await claimed({ iss: receiver.url })).sub, 'ada');
  });

  test('says no, or has an error of its own: the reason names which', async () => {
    const denied = await fault(
      claimed({ iss: receiver.url, error: 'access_denied', error_description: 'no access for you' }),
    );
    assert.deepEqual([denied.kind, denied.reason], ['denied', 'access_denied: no access for you']);
    const busy = await fault(claimed({ iss: receiver.url, error: 'temporarily_unavailable' }));
    assert.equal(busy.kind, 'unavailable');
    answers.set('/token', {
      status: 400,
      body: { error: 'invalid_grant', error_description: `not ${code}` },
    });
    const refused = await fault(claimed({ iss: receiver.url }));
    assert.deepEqual([refused.kind, refused.reason], ['refused', '400 invalid_grant: not [redacted]']);
    answers.set('/token', { status: 401, body: { error: 'invalid_client' } });
    assert.equal((await fault(claimed({ iss: receiver.url }))).kind, 'refused');
    answers.set('/token', { status: 502, body: 'oops' });
    assert.equal((await fault(claimed({ iss: receiver.url }))).kind, 'unavailable');
    answers.delete('/token');
    answers.set('/jwks', { status: 503 });
    assert.equal((await fault(claimed({ iss: receiver.url }))).kind, 'unavailable');
  });

  test('is asked who it is once for all who wait, and again after a while; a failure is remembered for moments only', async () => {
    const asked = () => receiver.requests.filter(({ url }) => url.startsWith('/.well-known')).length;
    assert.deepEqual(
      await Promise.all([provider.status(), provider.status()]).then(([{ state }]) => [state, asked()]),
      ['reachable', 1],
    );
    await Promise.all([1, 2, 3].map(() => provider.authorizationUrl(redirectUri, checks)));
    assert.equal(asked(), 1);
    answers.set('/.well-known/openid-configuration', { status: 503, body: {} });
    clock.step(5 * 60_000);
    for (let tried = 0; tried < 3; tried += 1)
      assert.equal((await fault(provider.authorizationUrl(redirectUri, checks))).kind, 'unavailable');
    assert.equal(asked(), 2);
    const { state, problem } = await provider.status();
    assert.deepEqual([state, /503/.test(problem ?? '')], ['unreachable', true]);
    answers.clear();
    clock.step(2_000);
    await provider.authorizationUrl(redirectUri, checks);
    assert.deepEqual([(await provider.status()).state, asked()], ['reachable', 3]);
  });

  test('is reached where MILLRACE_EGRESS allows it, with a certificate that is trusted, and under the issuer that it says', async () => {
    const strict = createGuardedDispatcher({
      policy: new AddressPolicy({ allow: ['public'], deny: () => [] }),
    });
    const blocked = await open({}, strict).status();
    assert.equal(blocked.state, 'unreachable');
    assert.match(blocked.problem ?? '', /is not allowed.*MILLRACE_EGRESS/);
    const tls = await HttpReceiver.start({ tls: authority.issue(['127.0.0.1']) });
    const secure = {
      ...{ ...metadata, issuer: tls.url, authorization_endpoint: `${tls.url}/auth` },
      ...{ token_endpoint: `${tls.url}/token`, jwks_uri: `${tls.url}/jwks` },
    };
    tls.answerAlways({ body: secure });
    assert.equal((await open({ issuer: tls.url }).status()).state, 'reachable');
    const untrusted = createGuardedDispatcher({ policy });
    assert.match((await open({ issuer: tls.url }, untrusted).status()).problem ?? '', /certificate/);
    // Keys and tokens over plain HTTP could be changed on their way.
    tls.answerAlways({ body: { ...secure, token_endpoint: 'http://127.0.0.1:9/token' } });
    assert.equal(
      (await fault(open({ issuer: tls.url }).claims(callback({ iss: tls.url }), checks))).kind,
      'untrusted',
    );
    tls.answerAlways({ body: { ...metadata, issuer: 'https://evil.example' } });
    assert.match(
      (await open({ issuer: tls.url }).status()).problem ?? '',
      /does not match the expected issuer/,
    );
    await tls.close();
    await Promise.all([strict.close(), untrusted.close()]);
  });

  test('cannot be used while its endpoints are no addresses that a browser may be sent to, or its answers are too long', async () => {
    const sound = metadata;
    for (const name of ['authorization_endpoint', 'end_session_endpoint', 'token_endpoint', 'jwks_uri']) {
      for (const wrong of ['javascript:alert(1)', 'ftp://127.0.0.1/', 'nowhere', 7]) {
        metadata = { ...sound, [name]: wrong };
        const opened = open();
        const found = await fault(opened.authorizationUrl(redirectUri, checks));
        assert.equal(found.kind, 'untrusted', `${name}: ${wrong}`);
        assert.equal(await opened.signOutUrl('https://millrace.example/sign-in'), undefined);
      }
    }
    metadata = { ...sound, authorization_endpoint: 'javascript:alert(1)' };
    assert.match(
      (await open().status()).problem ?? '',
      /authorization_endpoint: found "javascript:alert\(1\)", expected an https URL/,
    );
    // The next answer is as long.
    metadata = { ...sound, padding: 'x'.repeat(2 ** 20) };
    const long = await fault(open().authorizationUrl(redirectUri, checks));
    assert.deepEqual([long.kind, /is larger than 1/.test(long.reason)], ['untrusted', true]);
  });

  test('ends its own session where it has a page for that', async () => {
    const home = 'https://millrace.example/sign-in';
    assert.equal(await provider.signOutUrl(home), undefined);
    metadata.end_session_endpoint = `${receiver.url}/end`;
    provider = open();
    const url = new URL((await provider.signOutUrl(home)) ?? '');
    assert.equal(url.pathname, '/end');
    assert.deepEqual(
      [...url.searchParams],
      [
        ['post_logout_redirect_uri', home],
        ['client_id', clientId],
      ],
    );
    answers.set('/.well-known/openid-configuration', { status: 503 });
    assert.equal(await open().signOutUrl(home), undefined);
  });
});
