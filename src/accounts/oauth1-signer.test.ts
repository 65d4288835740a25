import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { systemClock } from '#lib/clock.ts';
import { CallerError } from '#lib/errors.ts';
import { Vault } from '#vault/vault.ts';
import { OAuth1Provider, type ProviderToken } from '../../test/support/oauth1-provider.ts';
import { forEachStore, type StoreFixture } from '../../test/support/stores.ts';
import type { Account } from './account-store.ts';
import type { AppDefinition } from './apps/app-definition.ts';
import { createAccount, deleteAccount, updateAccount } from './manage-accounts.ts';
import { deleteClient, openClient, putClient } from './oauth/manage-oauth-clients.ts';
import { SignerUris } from './oauth/oauth1-signer-uris.ts';
import { OAuth1Signer } from './oauth1-signer.ts';

const masterKey = Buffer.alloc(32, 7);
const vault = new Vault(masterKey);
const tools = { vault, clock: systemClock };
const owner = { ownerId: 'o_000000000001', userId: 'u_000000000001' };

forEachStore((fixture) => {
  describe('the signer of an OAuth 1 account', () => suite(fixture));
});

function suite(fixture: StoreFixture): void {
  let publicUrl = 'http://127.0.0.1:8080';
  const uris = new SignerUris({ key: vault.keyFor('oauth1 signer'), publicUrl: () => publicUrl });
  let provider: OAuth1Provider;
  let app: AppDefinition;
  let token: ProviderToken;
  let account: Account;
  let signer: OAuth1Signer;
  const accountTools = {
    ...tools,
    findApp: async (slug: string) => (slug === app.slug ? app : undefined),
  };

  before(async () => {
    provider = await OAuth1Provider.start();
  });
  after(() => provider.close());

  beforeEach(async () => {
    publicUrl = 'http://127.0.0.1:8080';
    app = {
      slug: 'stand_in',
      name: 'Stand-in',
      description: '',
      categories: [],
      authType: 'oauth',
      customFields: [],
      oauth: {
        version: 1,
        requestTokenUrl: `${provider.url}/oauth/request_token`,
        authorizationUrl: `${provider.url}/oauth/authorize`,
        accessTokenUrl: `${provider.url}/oauth/access_token`,
        signatureMethod: 'HMAC-SHA1',
        authorizationParameters: {},
        uid: undefined,
        registration: { url: '', text: '' },
      },
      test: undefined,
    };
    signer = new OAuth1Signer({
      store: fixture.store,
      vault,
      clock: systemClock,
      uris,
      findApp: async (slug, owners) =>
        slug === app.slug && owners.includes(owner.ownerId) ? app : undefined,
      findClient: (id) => openClient(fixture.store.read, vault, id),
    });
    await fixture.store.transaction((tx) =>
      putClient(tx, tools, {
        ...owner,
        app,
        clientId: provider.consumer.key,
        clientSecret: provider.consumer.secret,
        scopes: undefined,
      }),
    );
    token = provider.addToken();
    account = await connect(token);
  });

  async function connect({ key, secret }: ProviderToken): Promise<Account> {
    const credentials = { oauth_access_token: key, oauth_refresh_token: secret };
    return fixture.store.transaction((tx) =>
      createAccount(tx, accountTools, { ...owner, app: app.slug, credentials }),
    );
  }

  function capabilityOf(id: string): string {
    return uris.uriOf(id).split('/').at(-1) ?? '';
  }

  const asked = (changes: Record<string, unknown> = {}) => ({
    requestData: { method: 'GET', url: `${provider.url}/api/me?x=1`, ...changes },
    token: { ...token },
  });

  async function call(method: string, path: string, authorization: string, form?: string): Promise<number> {
    const response = await fetch(`${provider.url}${path}`, {
      method,
      headers: {
        authorization,
        ...(form === undefined ? {} : { 'content-type': 'application/x-www-form-urlencoded' }),
      },
      ...(form === undefined ? {} : { body: form }),
    });
    await response.arrayBuffer();
    return response.status;
  }

  async function refusal(capability: string, body: unknown): Promise<[string, unknown]> {
    const error = await signer.sign(capability, body).then(
      () => assert.fail('it was signed'),
      (thrown: unknown) => thrown,
    );
    assert.ok(error instanceof CallerError, String(error));
    assert.doesNotMatch(`${error.message} ${JSON.stringify(error.details)}`, /canary|leak/);
    return [error.code, error.details.parameter];
  }

  test('signs what the provider then accepts: queries, forms of fields and of text, and any method', async () => {
    const path = '/api/items?q=caf%C3%A9+au%20lait&tag=b&tag=a&empty=&sign=%26%3D%2B!*()';
    const url = `${provider.url}${path}`;
    const capability = capabilityOf(account.id);
    const header = await signer.sign(capability, asked({ method: 'get', url }));
    assert.equal(await call('GET', path, header), 200);
    const fields = { status: 'Hello + goodbye & ☃', 'list[]': ['b', 'a'], n: 1, yes: true, none: null };
    const form = new URLSearchParams([
      ['status', 'Hello + goodbye & ☃'],
      ['list[]', 'b'],
      ['list[]', 'a'],
      ['n', '1'],
      ['yes', 'true'],
      ['none', ''],
    ]).toString();
    for (const data of [fields, form]) {
      const signed = await signer.sign(capability, asked({ method: 'POST', url, data }));
      assert.equal(await call('POST', path, signed, form), 200);
    }
    assert.equal(
      await call('DELETE', path, await signer.sign(capability, asked({ method: 'DELETE', url }))),
      200,
    );
    // For one request, and once.
    assert.equal(await call('GET', path, header), 401);
    assert.equal(await call('GET', `${path}&more=1`, await signer.sign(capability, asked({ url }))), 401);
    assert.deepEqual(provider.problems.splice(0), ['nonce_used', 'signature_invalid']);
  });

  test('signs with HMAC-SHA256 for an app that wants it, and without the secret of the token being sent', async () => {
    if (app.oauth?.version === 1) app.oauth.signatureMethod = 'HMAC-SHA256';
    const header = await signer.sign(capabilityOf(account.id), { ...asked(), token: { key: token.key } });
    assert.match(header, /oauth_signature_method="HMAC-SHA256"/);
    assert.equal(await call('GET', '/api/me?x=1', header), 200);
  });

  test('its URI follows the public URL, and stands in the credentials of no other account', () => {
    publicUrl = 'https://millrace.example';
    const opened = uris.withSignerUri(account, {
      oauth_access_token: 'a',
      oauth_signer_uri: 'http://forged.example',
    });
    assert.deepEqual(opened, {
      oauth_access_token: 'a',
      oauth_signer_uri: `https://millrace.example/oauth1/sign/${capabilityOf(account.id)}`,
    });
    const keys = { api_key: 'k' };
    assert.equal(uris.withSignerUri({ id: account.id, grant_type: 'keys' }, keys), keys);
  });

  test('a capability that is forged, of another key or of no account is not found', async () => {
    const capability = capabilityOf(account.id);
    const [id, mac] = capability.split('.');
    const stranger = new SignerUris({
      key: new Vault(Buffer.alloc(32, 8)).keyFor('oauth1 signer'),
      publicUrl: () => publicUrl,
    });
    const other = await connect(provider.addToken());
    const forged = [
      '',
      'some-id',
      account.id,
      `${account.id}.`,
      `${account.id}.${'A'.repeat(43)}`,
      `${other.id}.${mac}`,
      `${id}.${mac}A`,
      `${id}.${mac?.slice(0, -1)}`,
      `${id}.${mac?.toLowerCase()}`,
      `${capability.slice(0, 20)}${capability[20] === 'x' ? 'y' : 'x'}${capability.slice(21)}`,
      stranger.uriOf(account.id).split('/').at(-1) ?? '',
      capabilityOf('apn_000000000000'),
    ];
    for (const text of forged) assert.deepEqual(await refusal(text, asked()), ['not_found', undefined], text);
  });

  test('signs for the token of its account only', async () => {
    const capability = capabilityOf(account.id);
    const otherToken = provider.addToken();
    await connect(otherToken);
    const wrong: unknown[] = [
      otherToken,
      { key: otherToken.key, secret: token.secret },
      { key: token.key, secret: otherToken.secret },
      { key: '' },
      { key: [token.key] },
      { key: null },
      { key: token.key, secret: {} },
    ];
    for (const one of wrong) {
      assert.deepEqual(
        await refusal(capability, { ...asked(), token: one }),
        ['invalid_parameter', 'token'],
        JSON.stringify(one),
      );
    }
    assert.deepEqual(await refusal(capability, { ...asked(), token: {} }), [
      'missing_parameter',
      'token.key',
    ]);
    assert.deepEqual(await refusal(capability, { requestData: asked().requestData }), [
      'missing_parameter',
      'token',
    ]);
  });

  test('refuses what is no request, naming the field and repeating nothing', async () => {
    const capability = capabilityOf(account.id);
    const leak = 'leak-0123456789';
    const bad: [unknown, string, string | undefined][] = [
      [undefined, 'invalid_body', undefined],
      [[leak], 'invalid_body', undefined],
      [leak, 'invalid_body', undefined],
      [{ token }, 'missing_parameter', 'requestData'],
      [{ token, requestData: leak }, 'invalid_parameter', 'requestData'],
      [asked({ method: `GET ${leak}` }), 'invalid_parameter', 'requestData.method'],
      [asked({ method: undefined }), 'invalid_parameter', 'requestData.method'],
      [asked({ url: `/api/${leak}` }), 'invalid_parameter', 'requestData.url'],
      [asked({ url: `ftp://host/${leak}` }), 'invalid_parameter', 'requestData.url'],
      [asked({ url: `javascript:${leak}` }), 'invalid_parameter', 'requestData.url'],
      [asked({ url: { href: leak } }), 'invalid_parameter', 'requestData.url'],
      [asked({ data: { a: { b: leak } } }), 'invalid_parameter', 'requestData.data'],
      [asked({ data: [leak] }), 'invalid_parameter', 'requestData.data'],
      [asked({ data: 7 }), 'invalid_parameter', 'requestData.data'],
      // What would stand in the request twice.
      [asked({ data: { oauth_token: leak } }), 'invalid_parameter', 'requestData'],
      [asked({ data: `a=1&oauth_nonce=${leak}` }), 'invalid_parameter', 'requestData'],
      [asked({ url: `${provider.url}/api?oauth%5Ftoken=${leak}` }), 'invalid_parameter', 'requestData'],
    ];
    for (const [body, ...expected] of bad)
      assert.deepEqual(await refusal(capability, body), expected, JSON.stringify(body));
  });

  test('is gone with its account', async () => {
    const capability = capabilityOf(account.id);
    await signer.sign(capability, asked());
    await fixture.store.transaction((tx) => deleteAccount(tx, account.id, [owner.ownerId]));
    assert.deepEqual(await refusal(capability, asked()), ['not_found', undefined]);
  });

  test('of an account that was connected again signs for the new token, and not for the old one', async () => {
    const capability = capabilityOf(account.id);
    const fresh = provider.addToken();
    const replace = (credentials: object) =>
      fixture.store.transaction((tx) =>
        updateAccount(tx, accountTools, account.id, [owner.ownerId], { credentials }),
      );
    await replace({ oauth_access_token: fresh.key, oauth_refresh_token: fresh.secret });
    assert.deepEqual(await refusal(capability, asked()), ['invalid_parameter', 'token']);
    await signer.sign(capability, { ...asked(), token: fresh });
    await replace({ api_key: 'k' });
    assert.deepEqual(await refusal(capability, { ...asked(), token: fresh }), ['not_found', undefined]);
  });

  test('signs nothing when the client of the account was removed or became another, or the app is none of OAuth 1', async () => {
    const capability = capabilityOf(account.id);
    const put = (clientId: string, clientSecret: string) =>
      fixture.store.transaction((tx) =>
        putClient(tx, tools, { ...owner, app, clientId, clientSecret, scopes: undefined }),
      );
    await put('another-consumer', 'another-secret-canary');
    assert.deepEqual(await refusal(capability, asked()), ['oauth_client_missing', undefined]);
    await put(provider.consumer.key, provider.consumer.secret);
    assert.equal(await call('GET', '/api/me?x=1', await signer.sign(capability, asked())), 200);
    const { ownerId } = owner;
    await fixture.store.transaction((tx) => deleteClient(tx, { ownerId, app, force: true }));
    assert.deepEqual(await refusal(capability, asked()), ['oauth_client_missing', undefined]);
    app.oauth = undefined;
    assert.deepEqual(await refusal(capability, asked()), ['oauth_client_missing', undefined]);
  });

  test('tokens of an OAuth 1 app that are brought along need the client they were given to', async () => {
    const create = (ownerId: string, credentials: object) =>
      fixture.store.transaction((tx) =>
        createAccount(tx, accountTools, { ownerId, userId: owner.userId, app: app.slug, credentials }),
      );
    await assert.rejects(
      create('o_000000000002', { oauth_access_token: 'a', oauth_refresh_token: 'b' }),
      (error: CallerError) =>
        error.code === 'oauth_client_missing' && /PUT \/v1\/apps\/stand_in/.test(error.message),
    );
    const keys = await create('o_000000000002', { api_key: 'k' });
    assert.deepEqual([keys.grant_type, keys.oauth_client_id], ['keys', null]);
    assert.deepEqual([account.grant_type, account.app_name], ['oauth1', 'Stand-in']);
  });
}
