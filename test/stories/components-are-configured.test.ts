import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { type ApiAnswer, forEachSharedService, Millrace, type ServiceClient } from '../support/millrace.ts';
import { createTempFolder } from '../support/temp-folder.ts';
import { waitFor } from '../support/wait-for.ts';

const token = 'canary-token-0123456789';

const app = `const app = { type: 'app', app: 'acme_vault', methods: { places() { return ['north', 'south']; } },
  propDefinitions: { room: { type: 'string', async options({ page, prevContext, query, place }) {
    return { options: [{ label: \`\${place} \${page} \${query} \${prevContext.last ?? '-'}\`, value: { place, page } }], context: { last: page } }; } } } };`;

/** Every shape of options in one action. */
const chooser = `${app} export default { key: 'acme-chooser', name: 'Chooser', version: '0.0.1', type: 'action', props: { app,
  place: { type: 'string', options() { return this.app.places(); } },
  room: { propDefinition: [app, 'room', ({ place }) => ({ place })], useQuery: true },
  color: { type: 'string', options: ['red', { label: 'Blue', value: 2 }] },
  plain: { type: 'string', optional: true },
  kind: { type: 'string', reloadProps: true }, note: { type: 'string', hidden: true, optional: true } },
  async additionalProps(props) {
    if (this.kind === 'bad') throw new TypeError('no such kind: ' + this.app.$auth.token);
    if (this.kind === 'leaks') return { leak: { type: 'string', label: this.app.$auth.token } };
    if (this.kind === undefined) return {};
    console.log('computing', this.kind);
    props.note.hidden = this.kind !== 'noted';
    const more = this.extra === undefined ? {} : { deeper: { type: 'string', label: this.extra } };
    return { extra: { type: 'string', reloadProps: true, options: async ({ page }) => [this.kind + page, this.app.places()[0]] }, ...more };
  },
  async run() {} };`;

/** Option functions that do what they should not. */
const hostile = `${app} export default { name: 'Hostile', version: '0.0.1', type: 'action', props: { app, pin: { type: 'string', secret: true, optional: true },
  throws: { type: 'string', async options() {
    console.log('the token is', this.app.$auth.token, this.pin);
    const error = new RangeError('failed with ' + this.app.$auth.token + ' and ' + this.pin);
    throw Object.assign(error, { name: 'RangeError of ' + this.app.$auth.token });
  } },
  hangs: { type: 'string', options() { console.log('pid', process.pid); return new Promise(() => {}); } },
  spins: { type: 'string', options() { for (;;); } },
  huge: { type: 'string', options() { return ['x'.repeat(100 * 1024 * 1024)]; } },
  leaks: { type: 'string', options() { return { options: [{ label: 'Basic ' + btoa(this.app.$auth.token), value: this.app.$auth.token }], context: { t: this.app.$auth.token } }; } },
  wrong: { type: 'string', options() { return 'text'; } },
  nothing: { type: 'string', options() {} },
  exits: { type: 'string', options() { process.exit(3); } } },
  async run() {} };`;

async function done(answer: Promise<ApiAnswer>) {
  const { status, body } = await answer;
  assert.equal(status, 200, JSON.stringify(body));
  return body;
}

async function saved(service: ServiceClient, code: string): Promise<string> {
  return (await done(service.api('POST', '/v1/components', { component_code: code }))).data.id;
}

async function account(service: ServiceClient): Promise<{ authProvisionId: string }> {
  const { data } = await done(
    service.api('POST', '/v1/accounts', { app: 'acme_vault', credentials: { token } }),
  );
  return { authProvisionId: data.id };
}

const configure = (service: ServiceClient, body: object) =>
  service.api('POST', '/v1/components/configure', body);
const reload = (service: ServiceClient, body: object) => service.api('POST', '/v1/components/props', body);

