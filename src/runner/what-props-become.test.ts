import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  exportsOf,
  type RunnerFixture,
  resultOf,
  startRunnerFixture,
  stepCall,
} from '../../test/support/runner-fixture.ts';

const apps = `
const base = { type: 'app', app: 'acme', label: 'Acme', propDefinitions: {
    room: { type: 'string', label: 'Room', description: 'Where', options: ['north', 'south'] },
    short: 'boolean',
    far: { propDefinition: [{ app: 'other', propDefinitions: { end: { type: 'integer', min: 1, label: 'End' } } }, 'end'], max: 9 } },
  methods: { token() { return this.$auth.token ?? 'none'; }, twice(n) { return this.once(n) * 2; }, once(n) { return n; } } };
const schedule = { type: 'app', app: 'schedule', propDefinitions: {}, methods: {} };`;

let fixture: RunnerFixture;
before(async () => {
  fixture = await startRunnerFixture();
});
after(() => fixture.close());

describe('the reported props of a component', () => {
  const propsOf = async (props: string, more = '') => {
    const outcome = await fixture.describe(`${apps} module.exports = { props: ${props}, ${more} run() {} };`);
    assert.ok('shape' in outcome, JSON.stringify(outcome));
    return JSON.parse(outcome.shape).configurableProps;
  };

  test('definitions come in their order, with their data and without functions', async () => {
    const cases: [definition: string, told: Record<string, unknown>][] = [
      [`'$.service.db'`, { type: '$.service.db' }],
      [`base`, { type: 'app', app: 'acme', label: 'Acme' }],
      [
        `{ propDefinition: [base, 'room'] }`,
        { type: 'string', label: 'Room', description: 'Where', options: ['north', 'south'] },
      ],
      [
        `{ propDefinition: [base, 'room', ({ a }) => ({ a })], type: 'string[]', label: 'Rooms', options: async () => [], useQuery: true }`,
        { type: 'string[]', label: 'Rooms', description: 'Where', remoteOptions: true, useQuery: true },
      ],
      [
        `{ propDefinition: [base, 'room', { a: 1 }], optional: true }`,
        { type: 'string', label: 'Room', description: 'Where', options: ['north', 'south'], optional: true },
      ],
      [`{ propDefinition: [base, 'short'] }`, { type: 'boolean' }],
      [`{ propDefinition: [base, 'far'] }`, { type: 'integer', min: 1, max: 9, label: 'End' }],
      [`{ propDefinition: [base, 'nothing'], type: 'any' }`, { type: 'any' }],
      [
        `{ propDefinition: [schedule, 'cron'], default: { cron: '0 10 1 * *' } }`,
        { type: '$.interface.timer', label: 'Schedule', default: { cron: '0 10 1 * *' } },
      ],
      [
        `{ type: '$.interface.timer', intervalSeconds: 60 }`,
        { type: '$.interface.timer', intervalSeconds: 60 },
      ],
      [
        `{ type: '$.interface.timer', static: { intervalSeconds: 82080 }, hidden: true, disabled: true }`,
        { type: '$.interface.timer', static: { intervalSeconds: 82080 }, hidden: true, disabled: true },
      ],
      [
        `{ type: '$.interface.apphook', appProp: 'a', eventNames() { return []; }, static: [], remote: true }`,
        { type: '$.interface.apphook', appProp: 'a', static: [], remote: true },
      ],
      [
        `{ type: 'alert', alertType: 'warning', content: 'Mind' }`,
        { type: 'alert', alertType: 'warning', content: 'Mind' },
      ],
      [
        `{ type: 'string', format: 'file-ref', secret: true, default: '/tmp/a', newest: { of: ['attributes'], made() {} }, validate() {} }`,
        {
          type: 'string',
          format: 'file-ref',
          secret: true,
          default: '/tmp/a',
          newest: { of: ['attributes'] },
        },
      ],
      [`{ type: '$.airtable.tableId', baseIdProp: 'b' }`, { type: '$.airtable.tableId', baseIdProp: 'b' }],
      [`{ type: 'sql', auth: { app: 'postgresql' } }`, { type: 'sql', auth: { app: 'postgresql' } }],
    ];
    const source = `{ ${cases.map(([definition], index) => `p${index}: ${definition}`).join(', ')} }`;
    const told = await propsOf(source, `ai: 'optimized', somethingNew: { run() {} },`);
    for (const [index, [definition, expected]] of cases.entries())
      assert.deepEqual(told[index], { name: `p${index}`, ...expected }, definition);
  });

  test('an invalid definition is refused with the name of its prop', async () => {
    for (const [definition, message] of [
      [`{ propDefinition: [base, 'nothing'] }`, /prop p has no type and propDefinition nothing is not known/],
      [
        `{ propDefinition: [base, 'toString'] }`,
        /prop p has no type and propDefinition toString is not known/,
      ],
      [`{ label: 'No type' }`, /prop p has no type/],
      [`undefined`, /prop p: expected a definition, found undefined/],
      [`{ propDefinition: base }`, /prop p: propDefinition must be an array/],
    ] as const) {
      const outcome = await fixture.describe(
        `${apps} module.exports = { props: { p: ${definition} }, run() {} };`,
      );
      assert.match(
        'error' in outcome ? (outcome.error?.message ?? '') : 'it was described',
        message,
        definition,
      );
    }
  });

  test('definitions that refer to each other in a circle do not loop forever', async () => {
    const outcome = await fixture.describe(`const app = { app: 'x', propDefinitions: {} };
      app.propDefinitions.a = { propDefinition: [app, 'b'], type: 'string' };
      app.propDefinitions.b = { propDefinition: [app, 'a'], label: 'B' };
      module.exports = { props: { p: { propDefinition: [app, 'a'] } }, run() {} };`);
    assert.ok('shape' in outcome);
    assert.deepEqual(JSON.parse(outcome.shape).configurableProps, [
      { name: 'p', type: 'string', label: 'B' },
    ]);
  });
});

