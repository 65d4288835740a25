import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createEmittingSource } from '../support/emitting-source.ts';
import { forEachSharedService, type ServiceClient } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

const greet = `
export default defineComponent({
  props: { name: { type: 'string' }, times: { type: 'integer', optional: true } },
  async run({ steps, $ }) { return { greeting: 'hello ' + this.name }; },
});`;

const nothing = 'export default defineComponent({ async run({ steps, $ }) { return 1; } });';

const action = (key: string, version = '0.0.1', props = "word: { type: 'string' }") => `
export default { type: 'action', key: '${key}', name: 'Say', description: 'Says a word', version: '${version}',
  props: { ${props} }, async run({ steps, $ }) { return this.word; } };`;

const source = `
export default { name: 'Ticker', version: '0.0.1',
  props: { http: '$.interface.http', mood: { type: 'string', optional: true } }, run(event) { this.$emit(event); } };`;

/** What is refused, in the words of the answer. */
async function refusal(service: ServiceClient, body: unknown, path = '/v1/workflows', method = 'POST') {
  const count = async () =>
    (await service.api('GET', '/v1/users/me/workflows')).body.page_info.total_count as number;
  const before = await count();
  const answer = await service.api(method, path, body);
  assert.ok(answer.status >= 400, `refused: ${JSON.stringify(answer.body)}`);
  assert.equal(await count(), before, 'nothing was made');
  assert.match(answer.body.error, /\w/);
  return [answer.status, answer.body.code, answer.body.details.parameter];
}

const step = (more: object = {}) => ({ namespace: 'greet', code: greet, props: { name: 'you' }, ...more });

