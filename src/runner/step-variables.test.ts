import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import {
  componentWith,
  exportsOf,
  type RunnerFixture,
  requestFor,
  resultOf,
  startRunnerFixture,
  stepCall,
  stepRequest,
} from '../../test/support/runner-fixture.ts';
import type { CallOutcome } from './call-outcome.ts';
import type { CallOptions, CallRequest } from './runner.ts';

let fixture: RunnerFixture;
before(async () => {
  fixture = await startRunnerFixture();
});
after(() => fixture.close());

let modules = 0;
/** Runs a step whose deployment has environment variables. */
function run(
  request: Partial<CallRequest>,
  definitions = '{}',
  body = 'const { $emit, ...own } = this; return own;',
  options: CallOptions = {},
): Promise<CallOutcome> {
  modules += 1;
  const source = `const loaded = process.env.A;
    module.exports = { props: ${definitions}, async run({ steps, $ }) { ${body} } };`;
  return fixture.runner.call(
    stepRequest(source, {
      deploymentId: `d_${modules}`,
      ownerId: 'u_variables',
      module: `c_${modules}`,
      ...request,
    }),
    options,
  );
}

const levels = ({ logs }: CallOutcome) => logs.map(({ level, message }) => [level, message]);

test('code finds them when it is loaded and when it runs, however it asks, and its packages do too', async () => {
  const outcome = await run(
    { deploymentId: 'd_code', variables: { A: 'a', B: 'b\nö', constructor: 'c' } },
    '{}',
    `const { env } = require('node:process');
     return [loaded, process.env.B, process.env['constructor'], env.A, 'A' in env, { ...env }.B,
       Object.keys(process.env).includes('A'), process.env.C, await new Promise((r) => setImmediate(() => r(process.env.A)))];`,
  );
  assert.deepEqual(
    exportsOf(outcome).$return_value,
    ['a', 'b\nö', 'c', 'a', true, 'b\nö', true, undefined, 'a'].map((v) => v ?? null),
  );
  assert.deepEqual(outcome.logs, []);
});

