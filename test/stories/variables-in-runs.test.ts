import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { postgresSkip } from '../support/databases.ts';
import { forEachSharedService, type ServiceClient } from '../support/millrace.ts';
import { usePostgresNodes } from '../support/postgres-nodes.ts';
import { waitFor } from '../support/wait-for.ts';

/** Answers what its code and a prop of it find of some variables. */
const finder = {
  namespace: 'find',
  code: `const loaded = process.env.GREETING;
export default defineComponent({
  props: { greeting: { type: 'string', optional: true } },
  async run({ $ }) {
    const { GREETING, PIN, OTHER } = process.env;
    console.log('the pin is', PIN);
    await $.respond({ status: 200, headers: {}, body: { loaded, GREETING, PIN, OTHER, prop: this.greeting } });
    return { pin: PIN, url: 'https://x.example/?pin=' + PIN };
  },
});`,
  props: { greeting: '{{process.env.GREETING}}!' },
};

type Found = Partial<Record<'loaded' | 'GREETING' | 'PIN' | 'OTHER' | 'prop', string>>;

async function ok(service: ServiceClient, method: string, path: string, body?: unknown) {
  const answer = await service.api(method, path, body);
  assert.ok(answer.status < 300, `${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
  return answer.body?.data;
}

async function finderWorkflow(service: ServiceClient, more: object = {}) {
  const { settings = {}, ...rest } = more as { settings?: object };
  const workflow = await service.createWorkflow({
    steps: [finder],
    triggers: [{ type: 'http', props: { custom_response: true } }],
    settings,
    ...rest,
  });
  const path = new URL(workflow.triggers[0].endpoint_url).pathname;
  const ask = async (at = service): Promise<Found> => {
    const response = await fetch(at.url + path, { method: 'POST' });
    return (await response.json()) as Found;
  };
  return { id: workflow.id as string, ask };
}

const set = (service: ServiceClient, query: string, values: Record<string, string>, secret = false) =>
  ok(service, 'PUT', `/v1/variables${query}`, {
    variables: Object.entries(values).map(([name, value]) => ({ name, value, secret })),
  });

forEachSharedService((fixture) => {
  test('the next run finds what was changed; a project wins over its workspace, and owners are strangers', async () => {
    const { service } = fixture;
    const org = (await ok(service, 'POST', '/v1/workspaces', { name: 'Runs' })).id;
    const project = (await ok(service, 'POST', `/v1/workspaces/${org}/projects`, { name: 'Ours' })).id;
    await set(service, '', { GREETING: 'of user', OTHER: 'of user' });
    await set(service, `?org_id=${org}`, { GREETING: 'of workspace' });
    const mine = await finderWorkflow(service);
    const ours = await finderWorkflow(service, { org_id: org });
    const inProject = await finderWorkflow(service, { org_id: org, project_id: project });
    assert.deepEqual(await mine.ask(), {
      ...{ loaded: 'of user', GREETING: 'of user', OTHER: 'of user', prop: 'of user!' },
    });
    assert.deepEqual(await ours.ask(), {
      ...{ loaded: 'of workspace', GREETING: 'of workspace', prop: 'of workspace!' },
    });
    assert.equal((await inProject.ask()).prop, 'of workspace!');
    await set(service, `?project_id=${project}`, { GREETING: 'of project' });
    assert.equal((await inProject.ask()).loaded, 'of project');
    assert.equal((await ours.ask()).loaded, 'of workspace');
    await ok(service, 'DELETE', `/v1/variables/GREETING?project_id=${project}`);
    assert.equal((await inProject.ask()).prop, 'of workspace!');
    for (const value of ['first', 'second']) {
      await set(service, `?org_id=${org}`, { GREETING: value });
      const { loaded, GREETING, prop } = await ours.ask();
      assert.deepEqual([loaded, GREETING, prop], [value, value, `${value}!`]);
    }
    await ok(service, 'DELETE', '/v1/variables/GREETING');
    await ok(service, 'DELETE', '/v1/variables/OTHER');
  });

  test('a variable that is not set is a warning of the step, or its error', async () => {
    const { service } = fixture;
    const org = (await ok(service, 'POST', '/v1/workspaces', { name: 'Unset' })).id;
    const { id, ask } = await finderWorkflow(service, { org_id: org });
    assert.equal((await ask()).prop, '!');
    const [step] = (await service.runInState(id, 'succeeded')).steps;
    assert.deepEqual(
      step.logs.map(({ level, message }: { level: string; message: string }) => [level, message]),
      [
        ['warn', 'prop greeting: the environment variable GREETING is not set'],
        ['log', 'the pin is undefined'],
      ],
    );
    const strict = await service.createWorkflow({
      org_id: org,
      steps: [
        {
          namespace: 'call',
          code: `export default { props: { url: 'string' }, run() { return this.url; } };`,
          props: { url: '{{process.env.BASE_URL}}/orders' },
        },
      ],
      triggers: [{ type: 'http' }],
    });
    const call = () => fetch(service.url + new URL(strict.triggers[0].endpoint_url).pathname);
    await call();
    const failed = await service.runInState(strict.id, 'failed');
    assert.equal(
      failed.error.msg,
      'prop url: the environment variable BASE_URL is not set, and the prop is required',
    );
    await set(service, `?org_id=${org}`, { BASE_URL: 'https://shop.example' });
    await call();
    const succeeded = await service.runInState(strict.id, 'succeeded');
    assert.equal(succeeded.steps[0].exports.$return_value, 'https://shop.example/orders');
  });

  test('code that needs a variable before it runs is told when to read it', async () => {
    const code = `if (!process.env.API_KEY) throw new Error('no API key'); export default { run() {} };`;
    const refused = await fixture.service.api('POST', '/v1/workflows', {
      steps: [{ namespace: 'early', code }],
      settings: { name: 'early' },
    });
    assert.equal(refused.status, 400);
    assert.match(
      refused.body.error,
      /no API key \(environment variables are set when a workflow runs, .*read them in run\)$/,
    );
    const trigger = {
      type: 'source',
      props: { code: `export default { props: { url: 'string' }, run() {} };` },
    };
    const withProps = {
      ...trigger,
      props: { ...trigger.props, configured_props: { url: '{{process.env.URL}}' } },
    };
    const source = await fixture.service.api('POST', '/v1/workflows', {
      steps: [],
      triggers: [withProps],
      settings: { name: 'of a source' },
    });
    assert.equal(source.status, 400);
    assert.match(source.body.error, /variables are for workflows only/);
    assert.match(String(source.body.details.parameter), /^triggers\[0\]\.props/);
  });

  test('a secret value of four characters is in no record of a run', async () => {
    const { service } = fixture;
    const org = (await ok(service, 'POST', '/v1/workspaces', { name: 'Secret' })).id;
    await set(service, `?org_id=${org}`, { PIN: '4711', GREETING: 'hush' }, true);
    const { id, ask } = await finderWorkflow(service, { org_id: org });
    assert.equal((await ask()).PIN, '4711', 'code has it');
    const run = await service.runInState(id, 'succeeded');
    const [{ input, exports, logs }] = run.steps;
    assert.deepEqual(input, { greeting: '[redacted]!' });
    assert.deepEqual(exports.$return_value, { pin: '[redacted]', url: 'https://x.example/?pin=[redacted]' });
    assert.equal(logs[0].message, 'the pin is [redacted]');
  });

  test('actions that are run by API and steps that are tried find them too, and sources do not', async () => {
    const { service } = fixture;
    const org = (await ok(service, 'POST', '/v1/workspaces', { name: 'Actions' })).id;
    await set(service, `?org_id=${org}`, { GREETING: 'hello', PIN: 'secret-pin' });
    const code = `export default { type: 'action', name: 'A', key: 'a', version: '0.0.1', props: { text: 'string' },
      run() { return [process.env.GREETING, this.text]; } };`;
    const action = await service.api('POST', '/v1/actions/run', {
      ...{ component_code: code, org_id: org, configured_props: { text: '{{process.env.GREETING}}' } },
    });
    // Props of an action that is run by itself are taken as they are.
    assert.deepEqual(
      action.body.data.ret,
      ['hello', '{{process.env.GREETING}}'],
      JSON.stringify(action.body),
    );
    const { id } = await finderWorkflow(service, { org_id: org });
    const tried = (body: object) => ok(service, 'POST', `/v1/workflows/${id}/steps/find/test`, body);
    assert.equal(
      (await tried({ event: {} })).response.body,
      JSON.stringify({ loaded: 'hello', GREETING: 'hello', PIN: 'secret-pin', prop: 'hello!' }),
    );
    const { namespace: _, ...given } = finder;
    assert.match((await tried({ event: {}, step: given })).response.body, /"loaded":"hello"/);
    const source = await service.createSource({
      org_id: org,
      component_code: `export default { props: { http: '$.interface.http' },
        hooks: { deploy() { this.$emit({ names: Object.keys(process.env) }); } }, run() {} };`,
    });
    const [{ event }] = await service.events(source.id);
    assert.ok(event.names.includes('PD_COMPONENT') && !event.names.includes('GREETING'), String(event.names));
  });
});

describe('several nodes on one PostgreSQL', { skip: postgresSkip() }, () => {
  const { node } = usePostgresNodes();

  test('what was changed through one node is found by the runs of the other', async () => {
    const [one, other] = [node(0), node(1)];
    const { ask } = await finderWorkflow(one);
    for (const value of ['first', 'second']) {
      await set(one, '', { GREETING: value });
      // It is told at once; within a second it finds out by itself.
      await waitFor(async () => (await ask(other)).prop === `${value}!`, {
        what: `${value} on the other node`,
      });
      assert.equal((await ask(one)).prop, `${value}!`);
    }
  });
});
