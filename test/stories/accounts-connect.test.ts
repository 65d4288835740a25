import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { forEachSharedService } from '../support/millrace.ts';
import { OAuthProvider } from '../support/oauth-provider.ts';
import { OAuth1Provider } from '../support/oauth1-provider.ts';
import { TestBrowser } from '../support/test-browser.ts';
import { waitFor } from '../support/wait-for.ts';

/** Nothing listens there: browsers of tests stop before it. */
const home = 'https://dashboard.example/done?tab=accounts';
const atHome = (url: string) => url.startsWith('https://dashboard.example/');

forEachSharedService((fixture) => {
  describe('connecting an account in a browser', () => {
    let provider: OAuthProvider;
    let apps = 0;
    /** The app of the test that runs, with a client, so that nothing is shared. */
    let app = '';

    const api = (...request: Parameters<typeof fixture.service.api>) => fixture.service.api(...request);
    const callbackUri = () => `${fixture.service.url}/connect/callback`;
    const isCallback = (url: string) => url.startsWith(callbackUri());

    before(async () => {
      provider = await OAuthProvider.start([callbackUri()]);
    });
    after(() => provider.close());
    beforeEach(async () => {
      provider.decision = { login: 'ada' };
      provider.intercept = undefined;
      app = await addApp();
    });

    async function addApp(changes = {}, oauth = {}): Promise<string> {
      apps += 1;
      const slug = `testhub_${apps}`;
      const added = await api('POST', '/v1/apps', provider.app(slug, changes, oauth));
      assert.equal(added.status, 200, JSON.stringify(added.body));
      const client = { client_id: provider.clientId, client_secret: provider.clientSecret };
      if ((changes as { auth_type?: string }).auth_type !== 'keys')
        assert.equal((await api('PUT', `/v1/apps/${slug}/oauth_client`, client)).status, 200);
      return slug;
    }

    async function link(more: Record<string, unknown> = {}): Promise<string> {
      const made = await api('POST', '/v1/accounts/connect', { app, ...more });
      assert.equal(made.status, 200, JSON.stringify(made.body));
      assert.ok(Date.parse(made.body.data.expires_at) > Date.now());
      return made.body.data.connect_url;
    }

    const credentialsOf = async (id: string) => {
      const { status, body } = await api('GET', `/v1/accounts/${id}?include_credentials=1`);
      assert.equal(status, 200, JSON.stringify(body));
      return body.data;
    };
    const accountsOf = async (slug: string) => (await api('GET', `/v1/accounts?app=${slug}`)).body.data;
    const formTokenIn = (text: string) => /name="form_token" value="([^"]+)"/.exec(text)?.[1] ?? '';

    test('by OAuth 2 with PKCE: the browser goes to the provider and comes back with an account', async () => {
      const visit = await new TestBrowser().visit(await link({ redirect_url: home, name: 'Work' }), {
        stopBefore: atHome,
      });
      const asked = new URL(visit.trail[1] ?? '');
      assert.equal(asked.origin + asked.pathname, `${provider.url}/auth`);
      assert.equal(asked.searchParams.get('code_challenge_method'), 'S256');
      assert.equal(asked.searchParams.get('redirect_uri'), callbackUri());
      assert.ok((asked.searchParams.get('state') ?? '').length >= 32);
      const end = new URL(visit.url);
      assert.equal(end.searchParams.get('tab'), 'accounts');
      const account = await credentialsOf(end.searchParams.get('account_id') ?? '');
      assert.equal(account.name, 'Work');
      const { user_id: userId } = (await api('GET', '/v1/session')).body.data;
      const byLink = (await api('GET', '/v1/audit?limit=2')).body.data;
      assert.deepEqual(
        // biome-ignore lint/suspicious/noExplicitAny: records have fields of every kind.
        byLink.map((record: any) => [
          record.operation,
          [record.actor.kind, record.actor.user_id, record.owner_id],
          record.object_id,
          record.before,
          record.after?.name,
        ]),
        [
          ['GET /connect/callback', ['user', userId, userId], account.id, null, 'Work'],
          ['POST /connect/:link', ['user', userId, userId], null, null, undefined],
        ],
      );
      assert.deepEqual(byLink[1].parameters, {});
      assert.equal(account.credentials.oauth_uid, 'ada');
      assert.equal(account.credentials.oauth_client_id, provider.clientId);
      assert.ok(account.credentials.oauth_access_token.length > 10);
      assert.ok(account.credentials.oauth_refresh_token.length > 10);
      assert.deepEqual([...account.authorized_scopes].sort(), ['api', 'offline_access', 'openid']);
      assert.ok(Date.parse(account.next_refresh_at) < Date.parse(account.expires_at));
    });

    test('without redirect_url a page says that it worked', async () => {
      const visit = await new TestBrowser().visit(await link({ name: '<b>Ada</b> & "co"' }));
      assert.equal(visit.status, 200);
      assert.match(visit.text, /Testhub is connected/);
      assert.match(visit.text, /&lt;b&gt;Ada&lt;\/b&gt; &amp; &quot;co&quot;/);
      assert.doesNotMatch(visit.text, /<b>|<script/);
      const headers = Object.fromEntries(visit.headers);
      assert.match(headers['content-security-policy'] ?? '', /^default-src 'none'; style-src 'sha256-/);
      assert.equal(headers['referrer-policy'], 'no-referrer');
      assert.equal(headers['cache-control'], 'no-store');
    });

    test('a link is for the first browser that agrees; a mere look, as previews in chats take it, uses nothing up', async () => {
      const url = await link();
      assert.equal((await fetch(url)).status, 200);
      const first = new TestBrowser();
      await first.visit(url, { stopBefore: (next) => next.startsWith(provider.url) });
      const second = await new TestBrowser().visit(url);
      assert.equal(second.status, 403);
      assert.match(second.text, /another browser/);
      assert.equal((await first.visit(url)).status, 200);
      const third = await first.visit(url);
      assert.equal(third.status, 410);
      assert.match(third.text, /used already/);
      assert.equal((await accountsOf(app)).length, 1);
    });

    test('an answer of the provider is taken once, and from that browser only', async () => {
      const browser = new TestBrowser();
      const { url: answer } = await browser.visit(await link(), { stopBefore: isCallback });
      const stranger = await new TestBrowser().visit(answer);
      assert.equal(stranger.status, 403);
      const forged = new URL(answer);
      forged.searchParams.set('state', 'x'.repeat(32));
      assert.equal((await browser.visit(forged.href)).status, 404);
      forged.searchParams.delete('state');
      assert.equal((await browser.visit(forged.href)).status, 404);
      assert.deepEqual(await accountsOf(app), []);
      const both = await Promise.all([browser.visit(answer), browser.visit(answer)]);
      assert.deepEqual(both.map(({ status }) => status).sort(), [200, 410]);
      assert.equal((await browser.visit(answer)).status, 410);
      assert.equal((await accountsOf(app)).length, 1);
    });

    test('a code of another flow is refused by PKCE, and nothing is stored', async () => {
      const victim = await new TestBrowser().visit(await link(), { stopBefore: isCallback });
      const browser = new TestBrowser();
      const { url: own } = await browser.visit(await link(), { stopBefore: isCallback });
      const mixed = new URL(own);
      mixed.searchParams.set('code', new URL(victim.url).searchParams.get('code') ?? '');
      const visit = await browser.visit(mixed.href);
      assert.equal(visit.status, 400);
      assert.match(visit.text, /Testhub refused the authorization code.*invalid_grant/s);
      assert.deepEqual(await accountsOf(app), []);
    });

    test('a user who says no at the provider is sent back, and sees that', async () => {
      provider.decision = 'deny';
      const { url } = await new TestBrowser().visit(await link({ redirect_url: home }), {
        stopBefore: atHome,
      });
      assert.equal(new URL(url).searchParams.get('error'), 'access_denied');
      assert.equal(new URL(url).searchParams.get('account_id'), null);
      const page = await new TestBrowser().visit(await link());
      assert.equal(page.status, 400);
      assert.match(page.text, /Access was not granted at Testhub/);
      assert.deepEqual(await accountsOf(app), []);
    });

    test('what a provider says is shown as text, and no secret of ours in it', async () => {
      const browser = new TestBrowser();
      const { url } = await browser.visit(await link(), { stopBefore: isCallback });
      const answer = new URL(url);
      const state = answer.searchParams.get('state') ?? '';
      const evil = new URLSearchParams({
        state,
        error: 'server_error',
        error_description: '<img src=x>\r\nx: y',
      });
      const shown = await browser.visit(`${callbackUri()}?${evil}`);
      assert.match(shown.text, /&lt;img src=x&gt; x: y/);

      let code = '';
      provider.intercept = (request, response) => {
        const chunks: Buffer[] = [];
        request.on('data', (chunk) => chunks.push(chunk));
        request.on('end', () => {
          code = new URLSearchParams(Buffer.concat(chunks).toString()).get('code') ?? '';
          const error_description = `I got ${code} and ${provider.clientSecret}<script>`;
          response.writeHead(400, { 'content-type': 'application/json' });
          response.end(JSON.stringify({ error: 'invalid_grant', error_description }));
        });
        return true;
      };
      const echoed = await new TestBrowser().visit(await link());
      assert.match(echoed.text, /I got \[redacted\] and \[redacted\]&lt;script&gt;/);
      const { url: home2 } = await new TestBrowser().visit(await link({ redirect_url: home }), {
        stopBefore: atHome,
      });
      assert.match(new URL(home2).searchParams.get('error_description') ?? '', /I got \[redacted\]/);
      assert.ok(!decodeURIComponent(home2).includes(provider.clientSecret) && !home2.includes(code));
    });

    for (const [what, status, type, body] of [
      ['an error with status 200', 200, 'application/json', '{"error":"bad_verification_code"}'],
      ['ok: false', 200, 'application/json', '{"ok":false,"error":"invalid_code"}'],
      ['a form with an error', 200, 'text/plain', 'error=invalid_grant&error_description=no'],
      ['garbage', 200, 'text/html', '<html>maintenance</html>'],
      ['no token', 200, 'application/json', '{"access_token":7}'],
      ['a redirect', 302, 'text/html', ''],
      ['a failure', 503, 'text/plain', 'sorry'],
    ] as const) {
      test(`a token endpoint that answers ${what} connects nothing, and the page says what to do`, async () => {
        provider.intercept = (request, response) => {
          request.resume();
          response.writeHead(status, { 'content-type': type, location: '/token' }).end(body);
          return true;
        };
        const visit = await new TestBrowser().visit(await link());
        assert.equal(visit.status, 400);
        assert.match(visit.text, /Testhub (refused|answered)/);
        assert.deepEqual(await accountsOf(app), []);
      });
    }

    test('a provider that hangs up is reported', async () => {
      provider.intercept = (request) => {
        request.socket.destroy();
        return true;
      };
      const visit = await new TestBrowser().visit(await link());
      assert.match(visit.text, /Testhub cannot be reached at 127\.0\.0\.1/);
      assert.match(visit.text, /Try again with a new link/);
    });

    test('fields that are missing are asked for in a form first', async () => {
      app = await addApp(
        {
          custom_fields: [
            { name: 'tenant', label: 'Tenant', description: 'As in <your> address' },
            { name: 'api_secret', label: 'Secret', secret: true },
            { name: 'region', label: 'Region', default: 'eu' },
          ],
        },
        { authorization_url: `${provider.url}/auth?tenant={{tenant}}` },
      );
      const browser = new TestBrowser();
      const url = await link();
      const form = await browser.visit(url);
      assert.equal(form.status, 200);
      assert.match(form.text, /As in &lt;your&gt; address/);
      assert.match(form.text, /name="field_api_secret"[^>]*type="password"/);
      const form_token = formTokenIn(form.text);
      assert.notEqual(form_token, '');

      const forged = await browser.visit(url, { form: { form_token: 'x', field_tenant: 'a' } });
      assert.equal(forged.status, 403);
      const other = await new TestBrowser().visit(url, { form: { form_token, field_tenant: 'a' } });
      assert.equal(other.status, 403);

      const empty = await browser.visit(url, {
        form: { form_token, field_tenant: '"><i>', field_api_secret: '' },
      });
      assert.equal(empty.status, 422);
      assert.match(empty.text, /Please fill this in/);
      assert.match(empty.text, /value="&quot;&gt;&lt;i&gt;"/);

      const filled = { form_token, field_tenant: 'acme corp', field_api_secret: 'canary-secret-in-a-form' };
      const onward = await browser.visit(url, { form: filled });
      assert.equal(onward.status, 200);
      assert.doesNotMatch(onward.text, /canary-secret/);
      const next = (/http-equiv="refresh" content="0;url=([^"]+)"/.exec(onward.text)?.[1] ?? '').replaceAll(
        '&amp;',
        '&',
      );
      assert.equal(new URL(next).searchParams.get('tenant'), 'acme corp');
      assert.equal((await browser.visit(next)).status, 200);
      const [account] = await accountsOf(app);
      const { credentials } = await credentialsOf(account.id);
      assert.equal(credentials.tenant, 'acme corp');
      assert.equal(credentials.api_secret, 'canary-secret-in-a-form');
      assert.equal(credentials.region, 'eu');
      assert.equal(credentials.oauth_uid, 'ada');
      assert.ok(!(await fixture.log()).includes('canary-secret-in-a-form'));
    });

    test('an app with keys is connected by the form alone', async () => {
      app = await addApp({
        auth_type: 'keys',
        oauth: undefined,
        custom_fields: [{ name: 'api_key', secret: true }, { name: 'host' }],
      });
      const browser = new TestBrowser();
      const url = await link({ redirect_url: home, fields: { host: 'h.example' } });
      const form = await browser.visit(url);
      assert.doesNotMatch(form.text, /field_host/);
      const form_token = formTokenIn(form.text);
      const done = await browser.visit(url, { form: { form_token, field_api_key: ' k-123456789 ' } });
      assert.equal(done.status, 200);
      assert.match(done.text, /url=https:\/\/dashboard\.example\/done\?tab=accounts&amp;account_id=apn_/);
      const [account] = await accountsOf(app);
      assert.deepEqual((await credentialsOf(account.id)).credentials, {
        host: 'h.example',
        api_key: 'k-123456789',
      });
      assert.equal(
        (await browser.visit(url, { form: { form_token, field_api_key: 'other-one' } })).status,
        410,
      );

      const again = await browser.visit(await link({ account_id: account.id }));
      assert.match(again.text, /value="h\.example"/);
      assert.doesNotMatch(again.text, /k-123456789/);
    });

    test('a key of several lines stays one: its input has several, too', async () => {
      const form = await new TestBrowser().visit(await link({ app: 'postgresql' }));
      for (const name of ['ca', 'key', 'cert'])
        assert.match(form.text, new RegExp(`<textarea id="field_${name}"`));
      assert.match(form.text, /<input id="field_password"[^>]* type="password"/);
    });

    test('an account is connected again by the same user only', async () => {
      const { url } = await new TestBrowser().visit(await link({ redirect_url: home, name: 'Mine' }), {
        stopBefore: atHome,
      });
      const id = new URL(url).searchParams.get('account_id') ?? '';
      const before = await credentialsOf(id);
      provider.decision = { login: 'bob' };
      const other = await new TestBrowser().visit(await link({ account_id: id }));
      assert.equal(other.status, 400);
      assert.match(other.text, /as another user than before, so nothing was changed/);
      assert.deepEqual((await credentialsOf(id)).credentials, before.credentials);
      provider.decision = { login: 'ada' };
      assert.match((await new TestBrowser().visit(await link({ account_id: id }))).text, /connected again/);
      const now = await credentialsOf(id);
      assert.notEqual(now.credentials.oauth_access_token, before.credentials.oauth_access_token);
      assert.equal(now.name, 'Mine');
      assert.equal((await accountsOf(app)).length, 1);

      const begun = new TestBrowser();
      const { url: answer } = await begun.visit(await link({ account_id: id }), { stopBefore: isCallback });
      assert.equal((await api('DELETE', `/v1/accounts/${id}?force=true`)).status, 204);
      assert.match((await begun.visit(answer)).text, /deleted meanwhile/);
    });

    test('what changed since the link was made is looked at again', async () => {
      const browser = new TestBrowser();
      const { url: answer } = await browser.visit(await link(), { stopBefore: isCallback });
      assert.equal((await api('DELETE', `/v1/apps/${app}/oauth_client`)).status, 204);
      const visit = await browser.visit(answer);
      assert.equal(visit.status, 400);
      assert.match(visit.text, /OAuth client for Testhub was deleted/);
      assert.deepEqual(await accountsOf(app), []);
    });

    test('a member connects accounts of users only, and a removed one none', async () => {
      const user = await fixture.service.createUser('eve');
      const workspace = (await api('POST', '/v1/workspaces', { name: 'Team' })).body.data.id;
      const member = { user_id: user.id, role: 'member' };
      assert.equal((await api('POST', `/v1/workspaces/${workspace}/members`, member)).status, 200);
      const key = { key: user.key };
      const where = `?org_id=${workspace}`;
      assert.equal((await api('POST', `/v1/apps${where}`, provider.app(app))).status, 200);
      const client = { client_id: provider.clientId, client_secret: provider.clientSecret };
      const setIt = (more?: { key: string }) =>
        api('PUT', `/v1/apps/${app}/oauth_client${where}`, client, more);
      assert.equal((await setIt(key)).status, 403);
      assert.equal((await setIt()).status, 200);
      // A token of the client itself would stand for the whole workspace.
      const asItself = { app, org_id: workspace, grant: 'client_credentials' };
      const denied = await api('POST', '/v1/accounts', asItself, key);
      assert.deepEqual([denied.status, denied.body.code], [403, 'forbidden']);
      assert.equal((await api('POST', '/v1/accounts', asItself)).body.code, undefined);
      const made = await api('POST', '/v1/accounts/connect', { app, org_id: workspace }, key);
      assert.equal(made.status, 200, JSON.stringify(made.body));
      const browser = new TestBrowser();
      const { url: answer } = await browser.visit(made.body.data.connect_url, { stopBefore: isCallback });
      assert.equal((await api('DELETE', `/v1/workspaces/${workspace}/members/${user.id}`)).status, 204);
      const visit = await browser.visit(answer);
      assert.equal(visit.status, 400);
      assert.match(visit.text, /may no longer connect this account/);
      assert.equal((await api('GET', `/v1/accounts${where}`)).body.data.length, 1, 'that of the admin');
      const refused = await api('POST', '/v1/accounts/connect', { app, org_id: workspace }, key);
      assert.equal(refused.status, 404);
    });

    test('an access token of a workspace makes links too, until its client is revoked', async () => {
      const workspace = (await api('POST', '/v1/workspaces', { name: 'Product' })).body.data.id;
      const where = `?org_id=${workspace}`;
      assert.equal((await api('POST', `/v1/apps${where}`, provider.app(app))).status, 200);
      const client = { client_id: provider.clientId, client_secret: provider.clientSecret };
      assert.equal((await api('PUT', `/v1/apps/${app}/oauth_client${where}`, client)).status, 200);
      const path = `/v1/workspaces/${workspace}/oauth_clients`;
      const { data: own } = (await api('POST', path, { name: 'backend' })).body;
      const { client_id, client_secret } = own;
      const asked = { grant_type: 'client_credentials', client_id, client_secret };
      const key = { key: (await api('POST', '/v1/oauth/token', asked)).body.access_token };
      const make = () =>
        api('POST', '/v1/accounts/connect', { app, redirect_url: `${home}&account_id=apn_old` }, key);
      const made = await make();
      assert.equal(made.status, 200, JSON.stringify(made.body));
      const { url } = await new TestBrowser().visit(made.body.data.connect_url, { stopBefore: atHome });
      const id = new URL(url).searchParams.get('account_id') ?? '';
      assert.equal((await api('GET', `/v1/accounts/${id}`, undefined, key)).body.data.id, id);
      assert.deepEqual((await api('GET', `/v1/accounts${where}`)).body.data.length, 1);

      const late = (await make()).body.data.connect_url;
      assert.equal((await api('DELETE', `${path}/${client_id}`)).status, 204);
      const visit = await new TestBrowser().visit(late, { stopBefore: atHome });
      assert.equal(new URL(visit.url).searchParams.get('error'), 'not_allowed');
      assert.equal(new URL(visit.url).searchParams.get('account_id'), null);
    });

    test('what cannot be connected is refused by the name of its parameter', async () => {
      const refuse = async (body: object, code: string, parameter: string) => {
        const { status, body: answer } = await api('POST', '/v1/accounts/connect', body);
        assert.ok(status === 400 || status === 404, `${status}`);
        assert.deepEqual([answer.code, answer.details.parameter], [code, parameter]);
        return answer;
      };
      await refuse({}, 'missing_parameter', 'app');
      await refuse({ app: 'no_such_app' }, 'not_found', 'app');
      for (const redirect_url of ['javascript:alert(1)', 'data:text/html,x', '//x', 'https://a:b@x.example/'])
        await refuse({ app, redirect_url }, 'invalid_parameter', 'redirect_url');
      await refuse({ app, fields: { nope: 'x' } }, 'invalid_parameter', 'fields.nope');
      await refuse({ app, scopes: ['a b'] }, 'invalid_parameter', 'scopes');
      await refuse({ app, name: 'x'.repeat(201) }, 'invalid_parameter', 'name');
      assert.equal((await api('DELETE', `/v1/apps/${app}/oauth_client`)).status, 204);
      const { details } = await refuse({ app }, 'oauth_client_missing', 'app');
      assert.equal(details.redirect_uri, callbackUri());
      assert.equal(details.registration.text, `Register \`${callbackUri()}\`.`);
    });

    test('an OAuth client is set, shown without its secret, and kept while accounts use it', async () => {
      const path = `/v1/apps/${app}/oauth_client`;
      const { body } = await api('GET', path);
      assert.equal(body.data.client_id, provider.clientId);
      assert.equal(body.data.has_secret, true);
      assert.equal(body.data.redirect_uri, callbackUri());
      assert.ok(!JSON.stringify(body).includes(provider.clientSecret));
      const account = (
        await new TestBrowser().visit(await link({ redirect_url: home }), { stopBefore: atHome })
      ).url;
      assert.match(account, /account_id=apn_/);
      const kept = await api('DELETE', path);
      assert.deepEqual([kept.status, kept.body.details.accounts], [409, 1]);
      // The same client without a word about the secret keeps it; another one needs its own.
      assert.equal(
        (await api('PUT', path, { client_id: provider.clientId, scopes: ['api'] })).body.data.has_secret,
        true,
      );
      assert.equal((await api('PUT', path, { client_id: 'other' })).body.code, 'missing_parameter');
      assert.equal((await api('DELETE', `${path}?force=true`)).status, 204);
      assert.deepEqual((await api('GET', path)).body.data.client_id, null);
      assert.equal((await api('DELETE', path)).status, 404);
    });

    test('a refresh token that the client was given elsewhere makes an account that is refreshed from then on', async () => {
      const visit = await new TestBrowser().visit(await link({ redirect_url: home }), { stopBefore: atHome });
      const elsewhere = await credentialsOf(new URL(visit.url).searchParams.get('account_id') ?? '');
      const bring = (brought: object) =>
        api('POST', '/v1/accounts', { app, grant: 'refresh_token', name: 'Moved', credentials: brought });
      const made = await bring(elsewhere.credentials);
      assert.equal(made.status, 200, JSON.stringify(made.body));
      const { credentials, ...account } = await credentialsOf(made.body.data.id);
      assert.equal(credentials.oauth_uid, 'ada');
      assert.equal(credentials.oauth_client_id, provider.clientId);
      assert.notEqual(credentials.oauth_access_token, elsewhere.credentials.oauth_access_token);
      assert.notEqual(credentials.oauth_refresh_token, elsewhere.credentials.oauth_refresh_token);
      assert.ok(Date.parse(account.next_refresh_at) < Date.parse(account.expires_at));
      assert.equal(account.name, 'Moved');

      const { oauth_refresh_token } = credentials;
      const bare = await bring({ oauth_refresh_token });
      assert.equal(
        (await credentialsOf(bare.body.data.id)).credentials.oauth_uid,
        'ada',
        'the provider says',
      );

      const missing = await bring({ oauth_access_token: 'only-this-one' });
      assert.equal(missing.body.details.parameter, 'credentials.oauth_refresh_token');
      const spent = await bring(elsewhere.credentials);
      assert.deepEqual([spent.status, spent.body.code], [400, 'grant_refused']);
      assert.ok(!JSON.stringify(spent.body).includes(elsewhere.credentials.oauth_refresh_token));
    });

    test('client credentials are asked for at once, with the OAuth client of the owner', async () => {
      app = await addApp(
        { custom_fields: [{ name: 'tenant', optional: true }] },
        { grant: 'client_credentials', authorization_url: undefined, uid: undefined, scopes: ['api'] },
      );
      const made = await api('POST', '/v1/accounts', { app, name: 'Robot', credentials: { tenant: 't1' } });
      assert.equal(made.status, 200, JSON.stringify(made.body));
      assert.ok(!JSON.stringify(made.body).includes('oauth_access_token'));
      const account = await credentialsOf(made.body.data.id);
      assert.equal(account.credentials.tenant, 't1');
      assert.ok(account.credentials.oauth_access_token.length > 10);
      assert.deepEqual([account.name, account.authorized_scopes], ['Robot', ['api']]);
      assert.ok(Date.parse(account.next_refresh_at) < Date.parse(account.expires_at));
      const refused = async (body: object) => (await api('POST', '/v1/accounts', { app, ...body })).body;
      assert.equal((await refused({ credentials: { nope: 1 } })).details.parameter, 'credentials.nope');
      assert.equal(
        (await refused({ credentials: { oauth_access_token: 't' }, grant: 'client_credentials' })).details
          .parameter,
        'grant',
      );
      const links = await api('POST', '/v1/accounts/connect', { app });
      assert.equal(links.body.details.parameter, 'app');

      await api('PUT', `/v1/apps/${app}/oauth_client`, {
        client_id: provider.clientId,
        client_secret: 'a-wrong-secret',
      });
      const wrong = await api('POST', '/v1/accounts', { app });
      assert.deepEqual([wrong.status, wrong.body.code], [400, 'grant_refused']);
      assert.doesNotMatch(JSON.stringify(wrong.body), /a-wrong-secret/);
      provider.intercept = (request) => {
        request.socket.destroy();
        return true;
      };
      const away = await api('POST', '/v1/accounts', { app });
      assert.deepEqual([away.status, away.body.code], [503, 'provider_unavailable']);
    });

    test('who deletes an account ends its grant at the provider, unless another account has it too', async () => {
      const connect = async () => {
        const { url } = await new TestBrowser().visit(await link({ redirect_url: home }), {
          stopBefore: atHome,
        });
        return new URL(url).searchParams.get('account_id') ?? '';
      };
      const [first, second] = [await connect(), await connect()];
      const before = provider.revocations;
      assert.equal((await api('DELETE', `/v1/accounts/${first}`)).status, 204);
      assert.equal((await api('DELETE', `/v1/accounts/${second}`)).status, 204);
      // The refresh token and the access token of the second.
      await waitFor(() => provider.revocations === before + 2, { what: 'the tokens to be revoked' });
    });

    test('by OAuth 1: the request token brings the browser back', async () => {
      const old = await OAuth1Provider.start();
      apps += 1;
      app = `oldhub_${apps}`;
      const oauth = {
        version: 1,
        request_token_url: `${old.url}/oauth/request_token`,
        authorization_url: `${old.url}/oauth/authorize`,
        access_token_url: `${old.url}/oauth/access_token`,
        uid: { from: 'token', path: 'user_id' },
      };
      const added = await api('POST', '/v1/apps', { slug: app, name: 'Oldhub', auth_type: 'oauth', oauth });
      assert.equal(added.status, 200, JSON.stringify(added.body));
      const client = { client_id: old.consumer.key, client_secret: old.consumer.secret };
      assert.equal((await api('PUT', `/v1/apps/${app}/oauth_client`, client)).status, 200);

      const no = new TestBrowser();
      const { url } = await no.visit(await link(), { stopBefore: (next) => next.startsWith(old.url) });
      const denied = await no.visit(`${url}&deny=1`);
      assert.match(denied.text, /Access was not granted at Oldhub/);

      const browser = new TestBrowser();
      const { url: answer } = await browser.visit(await link(), { stopBefore: isCallback });
      assert.equal((await new TestBrowser().visit(answer)).status, 403);
      assert.match((await browser.visit(answer)).text, /Oldhub is connected/);
      assert.equal((await browser.visit(answer)).status, 410);
      const [account] = await accountsOf(app);
      const { credentials, expires_at } = await credentialsOf(account.id);
      assert.deepEqual([credentials.oauth_uid, expires_at], [old.uid, null]);
      assert.equal(credentials.oauth_client_id, old.consumer.key);
      assert.ok(credentials.oauth_access_token !== '' && credentials.oauth_refresh_token !== '');
      await old.close();
    });

    test('links, cookies, codes and tokens are in no log', async () => {
      const browser = new TestBrowser();
      const url = await link({ redirect_url: home });
      const visit = await browser.visit(url, { stopBefore: atHome });
      const id = new URL(visit.url).searchParams.get('account_id') ?? '';
      const { credentials } = await credentialsOf(id);
      const code = new URL(visit.trail.find(isCallback) ?? '').searchParams.get('code') ?? '';
      const secrets = [
        url.split('/').at(-1),
        code,
        credentials.oauth_access_token,
        credentials.oauth_refresh_token,
      ];
      const cookie = browser.cookies.find((text) => text.startsWith('millrace_'))?.split('=')[1];
      const log = await fixture.log();
      for (const secret of [...secrets, cookie, provider.clientSecret]) {
        assert.ok(secret !== undefined && secret.length > 8);
        assert.ok(!log.includes(secret));
      }
    });
  });
});
