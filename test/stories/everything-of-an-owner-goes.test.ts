import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HttpReceiver } from '../support/http-receiver.ts';
import { EventStream, forEachService, type ServiceClient, type TestUser } from '../support/millrace.ts';
import { patienceMs, waitFor } from '../support/wait-for.ts';

/** Emits what it is sent, tells the receiver that it is deactivated, and then fails. */
const source = (url: string) => `export default { name: 'Told', props: { http: '$.interface.http' },
  hooks: { async deactivate() { await fetch('${url}/deactivated/' + process.pid, { method: 'POST' }); throw new Error('no'); } },
  run(event) { this.$emit(event.body); } };`;
const hangs = `export default { name: 'Hangs', props: { http: '$.interface.http' },
  hooks: { async deactivate() { await new Promise((resolve) => setTimeout(resolve, 900_000)); } }, run() {} };`;
const ticks = `export default { name: 'Ticks', props: { timer: { type: '$.interface.timer', default: { intervalSeconds: 3600 } } },
  run() { this.$emit({ n: 1 }); } };`;
const step = (code: string) => ({
  namespace: 'one',
  code: `export default { async run({ $ }) { ${code} } };`,
});

// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
async function made(by: ServiceClient, path: string, body: unknown): Promise<any> {
  const answer = await by.api('POST', path, body);
  assert.equal(answer.status, 200, `${path}: ${JSON.stringify(answer.body)}`);
  return answer.body.data;
}

/** Waits for the end of a deletion, as the admin of the instance reads it. */
// biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
function done(service: ServiceClient, id: string): Promise<any> {
  return waitFor(
    async () => {
      const { status, body } = await service.admin.api('GET', `/v1/deletions/${id}`);
      assert.equal(status, 200, JSON.stringify(body));
      return body.data.state === 'done' ? body.data : undefined;
    },
    // Hooks that hang are given their whole time, and after a kill the lease of the job has to end first.
    { what: `deletion ${id} to be done`, timeoutMs: 5 * patienceMs },
  );
}