forEachSharedService((fixture) => {
  test('steps that call a workflow which is not there, or inactive, are warnings until it can run', async () => {
    const { service } = fixture;
    const call = (namespace: string, workflow: string) => ({ namespace, block: 'call', workflow });
    const trigger = (namespace: string, id: string, more: object = {}) => ({
      namespace,
      code: `export default defineComponent({ async run({ $ }) { return $.flow.trigger('${id}', {}); } });`,
      ...more,
    });
    const idle = await service.createWorkflow({
      steps: [trigger('one', 'p_none')],
      settings: { name: 'Idle', auto_deploy: false },
    });
    const other = (await service.api('POST', '/v1/workspaces', { name: 'Elsewhere' })).body.data.id;
    const foreign = await service.createWorkflow({
      org_id: other,
      steps: [{ namespace: 'one', code: nothing }],
    });
    const caller = await service.createWorkflow({
      steps: [
        call('missing', 'p_none'),
        call('idle', idle.id),
        call('computed', '{{steps.trigger.event.id}}'),
        trigger('in_code', 'p_none'),
        trigger('off', 'p_none', { disabled: true }),
        call('foreign', foreign.id),
      ],
    });
    const missing = (step: string, id: string) =>
      `steps.${step} calls the workflow "${id}", which does not exist among your own`;
    const lasting = [
      missing('missing', 'p_none'),
      missing('in_code', 'p_none'),
      missing('foreign', foreign.id),
    ];
    const shown = async (): Promise<string[]> =>
      (await service.api('GET', `/v1/workflows/${caller.id}`)).body.data.warnings;
    const inactive = `steps.idle calls the workflow "${idle.id}", which is inactive`;
    assert.deepEqual(
      caller.warnings.toSorted(),
      [...lasting, inactive].toSorted(),
      'in the answer of the deployment',
    );
    assert.deepEqual((await shown()).toSorted(), [...lasting, inactive].toSorted());
    const { body: list } = await service.api('GET', '/v1/users/me/workflows?q=Idle');
    assert.deepEqual(list.data[0].warnings, [missing('one', 'p_none')]);
    await service.api('PUT', `/v1/workflows/${idle.id}`, { active: true });
    assert.deepEqual((await shown()).toSorted(), lasting.toSorted(), 'it is computed again');
    await service.api('DELETE', `/v1/workflows/${idle.id}`);
    assert.deepEqual((await shown()).toSorted(), [...lasting, missing('idle', idle.id)].toSorted());
  });

  test('code that names more workflows than a statement can ask for has its first 100 warnings', async () => {
    const { service } = fixture;
    const calls = Array.from({ length: 70_000 }, (_, n) => `$.flow.trigger('p_${n}');`).join('');
    const code = `export default { run({ $ }) { if (!$) { ${calls} } } };`;
    const { id, warnings } = await service.createWorkflow({ steps: [{ namespace: 'many', code }] });
    assert.equal(warnings.length, 100);
    for (const path of [`/v1/workflows/${id}`, '/v1/users/me/workflows?limit=100'])
      assert.equal((await service.api('GET', path)).status, 200);
    await service.api('DELETE', `/v1/workflows/${id}`);
  });

  test('lists of workflows are searched by name or id, and show the newest run of each', async () => {
    const { service } = fixture;
    const step = { namespace: 'one', code: nothing };
    const idle = await service.createWorkflow({ steps: [step], settings: { name: 'Idle 100%_done' } });
    const busy = await service.createWorkflow({
      steps: [step],
      triggers: [{ type: 'http' }],
      settings: { name: 'Busy' },
    });
    const found = async (q: string) => {
      const { status, body } = await service.api(
        'GET',
        `/v1/users/me/workflows?include=id,last_run&limit=100&q=${encodeURIComponent(q)}`,
      );
      assert.equal(status, 200);
      assert.equal(body.page_info.total_count, body.data.length);
      return body.data;
    };
    assert.deepEqual(await found('100%_DONE'), [{ id: idle.id, last_run: null }]);
    assert.deepEqual(await found('idle_100'), [], 'signs of patterns are letters');
    await fetch(busy.triggers[0].endpoint_url, { method: 'POST' });
    const first = await service.runInState(busy.id, 'succeeded');
    const { body } = await service.api('POST', `/v1/runs/${first.id}/replay`);
    const last = await waitFor(
      async () => {
        const run = await service.runDetail(body.data.id);
        return run.state === 'succeeded' && run;
      },
      { what: 'the second run' },
    );
    const { id, state, created_at } = last;
    assert.deepEqual(await found(busy.id.toLowerCase()), [
      { id: busy.id, last_run: { id, state, created_at } },
    ]);
  });

  test('a workflow is answered with every field that the specification lists for its steps', async () => {
    const { service } = fixture;
    const props = { name: '{{steps.trigger.event.body.name}}', times: '{{1 + 1}}' };
    const workflow = await service.createWorkflow({
      steps: [step({ props })],
      settings: { name: 'Greeter' },
    });
    assert.match(workflow.id, /^p_[0-9A-Za-z]{12}$/);
    assert.deepEqual([workflow.name, workflow.active, workflow.triggers], ['Greeter', true, []]);
    const [made] = workflow.steps;
    assert.match(made.id, /^c_/);
    assert.match(made.lang, /^nodejs\d+\.x$/);
    assert.match(made.savedComponent.codeHash, /^[0-9a-f]{64}$/);
    assert.deepEqual(made, {
      id: made.id,
      type: 'CodeCell',
      namespace: 'greet',
      disabled: false,
      note: null,
      code_raw: greet,
      codeRaw: greet,
      codeConfigJson: null,
      lang: made.lang,
      text_raw: null,
      appConnections: [],
      flat_params_visibility_json: null,
      params_json: '{}',
      component: true,
      savedComponent: {
        id: made.savedComponent.id,
        code: greet,
        codeHash: made.savedComponent.codeHash,
        configurableProps: [
          { name: 'name', type: 'string' },
          { name: 'times', type: 'integer', optional: true },
        ],
        key: null,
        description: null,
        entryPath: null,
        version: '',
        apps: [],
      },
      component_key: null,
      component_owner_id: workflow.owner_id,
      configured_props_json: JSON.stringify(props),
      authProvisionIdMap: {},
      authProvisionIds: [],
      block: null,
      timeout_seconds: null,
      retries: null,
    });
    const read = await service.api('GET', `/v1/workflows/${workflow.id}`);
    assert.deepEqual([read.status, read.body], [200, { data: workflow }]);
  });

  test('triggers of every kind are answered with their fields', async () => {
    const { service } = fixture;
    const watched = await service.createSource({ component_code: source });
    const workflow = await service.createWorkflow({
      steps: [],
      triggers: [
        { type: 'http', props: { custom_response: true } },
        { type: 'timer', props: { interval_seconds: 900 } },
        { type: 'timer', props: { cron: '0 9 * * 1-5', timezone: 'Europe/Berlin' } },
        { type: 'email' },
        { type: 'source', props: { source_id: watched.id } },
        { type: 'source', props: { code: source, configured_props: { mood: 'good' }, name: 'With it' } },
      ],
    });
    const [http, interval, cron, email, existing, created] = workflow.triggers;
    const times = { created_at: http.created_at, updated_at: http.updated_at };
    assert.ok(Number.isInteger(times.created_at));
    assert.match(http.id, /^hi_/);
    assert.match(http.key, /^eo[0-9a-z]{13}$/);
    assert.deepEqual(http, {
      type: 'http',
      id: http.id,
      key: http.key,
      endpoint_url: `${service.url}/in/${http.key}`,
      custom_response: true,
      auth: { type: 'none' },
      ...times,
    });
    assert.match(interval.id, /^ti_/);
    assert.deepEqual(interval, {
      type: 'timer',
      id: interval.id,
      interval_seconds: 900,
      cron: null,
      timezone: 'UTC',
      schedule_changed_at: interval.schedule_changed_at,
      ...times,
    });
    assert.deepEqual(
      [cron.interval_seconds, cron.cron, cron.timezone],
      [null, '0 9 * * 1-5', 'Europe/Berlin'],
    );
    assert.match(email.id, /^ei_/);
    assert.match(email.email_address, /^em[0-9a-z]{13}@/);
    assert.deepEqual(Object.keys(email).sort(), [
      ...['created_at', 'email_address', 'id', 'type', 'updated_at', 'warning'],
    ]);
    // The service of these tests has no port for mail.
    assert.match(email.warning, /no mail can arrive: .* MILLRACE_SMTP_PORT opens a port/);
    assert.equal(workflow.health.reason, email.warning);
    assert.deepEqual(existing, { type: 'source', ...watched });
    assert.equal(existing.owner_id, workflow.owner_id);
    assert.deepEqual(
      [created.name, created.configured_props.mood, created.active],
      ['With it', 'good', true],
    );
    assert.match(created.configured_props.http.endpoint_url, /\/in\//);
  });

  test('a source that triggers a workflow is subscribed to, and no longer when it is deleted', async () => {
    const { service } = fixture;
    const watched = await service.createSource({ component_code: source });
    const workflow = await service.createWorkflow({
      steps: [{ namespace: 'one', code: nothing }],
      triggers: [{ type: 'source', props: { source_id: watched.id } }],
    });
    const subscriptions = async () =>
      (await service.api('GET', '/v1/users/me/subscriptions')).body.data.filter(
        (one: { listener_id: string }) => one.listener_id === workflow.id,
      );
    assert.deepEqual(
      (await subscriptions()).map((one: Record<string, unknown>) => [one.emitter_id, one.event_name]),
      [[watched.id, '']],
    );
    await fetch(watched.configured_props.http.endpoint_url, { method: 'POST', body: '{"n":1}' });
    const run = await service.runInState(workflow.id, 'succeeded');
    assert.equal(run.workflow_id, workflow.id);
    assert.equal((await service.api('DELETE', `/v1/workflows/${workflow.id}`)).status, 204);
    assert.deepEqual(await subscriptions(), []);
    assert.equal((await service.api('GET', `/v1/sources/${watched.id}`)).status, 200, 'it was there before');
  });

  test('a source of a member’s own triggers a workflow of the workspace, until the member leaves', async () => {
    const { service } = fixture;
    const sam = await service.createUser('sam');
    const org = (await service.api('POST', '/v1/workspaces', { name: 'Team' })).body.data.id;
    const join = (role: string) =>
      service.api('POST', `/v1/workspaces/${org}/members`, { user_id: sam.id, role });
    const emitting = await createEmittingSource(service, { key: sam.key });
    const mine = { type: 'source', props: { source_id: emitting.id } };
    const make = (triggers: object[], more: object = {}, key = sam.key) =>
      service.api(
        'POST',
        '/v1/workflows',
        { triggers, steps: [{ namespace: 'one', code: nothing }], settings: { auto_deploy: true }, ...more },
        { key },
      );
    await join('member');
    const { status, body } = await make([mine], { org_id: org });
    assert.equal(status, 200, JSON.stringify(body));
    const workflow = body.data;
    const [trigger] = workflow.triggers;
    assert.deepEqual([trigger.id, trigger.owner_id, trigger.configured_props], [emitting.id, sam.id, {}]);
    await emitting.emit([{ n: 1 }]);
    const run = await service.runInState(workflow.id, 'succeeded');
    assert.deepEqual([run.event, run.emitter_id], [{ n: 1 }, emitting.id]);

    // Others deploy it again with the trigger that is there, and cannot take the source for another workflow.
    const deployed = await service.api('POST', `/v1/workflows/${workflow.id}/deployments`, {
      triggers: [{ type: 'http' }, mine],
    });
    assert.equal(deployed.status, 200, JSON.stringify(deployed.body));
    const refused = await make([mine], { org_id: org }, service.key);
    assert.deepEqual(
      [refused.status, refused.body.error],
      [400, `triggers[0].props.source_id: there is no source "${emitting.id}"`],
    );

    // The other way round; a viewer may change one end only.
    const shared = await createEmittingSource(service, { workspace: org });
    const theirs = { type: 'source', props: { source_id: shared.id } };
    await join('viewer');
    const looked = await make([theirs]);
    assert.deepEqual(
      [looked.status, looked.body.code, looked.body.details.parameter],
      [403, 'forbidden', 'triggers[0].props.source_id'],
    );
    await join('member');
    const own = (await make([theirs])).body.data;
    assert.deepEqual(
      own.triggers.map(({ id }: { id: string }) => id),
      [shared.id],
    );

    assert.equal((await service.api('DELETE', `/v1/workspaces/${org}/members/${sam.id}`)).status, 204);
    const after = (await service.api('GET', `/v1/workflows/${workflow.id}`)).body.data;
    assert.deepEqual(
      after.triggers.map(({ type }: { type: string }) => type),
      ['http'],
    );
    const { body: left } = await service.api('GET', `/v1/workflows/${own.id}`, undefined, { key: sam.key });
    assert.deepEqual(left.data.triggers, []);
    const { body: subscriptions } = await service.api('GET', `/v1/workspaces/${org}/subscriptions`);
    assert.deepEqual(subscriptions.data, []);
    assert.equal((await make([theirs])).status, 400);
  });

  test('without auto_deploy a workflow is inactive, and so is its endpoint until it is activated', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      steps: [{ namespace: 'one', code: nothing }],
      triggers: [{ type: 'http' }, { type: 'timer', props: { interval_seconds: 3600 } }],
      settings: { auto_deploy: false },
    });
    assert.equal(workflow.active, false);
    assert.match(workflow.deployment_id, /^d_/);
    const url = workflow.triggers[0].endpoint_url;
    assert.equal((await fetch(url)).status, 404);
    const on = await service.api('PUT', `/v1/workflows/${workflow.id}`, { active: true });
    assert.deepEqual([on.status, on.body.data.active, on.body.data.id], [200, true, workflow.id]);
    await waitFor(async () => (await service.runs(workflow.id)).length === 1, { what: 'the first tick' });
    assert.equal((await fetch(url)).status, 200);
    const off = await service.api('PUT', `/v1/workflows/${workflow.id}`, { active: false, name: 'Resting' });
    assert.deepEqual([off.body.data.active, off.body.data.name], [false, 'Resting']);
    assert.equal((await fetch(url)).status, 404);
    assert.deepEqual(await refusal(service, {}, `/v1/workflows/${workflow.id}`, 'PUT'), [
      400,
      'missing_parameter',
      'active',
    ]);
  });

  test('namespaces are there, once, and of letters, digits and underscores', async () => {
    const { service } = fixture;
    const at = (parameter: string, code = 'invalid_parameter') => [400, code, parameter];
    const wrong = [
      [[step({ namespace: undefined })], at('steps[0].namespace', 'missing_parameter')],
      [[step({ namespace: 'a b' })], at('steps[0].namespace')],
      [[step(), step({ namespace: '1st' })], at('steps[1].namespace')],
      [[step({ namespace: 'trigger' })], at('steps[0].namespace')],
      [[step(), step()], at('steps[1].namespace')],
      [[step({ prop: {} })], at('steps[0].prop', 'unknown_parameter')],
      [[{ namespace: 'a' }], at('steps[0].code', 'missing_parameter')],
      [[step({ component: 'x' })], at('steps[0].component')],
      [[step({ props: 'x' })], at('steps[0].props')],
      [[step({ code: 'a\u0000b' })], at('steps[0].code')],
      ['x', at('steps')],
      [Array.from({ length: 501 }, (_, n) => step({ namespace: `s${n}` })), at('steps')],
    ] as const;
    for (const [steps, expected] of wrong)
      assert.deepEqual(await refusal(service, { steps }), expected, JSON.stringify(steps).slice(0, 200));
  });

  test('code that does not parse is refused with the line, and what has nothing to run too', async () => {
    const { service } = fixture;
    const code = 'export default defineComponent({\n  run() { return 1 +; },\n});';
    const answer = await service.api('POST', '/v1/workflows', {
      steps: [step(), { namespace: 'bad', code }],
    });
    assert.deepEqual([answer.status, answer.body.code], [400, 'invalid_component_code']);
    assert.deepEqual(
      [answer.body.details.parameter, answer.body.details.namespace],
      ['steps[1].code', 'bad'],
    );
    assert.match(answer.body.error, /^steps\[1\]\.code: .*:?2/);
    const foreign = async (given: object, path = '/v1/workflows') => {
      const { status, body } = await service.api('POST', path, {
        steps: [{ namespace: 'moved', ...given }],
      });
      assert.equal(status, 400, JSON.stringify(body));
      return body.error as string;
    };
    const python = { code: 'import requests\n\ndef handler(pd: "pipedream"):\n    return 1\n' };
    assert.match(
      await foreign({ ...python, runtime: 'python3.12' }),
      /^steps\[0\]\.runtime: this is a Python step/,
    );
    for (const path of ['/v1/workflows', '/v1/templates'])
      assert.match(await foreign(python, path), /^steps\[0\]\.code: this is a Python step, and steps are/);
    for (const code of [
      '$respond({ status: 200 });\nreturn event.body;',
      'async (event, steps) => { return event.body; }',
      'console.log(event.body);',
    ])
      assert.match(await foreign({ code }), /^steps\[0\]\.code: this is a code step of the first generation/);
    assert.match(
      await foreign({ component: 'pipedream/http' }),
      /^steps\[0\]\.component: "pipedream\/http" is a step of the first generation/,
    );
    const wrong = [
      [{ code: "export default { type: 'app', app: 'x' };" }, 'invalid_component', 'code'],
      [{ code: 'export default { props: {} };' }, 'invalid_component', 'code'],
      [{ code: source }, 'invalid_component', 'code'],
      [{ code: 'throw new Error("no");' }, 'invalid_component', 'code'],
      [{ component: 'http-new-requests' }, 'invalid_component', 'component'],
    ] as const;
    for (const [given, code, field] of wrong)
      assert.deepEqual(await refusal(service, { steps: [{ namespace: 'a', ...given }] }), [
        400,
        code,
        `steps[0].${field}`,
      ]);
  });

  test('an action is found by key, by key and version, or by id; unknown ones are named', async () => {
    const { service } = fixture;
    const saved = (await service.api('POST', '/v1/components', { component_code: action('say-word') })).body
      .data;
    await service.api('POST', '/v1/components', { component_code: action('say-word', '0.0.2') });
    const names = { first: 'say-word', second: 'say-word@0.0.1', third: saved.id };
    const workflow = await service.createWorkflow({
      steps: Object.entries(names).map(([namespace, component]) => ({
        namespace,
        component,
        props: { word: 'x' },
      })),
    });
    const told = workflow.steps.map(
      (one: { component_key: unknown; code_raw: unknown; savedComponent: Record<string, unknown> }) => [
        one.component_key,
        one.code_raw,
        one.savedComponent.key,
        one.savedComponent.version,
        one.savedComponent.description,
      ],
    );
    assert.deepEqual(told, [
      ['say-word', null, 'say-word', '0.0.2', 'Says a word'],
      ['say-word', null, 'say-word', '0.0.1', 'Says a word'],
      [null, null, 'say-word', '0.0.1', 'Says a word'],
    ]);
    for (const component of ['say-nothing', 'say-word@9.9.9', 'sc_unknown', 'http-new-requests@77'])
      assert.deepEqual(await refusal(service, { steps: [{ namespace: 'a', component }] }), [
        400,
        'invalid_parameter',
        'steps[0].component',
      ]);
  });

  test('props are checked, and any of them may be an expression', async () => {
    const { service } = fixture;
    const props = `s: { type: 'string' }, n: { type: 'integer' }, b: { type: 'boolean' }, list: { type: 'string[]' },
      numbers: { type: 'integer[]' }, o: { type: 'object' }`;
    const code = `export default { props: { ${props} }, run() {} };`;
    const good = {
      s: 'a {{1}} b',
      n: '{{ 1 }}',
      b: '{{true}}',
      list: '{{[]}}',
      numbers: [1, '{{2}}'],
      o: { a: '{{3}}' },
    };
    const workflow = await service.createWorkflow({ steps: [{ namespace: 'a', code, props: good }] });
    assert.deepEqual(JSON.parse(workflow.steps[0].configured_props_json), good);
    const wrong = { s: 5, n: 'one', b: 'is {{true}}', list: 'x', numbers: ['two'], o: 4 };
    for (const [name, value] of Object.entries(wrong)) {
      const given = { steps: [{ namespace: 'a', code, props: { ...good, [name]: value } }] };
      const [status, , parameter] = await refusal(service, given);
      assert.deepEqual([status, String(parameter).replaceAll('[0]', '')], [400, `steps.props.${name}`]);
    }
    const { s: _s, ...missing } = good;
    const given = { steps: [step(), { namespace: 'a', code, props: missing }] };
    assert.deepEqual(await refusal(service, given), [400, 'invalid_prop', 'steps[1].props.s']);
    const withStore = "export default { props: { d: { type: 'data_store' } }, run() {} };";
    const noStore = { steps: [step(), { namespace: 'a', code: withStore, props: { d: 'ds_nowhere' } }] };
    assert.deepEqual(await refusal(service, noStore), [400, 'invalid_prop', 'steps[1].props.d']);
    const unknown = { steps: [step({ props: { name: 'x', nick: 'y' } })] };
    assert.deepEqual(await refusal(service, unknown), [400, 'invalid_prop', 'steps[0].props.nick']);
  });

  test('triggers are of a known type with a schedule that can be kept', async () => {
    const { service } = fixture;
    const other = await service.createUser('owner');
    const foreign = await service.api('POST', '/v1/sources', { component_code: source }, { key: other.key });
    assert.equal(foreign.status, 200);
    const wrong = [
      [{}, 400, 'missing_parameter', 'type'],
      [{ type: 'cron' }, 400, 'invalid_parameter', 'type'],
      [{ type: 'http', props: { reply: true } }, 400, 'unknown_parameter', 'props.reply'],
      [
        { type: 'http', props: { custom_response: 'yes' } },
        400,
        'invalid_parameter',
        'props.custom_response',
      ],
      [{ type: 'http', props: { auth: { type: 'basic' } } }, 400, 'invalid_parameter', 'props.auth'],
      // A workflow of a user: only workspaces have OAuth clients.
      [{ type: 'http', props: { auth: { type: 'oauth' } } }, 400, 'invalid_parameter', 'props.auth.type'],
      [
        { type: 'http', props: { auth: { type: 'static_bearer_token', token: 'a b' } } },
        400,
        'invalid_parameter',
        'props.auth.token',
      ],
      [
        { type: 'http', props: { auth: { type: 'static_bearer_token' } } },
        400,
        'missing_parameter',
        'props.auth.token',
      ],
      [{ type: 'timer' }, 400, 'missing_parameter', 'props.interval_seconds'],
      [{ type: 'timer', props: { interval_seconds: 5 } }, 400, 'invalid_schedule', 'props.interval_seconds'],
      [{ type: 'timer', props: { cron: 'whenever' } }, 400, 'invalid_schedule', 'props.cron'],
      [{ type: 'timer', props: { cron: '0 0 30 2 *' } }, 400, 'invalid_schedule', 'props.cron'],
      [
        { type: 'timer', props: { cron: '0 9 * * *', timezone: 'Mars/Base' } },
        400,
        'invalid_schedule',
        'props.timezone',
      ],
      [{ type: 'source', props: {} }, 400, 'missing_parameter', 'props.source_id'],
      [{ type: 'source', props: { source_id: 'dc_unknown' } }, 400, 'invalid_parameter', 'props.source_id'],
      [
        { type: 'source', props: { source_id: foreign.body.data.id } },
        400,
        'invalid_parameter',
        'props.source_id',
      ],
      [{ type: 'source', props: { code: nothing.slice(5) } }, 400, 'invalid_component_code', 'props.code'],
      [{ type: 'source', props: { component: 'no-such' } }, 400, 'invalid_parameter', 'props.component'],
      [
        { type: 'source', props: { code: source, configured_props: { nope: 1 } } },
        400,
        'invalid_prop',
        'props.configured_props.nope',
      ],
    ] as const;
    for (const [trigger, status, code, field] of wrong)
      assert.deepEqual(await refusal(service, { steps: [], triggers: [{ type: 'http' }, trigger] }), [
        status,
        code,
        `triggers[1].${field}`,
      ]);
    const many = { steps: [], triggers: Array.from({ length: 11 }, () => ({ type: 'http' })) };
    assert.deepEqual(await refusal(service, many), [400, 'invalid_parameter', 'triggers']);
  });

  test('settings outside of their ranges are refused, and what is set is answered', async () => {
    const { service } = fixture;
    const wrong = {
      timeout_seconds: 751,
      memory_mb: 127,
      auto_retry: 'yes',
      concurrency: 0,
      queue_size: 10_001,
      name: '',
      speed: 1,
    };
    for (const [name, value] of Object.entries(wrong)) {
      const [status, , parameter] = await refusal(service, { steps: [], settings: { [name]: value } });
      assert.deepEqual([status, parameter], [400, `settings.${name}`]);
    }
    const unknown = await service.api('POST', '/v1/workflows', { settings: { speed: 1 } });
    assert.deepEqual(
      [unknown.body.code, unknown.body.error],
      ['unknown_parameter', 'settings.speed: there is no such field'],
    );
    const half = await service.api('POST', '/v1/workflows', { settings: { throttle: { limit: 1 } } });
    assert.equal(half.body.error, 'settings.throttle.seconds: required');
    const given = await service.api('POST', '/v1/workflows', {
      triggers: [{ type: 'email', props: { to: 'x' } }],
    });
    assert.equal(given.body.error, 'triggers[0].props.to: there is no such field; there is none');
    const settings = {
      timeout_seconds: 750,
      memory_mb: 512,
      auto_retry: true,
      concurrency: 1,
      throttle: { limit: 10, seconds: 60 },
      queue_size: 10_000,
      isolated: true,
      flow_control: null,
    };
    assert.deepEqual((await service.createWorkflow({ steps: [], settings })).settings, settings);
  });

  test('accounts are given by authProvisionId; unknown ones and those of others are not there', async () => {
    const { service } = fixture;
    const other = await service.createUser('holder');
    const account = async (key?: string) => {
      const body = { app: 'gitlab', name: 'mine', credentials: { token: 'glpat-very-secret-token' } };
      const made = await service.api('POST', '/v1/accounts', body, key === undefined ? {} : { key });
      assert.equal(made.status, 200, JSON.stringify(made.body));
      return made.body.data.id as string;
    };
    const code = `const gitlab = { type: 'app', app: 'gitlab' };
      export default { props: { gitlab }, run() { return Object.keys(this.gitlab.$auth); } };`;
    const mine = await account();
    const using = (id: string) => ({
      steps: [{ namespace: 'a', code, props: { gitlab: { authProvisionId: id } } }],
    });
    const [made] = (await service.createWorkflow(using(mine))).steps;
    assert.deepEqual(made.authProvisionIdMap, { gitlab: mine });
    assert.deepEqual(made.authProvisionIds, [mine]);
    const [app] = made.savedComponent.apps;
    assert.deepEqual([app.nameSlug, app.authType], ['gitlab', 'keys']);
    assert.match(app.appId, /^app_/);
    for (const id of ['apn_unknown', await account(other.key), 'a\u0000b'])
      assert.deepEqual(await refusal(service, using(id)), [
        400,
        'invalid_parameter',
        'steps[0].props.gitlab',
      ]);
  });

  test('secret props are masked, and stay when they are sent back masked', async () => {
    const { service } = fixture;
    const code = `export default { props: { pin: { type: 'string', secret: true }, name: { type: 'string' } },
      run() { return this.pin.length; } };`;
    const steps = [{ namespace: 'a', code, props: { pin: 'open sesame please', name: 'Ali' } }];
    const workflow = await service.createWorkflow({ steps, triggers: [{ type: 'http' }] });
    assert.doesNotMatch(JSON.stringify(workflow), /sesame/);
    const shown = JSON.parse(workflow.steps[0].configured_props_json);
    assert.deepEqual(shown, { name: 'Ali', pin: '••••••••' });
    const again = await service.api('POST', `/v1/workflows/${workflow.id}/deployments`, {
      steps: [{ namespace: 'a', code, props: { ...shown, name: 'Baba' } }],
    });
    assert.equal(again.status, 200, JSON.stringify(again.body));
    await fetch(workflow.triggers[0].endpoint_url);
    const run = await service.runInState(workflow.id, 'succeeded');
    assert.equal(run.steps[0].exports.$return_value, 'open sesame please'.length);
    assert.deepEqual(await refusal(service, { steps: [{ namespace: 'a', code, props: shown }] }), [
      400,
      'invalid_prop',
      'steps[0].props.pin',
    ]);
  });

  test('additionalProps of a step have their say when the workflow is made', async () => {
    const { service } = fixture;
    const code = `export default { props: { kind: { type: 'string', reloadProps: true } },
      async additionalProps() {
        if (this.kind === 'bad') throw new Error('no such kind');
        return { ['of_' + this.kind]: { type: 'string' } };
      },
      run() { return this.of_tree; } };`;
    const of = (props: object) => ({ steps: [{ namespace: 'a', code, props }] });
    const workflow = await service.createWorkflow(of({ kind: 'tree', of_tree: 'oak' }));
    assert.deepEqual(
      workflow.steps[0].savedComponent.configurableProps.map((prop: { name: string }) => prop.name),
      ['kind', 'of_tree'],
    );
    assert.deepEqual(await refusal(service, of({ kind: 'tree' })), [
      400,
      'invalid_prop',
      'steps[0].props.of_tree',
    ]);
    const failed = await service.api('POST', '/v1/workflows', of({ kind: 'bad' }));
    assert.deepEqual([failed.status, failed.body.code], [400, 'hook_failed']);
    assert.match(failed.body.error, /^steps\[0\].*no such kind/);
  });

  test('a workflow that cannot be made takes the sources with it that were made for it', async () => {
    const { service } = fixture;
    const failing = "export default { hooks: { deploy() { throw new Error('no'); } }, run() {} };";
    const sources = async () => (await service.api('GET', '/v1/users/me/sources')).body.page_info.total_count;
    const before = await sources();
    const body = {
      steps: [],
      triggers: [
        { type: 'source', props: { code: source } },
        { type: 'source', props: { code: failing } },
      ],
    };
    assert.deepEqual(await refusal(service, body), [400, 'hook_failed', 'triggers[1].props']);
    assert.equal(await sources(), before);
  });

  test('a source that came with a workflow goes with it', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      steps: [],
      triggers: [{ type: 'source', props: { code: source } }],
    });
    const id = workflow.triggers[0].id;
    assert.equal((await service.api('GET', `/v1/sources/${id}`)).status, 200);
    assert.equal((await service.api('DELETE', `/v1/workflows/${workflow.id}`)).status, 204);
    assert.equal((await service.api('GET', `/v1/sources/${id}`)).status, 404);
  });

  test('a failing deactivate hook keeps the workflow, unless it is to be ignored', async () => {
    const { service } = fixture;
    const code = "export default { hooks: { deactivate() { throw new Error('stay'); } }, run() {} };";
    const workflow = await service.createWorkflow({
      steps: [],
      triggers: [{ type: 'source', props: { code } }],
    });
    const path = `/v1/workflows/${workflow.id}`;
    const refused = await service.api('DELETE', path);
    assert.deepEqual([refused.status, refused.body.code], [400, 'hook_failed']);
    assert.equal((await service.api('GET', path)).body.data.triggers.length, 1);
    assert.equal((await service.api('DELETE', `${path}?ignore_hook_errors=true`)).status, 204);
    assert.equal((await service.api('GET', path)).status, 404);
  });

  test('deleting a workflow removes its endpoint, its versions and its runs', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      steps: [{ namespace: 'one', code: nothing }],
      triggers: [{ type: 'http' }],
    });
    const url = workflow.triggers[0].endpoint_url;
    await fetch(url);
    const run = await service.runInState(workflow.id, 'succeeded');
    const path = `/v1/workflows/${workflow.id}`;
    assert.equal((await service.api('DELETE', path)).status, 204);
    for (const gone of [
      path,
      `${path}/deployments`,
      `/v1/deployments/${workflow.deployment_id}`,
      `${path}/runs`,
    ])
      assert.equal((await service.api('GET', gone)).status, 404, gone);
    assert.equal((await fetch(url)).status, 404);
    await waitFor(async () => (await service.api('GET', `/v1/runs/${run.id}`)).status === 404, {
      what: 'the run to go',
    });
    assert.equal((await service.api('DELETE', path)).status, 404);
  });

  test('each deployment is a version; ids of steps, triggers and addresses stay', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      steps: [step(), { namespace: 'old', code: nothing }],
      triggers: [{ type: 'http' }, { type: 'timer', props: { interval_seconds: 3600 } }, { type: 'email' }],
      settings: { memory_mb: 512 },
    });
    const path = `/v1/workflows/${workflow.id}/deployments`;
    const changed = await service.api('POST', path, {
      steps: [{ namespace: 'fresh', code: nothing }, step({ props: { name: 'me' } })],
      triggers: [{ type: 'http', props: { custom_response: true } }, { id: workflow.triggers[2].id }],
      settings: { timeout_seconds: 100 },
    });
    assert.equal(changed.status, 200, JSON.stringify(changed.body));
    const after = changed.body.data;
    assert.notEqual(after.deployment_id, workflow.deployment_id);
    assert.deepEqual([after.active, after.name], [true, workflow.name]);
    assert.deepEqual([after.settings.memory_mb, after.settings.timeout_seconds], [512, 100]);
    assert.equal(after.steps[1].id, workflow.steps[0].id, 'the same namespace is the same step');
    assert.notEqual(after.steps[0].id, workflow.steps[1].id);
    assert.deepEqual(
      after.triggers.map((one: { id: string }) => one.id),
      [workflow.triggers[0].id, workflow.triggers[2].id],
    );
    assert.equal(after.triggers[0].endpoint_url, workflow.triggers[0].endpoint_url);
    assert.equal(after.triggers[0].custom_response, true);
    assert.equal(after.triggers[1].email_address, workflow.triggers[2].email_address);

    const list = (await service.api('GET', path)).body;
    assert.deepEqual(
      list.data.map((one: { number: number }) => one.number),
      [2, 1],
    );
    assert.equal(list.page_info.total_count, 2);
    const first = (await service.api('GET', `/v1/deployments/${workflow.deployment_id}`)).body.data;
    assert.deepEqual([first.steps, first.settings], [workflow.steps, workflow.settings], 'it never changes');

    const same = (await service.api('POST', path, {})).body.data;
    assert.deepEqual([same.steps, same.triggers], [after.steps, after.triggers], 'what is not given stays');
    assert.deepEqual(await refusal(service, { triggers: [{ id: 'hi_unknown' }] }, path), [
      400,
      'invalid_parameter',
      'triggers[0].id',
    ]);
  });

  test('a bearer token is never shown, and stays when a deployment does not name it', async () => {
    const { service } = fixture;
    const token = 'a-token-nobody-guesses';
    const workflow = await service.createWorkflow({
      steps: [{ namespace: 'one', code: nothing }],
      triggers: [{ type: 'http', props: { auth: { type: 'static_bearer_token', token } } }],
    });
    assert.deepEqual(workflow.triggers[0].auth, { type: 'static_bearer_token' });
    const url = workflow.triggers[0].endpoint_url;
    const ask = async (headers: Record<string, string>) => (await fetch(url, { headers })).status;
    const path = `/v1/workflows/${workflow.id}/deployments`;
    for (const triggers of [
      undefined,
      [{ type: 'http' }],
      [{ type: 'http', props: { auth: workflow.triggers[0].auth } }],
    ]) {
      assert.equal(await ask({}), 401);
      assert.equal(await ask({ authorization: `Bearer ${token}` }), 200);
      assert.equal((await service.api('POST', path, { triggers })).status, 200);
    }
    assert.equal(await ask({}), 401);
    await service.api('POST', path, { triggers: [{ type: 'http', props: { auth: { type: 'none' } } }] });
    assert.equal(await ask({}), 200);
    const withoutToken = { type: 'http', props: { auth: { type: 'static_bearer_token' } } };
    for (const [triggers, at] of [
      [[withoutToken], 'triggers[0].props.auth.token'],
      [[{ type: 'http' }, withoutToken], 'triggers[1].props.auth.token'],
    ] as const) {
      const refused = await service.api('POST', path, { triggers });
      assert.deepEqual([refused.status, refused.body.code], [400, 'missing_parameter']);
      assert.equal(refused.body.details.parameter, at, 'there is no token that could stay');
    }
  });

  test('a timer whose schedule stays keeps its rhythm over a deployment', async () => {
    const { service } = fixture;
    const workflow = await service.createWorkflow({
      steps: [{ namespace: 'one', code: nothing }],
      triggers: [{ type: 'timer', props: { interval_seconds: 3600 } }],
    });
    await waitFor(async () => (await service.runs(workflow.id)).length === 1, { what: 'the first tick' });
    const path = `/v1/workflows/${workflow.id}/deployments`;
    const kept = (await service.api('POST', path, { steps: [step()] })).body.data.triggers[0];
    assert.deepEqual(kept, workflow.triggers[0]);
    const { data } = (
      await service.api('POST', path, { triggers: [{ type: 'timer', props: { interval_seconds: 7200 } }] })
    ).body;
    assert.deepEqual([data.triggers[0].id, data.triggers[0].interval_seconds], [kept.id, 7200]);
    await waitFor(async () => (await service.runs(workflow.id)).length === 2, {
      what: 'the first tick of the other schedule: none was due for the kept one',
    });
  });

  test('a template is made of its content, and holds no account, secret or token', async () => {
    const { service } = fixture;
    const body = { app: 'gitlab', credentials: { token: 'glpat-very-secret-token' } };
    const account = (await service.api('POST', '/v1/accounts', body)).body.data.id;
    const code = `export default { props: { gitlab: { type: 'app', app: 'gitlab' }, pin: { type: 'string', secret: true },
      name: { type: 'string' }, request: { type: 'http_request' } }, run() {} };`;
    const request = { method: 'GET', url: 'https://example.com/' };
    const accept = { name: 'Accept', value: 'text/plain' };
    const credentials = [
      { name: 'Authorization', value: 'Bearer sesame' },
      { key: 'X-Api-Key', value: 'sesame' },
    ];
    const props = {
      gitlab: { authProvisionId: account },
      pin: 'open sesame please',
      name: 'Ali',
      request: {
        ...request,
        headers: [...credentials, accept],
        auth: { type: 'bearer', token: 'sesame' },
      },
    };
    const definition = {
      steps: [{ namespace: 'a', code, props }],
      triggers: [
        { type: 'http', props: { auth: { type: 'static_bearer_token', token: 'a-token-nobody-guesses' } } },
        { type: 'timer', props: { cron: '0 9 * * *', timezone: 'Asia/Tokyo' } },
        { type: 'source', props: { code: source, configured_props: { mood: 'good' } } },
      ],
    };
    const workflow = await service.createWorkflow(definition);
    const make = async (more: object) => {
      const made = await service.api('POST', '/v1/templates', more);
      assert.equal(made.status, 200, JSON.stringify(made.body));
      return made.body.data;
    };
    const ofWorkflow = await make({ workflow_id: workflow.id });
    assert.match(ofWorkflow.id, /^tch_[0-9A-Za-z]{22,}$/);
    assert.doesNotMatch(JSON.stringify(ofWorkflow), /apn_|sesame|nobody-guesses|dc_/);
    const portable = { name: 'Ali', request: { ...request, headers: [accept] } };
    assert.deepEqual(ofWorkflow.steps, [{ namespace: 'a', code, props: portable }]);
    assert.equal((await make(definition)).id, ofWorkflow.id, 'the same content is the same template');
    const strange = { ...request, headers: [accept, { name: { toString: 1, valueOf: 1 }, value: 'x' }] };
    const [step] = definition.steps;
    const unnamed = await make({ steps: [{ ...step, props: { name: 'Ali', request: strange } }] });
    assert.deepEqual(unnamed.steps[0].props, portable, 'a header whose name is no text is left out');
    const bare = await make({ ...definition, include_props: false });
    assert.notEqual(bare.id, ofWorkflow.id);
    assert.deepEqual(bare.steps[0].props, {});
    assert.deepEqual(bare.triggers[1].props, { cron: '0 9 * * *', timezone: 'Asia/Tokyo' });
  });

  test('any user who knows the id of a template may use it; what they give overrides it', async () => {
    const { service } = fixture;
    const other = await service.createUser('user');
    const component = action('say-twice', '0.1.0', "word: { type: 'string' }, more: { type: 'string' }");
    await service.api('POST', '/v1/components', { component_code: component });
    const template = (
      await service.api('POST', '/v1/templates', {
        name: 'Said twice',
        steps: [
          { namespace: 'first', code: greet, props: { name: 'you', times: 2 } },
          { namespace: 'second', component: 'say-twice@0.1.0', props: { word: 'a' } },
        ],
        triggers: [{ type: 'http' }, { type: 'timer', props: { interval_seconds: 900 } }],
        settings: { memory_mb: 512 },
      })
    ).body.data;
    const { key } = other;
    const create = (body: object) =>
      service.api('POST', '/v1/workflows', { template_id: template.id, ...body }, { key });
    assert.equal((await service.api('GET', `/v1/templates/${template.id}`, undefined, { key })).status, 200);
    const made = await create({
      steps: [{ namespace: 'second', props: { more: 'b' } }],
      triggers: [{ props: { custom_response: true } }, { props: { cron: '0 9 * * *' } }, { type: 'email' }],
      settings: { timeout_seconds: 10 },
    });
    assert.equal(made.status, 200, JSON.stringify(made.body));
    const { data } = made.body;
    assert.equal(data.name, 'Said twice');
    assert.deepEqual(
      data.steps.map((one: { configured_props_json: string }) => JSON.parse(one.configured_props_json)),
      [
        { name: 'you', times: 2 },
        { word: 'a', more: 'b' },
      ],
    );
    assert.deepEqual(
      data.triggers.map((one: Record<string, unknown>) => [one.type, one.custom_response, one.cron]),
      [
        ['http', true, undefined],
        ['timer', undefined, '0 9 * * *'],
        ['email', undefined, undefined],
      ],
    );
    assert.deepEqual([data.settings.memory_mb, data.settings.timeout_seconds], [512, 10]);
    const told = async (body: object) => {
      const { status, body: answer } = await create(body);
      return [status, answer.code, answer.details.parameter];
    };
    assert.deepEqual(await told({}), [400, 'invalid_prop', 'steps[1].props.more']);
    assert.deepEqual(await told({ steps: [{ namespace: 'third', props: {} }] }), [
      400,
      'invalid_parameter',
      'steps[0].namespace',
    ]);
    assert.deepEqual(await told({ steps: [{ namespace: 'first', code: nothing }] }), [
      400,
      'invalid_parameter',
      'steps[0].code',
    ]);
    assert.deepEqual(await told({ template_id: 'tch_unknown' }), [400, 'invalid_parameter', 'template_id']);
  });

  test('templates are listed for those who made them, and can be taken off the list', async () => {
    const { service } = fixture;
    const other = await service.createUser('lister');
    const made = await service.api('POST', '/v1/templates', { steps: [step()], name: 'Mine' });
    const { id } = made.body.data;
    const listed = async (key?: string) => {
      const list = await service.api(
        'GET',
        '/v1/templates?limit=100',
        undefined,
        key === undefined ? {} : { key },
      );
      return list.body.data.some((one: { id: string }) => one.id === id);
    };
    assert.deepEqual([await listed(), await listed(other.key)], [true, false]);
    const foreign = await service.api('DELETE', `/v1/templates/${id}`, undefined, { key: other.key });
    assert.equal(foreign.status, 404);
    assert.equal((await service.api('DELETE', `/v1/templates/${id}`)).status, 204);
    assert.equal((await service.api('GET', `/v1/templates/${id}`)).status, 404);
    assert.deepEqual(await refusal(service, {}, '/v1/templates'), [400, 'missing_parameter', 'workflow_id']);
  });

  test('workflows are listed by user, by workspace and by project, page by page', async () => {
    const { service } = fixture;
    const workspace = (await service.api('POST', '/v1/workspaces', { name: 'Team' })).body.data;
    const project = (await service.api('POST', `/v1/workspaces/${workspace.id}/projects`, { name: 'P' })).body
      .data;
    const make = (more: object) => service.createWorkflow({ steps: [], org_id: workspace.id, ...more });
    const ids: string[] = [];
    for (const more of [{}, { project_id: project.id }, { project_id: project.id }]) {
      const workflow = await make(more);
      assert.equal(workflow.owner_id, workspace.id);
      ids.unshift(workflow.id);
    }
    const path = `/v1/workspaces/${workspace.id}/workflows`;
    const page = (await service.api('GET', `${path}?limit=2`)).body;
    assert.deepEqual([page.page_info.total_count, page.page_info.count], [3, 2]);
    const rest = (await service.api('GET', `${path}?limit=2&after=${page.page_info.end_cursor}`)).body;
    const seen = [...page.data, ...rest.data].map((one: { id: string }) => one.id);
    assert.deepEqual(new Set(seen), new Set(ids));
    const ofProject = (await service.api('GET', `/v1/projects/${project.id}/workflows`)).body;
    assert.equal(ofProject.page_info.total_count, 2);
    const mine = (await service.api('GET', '/v1/users/me/workflows?limit=100')).body.data;
    assert.ok(mine.every((one: { id: string }) => !ids.includes(one.id)));
    assert.deepEqual(await refusal(service, { steps: [], project_id: project.id }), [
      400,
      'invalid_parameter',
      'project_id',
    ]);
  });

  test('workflows of others are not there, and a viewer may look but not touch', async () => {
    const { service } = fixture;
    const workspace = (await service.api('POST', '/v1/workspaces', { name: 'Team' })).body.data;
    const viewer = await service.createUser('viewer');
    const stranger = await service.createUser('stranger');
    const member = { user_id: viewer.id, role: 'viewer' };
    assert.equal((await service.api('POST', `/v1/workspaces/${workspace.id}/members`, member)).status, 200);
    const workflow = await service.createWorkflow({ steps: [], org_id: workspace.id });
    const path = `/v1/workflows/${workflow.id}`;
    const calls = [
      ['GET', path, undefined],
      ['GET', `${path}/deployments`, undefined],
      ['GET', `/v1/deployments/${workflow.deployment_id}`, undefined],
      ['PUT', path, { active: false }],
      ['POST', `${path}/deployments`, {}],
      ['DELETE', path, undefined],
    ] as const;
    const statuses = async (key: string) => {
      const found: number[] = [];
      for (const [method, url, body] of calls)
        found.push((await service.api(method, url, body, { key })).status);
      return found;
    };
    assert.deepEqual(await statuses(stranger.key), [404, 404, 404, 404, 404, 404]);
    assert.deepEqual(await statuses(viewer.key), [200, 200, 200, 403, 403, 403]);
    assert.equal((await service.api('GET', path)).body.data.active, true);
  });

  test('an automatic subscription to errors covers workflows made after it', async () => {
    const { service } = fixture;
    const listener = await service.createSource({ component_code: source });
    const auto = { event_name: '$errors', listener_id: listener.id };
    assert.equal((await service.api('POST', '/v1/auto_subscriptions', auto)).status, 200);
    const workflow = await service.createWorkflow({ steps: [] });
    const found = (await service.api('GET', '/v1/users/me/subscriptions')).body.data.filter(
      (one: { emitter_id: string }) => one.emitter_id === workflow.id,
    );
    assert.deepEqual(
      found.map((one: Record<string, unknown>) => [one.listener_id, one.event_name]),
      [[listener.id, '$errors']],
    );
  });
});
