import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ApiAnswer, forEachSharedService, type ServiceClient } from '../support/millrace.ts';
import { waitFor } from '../support/wait-for.ts';

const token = 'canary-prop-0123456789abcdef';

/** What is the same in a source and in an action. */
const props = `acme, base: { type: 'app', app: 'keyless' },
  text: { type: 'string', secret: true }, pick: { propDefinition: [acme, 'room'], type: 'string[]', withLabel: true },
  ids: { type: 'integer[]', min: 1 }, table: '$.airtable.tableId', note: { type: 'alert', alertType: 'info', content: 'Mind' },
  count: { type: 'integer', default: 3, max: 5 }, free: 'any', dir: { type: 'dir', accessMode: 'write', optional: true }, later: { type: 'string', hidden: true },
  oddity: { type: 'string', optional: true, format: 'file-ref', newAttribute: { of: 2 } }, db: '$.service.db',`;
const found = `{ text: this.text.length, pick: this.pick, ids: this.ids, table: this.table, note: 'note' in this, count: this.count, free: this.free,
  app: this.acme.$auth.token?.length ?? 0, none: this.base.$auth, file: await (await this.dir.open('a/b.txt').fromReadableStream(Readable.from(['kept']), 'text/plain', 4)).withoutPutUrl().withGetUrl() }`;
const head = `import { Readable } from 'node:stream';
  const acme = { type: 'app', app: 'acme_props', propDefinitions: { room: { type: 'string', label: 'Room', options: () => ['n'] } } };`;
const source = `${head} export default { name: 'All props', somethingNew: { a: 1 }, props: { ${props} http: '$.interface.http' },
  async run() { this.$emit(${found}); } };`;
const action = `${head} export default { name: 'All props', key: 'acme-all-props', version: '0.0.1', type: 'action', props: { ${props} },
  async run() { return ${found}; } };`;

const given = {
  text: token,
  pick: [{ __lv: { label: 'North', value: 'n' } }, 's'],
  ids: [{ __lv: { label: 'One', value: 1 } }, 2],
  table: { value: 'tbl1' },
  free: { a: [null] },
  later: 'unused',
};
const seen = {
  ...{ text: token.length, count: 3, table: 'tbl1', ids: [1, 2], free: { a: [null] }, note: false, none: {} },
  pick: [
    { label: 'North', value: 'n' },
    { label: 's', value: 's' },
  ],
};

/** `kind` decides what `value` and `extra` are. */
const changing = (type: string, more: string) => `export default { name: 'Changing', type: '${type}',
  props: { kind: { type: 'string', reloadProps: true }, value: { type: 'string', optional: true }, needed: { type: 'string' }, ${more} },
  async additionalProps(previous) {
    if (this.kind === 'strict') return { extra: { type: 'string', label: this.needed.toUpperCase() } };
    if (this.kind === 'list') { previous.value.type = 'string[]'; delete previous.value.optional; previous.needed.optional = true; }
    return {
      extra: { type: this.kind === 'list' ? 'integer' : 'string', options: async ({ page }) => [this.kind + page] },
      warning: { type: 'alert', content: 'Mind' }, on: 'boolean', row: { type: 'object', optional: true },
    };
  },
  run() { const found = [this.value ?? null, this.extra, this.on, 'warning' in this]; ${type === 'source' ? 'this.$emit(found)' : 'return found'}; } };`;

async function done(answer: Promise<ApiAnswer>) {
  const { status, body } = await answer;
  assert.equal(status, 200, JSON.stringify(body));
  return body;
}

/** What a source emitted last, for one more request; `count` are its events then. */
async function emitted(
  service: ServiceClient,
  made: { id: string; configured_props: Record<string, { endpoint_url: string }> },
  count = 1,
) {
  const { pathname } = new URL(made.configured_props.http?.endpoint_url ?? '');
  assert.equal((await fetch(service.url + pathname, { method: 'POST', body: '{}' })).status, 200);
  const [last] = await waitFor(
    async () => {
      const events = await service.events(made.id);
      return events.length >= count && events;
    },
    { what: 'an event' },
  ).catch(async () => assert.fail(JSON.stringify(await service.events(made.id, '&event_name=$errors'))));
  return last.event;
}

