import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '#lib/logger.ts';
import { openPostgresStore } from '#storage/postgres-store.ts';
import { readApiOperations } from '../support/api-operations.ts';
import { canary, findSecrets, findSecretsInFolder, writingsOf } from '../support/canary.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachService, testApiKey } from '../support/millrace.ts';
import { allTexts } from '../support/sealed-store.ts';
import { patienceMs, waitFor } from '../support/wait-for.ts';

test('the search finds a secret in every way of writing it', () => {
  const secret = canary('any');
  const found = (text: string | Buffer) => findSecrets(text, { secret }).length > 0;
  for (const text of [
    `x${secret}y`,
    JSON.stringify({ a: { b: secret } }),
    JSON.stringify({ a: JSON.stringify({ b: secret }) }),
    `https://h/?q=${encodeURIComponent(secret)}`,
    new URLSearchParams({ q: secret }).toString(),
    Buffer.from(`user:${secret}`).toString('base64'),
    Buffer.from(`us:${secret}!`).toString('base64url'),
    Buffer.from(`u:${secret}!!`).toString('base64'),
    Buffer.from(secret).toString('hex'),
    Buffer.concat([Buffer.from([0, 255]), Buffer.from(secret)]),
  ])
    assert.ok(found(text), String(text));
  assert.ok(!found('[redacted]'));
  assert.ok(writingsOf(secret).every((text) => text.length > 20));
});

/** Statements that try to get `secret` out, whatever they are part of. `isLarge`: with so much beside it that a thread searches for it. */
const leaks = (secret: string, isLarge: string) => `
  console.log('log', ${secret});
  console.error({ nested: [${secret}] });
  const forms = [${secret}, JSON.stringify({ s: ${secret} }), encodeURIComponent(${secret}),
    Buffer.from('user:' + ${secret}).toString('base64'), Buffer.from(${secret}).toString('base64url')];
  if (${isLarge}) forms.push('x'.repeat(40_000) + ' ' + ${secret});`;

const sourceCode = `export default {
  props: { password: { type: 'string', secret: true }, http: '$.interface.http', acme: { type: 'app', app: 'acme' } },
  hooks: {
    async deploy() { console.log('deploy', this.password, this.acme.$auth.api_key); },
    async activate() { this.$emit({ hook: this.password, key: this.acme.$auth.api_key }); },
  },
  async run(event) {
    for (const secret of [this.password, this.acme.$auth.api_key]) {
      ${leaks('secret', '!event.body?.fails')}
      this.$emit({ forms }, { id: secret, summary: 'with ' + secret });
      this.$emit({ forms }, { name: 'channel-' + secret, id: secret + 'b' });
    }
    if (event.body?.fails) {
      const error = new Error('no entry with ' + this.password);
      error.name = this.acme.$auth.api_key;
      throw error;
    }
  },
};`;

const stepCode = `export default defineComponent({
  props: { password: { type: 'string', secret: true }, acme: { type: 'app', app: 'acme' }, text: 'string' },
  async run({ steps, $ }) {
    const { to, fails } = steps.trigger.event.body;
    let all = [];
    for (const secret of [this.password, this.acme.$auth.api_key, process.env.SECRET]) {
      ${leaks('secret', "fails === ''")}
      all.push(...forms);
      $.send.emit({ forms });
      $.send.http({ method: 'POST', url: to + '?q=' + encodeURIComponent(secret), headers: { 'x-leak': forms[3] }, data: { forms } });
    }
    $.export('leak', all);
    $.export('$summary', 'with ' + all[0]);
    if (fails === 'throws') throw new Error('with ' + all.join());
    if (fails === 'exits') return $.flow.exit('because of ' + all[0]);
    return { all };
  },
});`;