forEachSharedService((fixture) => {
  test('what a prop can be given is asked page by page, of the component and of its app', async () => {
    const { service } = fixture;
    const id = await saved(service, chooser);
    const own = await done(configure(service, { id, prop_name: 'place', configured_props: {} }));
    assert.deepEqual(own, {
      options: [
        { label: 'north', value: 'north' },
        { label: 'south', value: 'south' },
      ],
      stringOptions: ['north', 'south'],
      context: {},
      errors: [],
      observations: [],
    });
    const ask = {
      id: 'acme-chooser',
      prop_name: 'room',
      configured_props: { place: { __lv: { label: 'The north', value: 'north' } } },
    };
    const first = await done(configure(service, ask));
    assert.deepEqual(first.options, [{ label: 'north 0  -', value: { place: 'north', page: 0 } }]);
    assert.deepEqual([first.stringOptions, first.context], [null, { last: 0 }]);
    const more = { ...ask, page: 1, prev_context: first.context, query: 'big' };
    assert.equal((await done(configure(service, more))).options[0].label, 'north 1 big 0');
    const color = { id, prop_name: 'color' };
    assert.deepEqual((await done(configure(service, color))).options, [
      { label: 'red', value: 'red' },
      { label: 'Blue', value: 2 },
    ]);
    assert.deepEqual((await done(configure(service, { ...color, page: 1 }))).options, []);
  });

  test('the props of a component follow from its values, as at a deployment, also over several turns', async () => {
    const { service } = fixture;
    const id = await saved(service, chooser);
    const names = (answer: { dynamicProps: { configurableProps: { name: string }[] } }) =>
      answer.dynamicProps.configurableProps.map(({ name }) => name);
    const atFirst = ['app', 'place', 'room', 'color', 'plain', 'kind', 'note'];
    const one = await done(reload(service, { id, configured_props: { kind: 'noted' } }));
    assert.match(one.dynamicProps.id, /^dyp_\w+$/);
    assert.deepEqual(names(one), [...atFirst, 'extra']);
    const { configurableProps } = one.dynamicProps;
    assert.equal(configurableProps[6].hidden, false, 'changed in place');
    assert.deepEqual(configurableProps[7], {
      name: 'extra',
      type: 'string',
      reloadProps: true,
      remoteOptions: true,
    });
    assert.deepEqual(
      one.observations.map(({ k, msg }: { k: string; msg: string }) => [k, msg]),
      [['console.log', 'computing noted']],
    );
    const values = { kind: 'noted', extra: 'chosen' };
    const two = await done(
      reload(service, { id, configured_props: values, dynamic_props: one.dynamicProps }),
    );
    assert.deepEqual(names(two), [...atFirst, 'extra', 'deeper']);
    assert.equal(two.dynamicProps.configurableProps[8].label, 'chosen');
    assert.notEqual(two.dynamicProps.id, one.dynamicProps.id);
    const options = await done(
      configure(service, {
        ...{ id, prop_name: 'extra', configured_props: values, page: 2 },
        dynamic_props_id: two.dynamicProps.id,
      }),
    );
    assert.deepEqual(options.stringOptions, ['noted2', 'north']);
    const made = await service.createWorkflow({
      triggers: [{ type: 'http' }],
      steps: [
        {
          ...{ namespace: 'choose', component: id },
          props: { ...values, deeper: 'd', place: 'north', room: 'r', color: 'red' },
        },
      ],
    });
    assert.equal(
      JSON.parse(made.steps[0].configured_props_json).deeper,
      'd',
      'what a form gets is what a deployment takes',
    );
  });

  test('code that fails is reported with its place, and the account that it was given stays secret', async () => {
    const { service } = fixture;
    const id = await saved(service, hostile);
    const configured_props = { app: await account(service), pin: 'a pin of ours' };
    const ask = async (prop_name: string) => {
      const answer = await done(configure(service, { id, prop_name, configured_props }));
      for (const secret of [token, configured_props.pin])
        assert.ok(!JSON.stringify(answer).includes(secret), JSON.stringify(answer));
      assert.ok(!JSON.stringify(answer).includes(btoa(token)), 'nor encoded');
      return answer;
    };
    const thrown = await ask('throws');
    assert.deepEqual([thrown.options, thrown.errors.length], [[], 1]);
    const error = JSON.parse(thrown.errors[0]);
    assert.deepEqual(
      [error.name, error.message],
      ['RangeError of [redacted]', 'failed with [redacted] and [redacted]'],
    );
    assert.match(error.stack, /component\.\w+:6:\d+/);
    const [line, told] = thrown.observations;
    assert.deepEqual([line.k, line.msg], ['console.log', 'the token is [redacted] [redacted]']);
    assert.deepEqual([told.k, told.err], ['error', error]);
    assert.ok(Number.isInteger(told.ts));
    const leaked = await ask('leaks');
    assert.deepEqual(
      [leaked.options, leaked.context],
      [[{ label: 'Basic [redacted]', value: '[redacted]' }], { t: '[redacted]' }],
    );
    const message = (answer: { errors: string[] }) => JSON.parse(answer.errors[0] ?? '{}').message;
    assert.match(message(await ask('huge')), /^the list of options is larger than 1 MB/);
    assert.match(message(await ask('wrong')), /^options of wrong answered string: expected an array/);
    assert.match(message(await ask('exits')), /ended with code 3/);
    const nothing = await ask('nothing');
    assert.deepEqual([nothing.options, nothing.errors], [[], []]);
    const bad = { kind: 'bad', app: configured_props.app };
    const failed = await done(reload(service, { id: await saved(service, chooser), configured_props: bad }));
    assert.equal(failed.dynamicProps, null);
    const { name, message: why } = JSON.parse(failed.errors[0]);
    assert.deepEqual([name, why], ['TypeError', 'no such kind: [redacted]']);
    const leaks = { kind: 'leaks', app: configured_props.app };
    const { dynamicProps } = await done(
      reload(service, { id: await saved(service, chooser), configured_props: leaks }),
    );
    assert.equal(dynamicProps.configurableProps.at(-1).label, '[redacted]');
    const { body } = await service.api('GET', `/v1/accounts/${configured_props.app.authProvisionId}/uses`);
    const uses = body.data.used.map(({ id: user }: { id: string }) => user);
    assert.ok(uses.includes(id), 'that the code was given the account is on record');
    assert.ok(!(await fixture.log()).includes(token));
  });

  test('a caller needs the component and the accounts, and gets an error that says what is wrong with a request', async () => {
    const { service } = fixture;
    const id = await saved(service, chooser);
    const app = await account(service);
    const { key } = await service.createUser('stranger');
    const refusal = async (answer: Promise<ApiAnswer>) => {
      const { status, body } = await answer;
      return [status, body.code, body.details?.parameter];
    };
    const place = { id, prop_name: 'place' };
    const ask = (path: string, body: object, options = {}) =>
      refusal(service.api('POST', `/v1/components/${path}`, body, options));
    for (const path of ['configure', 'props']) {
      const question = path === 'configure' ? place : { id };
      assert.deepEqual((await ask(path, question, { key })).slice(0, 2), [404, 'not_found']);
      assert.deepEqual((await ask(path, { ...question, id: 'acme-none' })).slice(0, 2), [404, 'not_found']);
      const elsewhere = { ...question, id: 'https://example.com/c.mjs' };
      assert.deepEqual(await ask(path, elsewhere), [400, 'invalid_parameter', 'id']);
      const large = { ...question, configured_props: { plain: 'x'.repeat(65 * 1024) } };
      assert.deepEqual(await ask(path, large), [400, 'invalid_prop', 'configured_props.plain']);
    }
    const theirs = (await done(service.api('POST', '/v1/components', { component_code: chooser }, { key })))
      .data.id;
    const borrowed = { id: theirs, configured_props: { app } };
    for (const [path, question] of [
      ['configure', { ...borrowed, prop_name: 'place' }],
      ['props', borrowed],
    ] as const)
      assert.deepEqual(await ask(path, question, { key }), [404, 'not_found', 'configured_props.app']);
    const inDynamic = { ...borrowed, prop_name: 'place', configured_props: { later: app } };
    assert.deepEqual(await ask('configure', inDynamic, { key }), [
      404,
      'not_found',
      'configured_props.later',
    ]);
    const unknown = { id: await saved(service, hostile), prop_name: 'app' };
    assert.deepEqual(await ask('configure', unknown), [400, 'invalid_parameter', 'prop_name']);
    assert.deepEqual(await ask('configure', { id }), [400, 'missing_parameter', 'prop_name']);
    assert.deepEqual(await ask('configure', { ...place, page: -1 }), [400, 'invalid_parameter', 'page']);
    const typed = { id, dynamic_props: { configurableProps: [{ name: 'x', type: 'no_such' }] } };
    assert.deepEqual(await ask('props', typed), [400, 'invalid_component', 'dynamic_props']);
    const masked = { ...place, configured_props: { plain: '••••••••' } };
    assert.deepEqual(await ask('configure', masked), [400, 'invalid_prop', 'configured_props.plain']);
  });
});