/** One component that returns what it finds under `this`, as a source and as a step. */
const component = (type: string) => `${apps}
const common = { methods: { shared() { return this.text + '!'; } }, run() { return this.shared(); } };
module.exports = { type: '${type}', props: { base, noAuth: { type: 'app', app: 'plain' }, db: '$.service.db',
    text: 'string', count: { type: 'integer', default: 7 }, flag: { type: 'boolean', default: true }, off: 'boolean', row: 'object', free: 'any',
    texts: 'string[]', counts: 'integer[]', flags: 'boolean[]', missing: { type: 'string', optional: true },
    note: { type: 'alert', content: 'Mind' }, labelled: { type: 'string', withLabel: true }, raw: { type: 'integer', withLabel: true },
    many: { type: 'string[]', withLabel: true }, file: { type: 'string', format: 'file-ref' },
    table: '$.airtable.tableId', channels: '$.discord.channel[]', sql: { type: 'sql', auth: { app: 'mysql' } },
    request: { type: 'http_request', default: { method: 'POST', url: 'https://x.example/' } },
    ${type === 'source' ? `timer: { type: '$.interface.timer', default: { intervalSeconds: 60 } }, http: '$.interface.http',` : ''} },
  methods: { ...common.methods, twice(n) { return this.base.twice(n); } },
  async run() {
    const { twice, shared } = this;
    const { token, once } = this.base;
    const { get, set } = this.db;
    set('k', { a: 1 });
    get('k').a = 2;
    const { text, count, flag, off, row, free, texts, counts, flags, labelled, raw, many, file, table, channels } = this;
    return { text, count, flag, off, row, free, texts, counts, flags, labelled, raw, many, file, table, channels,
      methods: [twice(4), shared(), token(), once(3), base.methods.once(5), await common.run.call(this), typeof base.methods.token],
      noAuth: [this.noAuth.app, this.noAuth.$auth], kept: get('k'), label: this.base.label,
      absent: ['note' in this, 'missing' in this && this.missing === undefined],
      sql: this.sql, request: [this.request.method, this.request.url, typeof this.request.execute],
      ${type === 'source' ? 'timer: this.timer, http: [this.http.endpoint, typeof this.http.respond],' : ''} };
  } };`;

