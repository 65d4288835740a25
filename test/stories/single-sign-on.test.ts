import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { freePort } from '../support/free-port.ts';
import { forEachService, testApiKey } from '../support/millrace.ts';
import { OAuthProvider } from '../support/oauth-provider.ts';
import { TestBrowser } from '../support/test-browser.ts';
import { waitFor } from '../support/wait-for.ts';

const port = await freePort();
const serviceUrl = `http://127.0.0.1:${port}`;
const providerPort = await freePort();
const startProvider = () =>
  OAuthProvider.start([`${serviceUrl}/oidc/callback`], {
    port: providerPort,
    postLogoutRedirectUris: [`${serviceUrl}/sign-in`],
    client: { id: 'millrace', secret: 'client-secret-0123456789' },
  });
type Fields = Record<string, unknown> | null;
interface AuditRecord {
  operation: string;
  object_kind: string | null;
  object_id: string | null;
  status: number | null;
  before: Fields;
  after: Fields;
  actor: { user_id: string | null };
}
const page = { 'x-millrace-csrf': '1', origin: serviceUrl };

forEachService(
  (fixture) => {
    let provider: OAuthProvider;

    before(async () => {
      provider = await startProvider();
    });
    after(() => provider.close());
    beforeEach(() => {
      provider.decision = { login: 'ada' };
    });

    async function start(browser: TestBrowser, body: object = {}, path = '/v1/session/single_sign_on') {
      const answer = await browser.ask('POST', serviceUrl + path, { headers: page, body });
      return { status: answer.status, headers: answer.headers, body: JSON.parse(await answer.text()) };
    }

    /** As far as the redirect into the dashboard, or a page that says why not. */
    async function signIn(login: string, browser = new TestBrowser()) {
      provider.decision = { login };
      const started = await start(browser, { return_to: '/workflows?tab=1' });
      assert.equal(started.status, 200, JSON.stringify(started.body));
      const isHome = (url: string) => url.startsWith(`${serviceUrl}/workflows`);
      const visit = await browser.visit(started.body.data.url, { stopBefore: isHome });
      return { browser, visit };
    }

    /** An API key of the user of a session. */
    async function newKey(browser: TestBrowser): Promise<string> {
      const answer = await browser.ask('POST', `${serviceUrl}/v1/users/me/api_keys`, {
        headers: page,
        body: { name: 'own' },
      });
      return ((await answer.json()) as { data: { api_key: string } }).data.api_key;
    }

    async function get(browser: TestBrowser, path: string) {
      const answer = await browser.ask('GET', serviceUrl + path, { headers: page });
      return { status: answer.status, body: JSON.parse((await answer.text()) || '{}') };
    }

    const status = async (path: string) => (await fetch(serviceUrl + path)).status;
    const methods = async () =>
      (await (await fetch(`${serviceUrl}/v1/session/methods`)).json()) as {
        data: { single_sign_on: unknown };
      };

    test('a browser goes to the provider and comes back as a user with the roles of its groups', async () => {
      const { body: made } = await fixture.service.api('POST', '/v1/workspaces', {
        name: 'Team',
        orgname: 'team',
      });
      provider.people.set('ada', {
        preferred_username: 'ada',
        email: 'ada@a.example',
        email_verified: true,
        groups: ['devs'],
      });
      const browser = new TestBrowser();
      const started = await start(browser, { return_to: '/workflows?tab=1' });
      assert.match(
        started.headers.get('set-cookie') ?? '',
        /^millrace_sign_in_\w{12}=[\w.-]+; Path=\/oidc; Max-Age=600; HttpOnly; SameSite=Lax$/,
      );
      const { visit } = await signIn('ada', browser);
      assert.equal(visit.url, `${serviceUrl}/workflows?tab=1`);
      const [removed, session] = visit.headers.getSetCookie();
      assert.match(removed ?? '', /^millrace_sign_in_\w{12}=; Path=\/oidc; Max-Age=0;/);
      assert.match(
        session ?? '',
        /^millrace_session=mse_\w{32}; Path=\/v1; Max-Age=\d{6}; HttpOnly; SameSite=Strict$/,
      );
      const me = await get(browser, '/v1/users/me');
      assert.deepEqual([me.body.data.username, me.body.data.email], ['ada', 'ada@a.example']);
      assert.deepEqual(
        me.body.data.orgs.map(({ id }: { id: string }) => id),
        [made.data.id],
      );
      const { data: records } = (await get(browser, '/v1/audit')).body;
      const [signIn1] = records.filter(
        ({ operation }: { operation: string }) => operation === 'GET /oidc/callback',
      );
      assert.deepEqual(
        [signIn1?.actor.user_id, signIn1?.actor.address, signIn1?.status],
        [me.body.data.id, '127.0.0.1', 303],
      );
      assert.ok(!JSON.stringify(records).includes('code='));
      // Those in charge see it: the role in the workspace, the user on the instance. The beginning of a sign-in needs no user, so it leaves no record.
      const userId: string = me.body.data.id;
      const audit = async (query: string) =>
        (await fixture.service.api('GET', `/v1/audit?${query}`)).body.data.map(
          ({ object_kind: kind, object_id: id, before, after, status, actor }: AuditRecord) => [
            kind,
            id,
            before?.role ?? before?.username,
            after?.role ?? after?.username,
            status,
            actor.user_id,
          ],
        );
      const given = ['members', userId, undefined, 'member', 303, userId];
      const byHand = await audit(`org_id=${made.data.id}&object_id=${userId}`);
      assert.deepEqual(byHand, [given]);
      const ofUser = await audit(`instance=true&object_id=${userId}`);
      assert.deepEqual(ofUser, [['users', userId, undefined, 'ada', 303, userId]]);
      assert.deepEqual(await audit('instance=true&operation=startSingleSignOn'), []);
      const { data: sessions } = (await get(browser, '/v1/users/me/sessions')).body;
      assert.deepEqual(
        sessions.map(({ address, current }: { address: string; current: boolean }) => [address, current]),
        [['127.0.0.1', true]],
      );
      const ended = await get(browser, '/v1/session');
      const signOut = new URL(ended.body.data.sign_out_url);
      assert.equal(signOut.origin, provider.url);
      assert.equal(signOut.searchParams.get('post_logout_redirect_uri'), `${serviceUrl}/sign-in`);
      // The group is gone at the next sign-in; with it go the role, and what needed it.
      provider.people.set('ada', { groups: [] });
      await signIn('ada', browser);
      assert.deepEqual((await get(browser, '/v1/users/me')).body.data.orgs, []);
      assert.deepEqual(await audit(`org_id=${made.data.id}&object_id=${userId}`), [
        ['members', userId, 'member', undefined, 303, userId],
        given,
      ]);
      // The instance admin, too: given by a group, and taken when the account is unlinked.
      provider.people.set('chief', { preferred_username: 'chief', groups: ['chiefs'] });
      const { browser: chief } = await signIn('chief');
      const [{ id: identityId }] = (await get(chief, '/v1/users/me/identities')).body.data;
      const { id } = (await get(chief, '/v1/users/me')).body.data;
      const own = fixture.service.as({ key: await newKey(chief) });
      assert.equal((await own.api('DELETE', `/v1/users/me/identities/${identityId}`)).status, 204);
      const ofChief = await fixture.service.api('GET', `/v1/audit?instance=true&object_id=${id}`);
      assert.deepEqual(
        ofChief.body.data.map(({ operation, before, after }: AuditRecord) => [
          operation,
          before?.is_admin,
          after?.is_admin,
        ]),
        [
          ['unlinkIdentity', 1, 0],
          ['GET /oidc/callback', undefined, 1],
        ],
      );
      const byKey = await fixture.service.api('GET', '/v1/session');
      assert.equal(byKey.body.data.sign_out_url, null);
    });

    test('a user who is disabled is signed out, and reads why they cannot sign in', async () => {
      provider.people.set('dora', { preferred_username: 'dora', groups: ['devs'] });
      const { browser } = await signIn('dora');
      const { id } = (await get(browser, '/v1/users/me')).body.data;
      assert.equal((await fixture.service.api('POST', `/v1/users/${id}/disable`, {})).status, 200);
      assert.equal((await get(browser, '/v1/users/me')).status, 401);
      const { visit } = await signIn('dora');
      assert.equal(visit.status, 403);
      assert.match(visit.text, /Your user is disabled on this service. Ask the admin of this instance/);
      assert.equal((await fixture.service.api('POST', `/v1/users/${id}/enable`, {})).status, 200);
      assert.equal((await signIn('dora', browser)).visit.url, `${serviceUrl}/workflows?tab=1`);
    });

    test('an admin of the instance by a group is disabled by another admin, who cannot disable themselves', async () => {
      provider.people.set('olga', { preferred_username: 'olga', groups: ['operators'] });
      const { browser } = await signIn('olga');
      const { user_id: id, is_admin: isAdmin } = (await get(browser, '/v1/session')).body.data;
      assert.equal(isAdmin, true);
      const himself = await browser.ask('POST', `${serviceUrl}/v1/users/${id}/disable`, {
        headers: page,
        body: {},
      });
      assert.equal(himself.status, 409);
      const disabled = await fixture.service.api('POST', `/v1/users/${id}/disable`, {});
      assert.equal(disabled.status, 200, JSON.stringify(disabled.body));
      assert.equal((await get(browser, '/v1/session')).status, 401);
      const { visit } = await signIn('olga');
      assert.equal(visit.status, 403);
    });

    test('an account is linked by a user who is signed in, listed, and unlinked', async () => {
      const browser = new TestBrowser();
      const user = await fixture.service.createUser('linda');
      const byKey = await browser.ask('POST', `${serviceUrl}/v1/session`, {
        headers: page,
        body: { api_key: testApiKey },
      });
      assert.equal(byKey.status, 200);
      const path = '/v1/users/me/identities';
      const started = await start(browser, { return_to: '/workspace' }, path);
      provider.decision = { login: 'root' };
      const visit = await browser.visit(started.body.data.url, {
        stopBefore: (url) => url === `${serviceUrl}/workspace`,
      });
      assert.equal(visit.url, `${serviceUrl}/workspace`);
      const admin = (await get(browser, '/v1/session')).body.data.user_id;
      const { browser: again } = await signIn('root');
      assert.equal((await get(again, '/v1/session')).body.data.user_id, admin);
      const [identity] = (await get(browser, path)).body.data;
      assert.deepEqual(
        [identity.issuer, identity.subject, identity.signed_in_at > 0],
        [provider.url, 'root', true],
      );
      assert.deepEqual((await fixture.service.as(user).api('GET', path)).body.data, []);
      assert.equal((await fixture.service.as(user).api('DELETE', `${path}/${identity.id}`)).status, 404);
      const program = await fixture.service.api('POST', path, {});
      assert.deepEqual([program.status, program.body.code], [409, 'conflict']);
      const gone = await browser.ask('DELETE', `${serviceUrl}${path}/${identity.id}`, { headers: page });
      assert.equal(gone.status, 204);
      assert.equal((await get(again, '/v1/session')).status, 401);
      assert.equal((await get(browser, '/v1/session')).status, 200);
    });

    test('a session that lacks scopes, or ends with its key, links no account that would give more', async () => {
      const path = '/v1/users/me/identities';
      const end = Math.floor(Date.now() / 1000) + 3600;
      for (const [values, code, details] of [
        [{ scopes: ['admin'] }, 'insufficient_scope', { scope: '*' }],
        [{ expires_at: end }, 'forbidden', {}],
      ] as const) {
        const { body: key } = await fixture.service.api('POST', '/v1/users/me/api_keys', values);
        const browser = new TestBrowser();
        const byKey = await browser.ask('POST', `${serviceUrl}/v1/session`, {
          headers: page,
          body: { api_key: key.data.api_key },
        });
        assert.equal(byKey.status, 200);
        const { status: refused, headers, body } = await start(browser, {}, path);
        assert.deepEqual([refused, body.code, body.details], [403, code, details]);
        assert.equal(headers.get('set-cookie'), null);
      }
    });

    test('no other page can begin a sign-in, and no other browser can end it', async () => {
      const browser = new TestBrowser();
      const ask = async (headers: Record<string, string>, body: object = {}) => {
        const answer = await browser.ask('POST', `${serviceUrl}/v1/session/single_sign_on`, {
          headers,
          body,
        });
        const { code, details } = (await answer.json()) as { code: string; details: { parameter?: string } };
        return [answer.status, code, details.parameter, answer.headers.get('set-cookie')];
      };
      assert.deepEqual(await ask({ ...page, origin: 'https://evil.example' }), [
        403,
        'foreign_origin',
        undefined,
        null,
      ]);
      assert.deepEqual(await ask({ origin: serviceUrl }), [
        400,
        'missing_parameter',
        'x-millrace-csrf',
        null,
      ]);
      assert.deepEqual(await ask(page, { return_to: '//evil.example' }), [
        400,
        'invalid_parameter',
        'return_to',
        null,
      ]);
      const started = await start(browser);
      const isBack = (url: string) => url.startsWith(`${serviceUrl}/oidc/callback`);
      const back = await browser.visit(started.body.data.url, { stopBefore: isBack });
      const stranger = await new TestBrowser().visit(back.url);
      assert.equal(stranger.status, 403);
      assert.match(stranger.text, /<h1>You are not signed in<\/h1>.*not started in this browser/s);
      assert.match(stranger.text, /href="\/sign-in"/);
      assert.equal(stranger.headers.get('referrer-policy'), 'no-referrer');
      assert.match(stranger.headers.get('content-security-policy') ?? '', /default-src 'none'/);
      assert.ok(!stranger.headers.getSetCookie().some((cookie) => cookie.startsWith('millrace_session=')));
      assert.equal((await fetch(back.url, { method: 'HEAD' })).status, 405);
      const bare = await browser.visit(`${serviceUrl}/oidc/callback?state=a&state=b`);
      assert.equal(bare.status, 403);
    });

    test('a refusal is a page that says what to do, and a log line with the reason and without tokens', async () => {
      provider.decision = 'deny';
      const browser = new TestBrowser();
      const started = await start(browser);
      const denied = await browser.visit(started.body.data.url);
      assert.equal(denied.status, 403);
      assert.match(denied.text, /You did not agree at Acme &amp; Co/);
      const { visit } = await signIn('stranger');
      assert.equal(visit.status, 403);
      // Only admins of the instance sign in with an API key here, so the operator has to let the user link the account.
      assert.match(
        visit.text,
        /no user for you.*ask the operator to set MILLRACE_OIDC_ONLY=off.*linked your account/s,
      );
      const log = () => fixture.service.output;
      await waitFor(async () => /no_user/.test(log()) || undefined, { what: 'the log line' });
      assert.match(log(), /single-sign-on\.refused.*access_denied/s);
      for (const secret of ['client-secret-0123456789', 'mse_', 'eyJ', 'code='])
        assert.ok(!log().includes(secret), secret);
    });

    test('users sign in with the provider only where that is set, but admins of the instance and programs use keys', async () => {
      const user = await fixture.service.createUser('keyed');
      const withKey = (key: string) =>
        new TestBrowser().ask('POST', `${serviceUrl}/v1/session`, { headers: page, body: { api_key: key } });
      const refused = await withKey(user.key);
      assert.equal(refused.status, 403);
      const { code, error } = (await refused.json()) as { code: string; error: string };
      assert.deepEqual(
        [code, error],
        ['forbidden', 'users sign in with Acme & Co here; with an API key only admins of the instance do'],
      );
      assert.equal((await withKey(testApiKey)).status, 200);
      assert.equal((await fixture.service.as(user).api('GET', '/v1/users/me')).status, 200);
      assert.deepEqual((await methods()).data, {
        api_key: 'instance admins',
        single_sign_on: { name: 'Acme & Co', available: true },
      });
    });

    test('while the provider is down, everything else works, and the pages say so', async () => {
      const { browser } = await signIn('ada');
      await provider.close();
      const instance = async () =>
        (await fixture.service.api('GET', '/v1/instance')).body.data.single_sign_on;
      assert.deepEqual(
        [(await instance()).name, (await instance()).issuer, (await instance()).redirect_uri],
        ['Acme & Co', provider.url, `${serviceUrl}/oidc/callback`],
      );
      await fixture.restart();
      const down = await start(new TestBrowser());
      assert.deepEqual([down.status, down.body.code], [503, 'provider_unavailable']);
      assert.match(
        down.body.error,
        /^Acme & Co does not answer at the moment: .*; until then admins of the instance can sign in with an API key$/,
      );
      assert.ok(!down.body.error.includes(String(providerPort)), 'addresses are for the operator');
      assert.deepEqual((await methods()).data.single_sign_on, { name: 'Acme & Co', available: false });
      const { state, problem, checked_at: checkedAt } = await instance();
      assert.deepEqual([state, checkedAt > 0], ['unreachable', true]);
      assert.match(problem, /ECONNREFUSED/);
      assert.equal(await status('/readyz'), 200);
      // Who is signed in stays so.
      assert.equal((await get(browser, '/v1/users/me')).status, 200);
      provider = await startProvider();
      provider.people.set('ada', { groups: [] });
      const back = await waitFor(async () => {
        const answer = await start(new TestBrowser());
        return answer.status === 200 ? answer : undefined;
      });
      assert.ok(back.body.data.url.startsWith(provider.url));
      assert.equal((await instance()).state, 'reachable');
    });
  },
  {
    environment: {
      MILLRACE_PORT: String(port),
      MILLRACE_OIDC_ISSUER: `http://127.0.0.1:${providerPort}`,
      MILLRACE_OIDC_CLIENT_ID: 'millrace',
      MILLRACE_OIDC_CLIENT_SECRET: 'client-secret-0123456789',
      MILLRACE_OIDC_SCOPES: 'openid email profile groups',
      MILLRACE_OIDC_NAME: 'Acme & Co',
      MILLRACE_OIDC_GROUPS: 'devs=team:member,chiefs=instance-admin,operators=instance-admin',
      MILLRACE_OIDC_CREATE_USERS: 'groups',
      MILLRACE_OIDC_ONLY: 'on',
    },
    inTurns: true,
  },
);
