import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { variablesIn } from './find-variables.ts';
import type { MapContext } from './map-step.ts';
import { fingerprintOf, mapWorkflow, statusOf } from './map-workflow.ts';
import type { ForeignStep, ForeignWorkflow } from './project.ts';

const context: MapContext = {
  account: (oldId, app) => (oldId === 'apn_Known1' || app === 'slack' ? 'apn_here' : undefined),
  dataStore: (oldId) => `here_${oldId}`,
  isSet: (name) => name === 'SET',
  isSecret: () => false,
  source: () => undefined,
  subscribes: () => false,
  action: (key, version) =>
    key === 'pinned'
      ? { state: 'exact', component: `${key}@${version}`, version }
      : key === 'ships'
        ? { state: 'included', component: key, version: '' }
        : key === 'newer'
          ? { state: 'other_version', component: key, version: '9.0.0' }
          : { state: 'missing' },
};
const step = (fields: Partial<ForeignStep>): ForeignStep => ({
  ...{ namespace: 'one', runtime: 'nodejs20.x', props: {}, disabled: false, note: '' },
  content: { kind: 'code', language: 'nodejs', path: 'one/entry.js', text: 'export default { run() {} }' },
  ...fields,
});
const action = (key: string, version = '0.0.1', scope = '') =>
  ({ kind: 'action', key, version, scope }) as const;
const workflow = (fields: Partial<ForeignWorkflow> = {}): ForeignWorkflow => ({
  ...{ id: 'p_One111', name: 'One', folder: '', path: 'one', active: true, settings: {}, findings: [] },
  ...{ triggers: [{ id: 'hi_One111', kind: 'http' }], steps: [step({})] },
  ...fields,
});
const map = (fields: Partial<ForeignWorkflow> = {}) => mapWorkflow(workflow(fields), context);
const mapSteps = (...steps: Partial<ForeignStep>[]) => map({ steps: steps.map(step) });
const messages = (mapped: ReturnType<typeof map>) =>
  mapped.findings.map(({ level, step: at, message }) => [level, at, message]);

