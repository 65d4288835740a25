import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { runCommand } from '../support/command-line.ts';
import { ConnectProxy } from '../support/connect-proxy.ts';
import { createListeningWebhook } from '../support/emitting-source.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { Millrace, testApiKey } from '../support/millrace.ts';
import { startNpmRegistry } from '../support/npm-registry.ts';
import { OAuthProvider } from '../support/oauth-provider.ts';
import { PlainMailServer } from '../support/plain-mail-server.ts';
import { S3Server } from '../support/s3-server.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';
import { TestBrowser } from '../support/test-browser.ts';
import { waitFor } from '../support/wait-for.ts';

/** Leads nowhere but by the proxy, which connects to this machine: what arrives has come through it. */
const outside = '198.51.100.7';
const password = 'hush-hush-of-the-proxy';

/** The same place, as seen from behind the proxy. */
const beyond = (url: string) => url.replace('127.0.0.1', outside);

describe('with MILLRACE_EGRESS_PROXY', () => {
  let folder: TempFolder;
  let proxy: ConnectProxy;
  let receiver: HttpReceiver;
  let npm: Awaited<ReturnType<typeof startNpmRegistry>>;
  let mail: PlainMailServer;
  let storage: S3Server;
  let service: Millrace;
  before(async () => {
    folder = await createTempFolder('proxy');
    proxy = await ConnectProxy.start(`operator:${password}`);
    receiver = await HttpReceiver.start();
    npm = await startNpmRegistry(({ url }) => [
      {
        name: 'greeting',
        version: '1.0.0',
        files: { 'index.js': "module.exports = 'hello from npm'" },
        tarball: `${beyond(url)}greeting/-/1.0.0.tgz`,
      },
    ]);
    mail = await PlainMailServer.start();
    storage = await S3Server.start();
    service = await Millrace.start({
      dataFolder: `${folder.path}/data`,
      environment: {
        ...storage.environment,
        MILLRACE_S3_ENDPOINT: beyond(storage.url),
        MILLRACE_EGRESS: '198.51.100.0/24',
        MILLRACE_EGRESS_PROXY: proxy.url,
        MILLRACE_CONNECT_TO: `localhost::${outside}:`,
        MILLRACE_NPM_REGISTRY: beyond(npm.url),
        MILLRACE_SMTP_URL: beyond(mail.url),
        MILLRACE_EMAIL_FROM: 'millrace@example.com',
        MILLRACE_LOG_LEVEL: 'debug',
      },
    });
  });
  after(async () => {
    await service?.stop();
    await storage?.[Symbol.asyncDispose]();
    await mail?.close();
    await npm?.close();
    await receiver?.close();
    await proxy?.[Symbol.asyncDispose]();
    await folder?.remove();
  });
  /** How often the proxy was asked for the port of this URL. */
  const askedFor = (url: string) => {
    const { port } = new URL(url);
    return proxy.asked.filter((line) => line.includes(`${outside}:${port}`)).length;
  };

  test('what user code asks, installs and sends, webhooks, mail, files and tokens go through the proxy', async () => {
    const to = beyond(receiver.url);
    const source = await service.createSource({
      component_code: `export default { name: 'Said', props: { http: '$.interface.http' }, run(event) { this.$emit(event.body); } };`,
    });
    await createListeningWebhook(service, { url: `${to}/webhook`, emitterId: source.id });
    await fetch(source.configured_props.http.endpoint_url, { method: 'POST', body: '{"n":1}' });
    await receiver.waitForRequest(1);
    assert.equal(receiver.requests[0]?.url, '/webhook');
    assert.equal(askedFor(receiver.url), 1);

    const { triggers } = await service.createWorkflow({
      triggers: [{ type: 'http', props: { custom_response: true } }],
      steps: [
        {
          namespace: 'one',
          code: `import greeting from 'greeting@1.0.0';
            export default defineComponent({ async run({ $ }) {
              const answer = await fetch('${to}/step');
              $.send.http({ method: 'POST', url: '${to}/sent' });
              $.send.email({ subject: 'Hello', text: 'World' });
              await $.respond({ status: 200, body: greeting + ' ' + answer.status });
            } });`,
        },
      ],
    });
    const answer = await fetch(triggers[0].endpoint_url, { method: 'POST' });
    assert.equal(await answer.text(), 'hello from npm 200');
    await receiver.waitForRequest(3);
    assert.deepEqual(receiver.requests.map(({ url }) => url).sort(), ['/sent', '/step', '/webhook']);
    await waitFor(() => mail.mails.length === 1, { what: 'the mail' });
    assert.ok(npm.requests().length >= 2);
    await waitFor(async () => (await service.api('GET', '/readyz')).body.file_bucket.state === 'ok', {
      what: 'the bucket to work',
    });
    for (const url of [npm.url, mail.url, storage.url]) assert.ok(askedFor(url) > 0, url);
  });

  test('tokens of accounts are refreshed through the proxy', async () => {
    const provider = await OAuthProvider.start([`${service.url}/connect/callback`], {
      accessTokenSeconds: 2,
    });
    try {
      // Without TLS, apps are on this machine; what the name leads to is beyond the proxy.
      const led = provider.url.replace('127.0.0.1', 'localhost');
      const urls = { token_url: `${led}/token`, revocation_url: `${led}/token/revocation` };
      assert.equal((await service.api('POST', '/v1/apps', provider.app('testhub', {}, urls))).status, 200);
      const client = { client_id: provider.clientId, client_secret: provider.clientSecret };
      assert.equal((await service.api('PUT', '/v1/apps/testhub/oauth_client', client)).status, 200);
      const redirect = 'https://dashboard.example/done';
      const made = await service.api('POST', '/v1/accounts/connect', {
        app: 'testhub',
        redirect_url: redirect,
      });
      const visit = await new TestBrowser().visit(made.body.data.connect_url, {
        stopBefore: (url) => url.startsWith(redirect),
      });
      assert.ok(new URL(visit.url).searchParams.get('account_id'), visit.url);
      await waitFor(() => provider.granted.includes('refresh_token'), { what: 'a refresh' });
      assert.ok(askedFor(provider.url) >= 1);
    } finally {
      await provider.close();
    }
  });

  test('user code does not reach the proxy, and what the policy forbids is not asked of it', async () => {
    const action = (url: string) => ({
      component_code: `export default { name: 'Asks', type: 'action', async run() {
        return fetch('${url}').then(() => 'reached', (error) => String(error.cause?.message ?? error)); } };`,
    });
    for (const url of [`http://${proxy.place}/`, 'http://10.0.0.1/', 'http://169.254.169.254/']) {
      const { body } = await service.api('POST', '/v1/actions/run', action(url));
      assert.match(String(body.data.ret), /not allowed/, url);
    }
    // Tokens and the bucket are asked for meanwhile.
    assert.deepEqual(
      proxy.asked.filter((line) => !line.includes(`${outside}:`) && !line.includes('millrace-check.invalid')),
      [],
    );
  });

  test('the admin sees that the proxy works', async () => {
    const { body } = await service.api('GET', '/v1/instance');
    const { egress_proxy: shown } = body.data;
    assert.deepEqual(
      { ...shown, since: typeof shown.since },
      {
        ...{ proxy: proxy.place, state: 'ok', since: 'number', reason: null },
      },
    );
    assert.deepEqual((await service.api('GET', '/readyz')).body.egress_proxy, shown);
    const environment = { MILLRACE_URL: service.url, MILLRACE_API_KEY: testApiKey };
    const { stdout } = await runCommand({ folder: folder.path, environment }, ['verify', '--json']);
    const checks = JSON.parse(stdout) as { name: string; state: string; detail: string }[];
    const check = checks.find(({ name }) => name === 'outbound proxy');
    assert.equal(check?.state, 'ok');
    assert.equal(check.detail, `${proxy.place} answers since ${new Date(shown.since * 1000).toISOString()}`);
  });

  test('a proxy that refuses is named where a delivery failed, and its password is nowhere', async () => {
    proxy.refusal = { status: 407, reason: 'Proxy Authentication Required' };
    const url = `${beyond(receiver.url).replace(outside, '198.51.100.8')}/x`;
    const { body } = await service.api('POST', '/v1/actions/run', {
      component_code: `export default { name: 'Asks', type: 'action', async run() {
        return fetch('${url}').then(() => 'reached', (error) => String(error.cause?.message ?? error)); } };`,
    });
    proxy.refusal = undefined;
    assert.match(
      body.data.ret,
      new RegExp(`^the proxy ${proxy.place} answers CONNECT to 198\\.51\\.100\\.8:\\d+ with 407: `),
    );
    const instance = JSON.stringify((await service.api('GET', '/v1/instance')).body);
    assert.ok(instance.includes(`http://${proxy.place}/`));
    for (const text of [instance, service.output, JSON.stringify(body)]) assert.ok(!text.includes(password));
  });
});