forEachService(
  (fixture) => {
    test('no secret stands in any file, table, log line, metric or answer, in any writing', async () => {
      const { service } = fixture;
      let errors = '';
      service.process.stderr?.on('data', (chunk: Buffer) => {
        errors += chunk;
      });
      await using receiver = await HttpReceiver.start();
      const secrets: Record<string, string> = {};
      const secret = (name: string) => {
        secrets[name] = canary(name);
        return canary(name);
      };
      const ok = async (method: string, path: string, body?: unknown) => {
        const answer = await service.api(method, path, body);
        assert.equal(answer.status, 200, `${method} ${path}: ${JSON.stringify(answer.body)}`);
        return answer.body.data;
      };

      // Everything that can hold a secret.
      const me = await ok('GET', '/v1/users/me');
      const account = await ok('POST', '/v1/accounts', {
        app: 'acme',
        name: 'acme',
        credentials: { api_key: secret('account'), nested: { password: secret('nested') } },
      });
      await ok('PUT', `/v1/accounts/${account.id}`, {
        credentials: { api_key: secret('changed account'), nested: { password: secret('nested') } },
      });
      const client = await ok('PUT', '/v1/apps/slack/oauth_client', {
        client_id: 'an-id',
        client_secret: secret('oauth client'),
      });
      const brought = await ok('POST', '/v1/accounts', {
        app: 'slack',
        name: 'slack',
        credentials: {
          oauth_access_token: secret('access token'),
          oauth_refresh_token: secret('refresh token'),
        },
      });
      const [workspace] = me.orgs;
      const program = await ok('POST', `/v1/workspaces/${workspace.id}/oauth_clients`, { name: 'a program' });
      secrets['client of a workspace'] = program.client_secret;
      const granted = await service.api('POST', '/v1/oauth/token', {
        grant_type: 'client_credentials',
        client_id: program.client_id ?? program.id,
        client_secret: program.client_secret,
      });
      assert.equal(granted.status, 200, JSON.stringify(granted.body));
      secrets['token of a program'] = granted.body.access_token;
      const webhook = await ok('POST', `/v1/webhooks?url=${encodeURIComponent(receiver.url)}&name=a`);
      secrets['signing secret'] = webhook.signing_secret;
      const rotated = await ok('POST', `/v1/webhooks/${webhook.id}/rotate_secret`, {});
      secrets['new signing secret'] = rotated.signing_secret;
      const key = await ok('POST', '/v1/users/me/api_keys', { name: 'another' });
      secrets['api key'] = key.api_key;
      assert.ok(
        Object.values(secrets).every((text) => text?.length > 20),
        JSON.stringify(Object.keys(secrets)),
      );
      const props = (name: string) => ({
        password: secret(`prop of ${name}`),
        acme: { authProvisionId: account.id },
      });
      const source = await service.createSource({
        component_code: sourceCode,
        name: 'leaky',
        configured_props: { ...props('source'), http: {} },
      });
      await ok('POST', `/v1/subscriptions?emitter_id=${source.id}&listener_id=${webhook.id}`);
      const workflow = await service.createWorkflow({
        steps: [
          {
            namespace: 'a',
            code: stepCode,
            props: { ...props('step'), text: 'with {{process.env.SECRET}} and {{process.env.OLDER}}' },
          },
        ],
        triggers: [
          { type: 'http', props: { auth: { type: 'static_bearer_token', token: secret('trigger') } } },
        ],
      });
      await ok('PUT', '/v1/variables/SECRET', { value: secret('older value'), secret: true });
      await ok('PUT', '/v1/variables', {
        variables: [
          { name: 'SECRET', value: secret('variable') },
          { name: 'OLDER', value: secret('was plain') },
        ],
      });
      await ok('PUT', '/v1/variables/OLDER', { secret: true, description: 'from now on' });
      // What is refused was sent too.
      for (const name of ['PATH', 'no name']) {
        const refused = await service.api('PUT', `/v1/variables/${encodeURIComponent(name)}`, {
          value: secret(`refused variable ${name}`),
        });
        assert.equal(refused.status, 400);
        assert.deepEqual(findSecrets(JSON.stringify(refused.body), secrets), []);
      }
      for (const body of [
        { app: 'acme', name: 7, credentials: { api_key: secret('refused account') } },
        { app: 'acme', credentials: secret('refused text') },
        { app: 'no such app', name: 'x', credentials: { api_key: secret('refused app') } },
      ]) {
        const refused = await service.api('POST', '/v1/accounts', body);
        if (refused.status >= 400) assert.deepEqual(findSecrets(JSON.stringify(refused.body), secrets), []);
      }

      // Everything that could let it out.
      const at = (endpoint: string) => new URL(new URL(endpoint).pathname, service.url);
      const sourceUrl = at(source.endpoint_url ?? source.configured_props.http.endpoint_url);
      for (const fails of [false, true])
        await fetch(sourceUrl, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ fails }),
        });
      await waitFor(async () => {
        const { body } = await service.api('GET', `/v1/sources/${source.id}/event_summaries?limit=100`);
        return body.data.length >= 5;
      });
      const call = (fails: string, token: string) =>
        fetch(at(workflow.triggers[0].endpoint_url), {
          method: 'POST',
          headers: { 'content-type': 'application/json', authorization: `Bearer ${token}` },
          body: JSON.stringify({ fails, to: receiver.url }),
        });
      const token = canary('trigger');
      assert.equal((await call('', `${token}-not`)).status, 401);
      for (const [fails, state] of [
        ['', 'succeeded'],
        ['exits', 'succeeded'],
        ['throws', 'failed'],
      ] as const) {
        const before = (await service.runs(workflow.id)).length;
        assert.ok((await call(fails, token)).ok);
        await waitFor(async () => (await service.runs(workflow.id)).length > before);
        await service.runInState(workflow.id, state);
      }
      // What runs sent, and what the webhook got.
      const sent = await waitFor(() => {
        const { requests } = receiver;
        const fromRuns = requests.filter(({ url }) => url.includes('?q='));
        return fromRuns.length >= 4 && requests.length > fromRuns.length && requests;
      });
      assert.deepEqual(
        findSecrets(
          JSON.stringify(sent.map(({ url, headers, body }) => [url, headers, body.toString()])),
          secrets,
        ),
        [],
        'not in what is sent',
      );

      // Every answer of the API, about everything there is.
      const runs = await service.runs(workflow.id);
      const ids = [
        ...[
          account.id,
          brought.id,
          client.id,
          webhook.id,
          source.id,
          workflow.id,
          workflow.deployment_id,
          me.id,
        ],
        ...[...runs.map((run) => run.id), 'slack', ...(me.orgs ?? []).map((org: { id: string }) => org.id)],
      ].filter((id) => typeof id === 'string');
      const answers: string[] = [];
      for (const { method, path } of await readApiOperations(service.url)) {
        if (method !== 'GET' || /sse|stream/i.test(path)) continue;
        const paths = path.includes('{') ? ids.map((id) => path.replace('{id}', id)) : [path];
        for (const filled of paths.map((each) => each.replace(/\{[^}]+\}/g, '$errors'))) {
          const response = await fetch(
            `${service.url}${filled}?expand=event&limit=100&listener_id=${webhook.id}`,
            {
              headers: { authorization: `Bearer ${testApiKey}` },
              signal: AbortSignal.timeout(patienceMs),
            },
          );
          const text = await response.text();
          if (response.ok) answers.push(text);
          assert.deepEqual(findSecrets(text, secrets), [], `not in the answer of ${filled}`);
        }
      }
      for (const id of [source.id, workflow.id]) answers.push(JSON.stringify(await allEvents(id)));
      for (const run of runs) answers.push(JSON.stringify(await service.runDetail(run.id)));
      const metrics = await (await fetch(`${service.url}/metrics`)).text();
      assert.match(metrics, /millrace/);
      answers.push(metrics);
      assert.ok(answers.length > 30, `${answers.length} answers`);
      assert.ok(answers.join().includes('[redacted]'), 'something tried to get out');
      assert.deepEqual(findSecrets(answers.join('\n'), secrets), [], 'not in what the API answers');

      // Callers that may read credentials get them, and nothing else does.
      for (const { id } of [account, brought]) {
        const { body } = await service.api('GET', `/v1/accounts/${id}?include_credentials=1`);
        assert.ok(findSecrets(JSON.stringify(body), secrets).length >= 2);
      }
      await service.api('GET', `/v1/accounts/${account.id}?include_credentials=1`, undefined, {
        key: canary('trigger'),
      });
      await service.api('GET', '/v1/users/me', undefined, { key: `${key.api_key}x` });

      // Everything that is kept and written, while it runs and after it has stopped.
      const ours = () => findSecrets(`${service.output}${errors}`, secrets);
      assert.match(service.output, /"level"/, 'there is a log to look through');
      assert.deepEqual(ours(), [], 'not in the log');
      const running = await findSecretsInFolder(fixture.dataFolder, secrets);
      assert.deepEqual(running.found, []);
      assert.ok(running.files > 3);
      await service.stop();
      assert.deepEqual(ours(), [], 'not in the log of the stop');
      assert.deepEqual((await findSecretsInFolder(fixture.dataFolder, secrets)).found, []);
      if (fixture.databaseUrl !== undefined) {
        const store = await openPostgresStore({ url: fixture.databaseUrl, logger: silentLogger });
        try {
          const texts = await allTexts(store);
          assert.ok(texts.some(({ text }) => text.includes('[redacted]')));
          for (const { table, column, text } of texts)
            assert.deepEqual(findSecrets(text, secrets), [], `not in ${table}.${column}`);
        } finally {
          await store.close();
        }
      }

      async function allEvents(id: string): Promise<unknown[]> {
        const found: unknown[] = [];
        for (const kind of ['sources', 'workflows'])
          for (const channel of ['', '/$errors', '/$logs'])
            found.push(
              (await service.api('GET', `/v1/${kind}/${id}${channel}/event_summaries?expand=event&limit=100`))
                .body,
            );
        return found;
      }
    });
  },
  { environment: { MILLRACE_LOG_LEVEL: 'debug' } },
);
