import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  exportsOf,
  type RunnerFixture,
  startRunnerFixture,
  stepCall,
  stepRequest,
} from '../../test/support/runner-fixture.ts';
import type { CallOutcome } from './call-outcome.ts';

let fixture: RunnerFixture;
before(async () => {
  fixture = await startRunnerFixture();
});
after(() => fixture.close());

const steps = {
  trigger: { event: { n: 3, list: [1, { deep: 'x' }], text: 'hello', nothing: null } },
  first: { $return_value: { ok: true } },
};

let modules = 0;
/** Runs a step that returns its props, in one process for all steps. `definitions` is source text. */
function run(
  props: Record<string, unknown>,
  definitions: string,
  body = 'const { $emit, ...own } = this; return own;',
): Promise<CallOutcome> {
  modules += 1;
  const source = `module.exports = { props: ${definitions}, async run({ steps, $ }) { ${body} } };`;
  return fixture.runner.call(
    stepRequest(source, {
      ...{ deploymentId: 'd_expressions', module: `c_${modules}` },
      props,
      call: stepCall({
        steps: JSON.stringify(steps),
        context: '{"workflow_id":"p_1","trace_id":"t_1"}',
      }),
    }),
  );
}

/** Returns the value of an `any` prop in the step. */
async function propOf(value: unknown): Promise<unknown> {
  const returned = exportsOf(await run({ v: value }, `{ v: 'any' }`)).$return_value as { v?: unknown };
  return returned.v;
}

async function errorOf(value: unknown): Promise<string | undefined> {
  const outcome = await run({ v: value }, `{ v: 'any' }`);
  assert.equal(outcome.status, 'threw');
  return outcome.error?.message;
}

test('a text that is one expression becomes its value with its type', async () => {
  assert.equal(await propOf('{{steps.trigger.event.n}}'), 3);
  assert.equal(await propOf('{{ event.n + 1 }}'), 4);
  assert.deepEqual(await propOf('{{event.list}}'), [1, { deep: 'x' }]);
  assert.equal(await propOf('{{steps.first.$return_value.ok}}'), true);
  assert.equal(await propOf('{{event.nothing}}'), null);
  assert.equal(await propOf('{{process.env.PIPEDREAM_WORKFLOW_ID}}'), 'p_1');
  assert.equal(await propOf('{{ JSON.stringify(event.list.map((x) => typeof x)) }}'), '["number","object"]');
});

test('in other texts the values of expressions become text', async () => {
  assert.equal(
    await propOf('n={{event.n}} o={{event.list}} s={{event.text}} u={{event.none}}{{event.nothing}}.'),
    'n=3 o=[1,{"deep":"x"}] s=hello u=.',
  );
  assert.equal(await propOf(' {{event.n}}'), ' 3');
  assert.equal(await propOf('no end {{ event.n'), 'no end {{ event.n');
  assert.equal(await propOf('}} {{true}}'), '}} true');
});

test('braces, texts, templates, regular expressions and comments inside an expression do not end it', async () => {
  assert.equal(await propOf('{{ {a: {b: 1}}.a.b }}'), 1);
  assert.equal(await propOf('{{ "}}" }}'), '}}');
  assert.deepEqual(await propOf('{{{a:{b:{}}}}}'), { a: { b: {} } });
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a template inside an expression
  assert.equal(await propOf('{{ `${`${event.n}}}`}` }}'), '3}}');
  assert.equal(await propOf('{{ "a}}b".replace(/}}/, "-") }}'), 'a-b');
  assert.equal(await propOf('{{ event.n // }} not here\n }}'), '3 not here\n }}');
  assert.equal(await propOf('{{ event.n /* }} */ + 1 }} and {{ event.n }}'), '4 and 3');
  assert.equal(await propOf('{{(() => { return {a: {b: 2}} })().a.b}}'), 2);
});

test('expressions are found at any depth of a value, but not in its keys', async () => {
  assert.deepEqual(
    await propOf({ a: [{ '{{event.n}}': '{{event.n}}' }, 'x{{event.text}}'], b: { c: 1, d: null } }),
    { a: [{ '{{event.n}}': 3 }, 'xhello'], b: { c: 1, d: null } },
  );
});

