import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { forEachSharedService } from '../support/millrace.ts';
import { OAuthProvider } from '../support/oauth-provider.ts';
import { waitFor } from '../support/wait-for.ts';

/** A page that a step or a component replies with, on the origin of the API and of the pages for connecting. */
const page = `
  export default {
    props: { http: { type: '$.interface.http', customResponse: true } },
    run() {
      this.http.respond({ status: 200, body: '<script>parent</script>', headers: {
        'Content-Type': 'text/html',
        'content-security-policy': "default-src 'self'",
        'Service-Worker-Allowed': '/',
        'Clear-Site-Data': '"*"',
        'Strict-Transport-Security': 'max-age=0',
        'Alt-Svc': 'h2=":8443"',
        'Report-To': '{"group":"all","max_age":86400,"endpoints":[{"url":"https://thief.example"}]}',
        'NEL': '{"report_to":"all","max_age":86400,"success_fraction":1}',
        'X-Request-Id': 'another', 'X-Millrace-Run-Id': 'another', 'Idempotency-Replayed': 'true',
        'X-Own': 'kept',
        'Set-Cookie': ['millrace_cf_0123456789ab=thief; Path=/connect', 'own=1', ' Millrace_x=2; Path=/'],
      } });
    },
  };`;

forEachSharedService((fixture) => {
  describe('accounts and those who mean harm', () => {
    let provider: OAuthProvider;
    const api = (...request: Parameters<typeof fixture.service.api>) => fixture.service.api(...request);

    before(async () => {
      provider = await OAuthProvider.start([`${fixture.service.url}/connect/callback`]);
    });
    after(() => provider.close());

    test('a user who opens a link sees who asks and for whom before anything is asked of the provider', async () => {
      const workspace = (await api('POST', '/v1/workspaces', { name: 'Evil <Inc>' })).body.data.id;
      const app = provider.app('hub', {}, { authorization_parameters: {} });
      assert.equal((await api('POST', `/v1/apps?org_id=${workspace}`, app)).status, 200);
      const client = { client_id: provider.clientId, client_secret: provider.clientSecret };
      assert.equal((await api('PUT', `/v1/apps/hub/oauth_client?org_id=${workspace}`, client)).status, 200);
      const eve = await fixture.service.createUser('eve');
      const member = { user_id: eve.id, role: 'member' };
      assert.equal((await api('POST', `/v1/workspaces/${workspace}/members`, member)).status, 200);
      const asked = await api(
        'POST',
        '/v1/accounts/connect',
        { app: 'hub', org_id: workspace },
        { key: eve.key },
      );
      const opened = await fetch(asked.body.data.connect_url, { redirect: 'manual' });
      const text = await opened.text();
      // A provider that was asked before by the same client agrees without asking the user.
      assert.equal(opened.status, 200, 'the browser was sent to the provider unasked');
      assert.ok(text.includes(eve.email), text);
      assert.match(text, /Evil &lt;Inc&gt;/);
      assert.match(text, /<form method="post"/);
      assert.match(opened.headers.get('content-security-policy') ?? '', /frame-ancestors 'none'/);
      // Opening it is not enough, nor is a form that another page sends.
      const cookie = (opened.headers.getSetCookie()[0] ?? '').split(';')[0] ?? '';
      const forged = await fetch(asked.body.data.connect_url, {
        method: 'POST',
        redirect: 'manual',
        headers: { cookie },
        body: new URLSearchParams({ form_token: '' }),
      });
      assert.equal(forged.status, 403);
      assert.deepEqual(provider.granted, []);
      // One that is connected again stays that of who made it, and so are its tokens.
      const brought = { app: 'hub', org_id: workspace, credentials: { oauth_access_token: 'x' } };
      const account = await api('POST', '/v1/accounts', brought, { key: eve.key });
      const again = await api('POST', '/v1/accounts/connect', { account_id: account.body.data.id });
      const shown = await (await fetch(again.body.data.connect_url)).text();
      const me = (await api('GET', '/v1/users/me')).body.data;
      assert.ok(shown.includes(`${me.email} asks for this`), shown);
      assert.ok(shown.includes(`its admins and ${eve.email} can read its tokens`), shown);
    });

    test('every route for accounts, apps and clients answers for those of others as for none', async () => {
      const owner = await fixture.service.createUser('owner');
      const stranger = await fixture.service.createUser('stranger');
      const as = { key: owner.key };
      const workspace = (await api('POST', '/v1/workspaces', { name: 'Theirs' }, as)).body.data.id;
      const where = `?org_id=${workspace}`;
      const slug = 'only_theirs';
      assert.equal((await api('POST', `/v1/apps${where}`, provider.app(slug), as)).status, 200);
      const secret = { client_id: 'id', client_secret: 'a-secret-of-theirs' };
      assert.equal((await api('PUT', `/v1/apps/${slug}/oauth_client${where}`, secret, as)).status, 200);
      const made = { app: slug, credentials: { oauth_access_token: 'a-token-of-theirs' } };
      const account = (await api('POST', `/v1/accounts${where}`, made, as)).body.data.id;
      const clients = `/v1/workspaces/${workspace}/oauth_clients`;
      const client = (await api('POST', clients, { name: 'backend' }, as)).body.data;
      const asked = { grant_type: 'client_credentials', ...client, name: undefined };
      const { access_token: token } = (await api('POST', '/v1/oauth/token', asked)).body;
      assert.match(token, /^mat_/);

      type Case = [method: string, path: string, body?: unknown];
      const ofStrangers = (apn: string, o: string, app: string, u: string): Case[] => [
        ...['', '?include_credentials=1', '/uses', '/audit'].map(
          (rest): Case => ['GET', `/v1/accounts/${apn}${rest}`],
        ),
        ['PUT', `/v1/accounts/${apn}`, { credentials: {} }],
        ['DELETE', `/v1/accounts/${apn}?force=true`],
        ['POST', `/v1/accounts/${apn}/test`],
        ['POST', '/v1/accounts/connect', { account_id: apn }],
        ['POST', '/v1/accounts/connect', { app, org_id: o }],
        ['POST', '/v1/accounts/connect', { app }],
        ['POST', '/v1/accounts', { app: 'x', credentials: {}, org_id: o }],
        ['GET', `/v1/accounts?org_id=${o}`],
        ['GET', `/v1/accounts?org_id=${u}`],
        ...['accounts', 'audit', 'event_summaries', 'oauth_clients'].map(
          (list): Case => ['GET', `/v1/workspaces/${o}/${list}`],
        ),
        ['POST', `/v1/workspaces/${o}/oauth_clients`, { name: 'mine' }],
        ['POST', `/v1/workspaces/${o}/oauth_clients/${client.id}/rotate_secret`, {}],
        ['DELETE', `/v1/workspaces/${o}/oauth_clients/${client.id}`],
        ['GET', `/v1/apps?org_id=${o}`],
        ['GET', `/v1/apps/${app}`],
        ['GET', `/v1/apps/${app}?org_id=${o}`],
        ['PUT', `/v1/apps/${app}`, provider.app(app)],
        ['DELETE', `/v1/apps/${app}?org_id=${o}`],
        ['POST', `/v1/apps?org_id=${o}`, provider.app('mine')],
        ['GET', `/v1/apps/${app}/oauth_client`],
        ['GET', `/v1/apps/${app}/oauth_client?org_id=${o}`],
        ['PUT', `/v1/apps/${app}/oauth_client?org_id=${o}`, secret],
        ['DELETE', `/v1/apps/${app}/oauth_client?org_id=${o}&force=true`],
        [
          'POST',
          `/v1/subscriptions?emitter_id=${o}&event_name=account_unhealthy&listener_id=dc_000000000000`,
        ],
        [
          'POST',
          `/v1/subscriptions?emitter_id=${u}&event_name=account_unhealthy&listener_id=dc_000000000000`,
        ],
      ];
      const none = ['apn_000000000000', 'o_000000000000', 'none_at_all', 'u_000000000000'] as const;
      const theirs = [account, workspace, slug, owner.id] as const;
      const plain = (answer: unknown) =>
        [...theirs, ...none].reduce(
          (text, id) => text.replaceAll(id, id.startsWith('apn_') ? 'apn' : 'id'),
          JSON.stringify(answer),
        );
      const absent = ofStrangers(...none);
      const home = (await api('POST', '/v1/workspaces', { name: 'Home' }, { key: stranger.key })).body.data
        .id;
      const own = await api(
        'POST',
        `/v1/workspaces/${home}/oauth_clients`,
        { name: 'own' },
        { key: stranger.key },
      );
      const ofHome = { grant_type: 'client_credentials', ...own.body.data, name: undefined };
      const homeToken = (await api('POST', '/v1/oauth/token', ofHome)).body.access_token;
      for (const key of [stranger.key, homeToken, undefined]) {
        for (const [index, [method, path, body]] of ofStrangers(...theirs).entries()) {
          const options = key === undefined ? {} : { key };
          const foreign = await api(method, path, body, options);
          const [, nonePath = '', noneBody] = absent[index] ?? [];
          const nothing = await api(method, nonePath, noneBody, options);
          const what = `${method} ${path}`;
          assert.ok([400, 403, 404].includes(foreign.status), `${what}: ${JSON.stringify(foreign.body)}`);
          assert.equal(foreign.status, nothing.status, what);
          assert.equal(plain(foreign.body), plain(nothing.body), what);
        }
      }
      // Its tokens do not outlive their purpose either.
      const tokens = { key: token };
      assert.equal((await api('GET', `/v1/accounts/${account}`, undefined, tokens)).status, 200);
      const peek = await api('GET', `/v1/accounts/${account}?include_credentials=1`, undefined, tokens);
      assert.equal(peek.status, 403);
      assert.equal((await api('GET', clients, undefined, tokens)).status, 403);
      assert.equal(
        (await api('POST', '/v1/users', { username: 'x', email: 'x@x.example' }, tokens)).status,
        403,
      );
      assert.equal((await api('DELETE', `${clients}/${client.id}`, undefined, as)).status, 204);
      assert.equal((await api('GET', `/v1/accounts/${account}`, undefined, tokens)).status, 401);
    });

    test('the account of a member is put to no other use by the others, in sources as in workflows', async () => {
      const workspace = (await api('POST', '/v1/workspaces', { name: 'Shared' })).body.data.id;
      const join = async (name: string) => {
        const { id, key } = await fixture.service.createUser(name);
        const member = { user_id: id, role: 'member' };
        assert.equal((await api('POST', `/v1/workspaces/${workspace}/members`, member)).status, 200);
        return { key };
      };
      const [ann, mallory] = [await join('ann'), await join('mallory')];
      const brought = (token: string) => ({ app: 'gitlab', credentials: { oauth_access_token: token } });
      const account = (await api('POST', '/v1/accounts', brought('token-of-ann-1'), ann)).body.data.id;
      const another = (await api('POST', '/v1/accounts', brought('token-of-ann-2'), ann)).body.data.id;
      const gitlab = { authProvisionId: account };
      const code = (body: string) =>
        `export default { props: { gitlab: { type: 'app', app: 'gitlab' }, to: 'string' }, run() { ${body} } };`;
      const thief = code('this.$emit(this.gitlab.$auth)');

      const made = await api(
        'POST',
        `/v1/sources?org_id=${workspace}`,
        { component_code: code(''), configured_props: { gitlab, to: 'a' } },
        ann,
      );
      assert.equal(made.status, 200, JSON.stringify(made.body));
      const source = `/v1/sources/${made.body.data.id}`;
      const changes: object[] = [
        { component_code: thief },
        { component_code: thief, configured_props: { gitlab, to: 'a' } },
        { configured_props: { gitlab, to: 'b' } },
        { configured_props: { gitlab: { authProvisionId: another }, to: 'a' } },
      ];
      for (const change of changes) {
        const answer = await api('PUT', source, change, mallory);
        assert.ok([400, 404].includes(answer.status), `${JSON.stringify(change)}: ${answer.status}`);
        assert.match(answer.body.error, /belongs to another member|no account/);
      }
      assert.equal((await api('PUT', source, { name: 'renamed' }, mallory)).status, 200);

      const step = { namespace: 'sync', code: code('return 1'), props: { gitlab, to: 'a' } };
      const flow = await api('POST', '/v1/workflows', { org_id: workspace, steps: [step] }, ann);
      assert.equal(flow.status, 200, JSON.stringify(flow.body));
      const own = { namespace: 'own', code: 'export default { run() {} }' };
      const deployments: object[][] = [
        [{ ...step, code: code('return this.gitlab.$auth') }],
        [{ ...step, props: { gitlab, to: '{{steps}}' } }],
        [{ ...step, props: { gitlab: { authProvisionId: another }, to: 'a' } }],
        [{ ...step, disabled: true }],
        [own, step],
        [step, own],
      ];
      for (const steps of deployments) {
        const path = `/v1/workflows/${flow.body.data.id}/deployments`;
        const answer = await api('POST', path, { steps }, mallory);
        assert.equal(answer.status, 400, JSON.stringify(steps));
        assert.match(answer.body.error, /belongs to another member|no account/);
      }
      const path = `/v1/workflows/${flow.body.data.id}/deployments`;
      const keyed = (key: string) => ({
        settings: { flow_control: { throttle: { limit: 1, seconds: 1, key } } },
      });
      const spying = keyed('{{(() => globalThis.kept)()}}');
      const spied = await api('POST', path, spying, mallory);
      assert.equal(spied.status, 400, 'keys are evaluated beside the account');
      assert.match(spied.body.error, /^settings.flow_control: .* is code, .* another member/);
      const priority = { settings: { flow_control: { priority: '{{globalThis.kept}}' } } };
      assert.equal((await api('POST', path, priority, mallory)).status, 400);
      assert.equal((await api('POST', path, keyed('{{event.body.id}}'), mallory)).status, 200);
      // What the owner of the account had, others may keep.
      assert.equal((await api('POST', path, spying, ann)).status, 200);
      assert.equal((await api('POST', path, { settings: { name: 'other' } }, mallory)).status, 200);
      assert.equal((await api('POST', path, spying, mallory)).status, 200);
      // Once its owner has taken the account out, runs that had it are not run with it again.
      const trigger = { ...keyed('{{event.body.id}}'), triggers: [{ type: 'http' }], active: true };
      const deployed = await api('POST', path, trigger, ann);
      assert.equal(deployed.status, 200, JSON.stringify(deployed.body));
      const { endpoint_url: endpoint } = deployed.body.data.triggers[0];
      const started = await fetch(endpoint, { method: 'POST', body: '{}' });
      const runId = started.headers.get('x-millrace-run-id');
      await waitFor(
        async () => (await api('GET', `/v1/runs/${runId}`, undefined, ann)).body.data.ended_at !== null,
      );
      const restart = () => api('POST', `/v1/runs/${runId}/restart`, { from_step: 'sync' }, mallory);
      assert.equal((await restart()).status, 200);
      assert.equal((await api('POST', path, { steps: [own] }, ann)).status, 200);
      const taken = await restart();
      assert.equal(taken.status, 409);
      assert.match(taken.body.error, /no longer uses: replay the run/);
      const fresh = await api('POST', '/v1/workflows', { org_id: workspace, steps: [step] }, mallory);
      assert.match(fresh.body.error, /no account/);
    });

    test('a member hands the step of another no exports of their own, does not try it while it is disabled, and a viewer gets no link of a run', async () => {
      const workspace = (await api('POST', '/v1/workspaces', { name: 'Handed on' })).body.data.id;
      const join = async (name: string, role: string) => {
        const { id, key } = await fixture.service.createUser(name);
        assert.equal(
          (await api('POST', `/v1/workspaces/${workspace}/members`, { user_id: id, role })).status,
          200,
        );
        return { key };
      };
      const [erin, bob, carol] = [
        await join('erin', 'member'),
        await join('bob', 'member'),
        await join('carol', 'viewer'),
      ];
      const brought = { app: 'gitlab', credentials: { oauth_access_token: 'token-of-erin' } };
      const account = (await api('POST', '/v1/accounts', brought, erin)).body.data.id;
      const code =
        "export default { props: { gitlab: { type: 'app', app: 'gitlab' }, to: 'string' }, run() { return this.to } };";
      const props = { gitlab: { authProvisionId: account }, to: '{{steps.one.$return_value}}' };
      const made = await api(
        'POST',
        '/v1/workflows',
        {
          org_id: workspace,
          settings: { auto_deploy: true },
          triggers: [{ type: 'http' }],
          steps: [
            { namespace: 'one', code: "export default { run() { return 'https://right.example' } }" },
            { namespace: 'two', code, props },
            { namespace: 'off', code, props, disabled: true },
            { namespace: 'pause', block: 'delay', seconds: 600 },
          ],
        },
        erin,
      );
      assert.equal(made.status, 200, JSON.stringify(made.body));
      const { id, triggers } = made.body.data;
      const run = `/v1/runs/${(await fetch(triggers[0].endpoint_url, { method: 'POST' })).headers.get('x-millrace-run-id')}`;
      const read = async (as: { key: string }) => (await api('GET', run, undefined, as)).body.data;
      await waitFor(async () => (await read(erin)).waits.length === 1);

      // Every caller with a link of the run can use it.
      const linksIn = async (as: { key: string }) => [
        ...JSON.stringify(await read(as)).matchAll(/http[^"]*\/in\/(?:resume|cancel)\/[^"]*/g),
      ];
      for (const link of await linksIn(carol)) assert.match(link[0], /\/hidden$/);
      assert.ok((await linksIn(bob)).some(([link]) => !link.endsWith('/hidden')));
      const scoped = await api('POST', '/v1/users/me/api_keys', { name: 'read', scopes: ['read'] }, erin);
      for (const link of await linksIn({ key: scoped.body.data.api_key })) assert.match(link[0], /\/hidden$/);

      const steps = { one: { $return_value: 'https://thief.example' } };
      const tried = (namespace: string, body: object, as: { key: string }) =>
        api('POST', `/v1/workflows/${id}/steps/${namespace}/test`, body, as);
      const forged = await tried('two', { steps }, bob);
      assert.equal(forged.status, 400);
      assert.match(forged.body.error, /^steps: account apn_\w+ of step two belongs to another member/);
      const disabled = await tried('off', {}, bob);
      assert.equal(disabled.status, 400);
      assert.match(disabled.body.error, /^namespace: the step is disabled; account apn_/);
      assert.equal((await tried('two', {}, bob)).status, 200);
      assert.equal((await tried('one', { steps: { off: {} } }, bob)).status, 200, 'it has no account');
      const own = await tried('two', { steps }, erin);
      assert.equal(own.body.data.exports.$return_value, 'https://thief.example');
      assert.equal((await tried('off', {}, erin)).status, 200);

      assert.equal((await api('POST', `${run}/cancel`, {}, bob)).status, 200);
      const restarted = (body: object, as: { key: string }) => api('POST', `${run}/restart`, body, as);
      const edited = await restarted({ from_step: 'two', steps }, bob);
      assert.equal(edited.status, 400);
      assert.match(edited.body.error, /^steps: account apn_\w+ of the workflow belongs to another member/);
      assert.equal((await restarted({ from_step: 'two' }, bob)).status, 200);
      assert.equal((await restarted({ from_step: 'two', steps }, erin)).status, 200);
      // Exports of a request are what other code would have returned.
      const runner = await api('POST', '/v1/users/me/api_keys', { name: 'run', scopes: ['run'] }, erin);
      const key = { key: runner.body.data.api_key };
      for (const answer of [
        await tried('two', { steps }, key),
        await restarted({ from_step: 'two', steps }, key),
      ]) {
        assert.equal(answer.status, 403);
        assert.equal(answer.body.code, 'insufficient_scope');
      }
      assert.equal((await tried('two', {}, key)).status, 200);
      // An account that a request names needs the scope that hands it out, as for an action.
      const component = await api('POST', '/v1/components', { component_code: code }, erin);
      const draft = { id: component.body.data.id, configured_props: { gitlab: props.gitlab } };
      for (const [path, body] of [
        ['configure', { ...draft, prop_name: 'to' }],
        ['props', draft],
      ] as const) {
        const answer = await api('POST', `/v1/components/${path}`, body, key);
        assert.equal(answer.body.code, 'insufficient_scope', path);
      }
      // The runs of a workflow are gone with it, also while thousands of them are still being removed.
      assert.equal((await api('DELETE', `/v1/workflows/${id}`, undefined, erin)).status, 204);
      assert.equal((await api('GET', run, undefined, erin)).status, 404);
    });

    test('code that is given credentials while a workflow is set up leaves a record, also when nothing comes of it', async () => {
      const brought = { app: 'gitlab', credentials: { oauth_access_token: 'a-token-to-steal' } };
      const account = (await api('POST', '/v1/accounts', brought)).body.data.id;
      const code = `
        export default {
          props: { gitlab: { type: 'app', app: 'gitlab', reloadProps: true } },
          async additionalProps() { throw new Error('sent ' + this.gitlab.$auth.oauth_access_token.length); },
          run() {},
        };`;
      const step = { namespace: 'thief', code, props: { gitlab: { authProvisionId: account } } };
      const refused = await api('POST', '/v1/workflows', { steps: [step] });
      assert.match(refused.body.error, /sent 16/);
      const { used } = (await api('GET', `/v1/accounts/${account}/uses`)).body.data;
      assert.equal(used.length, 1);
      assert.match(used[0].id, /^p_/);
      assert.equal(used[0].name, null);
    });

    test('no definition of an app makes the service call itself', async () => {
      const own = fixture.service.url;
      const { port } = new URL(own);
      const places = [own, `http://localhost:${port}`, `http://[::1]:${port}`];
      for (const [index, place] of places.entries()) {
        const slug = `inward_${index}`;
        const oauth = {
          ...{ version: 2, grant: 'client_credentials', token_url: `${place}/v1/oauth/token` },
          authorization_url: undefined,
        };
        const app = provider.app(slug, {}, oauth);
        const added = await api('POST', '/v1/apps', app);
        assert.equal(added.status, 200, JSON.stringify(added.body));
        const client = { client_id: 'a', client_secret: 'canary-of-inward' };
        assert.equal((await api('PUT', `/v1/apps/${slug}/oauth_client`, client)).status, 200);
        const answer = await api('POST', '/v1/accounts', { app: slug, grant: 'client_credentials' });
        assert.equal(answer.status, 503, JSON.stringify(answer.body));
        assert.match(answer.body.error, /cannot be reached at [^ ]+: (EACCES|ECONNREFUSED)$/);
        if (!place.includes('[::1]')) assert.match(answer.body.error, /EACCES$/);

        const keys = `keys_${index}`;
        const tested = {
          ...{ slug: keys, name: 'Keys', auth_type: 'keys', custom_fields: [{ name: 'host' }] },
          test_request: { url: 'https://{{host}}/v1/users/me' },
        };
        assert.equal((await api('POST', '/v1/apps', tested)).status, 200);
        const host = new URL(place).host;
        const made = await api('POST', '/v1/accounts', { app: keys, credentials: { host } });
        const { body } = await api('POST', `/v1/accounts/${made.body.data.id}/test`);
        assert.match(body.data.error ?? '', /may not connect there|ECONNREFUSED/, JSON.stringify(body));
      }
    });

    test('pages of user code share the origin, but neither its cookies, nor its storage, nor its workers, nor its reports', async () => {
      const { configured_props: props } = await fixture.service.createSource({ component_code: page });
      const answer = await fetch(props.http.endpoint_url);
      assert.equal(await answer.text(), '<script>parent</script>');
      const policy = answer.headers.get('content-security-policy') ?? '';
      assert.match(policy, /(^|, )default-src 'self'/);
      assert.match(policy, /(^|, )sandbox /);
      assert.doesNotMatch(policy, /allow-same-origin/);
      assert.equal(answer.headers.get('service-worker-allowed'), null);
      const reaching = ['clear-site-data', 'strict-transport-security', 'alt-svc', 'report-to', 'nel'];
      for (const name of [...reaching, 'x-millrace-run-id', 'idempotency-replayed'])
        assert.equal(answer.headers.get(name), null, name);
      assert.match(answer.headers.get('x-request-id') ?? '', /^[0-9a-f-]{36}$/);
      assert.equal(answer.headers.get('x-own'), 'kept');
      assert.deepEqual(answer.headers.getSetCookie(), ['own=1']);
    });
  });
});
