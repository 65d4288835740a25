import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { after, before, beforeEach, describe, test } from 'node:test';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachService } from '../support/millrace.ts';
import { OAuthProvider } from '../support/oauth-provider.ts';
import { TestBrowser } from '../support/test-browser.ts';
import { waitFor } from '../support/wait-for.ts';

/** Short, so that tokens end while a test looks on. */
const lifeSeconds = 2;

forEachService((fixture) => {
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
    const ended = async (id: string) => {
      const { expires_at } = await read(id);
      // The clock of the machine decides: nothing tells that time has passed.
      await waitFor(() => Date.now() > Date.parse(expires_at), { what: 'the access token to end' });
    };
    /** Holds requests to the token endpoint back; each ends with its connection, as when the provider is cut off. */
    function holdTokenRequests() {
      const held: { request: IncomingMessage; response: ServerResponse }[] = [];
      provider.intercept = (request, response) => {
        held.push({ request, response });
        return true;
      };
      return held;
    }

    test('is refreshed before its token ends, by the service itself', () =>
      withProvider(async () => {
        const id = await connect();
        const first = await read(id);
        await waitFor(async () => (await metadata(id)).last_refreshed_at !== null, {
          what: 'a refresh that nobody asked for',
        });
        const second = await read(id);
        assert.notEqual(second.credentials.oauth_access_token, first.credentials.oauth_access_token);
        assert.notEqual(second.credentials.oauth_refresh_token, first.credentials.oauth_refresh_token);
        assert.equal(second.healthy, true);
      }));

    test('50 readers at the end of its token make one refresh, and each gets the new token', () =>
      withProvider(async () => {
        const id = await connect();
        const { credentials } = await read(id);
        provider.accessTokenSeconds = 3600;
        // The service's own refresh comes in the same moment: it counts among the 50.
        await ended(id);
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

    test('a service that is killed in a refresh which the provider never saw refreshes after its start', () =>
      withProvider(async () => {
        const id = await connect();
        const held = holdTokenRequests();
        await waitFor(() => held.length > 0, { what: 'a refresh' });
        provider.intercept = undefined;
        provider.accessTokenSeconds = 3600;
        await fixture.restart('kill');
        // On PostgreSQL the lease of the process that died ends by itself.
        const account = await read(id);
        assert.equal(account.healthy, true);
        assert.equal(account.dead, false);
        assert.ok(Date.parse(account.expires_at) > Date.now() + 3_000_000);
        assert.equal(refreshes(), 1);
        assert.equal(provider.refused.length, 0);
      }));

    // With other processes about, each of these waits for the lease of the dead one: once is enough there.
    const skip = fixture.dialect === 'postgres' && 'shown on SQLite';
    test(
      'a service that is killed before it heard the answer loses the token, not the account',
      { skip },
      () =>
        withProvider(async () => {
          const id = await connect();
          const before = createHash('sha256')
            .update((await read(id)).credentials.oauth_refresh_token)
            .digest('hex');
          // The provider takes the request, spends the refresh token, and its answer reaches nobody.
          let spent = () => {};
          const wasSpent = new Promise<void>((resolve) => {
            spent = resolve;
          });
          provider.intercept = (_request, response) => {
            provider.intercept = undefined;
            response.end = () => {
              spent();
              return response;
            };
            return false;
          };
          await wasSpent;
          await fixture.restart('kill');
          await waitFor(async () => (await metadata(id)).dead === true, {
            what: 'the account to be called dead',
            timeoutMs: 60_000,
          });
          const dead = await read(id);
          assert.match(dead.error, /invalid_grant/);
          const kept = createHash('sha256').update(dead.credentials.oauth_refresh_token).digest('hex');
          assert.equal(kept, before, 'nothing of it was deleted');
        }),
    );
  });
});
