import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { clientMethods, hasMethod } from '../../scripts/client-methods.ts';
import type { EventStream, Source, StreamMessage, Workflow } from '../../sdk/src/millrace.ts';
import { Millrace as Client, MillraceError } from '../../sdk/src/millrace.ts';
import { readApiOperations } from '../support/api-operations.ts';
import { HttpReceiver } from '../support/http-receiver.ts';
import { recordMethods } from '../support/method-recorder.ts';
import { Millrace, testApiKey } from '../support/millrace.ts';
import { startNpmRegistry } from '../support/npm-registry.ts';
import { createTempFolder, type TempFolder } from '../support/temp-folder.ts';
import { patienceMs, waitFor, within } from '../support/wait-for.ts';

/** Emits what it is sent. */
const emitter = `export default { name: 'Emitter', key: 'emitter', version: '0.0.1', type: 'source',
  props: { http: '$.interface.http' }, run({ body }) { this.$emit(body); console.log('emitted'); } };`;
const action = `export default { name: 'Adder', key: 'adder', version: '0.0.1', type: 'action',
  props: { a: { type: 'integer', async options() { return [1, 2]; }, reloadProps: true }, b: { type: 'integer', optional: true } },
  async additionalProps() { return { c: { type: 'string' } }; },
  run() { return this.a + this.b; } };`;
const step = {
  namespace: 'emit',
  code: "export default defineComponent({ run({ steps, $ }) { $.send.sse({ channel: 'end', payload: { n: 1 } }); $.send.emit({ raw_event: 1 }); } })",
};

function endpointOf(made: { configured_props?: unknown; endpoint_url?: unknown }): string {
  const { http } = (made.configured_props ?? {}) as { http?: { endpoint_url?: string } };
  const url = http?.endpoint_url ?? made.endpoint_url;
  assert.equal(typeof url, 'string', JSON.stringify(made));
  return String(url);
}

