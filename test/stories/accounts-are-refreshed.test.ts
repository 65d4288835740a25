import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachSharedService } from '../support/millrace.ts';
import { OAuthProvider } from '../support/oauth-provider.ts';
import { TestBrowser } from '../support/test-browser.ts';
import { waitFor } from '../support/wait-for.ts';

/** Short, so that tokens end while a test looks on. */
const lifeSeconds = 2;

forEachSharedService((fixture) => {
  describe('an account connected by OAuth 2, with refresh tokens that are good once', () => {
    let provider: OAuthProvider;
    let receiver: HttpReceiver;
    let apps = 0;
    let app = '';

    const api = (...request: Parameters<typeof fixture.service.api>) => fixture.service.api(...request);

    before(async () => {
      receiver = await HttpReceiver.start();
    });
    after(() => receiver.close());
    beforeEach(async () => {
      apps += 1;
      app = `shorthub_${apps}`;
    });

    /** A provider of its own for each test: its redirect URI is that of the service as it listens now. */
    async function withProvider(body: () => Promise<void>): Promise<void> {
      provider = await OAuthProvider.start([`${fixture.service.url}/connect/callback`], {
        accessTokenSeconds: lifeSeconds,
      });
      try {
        assert.equal((await api('POST', '/v1/apps', provider.app(app))).status, 200);
        const client = { client_id: provider.clientId, client_secret: provider.clientSecret };
        assert.equal((await api('PUT', `/v1/apps/${app}/oauth_client`, client)).status, 200);
        await body();
      } finally {
        await provider.close();
      }
    }

    async function connect(): Promise<string> {
      const made = await api('POST', '/v1/accounts/connect', {
        app,
        redirect_url: 'https://dashboard.example/done',
      });
      assert.equal(made.status, 200, JSON.stringify(made.body));
      const visit = await new TestBrowser().visit(made.body.data.connect_url, {
        stopBefore: (url) => url.startsWith('https://dashboard.example/'),
      });
      const id = new URL(visit.url).searchParams.get('account_id');
      assert.ok(id, visit.url);
      return id;
    }

    const read = async (id: string) => {
      const { status, body } = await api('GET', `/v1/accounts/${id}?include_credentials=1`);
      assert.equal(status, 200, JSON.stringify(body));
      return body.data;
    };
    const metadata = async (id: string) => (await api('GET', `/v1/accounts/${id}`)).body.data;
    const refreshes = () => provider.granted.filter((type) => type === 'refresh_token').length;
    // The clock of the machine decides: there is no signal that time has passed.
    const past = (time: string) =>
      waitFor(() => Date.now() > Date.parse(time), { what: 'the access token to end' });
    const ended = async (id: string) => past((await read(id)).expires_at);

    test('is refreshed before its token ends, by the service itself', () =>
      withProvider(async () => {
        const id = await connect();
        const first = await read(id);
        // On a busy machine it may have been refreshed once before it was read.
        await waitFor(async () => (await metadata(id)).last_refreshed_at !== first.last_refreshed_at, {
          what: 'a scheduled refresh',
        });
        const second = await read(id);
        assert.notEqual(second.credentials.oauth_access_token, first.credentials.oauth_access_token);
        assert.notEqual(second.credentials.oauth_refresh_token, first.credentials.oauth_refresh_token);
        assert.equal(second.healthy, true);
      }));

    test('50 readers at the end of its token make one refresh, and each gets the new token', () =>
      withProvider(async () => {
        const id = await connect();
        const { credentials, expires_at } = await read(id);
        provider.accessTokenSeconds = 3600;
        // The service's own refresh comes in the same moment, or came a moment ago: it counts among the 50.
        await past(expires_at);
        const answers = await Promise.all(Array.from({ length: 50 }, () => read(id)));
        const tokens = new Set(answers.map((answer) => answer.credentials.oauth_access_token));
        assert.equal(tokens.size, 1);
        assert.ok(!tokens.has(credentials.oauth_access_token));
        assert.ok(provider.refused.length === 0, `refused: ${provider.refused}`);
        const after50 = refreshes();
        await Promise.all(Array.from({ length: 50 }, () => read(id)));
        assert.equal(refreshes(), after50);
      }));

    test('gives its newest token to the code of a source and of a workflow, run after run', () =>
      withProvider(async () => {
        const id = await connect();
        const code = `export default {
          name: 'caller',
          props: { http: '$.interface.http', hub: { type: 'app', app: '${app}' } },
          async run() {
            await fetch('${receiver.url}/${app}', { headers: { authorization: 'Bearer ' + this.hub.$auth.oauth_access_token } });
          },
        };`;
        const source = await fixture.service.createSource({
          component_code: code,
          name: app,
          configured_props: { hub: { authProvisionId: id } },
        });
        const workflow = await fixture.service.createWorkflow({
          triggers: [{ type: 'http' }],
          steps: [
            {
              namespace: 'call',
              code: code.replace("http: '$.interface.http', ", ''),
              props: { hub: { authProvisionId: id } },
            },
          ],
        });
        const urls = [
          source.endpoint_url ?? source.configured_props.http.endpoint_url,
          workflow.triggers[0].endpoint_url,
        ];
        const seen = () =>
          receiver.requests
            .filter(({ url }) => url === `/${app}`)
            .map(({ headers }) => String(headers.authorization).replace('Bearer ', ''));
        for (let round = 1; round <= 3; round += 1) {
          for (const url of urls) {
            const before = seen().length;
            assert.ok((await fetch(url, { method: 'POST', body: '{}' })).status < 300);
            await waitFor(() => seen().length > before, { what: 'the call of the code' });
          }
          await ended(id);
        }
        // Each round has another token, and in a round both have the same, or the next one.
        assert.ok(new Set(seen()).size >= 3, `${new Set(seen()).size} tokens`);
        assert.equal(provider.refused.length, 0);
        const summaries = JSON.stringify(await fixture.service.events(source.id));
        for (const token of seen()) assert.ok(!summaries.includes(token));
        const uses = await api('GET', `/v1/accounts/${id}/uses`);
        const users = new Set(uses.body.data.used.map((use: { id: string }) => use.id));
        assert.deepEqual(users, new Set([source.id, workflow.id]));
        await api('DELETE', `/v1/sources/${source.id}`);
        await api('DELETE', `/v1/workflows/${workflow.id}`);
      }));
  });
});