test('an error names the prop and the expression', async () => {
  assert.equal(
    await errorOf('{{steps.nope.x}}'),
    "prop v: the expression {{steps.nope.x}} failed: Cannot read properties of undefined (reading 'x')",
  );
  assert.match(
    (await errorOf({ a: ['', '{{ a b }} {{event.n}}'] })) ?? '',
    /^prop v\.a\[1\]: the expression \{\{ a b \}\} is not valid JavaScript: /,
  );
  for (const text of ['{{}}', '{{steps.}}'])
    assert.equal(
      await errorOf(text),
      `prop v: the expression ${text} is not valid JavaScript: it ends too early`,
    );
  assert.match((await errorOf('{{ (() => { throw null })() }}')) ?? '', /thrown: null/);
});

test('apps, interfaces, dbs, data stores and folders are passed unchanged', async () => {
  const outcome = await run(
    {
      app: { $auth: { key: '{{event.n}}' } },
      store: 'ds_{{event.n}}',
      dir: '{{event.n}}',
      timer: { cron: '{{event.n}}' },
    },
    `{ app: { type: 'app', app: 'x' }, store: { type: 'data_store' }, dir: { type: 'dir' }, timer: { type: '$.interface.timer' } }`,
    'return [this.app.$auth.key, this.timer.cron];',
  );
  assert.deepEqual(exportsOf(outcome).$return_value, ['{{event.n}}', '{{event.n}}']);
  assert.equal(outcome.step?.input, '{"store":"ds_{{event.n}}","dir":"{{event.n}}"}');
});

test('the expressions of a query become its parameters', async () => {
  const outcome = await run(
    { sql: { app: 'postgresql', query: 'select * from t where a = {{event.text}}' } },
    `{ sql: { type: 'sql', auth: { app: 'postgresql' } } }`,
    'return [this.sql.query, this.sql.params];',
  );
  assert.deepEqual(exportsOf(outcome).$return_value, ['select * from t where a = $1', ['hello']]);
});

test('a prop whose expression is undefined counts as absent', async () => {
  const outcome = await run(
    { a: '{{event.none}}', b: '{{event.none}}' },
    `{ a: { type: 'string', default: 'd' }, b: 'string' }`,
    'return [this.a, typeof this.b];',
  );
  assert.deepEqual(exportsOf(outcome).$return_value, ['d', 'undefined']);
  assert.equal(outcome.step?.input, '{"a":"d"}');
});

test('expressions in the default of a prop are evaluated where the default is used', async () => {
  const outcome = await run(
    { none: '{{event.none}}', url: { url: 'http://x.example/{{event.n}}' } },
    `{
      text: { type: 'string', default: 'n={{event.n}}' },
      event: { type: 'any', default: '{{event}}' },
      none: { type: 'string', default: 'd{{event.n}}' },
      url: { type: 'http_request', default: { method: 'POST', url: 'http://y.example', body: '{{event.list}}' } },
    }`,
    'const { url, method, body } = this.url; return [this.text, this.event.n, this.none, url, method, body];',
  );
  assert.deepEqual(exportsOf(outcome).$return_value, [
    'n=3',
    3,
    'd3',
    'http://x.example/3',
    'POST',
    [1, { deep: 'x' }],
  ]);
});

test('a request may be the value of an expression, or JSON text with expressions', async () => {
  const texts: [text: string, url: string][] = [
    ['{{({ url: "http://x.example/" + event.n, body: "{{1}}" })}}', 'http://x.example/3'],
    [
      '{"url": "http://x.example/{{event.n}}", "body": {{JSON.stringify("{{" + "1}}")}}}',
      'http://x.example/3',
    ],
    ['{{event.none}}', 'http://y.example/3'],
  ];
  for (const [text, url] of texts) {
    const outcome = await run(
      { request: text },
      `{ request: { type: 'http_request', default: { method: 'PUT', url: 'http://y.example/{{event.n}}', body: '{{1}}' } } }`,
      'const { url, method, body } = this.request; return [url, method, body];',
    );
    const body = text === '{{event.none}}' ? 1 : '{{1}}';
    assert.deepEqual(exportsOf(outcome).$return_value, [url, 'PUT', body], text);
  }
});

