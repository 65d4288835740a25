import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpReceiver } from '../support/http-receiver.ts';
import { forEachSharedService, type ServiceClient } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

/** Throws on demand. */
const code = `export default {
  name: 'Told', props: { http: { type: '$.interface.http', customResponse: true } },
  run(event) {
    this.http.respond({ status: 200, body: {} });
    this.$emit(event.body);
    if (event.body.throws !== undefined) throw new TypeError(event.body.throws);
  },
};`;

const stepCode = `export default defineComponent({
  async run({ steps }) { if (steps.trigger.event.body.throws) throw new Error(steps.trigger.event.body.throws); },
});`;

// biome-ignore lint/suspicious/noExplicitAny: as the API answers it.
async function healthOf(service: ServiceClient, path: string): Promise<any> {
  const { status, body } = await service.api('GET', path);
  assert.equal(status, 200, JSON.stringify(body));
  return body.data.health;
}

const untilHealth = (service: ServiceClient, path: string, state: string) =>
  waitFor(
    async () => {
      const health = await healthOf(service, path);
      return health.state === state ? health : undefined;
    },
    { what: `${path} to be ${state}` },
  );

async function post(url: string, body: object): Promise<void> {
  await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
}

async function idsIn(service: ServiceClient, list: string): Promise<string[]> {
  const { status, body } = await service.api('GET', list);
  assert.equal(status, 200, JSON.stringify(body));
  return body.data.map(({ id }: { id: string }) => id);
}

forEachSharedService((fixture) => {
  test('the health of a source is what its last run came to, in single answers, lists and the overview', async () => {
    const { service } = fixture;
    const source = await service.createSource({ component_code: code, name: 'told' });
    const path = `/v1/sources/${source.id}`;
    const url = source.configured_props.http.endpoint_url;
    assert.equal(source.health.state, 'untested');
    await post(url, {});
    const healthy = await untilHealth(service, path, 'healthy');
    assert.equal(healthy.reason, null);
    await post(url, { throws: 'no such list' });
    const failing = await untilHealth(service, path, 'failing');
    assert.equal(failing.reason, 'TypeError: no such list');
    assert.equal(failing.failures, 1);
    assert.ok(failing.since >= healthy.since);
    await post(url, { throws: 'still none' });
    await waitFor(async () => (await healthOf(service, path)).failures === 2, { what: 'two failures' });
    assert.equal((await healthOf(service, path)).since, failing.since);
    assert.deepEqual(await idsIn(service, '/v1/users/me/sources?health=failing'), [source.id]);
    assert.deepEqual(await idsIn(service, '/v1/users/me/sources?health=healthy'), []);
    const overview = (await service.api('GET', '/v1/users/me/overview')).body.data;
    assert.equal(overview.health.sources.failing, 1);
    const [first] = overview.attention;
    assert.deepEqual(
      { kind: first.kind, id: first.id, name: first.name, reason: first.health.reason },
      { kind: 'source', id: source.id, name: 'told', reason: 'TypeError: still none' },
    );
    // Another name changes nothing; other code has yet to run.
    const renamed = await service.api('PUT', path, { name: 'told again' });
    assert.equal(renamed.body.data.health.state, 'failing');
    const redeployed = await service.api('PUT', path, { component_code: `${code}\n// another` });
    assert.equal(redeployed.body.data.health.state, 'untested');
    await post(url, {});
    await untilHealth(service, path, 'healthy');
    await service.api('PUT', path, { active: false });
    assert.equal((await healthOf(service, path)).state, 'paused');
    const refused = await service.api('GET', '/v1/users/me/sources?health=fine');
    assert.equal(refused.status, 400);
  });

  test('a workflow is failing when its last run failed, until one succeeds or it is deployed again', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      steps: [{ namespace: 'code', code: stepCode }],
      triggers: [{ type: 'http' }],
    });
    const path = `/v1/workflows/${workflow.id}`;
    const url = workflow.triggers[0].endpoint_url;
    assert.equal(workflow.health.state, 'untested');
    await post(url, { throws: 'nothing works' });
    const failing = await untilHealth(service, path, 'failing');
    assert.match(failing.reason, /nothing works/);
    assert.deepEqual(await idsIn(service, '/v1/users/me/workflows?health=failing'), [workflow.id]);
    await post(url, {});
    await untilHealth(service, path, 'healthy');
    const settled = await service.api('POST', `${path}/deployments`, {
      steps: [{ namespace: 'code', code: stepCode }],
      settings: { timeout_seconds: 20, flow_control: { concurrency: { limit: 3 } } },
    });
    assert.equal(settled.body.data.health.state, 'healthy', 'the same steps with other settings');
    const { body } = await service.api('POST', `${path}/deployments`, {
      steps: [{ namespace: 'code', code: `${stepCode}\n// another` }],
    });
    assert.equal(body.data.health.state, 'untested', JSON.stringify(body));
  });

  test('a webhook whose receiver refuses is failing, whatever else is said of it', async () => {
    const { service } = fixture;
    let status = 500;
    await using receiver = await HttpReceiver.start({ answer: () => ({ status }) });
    const source = await service.createSource({ component_code: code });
    const webhook = (await service.api('POST', '/v1/webhooks', { url: `${receiver.url}/` })).body.data;
    const path = `/v1/webhooks/${webhook.id}`;
    assert.equal(webhook.health.state, 'untested');
    await service.api('POST', '/v1/subscriptions', { emitter_id: source.id, listener_id: webhook.id });
    await post(source.configured_props.http.endpoint_url, { n: 1 });
    const failing = await untilHealth(service, path, 'failing');
    assert.equal(failing.reason, 'the receiver answered 500, expected 2xx');
    assert.deepEqual(await idsIn(service, '/v1/users/me/webhooks?health=failing'), [webhook.id]);
    const overview = (await service.api('GET', '/v1/users/me/overview')).body.data;
    assert.ok(overview.attention.some(({ id }: { id: string }) => id === webhook.id));
    const paused = (await service.api('POST', `${path}/pause`, {})).body.data;
    assert.equal(paused.health.state, 'paused');
    // What failed before it was resumed does not count.
    const resumed = (await service.api('POST', `${path}/resume`, {})).body.data;
    assert.notEqual(resumed.health.state, 'failing');
    status = 200;
    await post(source.configured_props.http.endpoint_url, { n: 2 });
    await waitFor(async () => (await healthOf(service, path)).failures === 0, {
      what: 'no further failure',
    });
  });

  test('an account without a test is untested, not healthy', async () => {
    const { service } = fixture;
    const { body } = await service.api('POST', '/v1/accounts', {
      app: 'some_unknown_app',
      credentials: { api_key: 'secret-0123456789' },
    });
    assert.equal(body.data.health.state, 'untested', JSON.stringify(body));
    assert.deepEqual(await idsIn(service, '/v1/accounts?health=untested'), [body.data.id]);
    assert.deepEqual(await idsIn(service, '/v1/accounts?health=healthy'), []);
  });
});
