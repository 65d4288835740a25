import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, test } from 'node:test';
import { filesBelow } from '../support/files-below.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { type ApiAnswer, EventStream, forEachService, type Millrace } from '../support/millrace.ts';
import { patienceMs, waitFor, within } from '../support/wait-for.ts';

const canary = 'CANARY-5d1e-never-seen-again';

/** Returns what started it. */
const echo = {
  namespace: 'echo',
  code: 'export default defineComponent({ run({ steps }) { return steps.trigger.event; } });',
};

async function create(service: Millrace, path: string, body: unknown, key?: string) {
  const answer = await service.api('POST', path, body, key === undefined ? {} : { key });
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
  return answer.body.data;
}

forEachService(
  (fixture) => {
    const servers: HttpReceiver[] = [];
    after(() => Promise.all(servers.map((server) => server.close())));

    const receiver = async (answer = {}): Promise<HttpReceiver> => {
      const started = await HttpReceiver.start({ answer });
      servers.push(started);
      return started;
    };

    /** A workspace, an app of it with a provider that the test speaks for, and an account there. */
    async function connect(service: Millrace, status: number) {
      const provider = await receiver({ status });
      const workspace: string = (await create(service, '/v1/workspaces', { name: 'Health' })).id;
      const slug = `stand_in_${provider.port}`;
      await create(service, '/v1/apps', {
        org_id: workspace,
        slug,
        name: 'Stand-in',
        description: 'Answers what the test wants',
        auth_type: 'keys',
        custom_fields: [{ name: 'api_key', label: 'API key', description: '', secret: true }],
        test_request: {
          url: `http://127.0.0.1:${provider.port}/me?key={{api_key}}`,
          headers: { authorization: 'Bearer {{api_key}}' },
        },
      });
      const newAccount = () =>
        create(service, '/v1/accounts', {
          org_id: workspace,
          app: slug,
          name: 'mine',
          credentials: { api_key: canary },
        });
      return { provider, workspace, newAccount };
    }

    const inState = (service: Millrace, id: string, healthy: boolean) =>
      waitFor(
        async () => {
          const { data } = (await service.api('GET', `/v1/accounts/${id}`)).body;
          return data.checked_at !== null && data.healthy === healthy ? data : undefined;
        },
        { what: `the account to be ${healthy ? 'healthy' : 'unhealthy'}` },
      );

    test('an account that a provider refuses becomes unhealthy by itself, and all callers who asked for it hear of it once', async () => {
      const { service } = fixture;
      const { provider, workspace, newAccount } = await connect(service, 401);
      const hook = await receiver();
      const webhook = await create(service, '/v1/webhooks', {
        org_id: workspace,
        url: `http://127.0.0.1:${hook.port}/`,
        name: 'Health',
      });
      const workflow = await service.createWorkflow({ org_id: workspace, steps: [echo], triggers: [] });
      for (const listener of [webhook.id, workflow.id])
        for (const name of ['account_unhealthy', 'account_healthy'])
          await create(
            service,
            `/v1/subscriptions?emitter_id=${workspace}&event_name=${name}&listener_id=${listener}`,
            {},
          );
      const stream = await EventStream.open(
        `${service.url}/workspaces/${workspace}/sse?event_name=account_unhealthy`,
      );

      const { id } = await newAccount();
      const ill = await inState(service, id, false);
      assert.equal(ill.error, `GET http://127.0.0.1:${provider.port}/me answered 401`);
      assert.equal(ill.dead, false);
      const request = await hook.waitForRequest(1);
      const told = request.json() as { account: { id: string }; at: string };
      assert.deepEqual(told, {
        account: { id, name: 'mine', app: ill.app },
        healthy: false,
        dead: false,
        error: ill.error,
        at: told.at,
      });
      assert.equal(request.headers['x-pd-emitter-id'], workspace);
      const streamed = await stream.message(1);
      stream.close();
      assert.deepEqual(streamed.data.event, told);
      const run = await service.runInState(workflow.id, 'succeeded');
      assert.match(JSON.stringify(run), new RegExp(id));

      // The next test is refused too, so nothing new is reported. Then it works.
      const again = await service.api('POST', `/v1/accounts/${id}/test`);
      assert.equal(again.body.data.healthy, false);
      provider.answerAlways({ status: 200 });
      const well = await service.api('POST', `/v1/accounts/${id}/test`);
      assert.deepEqual([well.status, well.body.data.healthy, well.body.data.error], [200, true, null]);
      await hook.waitForRequest(2);
      assert.deepEqual(
        hook.requests.map((one) => (one.json() as { healthy: boolean }).healthy),
        [false, true],
      );
      for (const [name, healthy] of [
        ['account_unhealthy', false],
        ['account_healthy', true],
      ] as const) {
        const { body } = await service.api(
          'GET',
          `/v1/workspaces/${workspace}/event_summaries?event_name=${name}`,
        );
        assert.deepEqual(
          // biome-ignore lint/suspicious/noExplicitAny: as the API answers it.
          body.data.map((summary: any) => [summary.event.healthy, summary.metadata.emitter_id]),
          [[healthy, workspace]],
        );
      }
      assert.equal(hook.requests.length, 2);

      assert.doesNotMatch(service.output, new RegExp(canary));
      for (const file of await filesBelow(fixture.dataFolder)) {
        const content = await readFile(file).catch(() => Buffer.alloc(0));
        assert.equal(content.includes(canary), false, file);
      }
    });

    test('who may use an account may test it; a viewer and others may not, and neither hears of what is not theirs', async () => {
      const { service } = fixture;
      const { workspace, newAccount } = await connect(service, 200);
      const { id } = await newAccount();
      const user = async (name: string) => {
        const { id: userId, api_key: key } = await create(service, '/v1/users', {
          username: name,
          email: `${name}@example.com`,
        });
        return { userId, key };
      };
      const viewer = await user(`viewer${workspace.slice(2)}`);
      const other = await user(`other${workspace.slice(2)}`);
      await create(service, `/v1/workspaces/${workspace}/members`, {
        user_id: viewer.userId,
        role: 'viewer',
      });
      const asked = async (key: string) =>
        (await service.api('POST', `/v1/accounts/${id}/test`, undefined, { key })).status;
      assert.deepEqual([await asked(viewer.key), await asked(other.key)], [403, 404]);
      const list = `/v1/workspaces/${workspace}/event_summaries?event_name=account_unhealthy`;
      assert.equal((await service.api('GET', list, undefined, { key: viewer.key })).status, 200);
      assert.equal((await service.api('GET', list, undefined, { key: other.key })).status, 404);
      const own = await create(
        service,
        '/v1/webhooks',
        { url: 'http://127.0.0.1:9/', name: 'Other' },
        other.key,
      );
      const subscribed = await service.api(
        'POST',
        `/v1/subscriptions?emitter_id=${workspace}&event_name=account_unhealthy&listener_id=${own.id}`,
        {},
        { key: other.key },
      );
      assert.equal(subscribed.status, 404);
    });

    test('an owner may have four tests under way that were asked for, and is told when to ask again', async () => {
      const { service } = fixture;
      const { provider, newAccount } = await connect(service, 200);
      const { id } = await newAccount();
      const gate = Promise.withResolvers<object>();
      provider.answerAlways(() => gate.promise);
      const busy = Promise.withResolvers<ApiAnswer>();
      const asked = Array.from({ length: 5 }, async () => {
        const answer = await service.api('POST', `/v1/accounts/${id}/test`);
        if (answer.status === 429) busy.resolve(answer);
        return answer.status;
      });
      const refused = await within(busy.promise, patienceMs, 'the fifth to be refused').finally(() =>
        gate.resolve({ status: 200 }),
      );
      const { headers, body } = refused;
      assert.deepEqual([body.code, body.details.limit], ['account_tests_busy', 4]);
      assert.equal(body.error, 'too many accounts are being tested; try again in a moment');
      assert.equal(headers.get('retry-after'), String(body.details.retry_after));
      assert.deepEqual((await Promise.all(asked)).sort(), [200, 200, 200, 200, 429]);
      assert.equal((await service.api('POST', `/v1/accounts/${id}/test`)).status, 200);
    });

    test('an account of a user is reported to that user', async () => {
      const { service } = fixture;
      const provider = await receiver({ status: 403 });
      const slug = `alone_${provider.port}`;
      await create(service, '/v1/apps', {
        slug,
        name: 'Alone',
        description: '',
        auth_type: 'keys',
        custom_fields: [{ name: 'api_key', label: 'API key', description: '', secret: true }],
        test_request: { url: `http://127.0.0.1:${provider.port}/`, headers: { 'x-key': '{{api_key}}' } },
      });
      const { id } = await create(service, '/v1/accounts', { app: slug, credentials: { api_key: canary } });
      await inState(service, id, false);
      const { body } = await service.api('GET', '/v1/users/me/event_summaries?event_name=account_unhealthy');
      assert.deepEqual(
        // biome-ignore lint/suspicious/noExplicitAny: as the API answers it.
        body.data.map((summary: any) => summary.event.account.id),
        [id],
      );
    });

    test('an account whose app has no description is neither tested nor unhealthy', async () => {
      const { service } = fixture;
      const { id } = await create(service, '/v1/accounts', {
        app: 'unheard_of',
        credentials: { api_key: canary },
      });
      const { status, body } = await service.api('POST', `/v1/accounts/${id}/test`);
      assert.deepEqual([status, body.data.healthy, body.data.checked_at], [200, true, null]);
    });
  },
  { environment: { MILLRACE_ACCOUNT_CHECK_HOURS: '24' }, inTurns: true },
);
