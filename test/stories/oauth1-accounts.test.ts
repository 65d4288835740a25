import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import { filesBelow } from '../support/files-below.ts';
import { forEachSharedService } from '../support/millrace.ts';
import { OAuth1Provider, type ProviderToken } from '../support/oauth1-provider.ts';
import { TestBrowser } from '../support/test-browser.ts';

/** A step with the account, that calls `axios` as components do, and exports the outcome of `body`. */
function step(body: string): string {
  return `import { axios } from '@pipedream/platform';
    export default defineComponent({
      props: { photos: { type: 'app', app: 'photo_service' }, base: { type: 'string' } },
      async run({ $ }) {
        const { oauth_access_token: key, oauth_refresh_token: secret, oauth_signer_uri: oauthSignerUri } = this.photos.$auth;
        const signed = { oauthSignerUri, token: { key, secret } };
        const call = (config, signing = signed) => axios($, config, signing);
        const failure = (work) => work.then(() => 'no failure', (error) => ({ status: error.response?.status, message: error.message }));
        ${body}
      },
    });`;
}

const photos = (url: string, method: string) => ({
  slug: 'photo_service',
  name: 'Photo service',
  auth_type: 'oauth',
  oauth: {
    version: 1,
    request_token_url: `${url}/oauth/request_token`,
    authorization_url: `${url}/oauth/authorize`,
    access_token_url: `${url}/oauth/access_token`,
    signature_method: method,
    uid: { from: 'token', path: 'user_id' },
  },
  test_request: { url: `${url}/api/me` },
});