const values = {
  base: { $auth: { token: 'T' } },
  ...{ text: 'words', off: false, row: { a: [1] }, free: [{ b: null }] },
  ...{ texts: ['a'], counts: [1, 2], flags: [true, false] },
  labelled: { label: 'North', value: 'n' },
  raw: 5,
  many: ['a', { label: 'B', value: 'b' }],
  file: 'https://x.example/file.pdf',
  ...{ table: 'tbl1', channels: ['c1', 'c2'] },
  sql: { app: 'mysql', query: 'SELECT ?', params: [1] },
};

const found = {
  ...{ text: 'words', count: 7, flag: true, off: false, row: { a: [1] }, free: [{ b: null }] },
  ...{ texts: ['a'], counts: [1, 2], flags: [true, false] },
  labelled: { label: 'North', value: 'n' },
  raw: { label: '5', value: 5 },
  many: [
    { label: 'a', value: 'a' },
    { label: 'B', value: 'b' },
  ],
  file: 'https://x.example/file.pdf',
  ...{ table: 'tbl1', channels: ['c1', 'c2'] },
  methods: [8, 'words!', 'T', 3, 5, 'words!', 'function'],
  noAuth: ['plain', {}],
  kept: { a: 1 },
  label: 'Acme',
  absent: [false, true],
  sql: { app: 'mysql', query: 'SELECT ?', params: [1], values: [1] },
  request: ['POST', 'https://x.example/', 'function'],
};

describe('what props are to the code of a component', () => {
  test('every type, in a source', async () => {
    const props = {
      ...values,
      timer: { intervalSeconds: 60 },
      http: { endpoint: 'https://x.example/hook' },
    };
    assert.deepEqual(resultOf(await fixture.call(component('source'), { props })), {
      ...found,
      timer: { type: '$.interface.timer', intervalSeconds: 60 },
      http: ['https://x.example/hook', 'function'],
    });
  });

  test('every type, in a step', async () => {
    const outcome = await fixture.call(component('action'), {
      call: stepCall(),
      module: 'c_1',
      props: values,
    });
    assert.deepEqual(exportsOf(outcome).$return_value, found);
  });

  test('props that additionalProps added or changed follow their last definition', async () => {
    const source = `${apps} const later = { type: 'app', app: 'later', methods: { hello() { return this.$auth.token + this.more.length; } } };
      module.exports = { props: { base, kind: 'string' },
      additionalProps(previous) { return { later: { ...later, more: 'abc' }, kind: 'integer' }; },
      run() { return [this.base.token(), this.kind, this.list, 'note' in this, typeof this.hook.respond, this.timer.cron, this.raw.label, this.db.get('no') ?? null, this.later.hello()]; } };`;
    const dynamicProps = {
      base: { type: 'app', app: 'acme', hidden: true },
      kind: { type: 'integer' },
      list: { type: 'string[]' },
      note: { type: 'alert', content: 'Mind' },
      hook: { type: '$.interface.http' },
      timer: { type: '$.interface.timer' },
      raw: { type: 'string', withLabel: true },
      db: { type: '$.service.db' },
      later: { type: 'app', app: 'later', more: 'abc' },
    };
    const props = {
      base: { $auth: { token: 'T' } },
      kind: 4,
      list: ['a'],
      hook: { endpoint: 'https://x.example/' },
      timer: { cron: '* * * * *' },
      raw: 'r',
      later: { $auth: { token: 'L' } },
    };
    const expected = ['T', 4, ['a'], false, 'function', '* * * * *', 'r', null, 'L3'];
    const asSource = await fixture.call(source, { props, dynamicProps });
    assert.deepEqual(resultOf(asSource), expected);
    const asStep = await fixture.call(source, { call: stepCall(), module: 'c_1', props, dynamicProps });
    assert.deepEqual(exportsOf(asStep).$return_value, expected);
  });
});