/** The first event of a stream; `act` causes one, again and again, because a stream does not report that it is open. */
async function firstOf<Data>(
  stream: EventStream<Data>,
  act: () => Promise<unknown>,
): Promise<StreamMessage<Data>> {
  const iterator = stream[Symbol.asyncIterator]();
  const first = iterator.next();
  let isThere = false;
  const done = () => {
    isThere = true;
  };
  first.then(done, done);
  const acting = (async () => {
    while (!isThere) {
      await act();
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  })();
  const { value } = await within(first, patienceMs, 'the first message of the stream');
  await acting;
  await iterator.return?.();
  assert.ok(value !== undefined);
  return value;
}

/** The code of the error that the service answers. */
async function codeOf(asked: Promise<unknown>): Promise<string> {
  return await asked.then(
    () => assert.fail('expected an error'),
    (error) => {
      assert.ok(error instanceof MillraceError, String(error));
      return error.code;
    },
  );
}

describe('the TypeScript client', () => {
  let folder: TempFolder;
  let npm: Awaited<ReturnType<typeof startNpmRegistry>>;
  let receiver: HttpReceiver;
  let service: Millrace;
  let client: Client;
  let called: Set<string>;

  before(async () => {
    folder = await createTempFolder('client');
    npm = await startNpmRegistry(() => [
      {
        name: '@demo/components',
        version: '1.0.0',
        files: { 'sources/demo.mjs': emitter.replace("'emitter'", "'demo-emitter'") },
      },
    ]);
    receiver = await HttpReceiver.start();
    service = await Millrace.start({
      dataFolder: `${folder.path}/data`,
      environment: { MILLRACE_NPM_REGISTRY: npm.url },
    });
    ({ client, called } = recordMethods(new Client({ url: service.url, apiKey: testApiKey })));
  });
  after(async () => {
    await service?.stop();
    await receiver?.close();
    await npm?.close();
    await folder?.remove();
  });

  let source: Source;
  let workflow: Workflow;
  const emit = (to: Source, body: unknown = { n: 1 }) =>
    fetch(endpointOf(to), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });

  test('reports the health of the service', async () => {
    assert.equal((await client.health.get()).status, 'ok');
    assert.ok((await client.health.readiness()).status.length > 0);
    assert.match(await client.health.metrics(), /millrace_/);
    assert.equal((await client.health.openApiDocument()).openapi, '3.1.0');
  });

  test('knows users, keys, workspaces, projects, members, OAuth clients and quotas', async () => {
    const me = await client.users.me();
    assert.match(me.id, /^u_/);
    assert.equal((await client.sessions.get()).user_id, me.id);
    assert.equal((await client.sessions.methods()).single_sign_on, null);
    assert.deepEqual(await client.identities.list(), []);
    await assert.rejects(client.identities.unlink('idn_none'), { code: 'conflict' });
    assert.equal((await client.users.list({ q: me.id }).take(10)).length, 1);
    assert.equal((await client.health.instance()).store, 'sqlite');
    assert.ok(Array.isArray((await client.health.processes()).processes));
    const { id: other } = await client.users.create({ username: 'other', email: 'other@example.com' });
    assert.ok(Array.isArray(await client.users.usage()));
    assert.ok(Array.isArray(await client.users.shares()));
    assert.equal((await client.users.overview()).rates.minutes.length, 60);
    assert.equal((await client.users.flow()).owner_id, me.id);

    const key = await client.apiKeys.create({ name: 'second' });
    assert.equal((await client.apiKeys.list().take(10)).length, 2);
    await client.apiKeys.revoke(key.id);
    assert.deepEqual(await client.sessions.list().take(10), []);
    assert.equal(await codeOf(client.sessions.revoke('ses_000000000000')), 'not_found');
    assert.deepEqual(await client.sessions.revokeOthers(), { revoked: 0 });
    const email = 'other-address@example.com';
    assert.equal((await client.users.update(other, { email })).email, email);
    assert.ok(((await client.users.disable(other, {})).disabled_at ?? 0) > 0);
    assert.equal((await client.users.enable(other)).disabled_at, null);

    const { id } = await client.workspaces.create({ name: 'Team' });
    assert.equal((await client.workspaces.get(id)).name, 'Team');
    assert.ok((await client.workspaces.list()).some((one) => one.id === id));
    assert.equal((await client.workspaces.update(id, { name: 'Team one' })).name, 'Team one');
    assert.equal((await client.workspaces.overview(id)).dead_letters, 0);
    assert.deepEqual((await client.workspaces.flow(id)).edges, []);
    assert.ok(Array.isArray(await client.workspaces.usage(id)));
    assert.deepEqual(await client.workspaces.shares(id), []);
    const project = await client.projects.create(id, { name: 'Ours' });
    assert.deepEqual(
      (await client.projects.list(id)).map((one) => one.id),
      [project.id],
    );
    assert.equal((await client.projects.update(project.id, { name: 'Theirs' })).name, 'Theirs');
    const empty = await client.projects.create(id, { name: 'Empty' });
    await client.projects.delete(empty.id);
    const records = await client.audit.list({ org_id: id }).take(10);
    assert.deepEqual(records.at(-1)?.operation, 'createWorkspace');
    assert.equal((await client.audit.export({ org_id: id })).trim().split('\n').length, records.length);
    const robot = await client.serviceAccounts.create(id, { name: 'robot' });
    assert.equal((await client.serviceAccounts.list(id)).length, 1);
    assert.equal((await client.serviceAccounts.update(id, robot.id, { role: 'viewer' })).role, 'viewer');
    const robotKey = await client.serviceAccounts.createKey(id, robot.id, { scopes: ['read'] });
    assert.equal((await client.serviceAccounts.listKeys(id, robot.id).take(10)).length, 1);
    await client.serviceAccounts.revokeKey(id, robot.id, robotKey.id);
    await client.serviceAccounts.delete(id, robot.id);
    assert.equal((await client.members.put(id, { user_id: other, role: 'viewer' })).role, 'viewer');
    assert.equal((await client.members.list(id)).length, 2);
    await client.members.delete(id, other);

    const { client_secret: first, id: clientId } = await client.oauthClients.create(id, { name: 'robot' });
    assert.equal((await client.oauthClients.list(id).firstPage()).data[0]?.id, clientId);
    const { client_secret: secret } = await client.oauthClients.rotateSecret(id, clientId);
    assert.notEqual(secret, first);
    const grant = { grant_type: 'client_credentials', client_id: clientId, client_secret: secret };
    const token = await client.accessTokens.create(grant);
    assert.equal(token.token_type, 'Bearer');
    await client.accessTokens.revoke({
      token: token.access_token,
      client_id: clientId,
      client_secret: secret,
    });
    await client.oauthClients.delete(id, clientId);

    assert.equal((await client.quotas.put(id, { credits: 5000 })).own?.credits, 5000);
    assert.equal((await client.quotas.get(id)).own?.credits, 5000);
    assert.equal((await client.workspaces.updateRetention(id, { runs_days: 7 })).runs_days, 7);
    assert.equal((await client.workspaces.retention(id)).runs_days, 7);
    assert.match(await client.workspaces.export(id), /^\{"kind":"workspace".*\n\{"kind":"end"\}\n$/s);
    assert.equal((await client.retention.put(id, { legal_hold: true })).legal_hold, true);
    assert.equal((await client.retention.put(id, { legal_hold: false })).legal_hold, false);
    assert.equal((await client.retention.get(id)).runs_days, 7);
    assert.deepEqual(await client.sources.listInWorkspace(id).take(1), []);
    assert.deepEqual(await client.workflows.listInWorkspace(id).take(1), []);
    assert.deepEqual(await client.workflows.listInProject(project.id).take(1), []);
    assert.deepEqual(await client.eventSummaries.listInWorkspace(id).take(1), []);
    assert.deepEqual(await client.subscriptions.listInWorkspace(id), []);
    assert.deepEqual(await client.webhooks.listInWorkspace(id).take(1), []);
    assert.deepEqual(await client.deliveries.listDeadLettersInWorkspace(id).take(1), []);
    assert.deepEqual(await client.accounts.listInWorkspace(id).take(1), []);
    assert.deepEqual(await client.accounts.listAuditInWorkspace(id).take(1), []);
    assert.deepEqual(await client.dataStores.listInWorkspace(id).take(1), []);

    assert.match(await client.users.exportMe(), /^\{"kind":"user".*\n\{"kind":"end"\}\n$/s);
    const deletion = await client.workspaces.delete(id, { orgname: 'team' });
    assert.equal(deletion.subject_id, id);
    assert.equal((await client.deletions.get(deletion.id)).kind, 'workspace');
    assert.equal((await client.users.delete(other, { username: 'other' })).subject_id, other);
    assert.equal((await client.deletions.list().take(10)).length, 2);
    assert.equal(await codeOf(client.users.deleteMe({ username: me.username })), 'conflict');
  });

  test('knows components, the registry and actions', async () => {
    const saved = await client.components.create({ component_code: emitter });
    assert.equal((await client.components.get(saved.id)).id, saved.id);
    assert.ok((await client.components.list({ type: 'source' }).take(3)).length > 0);
    assert.ok((await client.components.search({ query: 'rss' })).sources.length > 0);
    assert.equal(
      (await client.components.getFromRegistry('http-new-requests-payload-only')).key,
      'http-new-requests-payload-only',
    );
    const chooser = await client.components.create({ component_code: action });
    const { options } = await client.components.configure({ id: chooser.id, prop_name: 'a' });
    assert.ok(options !== null && options !== undefined);
    const reloaded = await client.components.reloadProps({ id: chooser.id, configured_props: { a: 1 } });
    assert.ok(JSON.stringify(reloaded.dynamicProps).includes('"c"'), JSON.stringify(reloaded));
    const run = await client.actions.run({ component_code: action, configured_props: { a: 1, b: 2, c: '' } });
    assert.equal(run.ret, 3);

    const added = await client.registry.addPackage({ name: '@demo/components' });
    assert.equal(added.version, '1.0.0');
    assert.equal((await client.registry.listPackages().take(100)).at(-1)?.name !== undefined, true);
    await client.registry.removePackage({ name: '@demo/components' });

    const begun = await client.imports.create({ files: { 'moved-p_Moved1/workflow.yaml': 'name: Moved' } });
    const imported = await waitFor(async () => {
      const now = await client.imports.get(begun.id ?? '');
      return now.state === 'done' && now;
    });
    assert.equal(imported.report.workflows[0]?.old_id, 'p_Moved1');
    assert.equal((await client.imports.list().take(10)).length, 1);
    assert.deepEqual(await client.imports.outline({ files: { 'manifest.json': '{"a":1}' } }), {
      'manifest.json#1': { a: 'number' },
    });
    assert.equal((await client.imports.undo(begun.id ?? '')).removed, 1);
    const asks = await client.imports.create({
      files: {
        'asks-p_Asks11/workflow.yaml': 'name: Asks\nsteps:\n- namespace: a\n  uses: ./a/entry.js',
        'asks-p_Asks11/a/entry.js': 'export default { run() { return process.env.ASKED_BY_CLIENT; } };',
      },
      ask: true,
    });
    assert.deepEqual(
      [asks.state, asks.questions.variables.map(({ name }) => name)],
      ['asking', ['ASKED_BY_CLIENT']],
    );
    const answered = await client.imports.answer(asks.id ?? '', { variables: {} });
    assert.notEqual(answered.state, 'asking');
    await waitFor(async () => (await client.imports.get(asks.id ?? '')).state === 'done', {
      what: 'the import to be done',
    });
    assert.equal((await client.imports.undo(asks.id ?? '')).removed, 1);

    // A clone that is not there: the address is stored, and the update says what is wrong with it.
    const repository = await client.registry.addRepository({ url: '/nowhere/components' });
    const failing = await waitFor(async () => {
      const now = await client.registry.getRepository(repository.id);
      return now.state === 'failing' && now;
    });
    assert.equal(failing.error?.code, 'repository_refused');
    assert.equal((await client.registry.updateRepository(repository.id)).state, 'waiting');
    assert.equal((await client.registry.listRepositories().take(10)).length, 1);
    await client.registry.removeRepository(repository.id);
  });

  test('knows sources, their events, summaries, logs and streams', async () => {
    source = await client.sources.create({ component_code: emitter, name: 'inbox' });
    assert.equal((await client.sources.get(source.id)).name, 'inbox');
    assert.equal((await client.sources.update(source.id, { name: 'renamed' })).name, 'renamed');
    assert.deepEqual(
      (await client.sources.list().take(10)).map(({ id }) => id),
      [source.id],
    );
    assert.deepEqual(await client.sources.listTicks(source.id).take(10), []);
    assert.deepEqual(await client.sources.listTimers(source.id), []);
    assert.equal((await client.sources.queue(source.id)).waiting, 0);

    const told = await firstOf(client.events.streamOfSource<{ n: number }>(source.id), () => emit(source));
    assert.equal(told.type === 'event' && told.data.event.n, 1);
    const [summary] = await client.eventSummaries.listOfSource(source.id, { expand: 'event' }).take(1);
    assert.deepEqual(summary?.event, { n: 1 });
    assert.ok((await client.events.listOfSource(source.id, { n: 1 })).length === 1);
    assert.deepEqual(await client.eventSummaries.list().take(1), [], 'operational ones: there were none');
    await waitFor(async () => (await client.events.listLogsOfSource(source.id).take(1)).length === 1);

    const workspace = await client.workspaces.create({ name: 'Streaming' });
    const shared = await client.sources.create({ component_code: emitter, org_id: workspace.id });
    const ofAll = await firstOf(client.events.streamOfWorkspace(workspace.id), () => emit(shared));
    assert.equal(ofAll.type === 'event' && ofAll.data.metadata.emitter_id, shared.id);
    await client.events.deleteOfSource(shared.id);
    await client.sources.delete(shared.id);
  });

  test('knows workflows, deployments, templates and runs', async () => {
    workflow = await client.workflows.create({
      steps: [step],
      triggers: [{ type: 'http' }],
      settings: { name: 'sending', auto_deploy: true },
    });
    assert.equal((await client.workflows.get(workflow.id)).id, workflow.id);
    assert.equal((await client.workflows.list().take(1)).length, 1);
    assert.deepEqual(await client.workflows.listTicks(workflow.id).take(1), []);
    assert.equal((await client.workflows.queue(workflow.id)).waiting, 0);
    const [trigger] = workflow.triggers;
    const start = () => fetch(endpointOf((trigger ?? {}) as Record<string, unknown>), { method: 'POST' });
    const emitted = await firstOf(client.events.streamOfWorkflow(workflow.id), start);
    assert.equal(emitted.type, 'event');
    const sent = await firstOf(client.events.streamSendsOfWorkflow<{ n: number }>(workflow.id), start);
    assert.ok(sent.type === 'event' && sent.name === 'end' && sent.data.n === 1, JSON.stringify(sent));
    assert.ok((await client.eventSummaries.listOfWorkflow(workflow.id).take(1)).length === 1);
    assert.ok((await client.events.listOfWorkflow(workflow.id)).length > 0);
    assert.deepEqual(await client.eventSummaries.listErrorsOfWorkflow(workflow.id).take(1), []);

    const done = await waitFor(async () =>
      (await client.runs.list(workflow.id, { state: 'succeeded' }).take(1)).find(Boolean),
    );
    const { steps } = await client.runs.get(done.id);
    assert.equal(steps.at(-1)?.namespace, 'emit');
    assert.equal((await client.runs.replay(done.id)).workflow_id, workflow.id);
    assert.equal(await codeOf(client.runs.cancel(done.id)), 'conflict');
    await client.runs.restart(done.id, { from_step: 'emit' }).catch((error) => {
      assert.ok(error instanceof MillraceError && error.status < 500, String(error));
    });
    assert.equal((await client.runs.replayAll(workflow.id, { state: 'failed' })).remaining, 0);
    assert.equal((await client.runs.restartAll(workflow.id)).remaining, 0);
    assert.equal(typeof (await client.runs.cancelAll(workflow.id, { state: 'waiting' })).done, 'number');
    const tried = await client.workflows.testStep(workflow.id, 'emit', { event: {} });
    assert.ok(tried !== undefined);

    assert.equal((await client.deployments.create(workflow.id, { steps: [step] })).id, workflow.id);
    const [newest, ...earlier] = await client.deployments.list(workflow.id).take(10);
    assert.equal(earlier.length, 1);
    assert.equal((await client.deployments.get(newest?.id ?? '')).workflow_id, workflow.id);
    const pinned = await client.testEvents.put(workflow.id, 'sample', { run_id: done.id });
    assert.deepEqual(await client.testEvents.get(workflow.id, 'sample'), pinned);
    const { event: _event, ...summary } = pinned;
    assert.deepEqual(await client.testEvents.list(workflow.id).take(5), [summary]);
    assert.ok((await client.testEvents.run(workflow.id, 'sample')).run_id !== '');
    await client.testEvents.delete(workflow.id, 'sample');
    const template = await client.templates.create({ workflow_id: workflow.id });
    assert.equal((await client.templates.get(template.id)).id, template.id);
    assert.equal((await client.templates.list().take(10)).length, 1);
    await client.templates.delete(template.id);
    assert.equal((await client.workflows.update(workflow.id, { active: false })).active, false);
    await client.events.deleteOfWorkflow(workflow.id);
  });

  test('knows subscriptions, webhooks, deliveries and replays', async () => {
    const webhook = await client.webhooks.create({ url: `${receiver.url}/hook` });
    assert.match(webhook.signing_secret, /^whsec_/);
    assert.equal((await client.webhooks.get(webhook.id)).url, `${receiver.url}/hook`);
    assert.equal((await client.webhooks.list().take(10)).length, 1);
    assert.equal((await client.webhooks.update(webhook.id, { name: 'hook' })).name, 'hook');
    assert.notEqual((await client.webhooks.rotateSecret(webhook.id)).signing_secret, webhook.signing_secret);
    const ends = { emitter_id: source.id, listener_id: webhook.id };
    const subscription = await client.subscriptions.create(ends);
    assert.equal((await client.subscriptions.get(subscription.id)).emitter_id, source.id);
    assert.equal((await client.subscriptions.list()).length, 1);

    await emit(source, { n: 2 });
    await receiver.waitForRequest(1);
    const delivery = await waitFor(async () =>
      (await client.deliveries.listOfWebhook(webhook.id, { state: 'delivered' }).take(1)).find(Boolean),
    );
    assert.equal((await client.deliveries.get(delivery.id)).id, delivery.id);
    assert.equal((await client.deliveries.listOfSource(source.id).take(10)).length, 0);
    assert.ok((await client.deliveries.listOfSubscription(subscription.id).take(10)).length > 0);
    assert.deepEqual(await client.deliveries.listDeadLetters().take(1), []);
    await client.deliveries.redeliver(delivery.id);
    assert.equal((await client.webhooks.pause(webhook.id)).id, webhook.id);
    assert.equal((await client.webhooks.resume(webhook.id)).active, true);
    await client.webhooks.redeliver(webhook.id).catch((error) => assert.equal(error.status, 400));

    const replay = await client.replays.startOfSource(source.id, { listener_id: webhook.id, rate: 1 });
    assert.equal((await client.replays.get(replay.id)).id, replay.id);
    assert.equal((await client.replays.listOfSource(source.id).take(10)).length, 1);
    await client.replays.cancel(replay.id);
    const ofWorkflow = client.replays.startOfWorkflow(workflow.id, { listener_id: webhook.id });
    await ofWorkflow.catch((error) => assert.ok(error.status < 500));
    assert.ok((await client.replays.listOfWorkflow(workflow.id).take(10)).length <= 1);

    await client.subscriptions.delete(ends);
    assert.equal(await codeOf(client.subscriptions.get(subscription.id)), 'not_found');
    const again = await client.subscriptions.create(ends);
    await client.subscriptions.deleteById(again.id);
    const auto = await client.subscriptions.createAuto({ event_name: '$errors', listener_id: webhook.id });
    assert.equal((await client.subscriptions.listAuto()).length, 1);
    await client.subscriptions.deleteAuto(auto.id);
    const second = await client.sources.create({ component_code: emitter });
    assert.equal((await client.subscriptions.listen(second.id, source.id)).listener_id, second.id);
    await client.webhooks.delete(webhook.id);
  });

  test('knows apps, accounts, pushed events and data stores', async () => {
    const fields = [{ name: 'api_key', label: 'API key' }];
    const acme = { slug: 'acme', name: 'Acme', auth_type: 'keys', custom_fields: fields } as const;
    const app = await client.apps.create({ ...acme, custom_fields: [...fields] });
    assert.equal((await client.apps.get('acme')).id, app.id);
    assert.equal(
      (await client.apps.replace('acme', { ...acme, name: 'Acme 2', custom_fields: [...fields] })).name,
      'Acme 2',
    );
    assert.ok((await client.apps.list().take(200)).length > 90);
    assert.equal(
      (await client.apps.putOAuthClient('github', { client_id: 'a', client_secret: 'b' })).client_id,
      'a',
    );
    assert.equal((await client.apps.getOAuthClient('github')).client_id, 'a');
    assert.match((await client.accounts.connect({ app: 'github' })).connect_url, /^http/);
    await client.apps.deleteOAuthClient('github');

    const account = await client.accounts.create({ app: 'acme', credentials: { api_key: 'k' } });
    assert.equal((await client.accounts.get(account.id)).id, account.id);
    assert.equal((await client.accounts.list().take(10)).length, 1);
    assert.equal((await client.accounts.update(account.id, { name: 'ours' })).name, 'ours');
    assert.deepEqual((await client.accounts.listUses(account.id)).sources, []);
    assert.ok((await client.accounts.listAudit(account.id).take(10)).length > 0);
    await client.accounts.test(account.id).catch((error) => assert.ok(error.status < 500, String(error)));
    await client.accounts.delete(account.id, { force: true });
    assert.equal((await client.apphooks.push({ app: 'acme', event_name: 'x', payload: {} })).delivered, 0);
    await client.apps.delete('acme');

    const store = await client.dataStores.create({ name: 'numbers' });
    assert.equal((await client.dataStores.get(store.id)).name, 'numbers');
    assert.equal((await client.dataStores.list().take(10)).length, 1);
    // A key is one part of the path, whatever stands in it.
    const key = 'a/b?c#d %2f ü';
    assert.equal((await client.dataStores.putEntry(store.id, key, { value: 1 })).key, key);
    assert.equal((await client.dataStores.getEntry(store.id, key)).value, 1);
    assert.equal((await client.dataStores.listEntries(store.id).take(10)).length, 1);
    await client.dataStores.deleteEntry(store.id, key);
    await client.dataStores.delete(store.id);

    await client.variables.set('GREETING', { value: 'hello' });
    await client.variables.setAll({ variables: [{ name: 'PIN', value: '4711', secret: true }] });
    assert.equal((await client.variables.get('GREETING')).value, 'hello');
    assert.deepEqual(
      (await client.variables.list().take(10)).map(({ name, value }) => [name, value]),
      [
        ['GREETING', 'hello'],
        ['PIN', null],
      ],
    );
    await client.variables.delete('GREETING');
    assert.equal((await client.variables.listAudit().take(10)).length, 3);
    await client.workflows.delete(workflow.id);
  });

  test('has a method for every operation of the document, and each was called here', async () => {
    const operations = (await readApiOperations(service.url)).map(({ operationId }) => operationId);
    assert.deepEqual(Object.keys(clientMethods).sort(), operations.sort());
    const methods = Object.entries(clientMethods).flatMap(([id, method]) => (hasMethod(id) ? [method] : []));
    assert.equal(new Set(methods).size, methods.length, 'no two operations have one method');
    assert.deepEqual([...called].sort(), methods.sort());
  });
});
