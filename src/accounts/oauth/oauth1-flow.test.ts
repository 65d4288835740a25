import assert from 'node:assert/strict';
import { after, afterEach, beforeEach, describe, test } from 'node:test';
import type { AppDefinition, OAuth1Settings } from '#accounts/apps/app-definition.ts';
import { AddressPolicy } from '#egress/address-policy.ts';
import { createGuardedDispatcher } from '#egress/guarded-dispatcher.ts';
import { systemClock } from '#lib/clock.ts';
import type { ReceiverScript } from '../../../test/support/http-receiver.ts';
import { OAuth1Provider } from '../../../test/support/oauth1-provider.ts';
import { TestClock } from '../../../test/support/test-clock.ts';
import { type GrantContext, GrantError } from './grant.ts';
import { OAuth1Flow } from './oauth1-flow.ts';

const callbackUrl = 'http://127.0.0.1:8080/connect/callback';

describe('connecting by OAuth 1.0a', () => {
  const dispatcher = createGuardedDispatcher({
    policy: new AddressPolicy({ allow: ['local'], deny: () => [] }),
  });
  const flow = new OAuth1Flow({ dispatcher, clock: systemClock });
  let provider: OAuth1Provider;

  after(() => dispatcher.destroy());
  beforeEach(async () => {
    provider = await OAuth1Provider.start();
  });
  afterEach(() => provider.close());

  function context(changes: { oauth?: Partial<OAuth1Settings>; clientSecret?: string } = {}): GrantContext {
    const app: AppDefinition = {
      slug: 'stand_in',
      name: 'Stand-in',
      description: '',
      categories: [],
      authType: 'oauth',
      customFields: [],
      oauth: {
        version: 1,
        requestTokenUrl: `${provider.url}/oauth/request_token`,
        authorizationUrl: `${provider.url}/oauth/authorize?lang=en`,
        accessTokenUrl: `${provider.url}/oauth/access_token`,
        signatureMethod: 'HMAC-SHA1',
        authorizationParameters: { scope: 'read,write', name: 'Millrace & Co' },
        uid: { from: 'token', path: 'user_id' },
        registration: { url: '', text: '' },
        ...changes.oauth,
      },
      test: undefined,
    };
    const { key, secret } = provider.consumer;
    return {
      app,
      fields: {},
      client: {
        id: 'oa_000000000001',
        clientId: key,
        clientSecret: changes.clientSecret ?? secret,
        scopes: undefined,
      },
    };
  }

  /** The query with which the user's browser comes back. */
  async function sayYes(url: string): Promise<URLSearchParams> {
    const answer = await fetch(url, { redirect: 'manual' });
    assert.equal(answer.status, 302);
    const location = answer.headers.get('location') ?? '';
    assert.ok(location.startsWith(`${callbackUrl}?`), location);
    return new URL(location).searchParams;
  }

  async function fail(work: Promise<unknown>): Promise<GrantError> {
    const error = await work.then(
      () => assert.fail('it did not fail'),
      (thrown: unknown) => thrown,
    );
    assert.ok(error instanceof GrantError, String(error));
    assert.doesNotMatch(error.message, /canary/);
    return error;
  }

  for (const signatureMethod of ['HMAC-SHA1', 'HMAC-SHA256'] as const) {
    test(`goes from the request token over the user's consent to the access token, signed with ${signatureMethod}`, async () => {
      const asked = context({ oauth: { signatureMethod } });
      const temporary = await flow.requestToken(asked, { callbackUrl });
      const url = flow.authorizationUrl(asked, temporary);
      assert.deepEqual(Object.fromEntries(new URL(url).searchParams), {
        lang: 'en',
        scope: 'read,write',
        name: 'Millrace & Co',
        oauth_token: temporary.token,
      });
      assert.ok(!url.includes(temporary.tokenSecret));
      const back = await sayYes(url);
      assert.equal(back.get('oauth_token'), temporary.token);
      const verifier = back.get('oauth_verifier') ?? '';
      const grant = await flow.accessToken(asked, { ...temporary, verifier });
      assert.match(grant.accessToken, /^access-/);
      assert.match(grant.refreshToken ?? '', /-canary$/);
      assert.equal(grant.uid, provider.uid);
      assert.deepEqual(provider.problems, []);
      // Used up: the same answer of the browser is worth nothing the second time.
      const again = await fail(flow.accessToken(asked, { ...temporary, verifier }));
      assert.deepEqual([again.reach, again.providerCode], ['grant', 'token_rejected']);
    });
  }

  test('who the account is of is asked by a signed request where the answer with the token does not say', async () => {
    const uid = { from: 'request' as const, url: `${provider.url}/api/me?fields=id`, path: 'user' };
    const connect = async (asked: GrantContext) => {
      const temporary = await flow.requestToken(asked, { callbackUrl });
      const back = await sayYes(flow.authorizationUrl(asked, temporary));
      return flow.accessToken(asked, { ...temporary, verifier: back.get('oauth_verifier') ?? '' });
    };
    const grant = await connect(context({ oauth: { uid } }));
    assert.equal(grant.uid, provider.uid);
    assert.deepEqual(
      provider.accepted.map(({ method, url, token }) => [method, url, token]),
      [['GET', '/api/me?fields=id', grant.accessToken]],
    );
    const nowhere = context({ oauth: { uid: { ...uid, url: `${provider.url}/nowhere` } } });
    assert.match(
      (await fail(connect(nowhere))).message,
      /^Stand-in answered 404 at .*\/nowhere: nothing here$/,
    );
  });

  test('a wrong consumer secret is a fault of the client', async () => {
    const error = await fail(flow.requestToken(context({ clientSecret: 'another-canary' }), { callbackUrl }));
    assert.deepEqual([error.reach, error.providerCode], ['client', 'signature_invalid']);
    assert.match(
      error.message,
      /^Stand-in answered 401 at 127\.0\.0\.1:\d+\/oauth\/request_token: signature_invalid$/,
    );
  });

  test('a clock that is wrong is a fault of this side too, not of the grant', async () => {
    const late = new OAuth1Flow({ dispatcher, clock: new TestClock(1_000_000_000_000) });
    const error = await fail(late.requestToken(context(), { callbackUrl }));
    assert.deepEqual([error.reach, error.providerCode], ['client', 'timestamp_refused']);
  });

  test('a verifier that was not given for the token is refused', async () => {
    const asked = context();
    const mine = await flow.requestToken(asked, { callbackUrl });
    const other = await flow.requestToken(asked, { callbackUrl });
    const back = await sayYes(flow.authorizationUrl(asked, other));
    await sayYes(flow.authorizationUrl(asked, mine));
    const verifier = back.get('oauth_verifier') ?? '';
    const error = await fail(flow.accessToken(asked, { ...mine, verifier }));
    assert.deepEqual([error.reach, error.providerCode], ['grant', 'verifier_invalid']);
  });

  const answers: Record<string, [answer: ReceiverScript, reach: string, message: RegExp]> = {
    'an answer without a confirmed callback': [
      { body: 'oauth_token=a&oauth_token_secret=canary' },
      'client',
      /did not confirm the callback/,
    ],
    'an answer without tokens': [
      { body: 'oauth_callback_confirmed=true' },
      'moment',
      /answered without oauth_token/,
    ],
    garbage: [{ body: Buffer.from([0xff, 0xfe, 0, 1, 0x80]) }, 'client', /did not confirm/],
    'a token that is far too long': [
      { body: `oauth_callback_confirmed=true&oauth_token=${'a'.repeat(9000)}&oauth_token_secret=b` },
      'moment',
      /far too long/,
    ],
    'an answer without end': [
      (_request, response) => {
        const write = (): void => {
          while (!response.destroyed && response.write('a'.repeat(16_384))) {}
        };
        response.on('drain', write);
        write();
        return undefined;
      },
      'moment',
      /cannot be reached at 127.0.0.1:\d+: ERR_BODY_TOO_LARGE/,
    ],
    'a page of an error': [
      { status: 503, headers: { 'retry-after': '17', 'content-type': 'text/html' }, body: '<h1>down</h1>' },
      'moment',
      /answered 503 at 127.0.0.1:\d+\/oauth\/request_token$/,
    ],
    'a refusal in words, with what was sent': [
      {
        status: 403,
        body: { errors: [{ message: 'callback not approved', key: 'consumer-secret-&%-canary' }] },
      },
      'client',
      /answered 403 .*callback not approved.*\[redacted\]/,
    ],
    'too many requests': [{ status: 429, headers: { 'retry-after': '17' } }, 'moment', /answered 429/],
    'a broken connection': [
      (_request, response) => {
        response.destroy();
        return undefined;
      },
      'moment',
      /cannot be reached at 127.0.0.1:\d+: UND_ERR_SOCKET/,
    ],
  };
  for (const [name, [answer, reach, message]] of Object.entries(answers)) {
    test(`${name} is a fault of the ${reach}`, async () => {
      provider.receiver.answerOnce(answer);
      const error = await fail(flow.requestToken(context(), { callbackUrl }));
      assert.equal(error.reach, reach);
      assert.match(error.message, message);
      if (error.message.includes(' 503') || error.message.includes(' 429'))
        assert.equal(error.retryAfterSeconds, 17);
    });
  }

  test('a redirect is not followed: what was signed for one place goes nowhere else', async () => {
    const thief = await OAuth1Provider.start();
    try {
      for (const status of [301, 302, 307, 308]) {
        provider.receiver.answerOnce({ status, headers: { location: `${thief.url}/oauth/request_token` } });
        const error = await fail(flow.requestToken(context(), { callbackUrl }));
        assert.equal(error.reach, 'moment');
        assert.match(error.message, /redirects are not followed/);
      }
      assert.equal(thief.receiver.requests.length, 0);
    } finally {
      await thief.close();
    }
  });

  test('a provider that is not on this machine is asked by https only', async () => {
    const asked = context({ oauth: { requestTokenUrl: 'http://provider.example/request_token' } });
    assert.match((await fail(flow.requestToken(asked, { callbackUrl }))).message, /not encrypted/);
  });
});