forEachSharedService((fixture) => {
  let provider: OAuth1Provider;

  before(async () => {
    provider = await OAuth1Provider.start();
    const { service } = fixture;
    const app = await service.api('POST', '/v1/apps', photos(provider.url, 'HMAC-SHA1'));
    assert.equal(app.status, 200, JSON.stringify(app.body));
    const { key, secret } = provider.consumer;
    const client = await service.api('PUT', '/v1/apps/photo_service/oauth_client', {
      client_id: key,
      client_secret: secret,
    });
    assert.equal(client.status, 200, JSON.stringify(client.body));
    assert.equal(client.body.data.redirect_uri, `${service.url}/connect/callback`);
  });
  after(() => provider?.close());

  /** Opens a link as a browser with its own cookies, says yes at the provider, and comes back. */
  async function connectInBrowser(
    connectUrl: string,
  ): Promise<{ status: number; text: string; answer: string }> {
    const browser = new TestBrowser();
    const { url: answer } = await browser.visit(connectUrl, {
      stopBefore: (url) => url.startsWith(`${fixture.service.url}/connect/callback`),
    });
    const { status, text } = await browser.visit(answer);
    return { status, text, answer: `${answer} ${browser.cookies.join('; ')}` };
  }

  async function connected(): Promise<string> {
    const { service } = fixture;
    const link = await service.api('POST', '/v1/accounts/connect', { app: 'photo_service', name: 'Mine' });
    assert.equal(link.status, 200, JSON.stringify(link.body));
    const before = (await service.api('GET', '/v1/accounts?app=photo_service')).body.data.length;
    const { status, text } = await connectInBrowser(link.body.data.connect_url);
    assert.equal(status, 200, text);
    const accounts = (await service.api('GET', '/v1/accounts?app=photo_service')).body.data;
    assert.equal(accounts.length, before + 1);
    return accounts[0].id;
  }

  async function brought(token: ProviderToken): Promise<string> {
    const account = await fixture.service.api('POST', '/v1/accounts', {
      app: 'photo_service',
      credentials: { oauth_access_token: token.key, oauth_refresh_token: token.secret },
    });
    assert.equal(account.status, 200, JSON.stringify(account.body));
    return account.body.data.id;
  }

  async function credentialsOf(id: string): Promise<Record<string, string>> {
    const answer = await fixture.service.api('GET', `/v1/accounts/${id}?include_credentials=1`);
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body.data.credentials;
  }

  /** Runs the body in a step of a workflow with the account, and answers what it returned. */
  async function run(accountId: string, body: string): Promise<unknown> {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      steps: [
        {
          namespace: 'call',
          code: step(body),
          props: { photos: { authProvisionId: accountId }, base: provider.url },
        },
      ],
      triggers: [{ type: 'http', props: {} }],
    });
    await fetch(workflow.triggers[0].endpoint_url, { method: 'POST', body: '{}' });
    const finished = await service.runInState(workflow.id, 'succeeded', 'failed');
    assert.equal(finished.state, 'succeeded', JSON.stringify(finished));
    return finished.steps.find((one: { namespace: string }) => one.namespace === 'call').exports
      .$return_value;
  }

  test('an account is connected in a browser, and a step makes calls that the provider accepts', async () => {
    const id = await connected();
    const credentials = await credentialsOf(id);
    assert.deepEqual(Object.keys(credentials).sort(), [
      'oauth_access_token',
      'oauth_client_id',
      'oauth_refresh_token',
      'oauth_signer_uri',
      'oauth_uid',
    ]);
    assert.equal(credentials.oauth_uid, provider.uid);
    assert.equal(credentials.oauth_client_id, provider.consumer.key);
    assert.ok(credentials.oauth_signer_uri?.startsWith(`${fixture.service.url}/oauth1/sign/${id}.`));

    const result = await run(
      id,
      `const form = { 'content-type': 'application/x-www-form-urlencoded' };
       const url = this.base + '/api/photos';
       const results = [
         await call({ url: url + '?file=my vacation.jpg&size=original', params: { tag: 'a+b & c*(d)' } }),
         await call({ method: 'POST', url, headers: form, data: { title: 'Café + crème', tags: ['x', 'y'] } }),
         await call({ method: 'POST', url, data: new URLSearchParams('a=1&a=2&b=%3D') }),
         await call({ method: 'PUT', url: url + '/1', data: { json: ['is', 'not', 'signed'] } }),
         await axios.create({ baseURL: this.base }, signed).delete('/api/photos/1?force=true'),
       ];
       return results.map((result) => [result.user, result.method]);`,
    );
    assert.deepEqual(result, [
      ['user-77', 'GET'],
      ['user-77', 'POST'],
      ['user-77', 'POST'],
      ['user-77', 'PUT'],
      ['user-77', 'DELETE'],
    ]);
    assert.deepEqual(provider.problems.splice(0), []);
  });

  test('an account is made from an existing token, and a source signs with it', async () => {
    const token = provider.addToken();
    const id = await brought(token);
    const source = await fixture.service.createSource({
      component_code: `import { axios } from '@pipedream/platform';
        export default {
          name: 'Photos', version: '0.0.1',
          props: { photos: { type: 'app', app: 'photo_service' }, base: 'string' },
          hooks: { async deploy() {
            const { oauth_access_token: key, oauth_refresh_token: secret, oauth_signer_uri: oauthSignerUri } = this.photos.$auth;
            this.$emit(await axios(this, { url: this.base + '/api/photos' }, { oauthSignerUri, token: { key, secret } }));
          } },
          run() {},
        };`,
      configured_props: { photos: { authProvisionId: id }, base: provider.url },
    });
    const [event] = await fixture.service.events(source.id);
    assert.deepEqual(event.event.url, '/api/photos');
    assert.equal(provider.accepted.at(-1)?.token, token.key);
    provider.revoke(token.key);
    const refused = await run(id, `return failure(call({ url: this.base + '/api/photos' }));`);
    assert.deepEqual(refused, { status: 401, message: '"oauth_problem=token_rejected"' });
    provider.problems.splice(0);
  });

  test('a token of an OAuth 1 app is not taken from an owner that has no client for it', async () => {
    const workspace = await fixture.service.api('POST', '/v1/workspaces', { name: 'without a client' });
    const answer = await fixture.service.api('POST', `/v1/accounts?org_id=${workspace.body.data?.id}`, {
      app: 'twitter',
      credentials: { oauth_access_token: 'a', oauth_refresh_token: 'b' },
    });
    assert.deepEqual(
      [answer.status, answer.body.code],
      [400, 'oauth_client_missing'],
      JSON.stringify(answer.body),
    );
  });

  test('the answer of the provider is taken once', async () => {
    const link = await fixture.service.api('POST', '/v1/accounts/connect', { app: 'photo_service' });
    const { status, answer } = await connectInBrowser(link.body.data.connect_url);
    assert.equal(status, 200);
    const [url = '', cookie = ''] = answer.split(' ');
    const again = await fetch(url, { redirect: 'manual', headers: { cookie } });
    assert.equal(again.status, 410, await again.text());
    const stranger = await fetch(url, { redirect: 'manual' });
    assert.notEqual(stranger.status, 200, await stranger.text());
    const forged = new URL(url);
    forged.searchParams.set('oauth_token', 'temporary-forged');
    assert.equal((await fetch(forged, { redirect: 'manual', headers: { cookie } })).status, 404);
  });

  test('a step cannot sign with what it was not given: another account, a forged capability, the consumer secret', async () => {
    const mine = await brought(provider.addToken());
    const { oauth_access_token: theirKey, oauth_signer_uri: theirUri } = await credentialsOf(
      await brought(provider.addToken()),
    );
    const result = await run(
      mine,
      `const url = this.base + '/api/me';
       const theirs = { key: '${theirKey}' };
       const forged = oauthSignerUri.slice(0, -4) + (oauthSignerUri.endsWith('AAAA') ? 'BBBB' : 'AAAA');
       const [base] = oauthSignerUri.split('/oauth1/');
       const statuses = [];
       for (const signing of [
         { oauthSignerUri, token: theirs },
         { oauthSignerUri: '${theirUri}', token: signed.token },
         { oauthSignerUri, token: {} },
         { oauthSignerUri: forged, token: signed.token },
         { oauthSignerUri: oauthSignerUri.split('.').slice(0, -1).join('.'), token: signed.token },
       ]) statuses.push((await failure(call({ url }, signing))).status);
       // And the way to the signer leads to nothing else of the service.
       statuses.push((await failure(axios($, { url: base + '/v1/users/me' }))).status);
       const secrets = JSON.stringify(this.photos.$auth).includes('consumer-secret');
       return [statuses, secrets];`,
    );
    assert.deepEqual(result, [[400, 400, 400, 404, 404, 403], false]);
  });

  test('a stranger gets nothing: without a capability, with a body that is too large, of a wrong type, or no POST', async () => {
    const id = await brought(provider.addToken());
    const { oauth_signer_uri: uri = '', oauth_access_token: key } = await credentialsOf(id);
    const ask = async (url: string, init: RequestInit = {}) => {
      const response = await fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        redirect: 'manual',
        ...init,
      });
      const text = await response.text();
      assert.doesNotMatch(text, /OAuth oauth_|canary/);
      return response.status;
    };
    const body = JSON.stringify({
      requestData: { method: 'GET', url: `${provider.url}/api/me` },
      token: { key },
    });
    assert.equal(await ask(`${fixture.service.url}/oauth1/sign/${id}`, { body }), 404);
    assert.equal(await ask(`${fixture.service.url}/oauth1/sign/`, { body }), 404);
    assert.equal(await ask(uri, { body: JSON.stringify({ padding: 'x'.repeat(65_536) }) }), 413);
    assert.equal(await ask(uri, { body, headers: { 'content-type': 'text/plain' } }), 415);
    assert.equal(await ask(uri, { body: '{' }), 400);
    assert.equal(await ask(uri, { method: 'GET' }), 405);
    const good = await fetch(uri, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    assert.match(good.headers.get('content-type') ?? '', /^text\/plain/);
    assert.equal(good.headers.get('cache-control'), 'no-store');
    assert.match(await good.text(), /^OAuth oauth_consumer_key="/);
  });

  test('the test request of the app is signed: an account works until its token is revoked', async () => {
    const token = provider.addToken();
    const id = await brought(token);
    const tested = async () => (await fixture.service.api('POST', `/v1/accounts/${id}/test`)).body.data;
    const well = await tested();
    assert.deepEqual([well.healthy, well.error], [true, null], JSON.stringify(well));
    assert.ok(well.checked_at !== null);
    assert.equal(provider.accepted.at(-1)?.token, token.key);
    provider.revoke(token.key);
    const ill = await tested();
    assert.equal(ill.healthy, false);
    assert.match(ill.error, /\/api\/me answered 401/);
    provider.problems.splice(0);
  });

  test('the signer is gone with its account', async () => {
    const token = provider.addToken();
    const id = await brought(token);
    const { oauth_signer_uri: uri = '' } = await credentialsOf(id);
    const ask = () =>
      fetch(uri, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ requestData: { method: 'GET', url: provider.url }, token }),
      });
    assert.equal((await ask()).status, 200);
    const removed = await fixture.service.api('DELETE', `/v1/accounts/${id}`);
    assert.equal(removed.status, 204, JSON.stringify(removed.body));
    const answer = await ask();
    assert.deepEqual([answer.status, ((await answer.json()) as { code: string }).code], [404, 'not_found']);
  });

  test('no secret is in the log, in a run, or in clear in the data folder', async () => {
    const id = await connected();
    await run(
      id,
      `console.log(JSON.stringify(this.photos.$auth)); return call({ url: this.base + '/api/me' });`,
    );
    const { oauth_access_token: token = '' } = await credentialsOf(id);
    const workflows = (await fixture.service.api('GET', '/v1/users/me/workflows')).body.data;
    let said = '';
    for (const workflow of workflows)
      for (const run of await fixture.service.runs(workflow.id))
        said += JSON.stringify(await fixture.service.runDetail(run.id));
    assert.match(said, /\[redacted\]/);
    assert.ok(!said.includes(token));
    assert.doesNotMatch(said, /-canary|sign\/apn/);
    assert.doesNotMatch(await fixture.log(), /canary|oauth1\/sign\/apn/);
    if (fixture.dialect !== 'sqlite') return;
    for (const file of await filesBelow(fixture.dataFolder)) {
      const content = await readFile(file).catch(() => Buffer.alloc(0));
      assert.equal(content.indexOf('-canary'), -1, `a secret stands in ${file}`);
    }
  });
});
