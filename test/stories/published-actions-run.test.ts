import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type ComponentBuilder, createComponentBuilder } from '#components/build-component.ts';
import { readNpmConfig } from '#components/npm-config.ts';
import { AddressPolicy } from '#egress/address-policy.ts';
import { silentLogger } from '#lib/logger.ts';
import { CertificateAuthority } from '../support/certificates.ts';
import { createTestDatabase, postgresSkip } from '../support/databases.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { downloadPackage } from '../support/npm-package.ts';
import { startPostgresTls } from '../support/postgres-tls.ts';
import { type RunnerFixture, requestFor, startRunnerFixture } from '../support/runner-fixture.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';

const attack = "'); DROP TABLE users; --";

describe('actions of published packages, as steps', () => {
  let folder: TempFolder;
  let builder: ComponentBuilder;
  let fixture: RunnerFixture;
  let receiver: HttpReceiver;

  before(async () => {
    folder = await createTempFolder('actions');
    receiver = await HttpReceiver.start({
      answer: (request) =>
        request.url === '/missing'
          ? { status: 404, body: { why: 'gone' } }
          : { status: 201, body: { ok: true } },
    });
    builder = createComponentBuilder({
      cacheFolder: join(folder.path, 'cache'),
      registry: '',
      npmConfig: await readNpmConfig(process.env, process.env.HOME ?? '/'),
      fetchText: () => Promise.reject(new Error('nothing is fetched in this test')),
      logger: silentLogger,
    });
    fixture = await startRunnerFixture({ policy: new AddressPolicy({ allow: ['local'], deny: () => [] }) });
  });

  after(async () => {
    await fixture?.close();
    await builder?.close();
    await receiver?.close();
    await folder?.remove();
  });

  /** Runs the action at `path` of a package as a step. */
  async function runAction(root: string, path: string, props: Record<string, unknown>) {
    const { bundle } = await builder.build(
      { kind: 'file', path: join(root, path), root },
      { ownerId: 'u_1' },
    );
    return fixture.runner.call(
      requestFor('', {
        deploymentId: `d_${path.replaceAll(/\W/g, '_')}`,
        module: 'c_1',
        bundle,
        props,
        call: {
          kind: 'step',
          steps: JSON.stringify({ trigger: { event: { name: 'Ada', attack } } }),
          context: '{"id":"r_1"}',
          resumeUrl: 'https://x.example/r',
          cancelUrl: 'https://x.example/c',
          scratch: 'r_1',
        },
      }),
    );
  }

  test('helper_functions-send-http-request does the request of its http_request prop', async () => {
    const root = await downloadPackage(folder.path, '@pipedream/helper_functions', '0.3.13');
    const path = 'actions/send-http-request/send-http-request.mjs';
    const run = (config: object) => runAction(root, path, { helperFunctions: {}, httpRequest: config });
    const outcome = await run({
      url: `${receiver.url}/things`,
      params: [{ name: 'q', value: '1' }],
      body: {
        contentType: 'application/json',
        mode: 'fields',
        fields: [{ name: 'who', value: '{{steps.trigger.event.name}}' }],
      },
    });
    assert.equal(outcome.status, 'finished', JSON.stringify(outcome.error));
    const [request] = receiver.requests;
    // The method is the default of the prop.
    assert.deepEqual([request?.method, request?.url], ['POST', '/things?q=1']);
    assert.deepEqual(JSON.parse(String(request?.body)), { who: 'Ada' });
    const { $return_value } = JSON.parse(outcome.step?.exports ?? '{}');
    assert.deepEqual([$return_value.status, $return_value.data], [201, { ok: true }]);
    const failed = await run({ url: `${receiver.url}/missing` });
    assert.equal(failed.error?.message, 'Request failed with status code 404');
    assert.match(failed.error?.stack ?? '', /actions\/send-http-request\/send-http-request\.mjs:\d+:\d+/);
  });

  test('postgresql-execute-custom-query runs its sql prop, and a hostile value stays a value', {
    skip: postgresSkip(),
  }, async () => {
    const root = await downloadPackage(folder.path, '@pipedream/postgresql', '2.2.4');
    const database = await createTestDatabase();
    const { hostname, port, username, password, pathname } = new URL(database.url);
    const authority = new CertificateAuthority();
    const tls = await startPostgresTls(
      { host: hostname, port: Number(port) },
      authority.issue(['127.0.0.1']),
    );
    const $auth = {
      host: '127.0.0.1',
      port: tls.port,
      user: decodeURIComponent(username),
      password: decodeURIComponent(password),
      database: pathname.slice(1),
      ssl_verification_mode: 'skip_verification',
    };
    const execute = async (query: string, params: unknown[] = []) => {
      const outcome = await runAction(root, 'actions/execute-custom-query/execute-custom-query.mjs', {
        postgresql: { $auth },
        sql: { app: 'postgresql', query, params },
      });
      assert.equal(outcome.status, 'finished', JSON.stringify(outcome.error));
      return JSON.parse(outcome.step?.exports ?? '{}');
    };
    try {
      await execute('CREATE TABLE users (id int, name text)');
      await execute("INSERT INTO users VALUES ($1, '{{steps.trigger.event.attack}}'), ({{1 + 1}}, $2)", [
        1,
        'Bob',
      ]);
      const { $return_value, $summary } = await execute(
        "SELECT * FROM users WHERE name LIKE '%{{steps.trigger.event.attack}}%' OR name = $1 ORDER BY id",
        ['Bob'],
      );
      assert.deepEqual($return_value, [
        { id: 1, name: attack },
        { id: 2, name: 'Bob' },
      ]);
      assert.equal($summary, 'Returned 2 rows');
    } finally {
      await tls.close();
      await database.drop();
    }
  });
});