test('the input reports the props that the step got, without secrets and large values', async () => {
  const outcome = await run(
    {
      a: '{{event.list}}',
      secret: 'hunter2',
      big: 'y'.repeat(200_000),
      wide: '{{"ü".repeat(60000)}}',
      huge: '{{Array(300000).fill("long")}}',
      app: {},
    },
    `{ a: 'any', secret: { type: 'string', secret: true }, big: 'string', wide: 'string', huge: 'any', app: { type: 'app', app: 'x' }, db: '$.service.db', http: '$.interface.http' }`,
    'this.a.push(9); throw new Error("x");',
  );
  assert.equal(outcome.status, 'threw');
  const input = JSON.parse(outcome.step?.input ?? '') as Record<string, unknown>;
  assert.deepEqual(Object.keys(input), ['a', 'secret', 'big', 'wide', 'huge']);
  assert.deepEqual([input.a, input.secret], [[1, { deep: 'x' }], '••••••••']);
  assert.match(String(input.big), /^y{60000,}… \[cut: 200002 bytes of JSON\]$/);
  assert.ok(Buffer.byteLength(JSON.stringify(input.wide)) <= 65_536);
  assert.match(String(input.huge), /left out/);
});

test('each call evaluates again, in the context of its own call', async () => {
  const source = `module.exports = { props: { v: 'string' }, run() { return this.v } };`;
  const outcomes = await Promise.all(
    [1, 2, 3].map((n) =>
      fixture.runner.call(
        stepRequest(source, {
          deploymentId: 'd_anew',
          props: { v: '{{event.n}} {{process.env.PIPEDREAM_TRACE_ID}} {{console.log("seen", event.n)}}' },
          call: stepCall({ steps: `{"trigger":{"event":{"n":${n}}}}`, context: `{"trace_id":"t_${n}"}` }),
        }),
      ),
    ),
  );
  assert.deepEqual(
    outcomes.map((outcome) => exportsOf(outcome).$return_value),
    ['1 t_1 ', '2 t_2 ', '3 t_3 '],
  );
  assert.deepEqual(
    outcomes.map(({ logs }) => logs.map(({ message }) => message)),
    [['seen 1'], ['seen 2'], ['seen 3']],
  );
});

test('a text with many braces costs its step almost no time', async () => {
  const cpuMs = async () => {
    const outcome = await run(
      {},
      '{}',
      'const { user, system } = process.cpuUsage(); return (user + system) / 1000;',
    );
    return Number(exportsOf(outcome).$return_value);
  };
  const before = await cpuMs();
  assert.match((await errorOf(`{{ ${'}} {{ '.repeat(10_000)}`)) ?? '', /is not valid JavaScript/);
  // Processor time, because the machine may be busy with other work.
  assert.ok((await cpuMs()) - before < 5000);
});

test('text of an object or array prop is parsed when its expressions are evaluated', async () => {
  const definitions = `{ row: 'object', names: 'string[]', whole: 'object', free: 'any' }`;
  const outcome = await run(
    {
      row: '{"id": {{event.n}}, "text": {{JSON.stringify(event.text)}}}',
      names: '["{{event.text}}", "b"]',
      whole: '{{\'{"as": "it is"}\'}}',
      free: '{"id": {{event.n}}}',
    },
    definitions,
  );
  assert.deepEqual(exportsOf(outcome).$return_value, {
    row: { id: 3, text: 'hello' },
    names: ['hello', 'b'],
    whole: '{"as": "it is"}',
    free: '{"id": 3}',
  });
  const bad = await run({ row: '{"id": {{event.text}}}' }, definitions);
  assert.match(bad.error?.message ?? '', /^prop row: .*no JSON of an object or array$/);
});