test('code that hangs is ended at the deadline of a run, and nothing of it stays', async () => {
  await using folder = await createTempFolder('configured');
  const service = await Millrace.start({
    dataFolder: `${folder.path}/data`,
    // At the kernel level code does not know under which number others see its process.
    environment: { MILLRACE_RUN_DEADLINE: '3', MILLRACE_SANDBOX: 'seat-belt' },
  });
  try {
    const id = await saved(service, hostile);
    const [hangs, spins] = await Promise.all([
      done(configure(service, { id, prop_name: 'hangs' })),
      done(configure(service, { id, prop_name: 'spins' })),
    ]);
    for (const answer of [hangs, spins]) assert.match(answer.errors[0], /the run did not end within 3 s/);
    const pid = Number(hangs.observations[0].msg.slice('pid '.length));
    assert.ok(pid > 0);
    await waitFor(async () => (existsSync(`/proc/${pid}`) ? undefined : true), {
      what: 'its process to be gone',
    });
    const crowd = await Promise.all(
      Array.from({ length: 12 }, () => configure(service, { id, prop_name: 'hangs' })),
    );
    const refused = crowd.filter(({ status }) => status === 429);
    assert.deepEqual([refused.length, refused[0]?.body.code], [4, 'components_busy']);
    const place = { id: await saved(service, chooser), prop_name: 'place' };
    assert.deepEqual((await done(configure(service, place))).errors, []);
  } finally {
    await service.stop();
  }
});