describe('a workflow', () => {
  test('that needs nothing is converted', () => {
    const mapped = map();
    assert.deepEqual(mapped.findings, []);
    assert.equal(statusOf(mapped.findings), 'converted');
    assert.deepEqual(mapped.steps, [{ namespace: 'one', code: 'export default { run() {} }' }]);
    assert.deepEqual(mapped.settings, { name: 'One' });
    assert.deepEqual(mapped.triggers, [
      {
        ...{ oldId: 'hi_One111', kind: 'http', address: '' },
        input: { type: 'http', props: { custom_response: false } },
      },
    ]);
  });

  test('names actions as they are available here', () => {
    const mapped = mapSteps(
      ...['pinned', 'ships', 'newer', 'gone'].map((key) => ({
        namespace: key,
        content: action(key),
        props: { a: 1 },
      })),
    );
    assert.deepEqual(
      mapped.steps.map(({ component, props }) => [component, props]),
      [
        ['pinned@0.0.1', { a: 1 }],
        ['ships', { a: 1 }],
        ['newer', { a: 1 }],
        [undefined, undefined],
      ],
    );
    assert.match(
      mapped.steps[3]?.code ?? '',
      /Its props were: \{\n {2}"a": 1\n\}[\s\S]*throw new Error\("Not imported: this service has no component gone@0\.0\.1/,
    );
    assert.deepEqual(messages(mapped), [
      ['check', 'newer', 'it was pinned to newer@0.0.1, and version 9.0.0 runs here'],
      ['by_hand', 'gone', 'this service has no component gone@0.0.1: add its registry and import again'],
    ]);
    const [secret] = mapSteps({ content: action('charge', '1.0.0', 'acme') }).findings;
    assert.match(secret?.message ?? '', /which is private to the workspace acme/);
    assert.equal(secret?.command, 'millrace registry add --local ./components');
  });

  test('keeps props in every form, and fills slots of accounts and data stores', () => {
    const props = {
      choice: { __lv: { label: 'A', value: 'a' } },
      list: [{ __lv: { label: 'A', value: 'a' } }, '{{steps.a.b}}'],
      whole: '{{steps.a.list}}',
      text: '{ "photos": steps.get_photos.$return_value }',
      col_0000: '{{Date.now()}}',
    };
    const mapped = mapSteps({
      props: {
        ...props,
        nothing: null,
        slack: { authProvisionId: 'apn_S1ack1' },
        mail: { authProvisionId: 'apn_Known1' },
        sheets: { authProvisionId: 'apn_Sheets' },
        cache: { storeId: 'ds_Cach3d' },
      },
      content: action('pinned'),
    });
    assert.deepEqual(mapped.steps[0]?.props, {
      ...props,
      slack: { authProvisionId: 'apn_here' },
      mail: { authProvisionId: 'apn_here' },
      cache: { storeId: 'here_ds_Cach3d' },
    });
    assert.deepEqual(
      mapped.accounts.map(({ app, oldId, accountId }) => [app, oldId, accountId]),
      [
        ['slack', 'apn_S1ack1', 'apn_here'],
        ['mail', 'apn_Known1', 'apn_here'],
        ['sheets', 'apn_Sheets', undefined],
      ],
    );
    assert.deepEqual(messages(mapped), [['by_hand', 'one', 'sheets needs an account of sheets']]);
    assert.deepEqual(mapped.dataStores, ['ds_Cach3d']);
  });

  test('what a disabled step needs is to check, not to do', () => {
    const mapped = mapSteps({ content: action('gone'), disabled: true });
    assert.deepEqual([mapped.steps[0]?.disabled, statusOf(mapped.findings)], [true, 'check']);
  });

  test('code in other languages, with other files, or with no file is kept for a user', () => {
    const code = (text: string, language: 'nodejs' | 'python' = 'nodejs') => ({
      content: { kind: 'code' as const, language, path: 'entry', text },
    });
    const python = mapSteps(code('def handler(pd):\n  return "*/"', 'python'));
    assert.deepEqual([python.steps[0]?.disabled, statusOf(python.findings)], [true, 'by_hand']);
    assert.match(python.steps[0]?.code ?? '', /^\/\*\ndef handler\(pd\):\n {2}return "\* \/"\n\*\//);
    assert.match(messages(mapSteps(code('import a from "./a.mjs"')))[0]?.[2] ?? '', /imports \.\/a\.mjs/);
    assert.match(messages(mapSteps(code(' \n')))[0]?.[2] ?? '', /its file is empty/);
    assert.match(messages(mapSteps(code('async (event) => event')))[0]?.[2] ?? '', /first generation/);
    assert.match(
      messages(mapSteps(code(`k = "xoxb-${'1'.repeat(12)}"`)))[0]?.[2] ?? '',
      /a secret seems to stand in its code/,
    );
    assert.match(
      messages(mapSteps({ content: { kind: 'missing', uses: './x/entry.js' } }))[0]?.[2] ?? '',
      /\.\/x\/entry\.js is not in the export/,
    );
  });

  test('whose steps answer has a trigger that waits for the response', () => {
    const responds = (fields: Partial<ForeignStep>) =>
      map({ steps: [step(fields)] }).triggers[0]?.input?.props?.custom_response;
    const code = (text: string) => ({ kind: 'code', language: 'nodejs', path: 'entry.js', text }) as const;
    assert.equal(responds({ content: code('export default { run({ $ }) { $.respond({}) } }') }), true);
    assert.equal(responds({ content: code('async (event) => { $respond({}) }') }), true);
    assert.equal(responds({ content: action('http-return-http-response') }), true);
    assert.equal(responds({ content: action('http-return-http-response'), disabled: true }), false);
    assert.equal(responds({ content: code('export default { run() { this.respond() } }') }), false);
  });

  test('says of each kind of trigger what to give', () => {
    const mapped = map({
      triggers: [
        { id: 'ei_Mai1xx', kind: 'email' },
        { id: 'ti_T1mer1', kind: 'timer' },
        { id: 'dc_S0urce', kind: 'source' },
        { id: 'sub_Sub111', kind: 'subscription' },
        { id: 'xx_Odd111', kind: 'unknown' },
      ],
    });
    assert.deepEqual(
      mapped.triggers.map(({ kind, input }) => [kind, input?.type]),
      [
        ['email', 'email'],
        ...['timer', 'source', 'subscription', 'unknown'].map((kind) => [kind, undefined]),
      ],
    );
    assert.deepEqual(
      mapped.findings.map(({ level }) => level),
      ['check', 'by_hand', 'by_hand', 'by_hand', 'by_hand'],
    );
    assert.match(mapped.findings[1]?.command ?? '', /millrace workflows update WORKFLOW --file -$/);
    assert.match(messages(map({ triggers: [] }))[0]?.[2] ?? '', /no trigger in the export/);
    const many = map({
      triggers: Array.from({ length: 12 }, (_, at) => ({ id: `hi_${at}`, kind: 'http' as const })),
    });
    assert.deepEqual([many.triggers.length, statusOf(many.findings)], [10, 'by_hand']);
  });

  test('keeps its settings where they have a counterpart', () => {
    const settings = (given: ForeignWorkflow['settings']) => {
      const mapped = map({ settings: given });
      return [mapped.settings, mapped.findings.map(({ message }) => message)];
    };
    assert.deepEqual(settings({ timeout: 45, memory: 512 }), [
      { name: 'One', timeout_seconds: 45, memory_mb: 512 },
      [],
    ]);
    assert.deepEqual(settings({ timeout: 900, memory: 64, network: 'net_1' }), [
      { name: 'One', timeout_seconds: 750 },
      [
        'its time limit is 900 seconds, expected 1 to 750: 750 is used',
        'its memory is 64 MB, expected 128 to 10240: the default is used',
        'it ran in the network net_1, and requests leave from the address of this service now',
      ],
    ]);
    for (const [given, expected] of [
      [
        { autoRetry: true, concurrency: 3, throttle: { limit: 5, seconds: 60 }, queueSize: 1000 },
        { auto_retry: true, concurrency: 3, throttle: { limit: 5, seconds: 60 }, queue_size: 1000 },
      ],
      [
        {
          autoRetry: { enabled: true },
          concurrency: { enabled: true, limit: 1 },
          throttle: { limit: 0, interval: 5, unit: 'minutes' },
        },
        { auto_retry: true, concurrency: 1, throttle: { limit: 0, seconds: 300 } },
      ],
      [{ autoRetry: false, concurrency: null, throttle: { enabled: false, limit: 5 }, retention: true }, {}],
      [{ isolated: true }, { isolated: true }],
    ] as const)
      assert.deepEqual(settings(given), [{ name: 'One', ...expected }, []], JSON.stringify(given));
    assert.deepEqual(
      settings({ autoRetry: 'sk-x', concurrency: { a: 1, b: 2 }, throttle: 5, queueSize: 0, retention: 7 }),
      [
        { name: 'One' },
        [
          'its auto-retry is a text, expected true or false: it is off',
          'its concurrency is a mapping with a: 1, b: 2, expected 1 to 10000: the default is used',
          'its throttle is 5, expected a limit and the seconds of a window: set it again',
          'its queue size is 0, expected 1 to 10000: the default is used',
          'its data retention is 7 there: here a workspace has days for which runs are kept, and a workflow has none of its own',
        ],
      ],
    );
  });

  test('whose names of steps cannot be used gets others', () => {
    const mapped = mapSteps(
      { namespace: 'a' },
      { namespace: 'a' },
      { namespace: 'b-c' },
      { namespace: '1x' },
      { namespace: 'trigger' },
      { namespace: '' },
    );
    assert.deepEqual(
      mapped.steps.map(({ namespace }) => namespace),
      ['a', 'a_2', 'b_c_3', '_1x_4', 'trigger_5', '__6'],
    );
    assert.equal(mapped.findings.length, 5);
  });

  test('says which variables are not set', () => {
    const code = 'export default { run() { return [process.env.SET, process.env["NOT_SET"]] } }';
    const mapped = mapSteps({
      content: { kind: 'code', language: 'nodejs', path: 'e.js', text: code },
      props: { a: '{{process.env.IN_PROP}}' },
    });
    assert.deepEqual(mapped.variables, ['IN_PROP', 'NOT_SET', 'SET']);
    assert.deepEqual(
      mapped.findings.map(({ message, command }) => [message, command]),
      ['IN_PROP', 'NOT_SET'].map((name) => [
        `it reads ${name}, which is not set`,
        `millrace env set ${name}`,
      ]),
    );
  });

  test('has the same fingerprint in every import, and another when something in it changes', () => {
    const of = (fields: Partial<ForeignWorkflow> = {}) => fingerprintOf(map(fields));
    assert.equal(of(), of());
    for (const fields of [
      { name: 'Two' },
      { settings: { timeout: 10 } },
      { steps: [step({ note: 'n' })] },
      { triggers: [] },
    ])
      assert.notEqual(of(fields), of(), JSON.stringify(fields));
  });
});

test('variables are found in every way of reading them', () => {
  const code = `process.env.A; process . env [ "B" ]; process.env?.C; const { D, E: e, F = 1, ...rest } = process.env;
    os.environ["G"]; os.environ.get('H'); os.getenv("I"); process.environment.X; env.Y`;
  assert.deepEqual(variablesIn(code), ['A', 'B', 'C', 'D', 'E', 'F', 'G', 'H', 'I']);
});