forEachService((fixture) => {
  const newWorkspace = (by: ServiceClient, name: string) => made(by, '/v1/workspaces', { name });
  const join = async (by: ServiceClient, workspace: string, role: string): Promise<TestUser> => {
    const user = await fixture.service.createUser(role);
    await made(by, `/v1/workspaces/${workspace}/members`, { user_id: user.id, role });
    return user;
  };
  const statusOf = async (method: string, path: string, key: string, body?: unknown) =>
    (await fixture.service.api(method, path, body, { key })).status;

  test('a workspace ends at once with all its access, and nothing of it is left', async () => {
    const { service } = fixture;
    const receiver = await HttpReceiver.start();
    try {
      const owner = service.as(await service.createUser('owner'));
      const { id, orgname } = await newWorkspace(owner, 'Doomed');
      const owned = { org_id: id };
      const member = await join(owner, id, 'member');
      const viewer = await join(owner, id, 'viewer');
      const elsewhere = service.as(await service.createUser('elsewhere'));
      const robot = await made(owner, `/v1/workspaces/${id}/service_accounts`, { name: 'robot' });
      const robotKey = (
        await made(owner, `/v1/workspaces/${id}/service_accounts/${robot.id}/keys`, { name: 'k' })
      ).api_key;
      const client = await made(owner, `/v1/workspaces/${id}/oauth_clients`, { name: 'client' });
      const tokenRequest = {
        ...{ grant_type: 'client_credentials', client_id: client.id, client_secret: client.client_secret },
      };
      const token = (await service.api('POST', '/v1/oauth/token', tokenRequest)).body.access_token;
      const told = await service.as(owner).createSource({ component_code: source(receiver.url), ...owned });
      await owner.createSource({ component_code: hangs, ...owned });
      await owner.createSource({ component_code: ticks, ...owned });
      const endpoint = told.configured_props.http.endpoint_url;
      assert.equal((await fetch(endpoint, { method: 'POST', body: '{"n":1}' })).status, 200);
      await waitFor(async () => (await owner.events(told.id))[0], { what: 'an event' });
      const workflow = await owner.createWorkflow({
        ...owned,
        triggers: [{ type: 'http' }],
        steps: [step('$.flow.delay(3_600_000);')],
      });
      await fetch(workflow.triggers[0].endpoint_url, { method: 'POST' });
      await waitFor(async () => (await owner.runs(workflow.id)).find(({ state }) => state === 'waiting'), {
        what: 'a run that waits',
      });
      const webhook = await made(owner, '/v1/webhooks', { url: `${receiver.url}/hook`, ...owned });
      await made(owner, '/v1/subscriptions', { emitter_id: told.id, listener_id: webhook.id });
      await made(owner, '/v1/data_stores', { name: 'numbers', ...owned });
      await owner.api('PUT', '/v1/variables/GREETING', { value: 'hello', ...owned });
      await made(owner, '/v1/accounts', { app: 'gitlab', credentials: { token: 'x' }, ...owned });
      // Another owner's workflow listens to the source: the member is in both.
      const listening = service.as(member);
      const foreign = await listening.createWorkflow({ steps: [step('return 1;')] });
      await made(listening, '/v1/subscriptions', { emitter_id: told.id, listener_id: foreign.id });
      const stream = await EventStream.open(`${service.url}/sources/${told.id}/sse`, undefined, viewer.key);

      const path = `/v1/workspaces/${id}`;
      const body = { orgname };
      assert.equal(await statusOf('DELETE', path, elsewhere.key, body), 404);
      assert.equal(await statusOf('DELETE', path, service.admin.key, body), 404);
      assert.equal(await statusOf('DELETE', path, member.key, body), 403);
      assert.equal(await statusOf('DELETE', path, viewer.key, body), 403);
      assert.equal(await statusOf('DELETE', path, token, body), 403);
      const mistyped = await owner.api('DELETE', path, { orgname: 'main' });
      assert.deepEqual([mistyped.status, mistyped.body.code], [400, 'invalid_parameter']);
      assert.match(mistyped.body.error, new RegExp(`found "main", expected "${orgname}"`));
      await service.admin.api('PUT', `/v1/retention/${id}`, { legal_hold: true });
      const held = await owner.api('DELETE', path, body);
      assert.deepEqual([held.status, held.body.code], [409, 'conflict']);
      assert.match(held.body.error, /under a legal hold/);
      await service.admin.api('PUT', `/v1/retention/${id}`, { legal_hold: false });

      const accepted = await owner.api('DELETE', path, body);
      assert.equal(accepted.status, 202, JSON.stringify(accepted.body));
      const deletion = accepted.body.data;
      assert.deepEqual([deletion.kind, deletion.subject_id, deletion.name], ['workspace', id, orgname]);

      // At once.
      assert.equal(await statusOf('GET', path, owner.key), 404);
      assert.equal(await statusOf('GET', `/v1/sources/${told.id}`, member.key), 404);
      assert.equal(await statusOf('GET', '/v1/users/me', robotKey), 401);
      assert.equal(await statusOf('GET', `/v1/workspaces/${id}/webhooks`, token), 401);
      assert.equal((await service.api('POST', '/v1/oauth/token', tokenRequest)).status, 401);
      assert.ok([404, 410].includes((await fetch(endpoint, { method: 'POST', body: '{}' })).status));
      const called = await fetch(workflow.triggers[0].endpoint_url, { method: 'POST' });
      assert.ok([404, 410].includes(called.status), `${called.status}`);
      await stream.ended;
      assert.equal(await statusOf('DELETE', path, owner.key, body), 404);
      assert.equal(
        await statusOf('PUT', `/v1/retention/${id}`, service.admin.key, { legal_hold: true }),
        404,
      );

      const ended = await done(service, deletion.id);
      assert.ok(ended.removed_rows > 10, JSON.stringify(ended));
      // The hook ran; that it failed, and that another one hangs, held nothing up.
      assert.equal(receiver.requests.filter(({ url }) => url?.startsWith('/deactivated/')).length, 1);
      const asked = await owner.api('GET', `/v1/deletions/${deletion.id}`);
      assert.deepEqual([asked.status, asked.body.data.state], [200, 'done']);
      assert.equal(await statusOf('GET', `/v1/deletions/${deletion.id}`, elsewhere.key), 404);
      assert.equal(await statusOf('GET', '/v1/deletions', elsewhere.key), 403);
      // What others have stays.
      assert.equal(await statusOf('GET', `/v1/workflows/${foreign.id}`, member.key), 200);
      const subscriptions = await listening.api('GET', '/v1/users/me/subscriptions');
      assert.deepEqual(
        subscriptions.body.data.map(({ emitter_id }: { emitter_id: string }) => emitter_id),
        [],
      );
      // The instance remembers who did it.
      const audit = await service.admin.api('GET', '/v1/audit?instance=true&operation=deleteWorkspace');
      const [record] = audit.body.data;
      assert.equal(record.object_id, deletion.id);
      assert.equal(record.after.subject_id, id);
      assert.equal(record.status, 202);
      // Its name is free again; its id is not.
      const next = await made(owner, '/v1/workspaces', { name: 'Doomed', orgname });
      assert.notEqual(next.id, id);
    } finally {
      await receiver.close();
    }
  });

  test('a user goes with what is personal, and what they made in a workspace stays', async () => {
    const { service } = fixture;
    const admin = service.admin;
    const boss = service.as(await service.createUser('boss'));
    const shared = await newWorkspace(boss, 'Shared');
    const leaver = await join(boss, shared.id, 'admin');
    const by = service.as(leaver);
    const alone = await newWorkspace(by, 'Alone');
    const kept = await by.createSource({ component_code: ticks, org_id: shared.id });
    const personal = await by.createSource({
      component_code: "export default { name: 'Mine', props: { http: '$.interface.http' }, run() {} };",
    });
    await by.createSource({ component_code: ticks, org_id: alone.id });
    const client = await made(by, `/v1/workspaces/${shared.id}/oauth_clients`, { name: 'stays' });
    await made(boss, '/v1/apps', {
      ...{ slug: 'acme', name: 'Acme', auth_type: 'keys', org_id: shared.id },
      custom_fields: [{ name: 'api_key', label: 'API key' }],
    });
    const link = await made(by, '/v1/accounts/connect', { app: 'acme', org_id: shared.id });

    // An only admin of a workspace with other members stays until another one is there.
    await made(boss, `/v1/workspaces/${shared.id}/members`, {
      ...{ user_id: leaver.id, role: 'admin' },
    });
    const bossId = (await boss.api('GET', '/v1/users/me')).body.data;
    await made(by, `/v1/workspaces/${shared.id}/members`, { user_id: bossId.id, role: 'member' });
    const refused = await by.api('DELETE', '/v1/users/me', { username: leaver.username });
    assert.deepEqual([refused.status, refused.body.details.workspaces], [409, [shared.id]]);
    assert.match(refused.body.error, new RegExp(shared.orgname));
    await made(by, `/v1/workspaces/${shared.id}/members`, { user_id: bossId.id, role: 'admin' });

    const mistyped = await admin.api('DELETE', `/v1/users/${leaver.id}`, { username: 'someone' });
    assert.equal(mistyped.status, 400);
    assert.equal(
      (await boss.api('DELETE', `/v1/users/${leaver.id}`, { username: leaver.username })).status,
      403,
    );
    await admin.api('PUT', `/v1/retention/${alone.id}`, { legal_hold: true });
    const held = await by.api('DELETE', '/v1/users/me', { username: leaver.username });
    assert.match(held.body.error, /under a legal hold/);
    await admin.api('PUT', `/v1/retention/${alone.id}`, { legal_hold: false });

    const accepted = await by.api('DELETE', '/v1/users/me', { username: leaver.username });
    assert.equal(accepted.status, 202, JSON.stringify(accepted.body));
    const { id, workspaces } = accepted.body.data;
    assert.deepEqual(
      workspaces.map(({ subject_id }: { subject_id: string }) => subject_id),
      [alone.id],
    );
    assert.equal((await by.api('GET', '/v1/users/me')).status, 401);
    assert.ok([404, 410].includes((await fetch(personal.configured_props.http.endpoint_url)).status));
    assert.notEqual((await fetch(link.connect_url, { redirect: 'manual' })).status, 200);
    assert.equal((await admin.api('POST', `/v1/users/${leaver.id}/enable`)).status, 404);
    const again = await boss.api('POST', `/v1/workspaces/${shared.id}/members`, { user_id: leaver.id });
    assert.equal(again.status, 404);

    const ended = await done(service, id);
    assert.equal(ended.name, null);
    await done(service, workspaces[0].id);
    assert.equal((await boss.api('GET', `/v1/sources/${kept.id}`)).body.data.user_id, leaver.id);
    const clients = await boss.api('GET', `/v1/workspaces/${shared.id}/oauth_clients`);
    assert.deepEqual(
      clients.body.data.map((one: { id: string }) => one.id),
      [client.id],
    );
    const audit = await admin.api('GET', '/v1/audit?instance=true&operation=deleteMe');
    assert.deepEqual(
      audit.body.data.map((one: { after: { subject_id: string } }) => one.after.subject_id).sort(),
      [alone.id, leaver.id].sort(),
    );
    // The name is free again.
    const namesake = await admin.api('POST', '/v1/users', { username: leaver.username, email: leaver.email });
    assert.equal(namesake.status, 200);
    assert.notEqual(namesake.body.data.id, leaver.id);
  });

  test('the last admin of the instance and service accounts are refused', async () => {
    const { service } = fixture;
    const me = (await service.admin.api('GET', '/v1/users/me')).body.data;
    const last = await service.admin.api('DELETE', '/v1/users/me', { username: me.username });
    assert.deepEqual([last.status, last.body.code], [409, 'conflict']);
    assert.match(last.body.error, /last admin of the instance/);
    const { id } = await newWorkspace(service, 'Robots');
    const robot = await made(service, `/v1/workspaces/${id}/service_accounts`, { name: 'robot' });
    const refused = await service.admin.api('DELETE', `/v1/users/${robot.id}`, { username: 'robot' });
    assert.deepEqual([refused.status, refused.body.code], [409, 'conflict']);
    assert.match(refused.body.error, /found a service account/);
  });

  test('a deletion survives a kill', { timeout: 6 * patienceMs }, async () => {
    const { id, orgname } = await newWorkspace(fixture.service, 'Killed');
    for (let number = 0; number < 3; number += 1)
      await fixture.service.createSource({ component_code: hangs, org_id: id });
    const names = Array.from({ length: 300 }, (_, number) => `VARIABLE_${number}`);
    for (let at = 0; at < names.length; at += 100)
      await fixture.service.api('PUT', '/v1/variables', {
        ...{ org_id: id, variables: names.slice(at, at + 100).map((name) => ({ name, value: 'x' })) },
      });
    const accepted = await fixture.service.api('DELETE', `/v1/workspaces/${id}`, { orgname });
    assert.equal(accepted.status, 202, JSON.stringify(accepted.body));
    // While it waits for hooks.
    await fixture.restart('kill');
    const ended = await done(fixture.service, accepted.body.data.id);
    assert.ok(ended.removed_rows >= names.length, JSON.stringify(ended));
  });
});
