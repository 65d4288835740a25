import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { forEachService } from '../support/millrace.ts';
import { OAuthProvider } from '../support/oauth-provider.ts';

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
        'Set-Cookie': ['millrace_cf_0123456789ab=thief; Path=/connect', 'own=1', ' Millrace_x=2; Path=/'],
      } });
    },
  };`;

forEachService((fixture) => {
  describe('accounts and those who mean harm', () => {
    let provider: OAuthProvider;
    const api = (...request: Parameters<typeof fixture.service.api>) => fixture.service.api(...request);

    before(async () => {
      provider = await OAuthProvider.start([`${fixture.service.url}/connect/callback`]);
    });
    after(() => provider.close());

    test('who opens a link is told who asks and for whom before anything is asked of the provider', async () => {
      const workspace = (await api('POST', '/v1/workspaces', { name: 'Evil <Inc>' })).body.data.id;
      const app = provider.app('hub', {}, { authorization_parameters: {} });
      assert.equal((await api('POST', `/v1/apps?org_id=${workspace}`, app)).status, 200);
      const client = { client_id: provider.clientId, client_secret: provider.clientSecret };
      assert.equal((await api('PUT', `/v1/apps/hub/oauth_client?org_id=${workspace}`, client)).status, 200);
      const eve = (await api('POST', '/v1/users', { username: 'eve', email: 'eve@example.com' })).body.data;
      const member = { user_id: eve.id, role: 'member' };
      assert.equal((await api('POST', `/v1/workspaces/${workspace}/members`, member)).status, 200);
      const asked = await api(
        'POST',
        '/v1/accounts/connect',
        { app: 'hub', org_id: workspace },
        { key: eve.api_key },
      );
      const opened = await fetch(asked.body.data.connect_url, { redirect: 'manual' });
      const text = await opened.text();
      // A provider that was asked before by the same client says yes without a word to the person.
      assert.equal(opened.status, 200, 'the browser was sent to the provider unasked');
      assert.match(text, /eve@example\.com/);
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
    });

    test('pages of user code share the origin, but neither its cookies, nor its storage, nor its workers', async () => {
      const { configured_props: props } = await fixture.service.createSource({ component_code: page });
      const answer = await fetch(props.http.endpoint_url);
      assert.equal(await answer.text(), '<script>parent</script>');
      const policy = answer.headers.get('content-security-policy') ?? '';
      assert.match(policy, /(^|, )default-src 'self'/);
      assert.match(policy, /(^|, )sandbox /);
      assert.doesNotMatch(policy, /allow-same-origin/);
      assert.equal(answer.headers.get('service-worker-allowed'), null);
      assert.equal(answer.headers.get('clear-site-data'), null);
      assert.deepEqual(answer.headers.getSetCookie(), ['own=1']);
    });
  });
});
