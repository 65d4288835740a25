import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runCommand } from '../support/command-line.ts';
import { forEachSharedService } from '../support/millrace.ts';
import { createTempFolder } from '../support/temp-folder.ts';
import { waitFor } from '../support/wait-for.ts';

/** Answers with what names its process, or ends it. */
const code = (name: string, body = '') => `export default {
  name: '${name}', props: { http: { type: '$.interface.http', customResponse: true } },
  async run(event) { ${body} this.http.respond({ body: String(performance.timeOrigin) }); },
};`;

forEachSharedService((fixture) => {
  async function source(name: string, settings: object = {}, body = '') {
    const { id, configured_props } = await fixture.service.createSource({
      component_code: code(name, body),
      ...settings,
    });
    const { endpoint_url } = configured_props.http;
    const ask = async () => {
      const answer = await fetch(endpoint_url);
      return { status: answer.status, process: await answer.text() };
    };
    return { id, ask, process: async () => (await ask()).process };
  }

  test('sources and workflows of an owner share a process, and one that is isolated has its own', async () => {
    const { service } = fixture;
    const one = await source('One');
    const other = await source('Other');
    const shared = await one.process();
    assert.equal(await other.process(), shared);
    const workflow = await service.createWorkflow({
      triggers: [{ type: 'http', props: { custom_response: true } }],
      steps: [
        {
          namespace: 'answer',
          code: 'export default defineComponent({ async run({ $ }) { await $.respond({ status: 200, body: String(performance.timeOrigin) }); } })',
        },
      ],
    });
    const ofWorkflow = async () => (await fetch(workflow.triggers[0].endpoint_url)).text();
    assert.equal(await ofWorkflow(), shared);

    const path = `/v1/sources/${other.id}`;
    const changed = await service.api('PUT', path, { isolated: true });
    assert.equal(changed.body.data.isolated, true);
    const own = await other.process();
    assert.notEqual(own, shared);
    assert.equal(await one.process(), shared);
    assert.equal((await service.api('PUT', path, { name: 'renamed' })).body.data.isolated, true);
    assert.equal((await service.api('PUT', path, { isolated: false })).body.data.isolated, false);
    assert.equal(await other.process(), shared);
    const refused = await service.api('PUT', path, { isolated: 'yes' });
    assert.equal(refused.status, 400);
    assert.match(refused.body.error, /isolated/);

    const deployed = await service.api('POST', `/v1/workflows/${workflow.id}/deployments`, {
      settings: { isolated: true },
    });
    assert.equal(deployed.body.data.settings.isolated, true, JSON.stringify(deployed.body));
    assert.notEqual(await ofWorkflow(), shared);
  });

  test('code that is only tried has a process of its own', async () => {
    const { service } = fixture;
    const data = async (path: string, body: object) => {
      const answer = await service.api('POST', path, body);
      assert.equal(answer.status, 200, JSON.stringify(answer.body));
      return answer.body.data;
    };
    const shared = await (await source('Warm')).process();
    const asked = `props: { kind: { type: 'string', reloadProps: true }, http: { type: '$.interface.http', customResponse: true } },
      additionalProps() { return { seen: { type: 'string', default: String(performance.timeOrigin) } }; }`;
    const ofAction = (returned: string, props = '') =>
      `export default { name: 'Tried', version: '0.0.1', type: 'action', ${props} run() { return ${returned}; } };`;
    const origin = 'String(performance.timeOrigin)';
    const action = await data('/v1/actions/run', { component_code: ofAction(origin) });
    const workflow = await service.createWorkflow({
      triggers: [{ type: 'http', props: {} }],
      steps: [{ namespace: 'tried', code: ofAction(origin) }],
    });
    const path = `/v1/workflows/${workflow.id}/steps/tried/test`;
    const given = await data(path, { step: { code: ofAction(`'given' + ${origin}`) } });
    const dynamic = await service.createSource({
      component_code: `export default { name: 'Asked', ${asked}, run() { this.http.respond({ body: this.seen }); } };`,
      configured_props: { kind: 'any' },
    });
    const seen = await (await fetch(dynamic.configured_props.http.endpoint_url)).text();
    const tried = [action.ret, given.exports.$return_value.slice('given'.length), seen];
    for (const one of tried) assert.match(one, /^\d+(\.\d+)?$/);
    assert.equal(new Set([shared, ...tried]).size, 4, JSON.stringify({ shared, tried }));
    assert.equal(await (await source('Still warm')).process(), shared);
  });

  test('a source that ends its process takes no other source with it from then on', async () => {
    const good = await source('Good');
    const bad = await source('Bad', {}, 'process.exit(1);');
    const before = await good.process();
    assert.equal((await bad.ask()).status, 500);
    const after = await good.process();
    assert.notEqual(after, before);
    assert.equal((await bad.ask()).status, 500);
    assert.equal(await good.process(), after);

    const { status, body } = await fixture.service.admin.api('GET', '/v1/instance/processes');
    assert.equal(status, 200);
    const apart = body.data.set_apart.find((one: { deployment_id: string }) => one.deployment_id === bad.id);
    assert.match(apart.reason, /the process ended with code 1/);
    const mine = body.data.processes.filter((one: { deployment_ids: string[] }) =>
      one.deployment_ids.includes(good.id),
    );
    const [
      { shared, state, owner_id, memory_bytes, trust_domain, trust_domain_names, owner_name, last_blame },
    ] = mine;
    assert.deepEqual([mine.length, shared, owner_id], [1, true, apart.owner_id]);
    // The caller has its answer before the call has ended.
    assert.ok(['idle', 'busy'].includes(state), state);
    assert.deepEqual([trust_domain, trust_domain_names], [[owner_id], [owner_name]]);
    const { deployment_id, reason, at } = apart;
    assert.deepEqual(last_blame, { deployment_id, reason, at });
    assert.ok(memory_bytes > 1_000_000);
    const share = body.data.owners.find((one: { owner_id: string }) => one.owner_id === owner_id);
    assert.ok(share.processes >= 1);
    // The builds of other files on this service may have delayed one of its own.
    assert.deepEqual([typeof share.delayed, share.refused], ['number', 0]);
  });

  test('a process that works on after its calls have ended is shown as such, with the cores that it keeps busy', async () => {
    const working = await source(
      'Working on',
      { isolated: true },
      'setInterval(() => { for (const end = Date.now() + 40; Date.now() < end; ); }, 100);',
    );
    const pid = await working.process();
    assert.match(pid, /^\d/);
    const shown = async () => {
      const { body } = await fixture.service.admin.api('GET', '/v1/instance/processes');
      return body.data.processes.find((one: { deployment_ids: string[] }) =>
        one.deployment_ids.includes(working.id),
      );
    };
    await waitFor(async () => (await shown())?.state === 'background');
    const { calls, cpu_cores, priority } = await shown();
    assert.equal(calls, 0);
    assert.ok(cpu_cores > 0.05 && cpu_cores < 1.1, String(cpu_cores));
    assert.ok(['usual', 'low'].includes(priority));
    await fixture.service.api('DELETE', `/v1/sources/${working.id}`);
    await waitFor(async () => (await shown()) === undefined);
  });

  test('the admin of the instance sees names of users, and of deployments only those that the admin may read', async () => {
    const { service } = fixture;
    const { admin } = service;
    const me = (await service.api('GET', '/v1/users/me')).body.data;
    const theirs = (await service.api('POST', '/v1/workspaces', { name: 'Not of the admin' })).body.data;
    const ours = (await admin.api('POST', '/v1/workspaces', { name: 'Of the admin' })).body.data;
    const run = async (by: typeof service, settings: object) => {
      const made = await by.createSource({ component_code: code('Named'), ...settings });
      await fetch(made.configured_props.http.endpoint_url);
      return made.id as string;
    };
    const ofUser = await run(service, {});
    const ofTheirs = await run(service, { org_id: theirs.id });
    const workflow = await admin.createWorkflow({
      org_id: ours.id,
      settings: { name: 'flow' },
      triggers: [{ type: 'http', props: { custom_response: true } }],
      steps: [{ namespace: 'bad', code: 'export default { run() { process.exit(3); } }' }],
    });
    await fetch(workflow.triggers[0].endpoint_url);
    const ofOurs = await run(admin, { org_id: ours.id, name: 'ours' });

    const { data } = (await admin.api('GET', '/v1/instance/processes')).body;
    const processOf = (id: string) =>
      data.processes.find((one: { deployment_ids: string[] }) => one.deployment_ids.includes(id));
    assert.equal(processOf(ofUser).owner_name, me.username);
    assert.equal(processOf(ofTheirs).owner_name, null);
    assert.equal(processOf(ofOurs).owner_name, 'Of the admin');
    const share = data.owners.find((one: { owner_id: string }) => one.owner_id === ours.id);
    assert.equal(share.owner_name, 'Of the admin');
    const apart = data.set_apart.find((one: { owner_id: string }) => one.owner_id === ours.id);
    assert.match(apart.reason, /code 3/);
    assert.equal(apart.owner_name, 'Of the admin');
    assert.ok(data.set_apart_count >= 1);
    const named = (id: string) => data.deployments.find((one: { id: string }) => one.id === id);
    assert.deepEqual(named(ofOurs), { id: ofOurs, object_id: ofOurs, name: 'ours' });
    assert.deepEqual(named(apart.deployment_id), {
      ...{ id: apart.deployment_id, object_id: workflow.id, name: 'flow' },
    });
    assert.equal(named(ofUser), undefined);
    assert.equal(named(ofTheirs), undefined);
    assert.match(data.node, /^node_/);
    assert.ok(data.processes.length <= data.processes_max && data.memory_bytes_max > 0);
    assert.ok(Number.isInteger(data.ready) && data.ready >= 0);

    await using folder = await createTempFolder('processes');
    const environment = { MILLRACE_URL: admin.url, MILLRACE_API_KEY: admin.key };
    const listed = await runCommand({ folder: folder.path, environment }, ['processes']);
    assert.match(listed.stdout, new RegExp(`^\\d+ +${me.username} +\\w+ +yes`, 'm'));
    assert.match(listed.stdout, new RegExp(`^${apart.deployment_id} +flow +Of the admin `, 'm'));
    assert.match(listed.stdout, new RegExp(`^\\d+ +${theirs.id} `, 'm'));
    assert.match(listed.stdout, /^\d+ +Of the admin .* flow: .*code 3/m);
    await admin.api('DELETE', `/v1/sources/${ofOurs}`);
    await admin.api('DELETE', `/v1/workflows/${workflow.id}`);
  });
});
