import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forEachSharedService } from '../support/millrace.ts';

/** More than the connections to the database, so that some wait and others race. */
const atOnce = 20;
const source = `export default { name: 'Same', props: { http: '$.interface.http' }, run() {} };`;
const action = `export default { name: 'Same', key: 'same', version: '0.0.1', type: 'action', props: {}, run() {} };`;
const step = { namespace: 'one', code: 'export default { run() { return 1; } }' };

forEachSharedService((fixture) => {
  /** The answers to one request that is sent many times at once. */
  const all = async (method: string, path: string, body?: unknown) =>
    Promise.all(Array.from({ length: atOnce }, () => fixture.service.api(method, path, body)));
  /** How many answers have each status, as `200 x 30`. */
  const counts = (answers: readonly { status: number }[]) =>
    [...Map.groupBy(answers, ({ status }) => status)].map(([status, { length }]) => `${status} x ${length}`);
  const made = async (path: string, body: unknown) => {
    const answer = await fixture.service.api('POST', path, body);
    assert.equal(answer.status, 200, `${path}: ${JSON.stringify(answer.body)}`);
    return answer.body.data;
  };

  test('sources, workflows and workspaces of one name get names of their own', async () => {
    // The component is built then, and nothing keeps the creations apart.
    const { name_slug: first } = await made('/v1/sources', { component_code: source });
    const sources = await all('POST', '/v1/sources', { component_code: source });
    assert.deepEqual(counts(sources), [`200 x ${atOnce}`]);
    const slugs = sources.map(({ body }) => body.data.name_slug as string);
    assert.equal(new Set([...slugs, first]).size, atOnce + 1);
    assert.ok(
      [first, ...slugs].every((slug) => /^same(?:-\d+)?$/.test(slug)),
      `${slugs}`,
    );
    const workspaces = await all('POST', '/v1/workspaces', { name: 'The same name' });
    assert.deepEqual(counts(workspaces), [`200 x ${atOnce}`]);
    assert.equal(new Set(workspaces.map(({ body }) => body.data.orgname)).size, atOnce);
    const workflows = await all('POST', '/v1/workflows', { steps: [step], settings: { name: 'Same' } });
    assert.deepEqual(counts(workflows), [`200 x ${atOnce}`]);
  });

  test('what can be there once is made once, and the others are told so', async () => {
    const { id: emitter_id } = await made('/v1/sources', { component_code: source });
    const { id: listener_id } = await made('/v1/webhooks', { url: 'http://127.0.0.1:9/' });
    const { id: workflow } = await made('/v1/workflows', { steps: [step] });
    const { id: workspace } = await made('/v1/workspaces', { name: 'Once' });
    const app = {
      slug: 'same-app',
      name: 'Same',
      auth_type: 'keys',
      custom_fields: [{ name: 'api_key', label: 'Key' }],
    };
    const problems: string[] = [];
    for (const [method, path, body, allowed] of [
      ['POST', '/v1/subscriptions', { emitter_id, listener_id }, [200]],
      ['POST', '/v1/auto_subscriptions', { event_name: '$logs', listener_id }, [200]],
      ['POST', '/v1/components', { component_code: action }, [200]],
      ['POST', '/v1/data_stores', { name: 'same' }, [200, 409]],
      ['POST', `/v1/workspaces/${workspace}/projects`, { name: 'same' }, [200, 409]],
      ['POST', `/v1/workspaces/${workspace}/service_accounts`, { name: 'same' }, [200, 409]],
      ['POST', `/v1/workflows/${workflow}/deployments`, { steps: [step] }, [200, 409]],
      ['POST', '/v1/apps', app, [200, 409]],
      ['PUT', '/v1/variables/SAME', { value: 'x' }, [200]],
      ['PUT', `/v1/workflows/${workflow}/test_events/same`, { event: {} }, [200]],
      ['PUT', `/v1/workflows/${workflow}`, { active: true }, [200, 409]],
      ['PUT', `/v1/sources/${emitter_id}`, { name: 'Other' }, [200, 409]],
      ['DELETE', `/v1/webhooks/${listener_id}`, undefined, [204, 404]],
      ['DELETE', `/v1/sources/${emitter_id}`, undefined, [204, 404, 409]],
      ['DELETE', `/v1/workflows/${workflow}`, undefined, [204, 404, 409]],
    ] as const) {
      const answers = await all(method, path, body);
      const wrong = answers.filter(({ status }) => !(allowed as readonly number[]).includes(status));
      const done = answers.filter(({ status }) => status < 300);
      const ids = new Set(done.flatMap(({ body }) => body?.data?.id ?? []));
      // What else is created has a name that others may have too.
      const isOnce = !/subscriptions$|data_stores$|apps$/.test(path) || ids.size === 1;
      if (wrong.length > 0 || done.length === 0 || !isOnce)
        problems.push(
          `${method} ${path}: ${counts(answers)}, ${ids.size} made ${JSON.stringify(wrong[0]?.body)}`,
        );
    }
    assert.deepEqual(problems, []);
  });
});