forEachSharedService((fixture) => {
  const workflowWith = (component: string, values: object) => ({
    settings: { name: 'under test', auto_deploy: true },
    triggers: [{ type: 'http' }],
    steps: [{ namespace: 'do', component, props: values }],
  });
  const saved = async (code: string): Promise<string> =>
    (await done(fixture.service.api('POST', '/v1/components', { component_code: code }))).data.id;
  /** How many things of each kind there are. */
  const counts = async () => {
    const { service } = fixture;
    const lists = ['/v1/users/me/sources/?limit=100', '/v1/users/me/workflows?limit=100'];
    const pages = await Promise.all(lists.map((path) => done(service.api('GET', path))));
    return pages.map(({ data }) => data.length);
  };

  test('a value of every type reaches a source, an action and a step, and secrets are masked in what is returned', async () => {
    const { service } = fixture;
    const account = await done(
      service.api('POST', '/v1/accounts', { app: 'acme_props', credentials: { token } }),
    );
    const configured_props = { ...given, acme: { authProvisionId: account.data.id } };
    const check = async (answer: { file: { path: string; get_url: string }; app: number }) => {
      const { file, app, ...rest } = answer;
      assert.deepEqual(rest, seen);
      assert.equal(app, token.length);
      assert.deepEqual(Object.keys(file).sort(), ['get_url', 'name', 'path']);
      const { pathname, search } = new URL(file.get_url);
      assert.equal(await (await fetch(service.url + pathname + search)).text(), 'kept');
    };
    const made = await service.createSource({ component_code: source, configured_props });
    assert.match(made.configured_props.text, /^•+$/);
    assert.deepEqual(made.configured_props.pick, [{ label: 'North', value: 'n' }, 's']);
    assert.ok(!('note' in made.configured_props));
    await check(await emitted(service, made));

    const id = await saved(action);
    const { data: component } = await done(service.api('GET', `/v1/components/${id}`));
    const definitionOf = (name: string) =>
      component.configurable_props.find((one: { name: string }) => one.name === name);
    assert.deepEqual(definitionOf('oddity').newAttribute, { of: 2 });
    assert.deepEqual(definitionOf('pick'), {
      ...{ name: 'pick', type: 'string[]', label: 'Room', remoteOptions: true, withLabel: true },
    });
    const ran = await done(service.api('POST', '/v1/actions/run', { id, configured_props }));
    assert.deepEqual(ran.data.os, []);
    await check(ran.data.ret);

    const workflow = await service.createWorkflow(workflowWith(id, configured_props));
    assert.ok(!JSON.stringify(workflow).includes(token));
    await fetch(workflow.triggers[0].endpoint_url, { method: 'POST', body: '{}' });
    const run = await service.runInState(workflow.id, 'succeeded', 'failed');
    assert.equal(run.state, 'succeeded', JSON.stringify(run.steps));
    assert.ok(!JSON.stringify(run).includes(token));
    await check(run.steps[0].exports.$return_value);
    assert.ok(!(await fixture.log()).includes(token));
  });

  test('a value over 64 KB, a missing one, or a wrong key is refused by its name wherever it is given, and nothing is made', async () => {
    const { service } = fixture;
    const simple = (type: string, more: string) =>
      `export default { name: 'Simple', key: 'acme-simple', version: '0.1.0', type: '${type}', props: { note: { type: 'string', options: () => [] }, ${more} }, hooks: { activate() { throw new Error('not to be run'); } }, run() {} };`;
    const sourceId = await saved(
      simple('source', `http: '$.interface.http'`).replace('acme-simple', 'acme-simple-source'),
    );
    const id = await saved(simple('action', ''));
    const live = await service.createSource({
      component_code: `export default { name: 'Live', props: { note: 'string', http: '$.interface.http' }, run() {} };`,
      configured_props: { note: 'kept' },
    });
    const before = await counts();
    const large = 'x'.repeat(64 * 1024);
    const refusal = async (method: string, path: string, body: object) => {
      const answer = await service.api(method, path, body);
      return [answer.status, answer.body.code, answer.body.details?.parameter];
    };
    for (const [note, what] of [
      [large, 'too large'],
      [{ __lv: { label: large, value: 'a' } }, 'too large with its label'],
      [['a'], 'of another type'],
      [undefined, 'missing'],
    ] as const) {
      const configured_props = note === undefined ? {} : { note };
      const expected = [400, 'invalid_prop', 'configured_props.note'];
      for (const [method, path, body] of [
        ['POST', '/v1/sources', { component_id: sourceId, configured_props }],
        ['PUT', `/v1/sources/${live.id}`, { configured_props }],
        ['POST', '/v1/actions/run', { id, configured_props }],
        ['POST', '/v1/workflows', workflowWith(id, configured_props)],
        ['POST', '/v1/components/configure', { id, prop_name: 'note', configured_props }],
      ] as const) {
        // Options are asked for before everything is filled in.
        if (path.endsWith('/configure') && note === undefined) continue;
        const named = path.endsWith('/workflows') ? [400, 'invalid_prop', 'steps[0].props.note'] : expected;
        assert.deepEqual(await refusal(method, path, body), named, `${path}: ${what}`);
      }
    }
    for (const unknown of ['acme-nobody', 'acme-simple@9.9.9', 'sc_nobody']) {
      const asSource = unknown.startsWith('sc_') ? { component_id: unknown } : { key: unknown };
      for (const [path, body] of [
        ['/v1/sources', asSource],
        ['/v1/actions/run', { id: unknown }],
        ['/v1/components/configure', { id: unknown, prop_name: 'note' }],
        ['/v1/components/props', { id: unknown }],
      ] as const)
        assert.deepEqual(
          (await refusal('POST', path, body)).slice(0, 2),
          [404, 'not_found'],
          `${path} ${unknown}`,
        );
      const asStep = await service.api('POST', '/v1/workflows', workflowWith(unknown, { note: 'a' }));
      assert.ok(asStep.status === 400 || asStep.status === 404, JSON.stringify(asStep.body));
      assert.match(asStep.body.error, /steps\[0\]/);
    }
    assert.deepEqual(await counts(), before);
    const { data } = await done(service.api('GET', `/v1/sources/${live.id}`));
    assert.equal(data.configured_props.note, 'kept');
  });

  test('props that additionalProps gives another type are checked as what they are then', async () => {
    const { service } = fixture;
    const text = { kind: 'text', needed: 'n', extra: 'words', on: true };
    const list = { kind: 'list', value: ['a', 'b'], extra: 4, on: false, row: '{"a": 1}' };
    const made = await service.createSource({
      component_code: changing('source', `http: '$.interface.http'`),
      configured_props: text,
    });
    assert.deepEqual(await emitted(service, made), [null, 'words', true, false]);
    const change = (configured_props: object) =>
      service.api('PUT', `/v1/sources/${made.id}`, { configured_props });
    for (const [values, parameter, message] of [
      [{ ...text, kind: 'list', value: ['a'] }, 'extra', /expected an integer, found "words"/],
      [{ ...list, value: 'a' }, 'value', /expected an array/],
      [{ ...list, value: undefined }, 'value', /a value is required/],
      [{ ...list, kind: 'text', needed: 'n' }, 'value', /expected a string/],
      [{ ...text, needed: undefined }, 'needed', /a value is required/],
      // The code fails on the missing value; the error names what the caller can fix.
      [{ kind: 'strict', extra: 'e' }, 'needed', /a value is required/],
    ] as const) {
      const { status, body } = await change(values);
      assert.deepEqual(
        [status, body.code, body.details?.parameter],
        [400, 'invalid_prop', `configured_props.${parameter}`],
      );
      assert.match(body.error, message);
    }
    assert.deepEqual(
      (await done(service.api('GET', `/v1/sources/${made.id}`))).data.configured_props.extra,
      'words',
    );
    const changed = await done(change(list));
    assert.deepEqual(changed.data.configured_props.value, ['a', 'b']);
    assert.deepEqual(await emitted(service, changed.data, 2), [['a', 'b'], 4, false, false]);

    const id = await saved(changing('action', ''));
    const ran = await done(service.api('POST', '/v1/actions/run', { id, configured_props: list }));
    assert.deepEqual(ran.data.ret, [['a', 'b'], 4, false, false]);
    const workflow = await service.createWorkflow(workflowWith(id, list));
    await fetch(workflow.triggers[0].endpoint_url, { method: 'POST', body: '{}' });
    const run = await service.runInState(workflow.id, 'succeeded', 'failed');
    assert.deepEqual(run.steps[0].exports?.$return_value, [['a', 'b'], 4, false, false]);
    const reloaded = await done(service.api('POST', '/v1/components/props', { id, configured_props: list }));
    const { configurableProps } = reloaded.dynamicProps;
    assert.deepEqual(
      configurableProps.map(({ name, type, optional }: Record<string, unknown>) => [
        name,
        type,
        optional === true,
      ]),
      [
        ['kind', 'string', false],
        ['value', 'string[]', false],
        ['needed', 'string', true],
        ['extra', 'integer', false],
        ['warning', 'alert', false],
        ['on', 'boolean', false],
        ['row', 'object', true],
      ],
    );
    const options = await done(
      service.api('POST', '/v1/components/configure', {
        ...{ id, prop_name: 'extra', configured_props: list, page: 1 },
        dynamic_props: reloaded.dynamicProps,
      }),
    );
    assert.deepEqual([options.stringOptions, options.errors], [['list1'], []]);
  });

  test('a timer is what its value, its default, an old attribute or a fixed one says, and a schedule runs without custom code', async () => {
    const { service } = fixture;
    const timed = (timer: string) =>
      `export default { name: 'Timed', props: { timer: ${timer} }, run() {} };`;
    for (const [timer, configured, told] of [
      [
        `{ type: '$.interface.timer', intervalSeconds: 3600 }`,
        undefined,
        { cron: null, interval_seconds: 3600 },
      ],
      [
        `{ type: '$.interface.timer', intervalSeconds: 3600 }`,
        { intervalSeconds: 60 },
        { cron: null, interval_seconds: 60 },
      ],
      [
        `{ type: '$.interface.timer', static: { intervalSeconds: 82080 }, hidden: true, disabled: true }`,
        { intervalSeconds: 60 },
        { cron: null, interval_seconds: 82080 },
      ],
      [
        `{ type: '$.interface.timer', default: { cron: '0 0 * * *' } }`,
        { __lv: { label: 'x', value: { cron: '5 4 * * *', timezone: 'Europe/Berlin' } } },
        { cron: '5 4 * * *', interval_seconds: null, timezone: 'Europe/Berlin' },
      ],
    ] as const) {
      const made = await service.createSource({
        component_code: timed(timer),
        configured_props: configured === undefined ? {} : { timer: configured },
      });
      assert.deepEqual(made.configured_props.timer, told, timer);
      assert.equal((await service.api('DELETE', `/v1/sources/${made.id}`)).status, 204);
    }
    const scheduled = (
      more: string,
    ) => `const schedule = { type: 'app', app: 'schedule', propDefinitions: {}, methods: {} };
      export default { name: 'Scheduled', type: 'source', props: { schedule, cron: { propDefinition: [schedule, 'cron'], ${more} } } };`;
    const monthly = await service.createSource({
      component_code: scheduled(`default: { cron: '0 10 1 * *' }`),
    });
    assert.deepEqual(monthly.configured_props.cron, {
      cron: '0 10 1 * *',
      interval_seconds: null,
      timezone: 'UTC',
    });
    const { body } = await service.api('POST', '/v1/sources', { component_code: scheduled('') });
    assert.deepEqual([body.code, body.details?.parameter], ['invalid_prop', 'configured_props.cron']);
    const often = await service.createSource({
      component_code: scheduled(''),
      configured_props: { cron: { intervalSeconds: 15 } },
    });
    const [tick] = await waitFor(async () => {
      const events = await service.events(often.id);
      return events.length > 0 && events;
    });
    assert.deepEqual(Object.keys(tick.event).sort(), ['interval_seconds', 'timestamp']);
    assert.equal(tick.event.interval_seconds, 15);
  });
});