test('another revision finds the new ones, while a call of the one before keeps its own', async () => {
  const ask = (revision: number, A: string, body: string, options?: CallOptions) =>
    run({ deploymentId: 'd_changed', revision, variables: { A } }, '{}', body, options);
  const [asked, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const waiting = ask(1, 'old', "await $.flow.trigger('p_2'); return [loaded, process.env.A];", {
    onHostCall: async () => {
      asked.resolve();
      await answer.promise;
      return { header: {} };
    },
  });
  await asked.promise;
  const next = await ask(2, 'new', 'return [loaded, process.env.A];');
  assert.deepEqual(exportsOf(next).$return_value, ['new', 'new']);
  answer.resolve();
  assert.deepEqual(exportsOf(await waiting).$return_value, ['old', 'old']);
});

test('neither a source nor another workflow in the same process has them', async () => {
  const own = 'return Object.keys(process.env);';
  await run(
    { deploymentId: 'd_one', variables: { A: 'a', ONLY: 'x' } },
    '{}',
    'process.env.LATER = 1; return 1;',
  );
  const other = exportsOf(await run({ deploymentId: 'd_two', variables: { TWO: '2' } }, '{}', own))
    .$return_value as string[];
  assert.deepEqual(
    ['A', 'ONLY', 'LATER', 'TWO'].map((name) => other.includes(name)),
    [false, false, false, true],
  );
  // A source has none, whatever the request says.
  const source = await fixture.runner.call(
    requestFor(componentWith(own), {
      deploymentId: 'dc_variables',
      ownerId: 'u_variables',
      variables: { A: 'a' },
    }),
  );
  const names = resultOf(source) as string[];
  assert.ok(names.includes('PD_COMPONENT') && !names.includes('A'), String(names));
  assert.equal(fixture.runner.stats().warm, 1, 'all in one process');
});

test('expressions find them', async () => {
  const variables = { BASE: 'https://x.example', N: '3' };
  const outcome = await run(
    {
      variables,
      props: {
        url: '{{process.env.BASE}}/a',
        n: '{{Number(process.env.N) + 1}}',
        all: '{{process.env["N"]}}',
      },
    },
    `{ url: 'string', n: 'integer', all: 'any' }`,
  );
  assert.deepEqual(exportsOf(outcome).$return_value, { url: 'https://x.example/a', n: 4, all: '3' });
  assert.deepEqual(outcome.logs, []);
});

test('one that is not set is a warning of the step, and an error where the prop is required', async () => {
  const optional = await run(
    {
      variables: { SET: 's' },
      props: { note: 'hi {{process.env.MISSING}}', tag: '{{process.env.NOTHING}}' },
    },
    `{ note: { type: 'string', optional: true }, tag: { type: 'string', default: 'd' } }`,
  );
  assert.deepEqual(exportsOf(optional).$return_value, { note: 'hi ', tag: 'd' });
  assert.deepEqual(levels(optional), [
    ['warn', 'prop note: the environment variable MISSING is not set'],
    ['warn', 'prop tag: the environment variable NOTHING is not set'],
  ]);
  const required = (value: unknown) => run({ props: { v: value } }, `{ v: 'any' }`);
  for (const value of [
    '{{process.env.MISSING}}',
    'x {{ process.env.MISSING }}',
    { deep: ['{{process.env.MISSING}}'] },
  ]) {
    const outcome = await required(value);
    assert.equal(outcome.status, 'threw');
    assert.equal(outcome.error?.name, 'ExpressionError');
    assert.equal(
      outcome.error?.message,
      'prop v: the environment variable MISSING is not set, and the prop is required',
    );
  }
  assert.match(
    (await required('{{process.env.MISSING.trim()}}')).error?.message ?? '',
    /Cannot read properties of undefined .* \(not set: MISSING\)$/,
  );
});

test('one that is not set is an error where the url of a request needs it, and a warning elsewhere in a request', async () => {
  const request = (httpRequest: unknown) =>
    run({ props: { httpRequest } }, `{ httpRequest: { type: 'http_request', default: { method: 'GET' } } }`);
  for (const value of [
    { url: '{{process.env.BASE}}' },
    { url: '{{process.env.BASE}}/orders' },
    '{"url": "{{process.env.BASE}}"}',
  ])
    assert.equal(
      (await request(value)).error?.message,
      'prop httpRequest: the environment variable BASE is not set, and the url of the request needs it',
    );
  const url = 'https://x.example/{{process.env.PATH_OF}}';
  const outcome = await request({ url, headers: [{ name: 'x', value: '{{process.env.TOKEN}}' }] });
  assert.equal(outcome.status, 'finished');
  assert.deepEqual(levels(outcome), [
    ['warn', 'prop httpRequest: the environment variable PATH_OF is not set'],
    ['warn', 'prop httpRequest: the environment variable TOKEN is not set'],
  ]);
});

test('an expression that says what holds without a variable needs none', async () => {
  const props = {
    a: '{{process.env.MISSING ?? "fallback"}}',
    b: '{{process.env["MISSING"] || 1}}',
    c: '{{process.env.MISSING ? 1 : 2}}',
    d: '{{"MISSING" in process.env}}',
    e: '{{!process.env.MISSING}}',
    f: '{{(process.env.MISSING) === undefined}}',
  };
  const outcome = await run({ props }, `{ a: 'any', b: 'any', c: 'any', d: 'any', e: 'any', f: 'any' }`);
  assert.deepEqual(exportsOf(outcome).$return_value, {
    a: 'fallback',
    b: 1,
    c: 2,
    d: false,
    e: true,
    f: true,
  });
  assert.deepEqual(outcome.logs, []);
  const half = await run(
    { props: { a: '{{process.env.MISSING || process.env.NEITHER}}' } },
    `{ a: { type: 'any', optional: true } }`,
  );
  assert.deepEqual(levels(half), [['warn', 'prop a: the environment variable NEITHER is not set']]);
});

test('what code reads while it runs is its own matter, also of an action that is run by itself', async () => {
  const outcome = await run(
    {
      variables: { A: 'a' },
      props: { text: '{{process.env.A}}' },
      call: stepCall({ byItself: true }),
    },
    `{ text: 'string' }`,
    'return [this.text, process.env.A, process.env.MISSING];',
  );
  assert.deepEqual(exportsOf(outcome).$return_value, ['{{process.env.A}}', 'a', null]);
  assert.deepEqual(outcome.logs, []);
});
