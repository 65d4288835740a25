import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { signal, signalled } from '../../test/support/code-signals.ts';
import { ManualTimer } from '../../test/support/manual-timer.ts';
import { type RunnerFixture, resultOf, startRunnerFixture } from '../../test/support/runner-fixture.ts';
import type { OptionsCall } from './runner.ts';

/** A timer that the tests advance, so that deadlines pass only when a test says so. */
const timer = new ManualTimer();
let fixture: RunnerFixture;
before(async () => {
  fixture = await startRunnerFixture({ timer });
});
after(() => fixture.close());

const asking = (prop: string, more: Partial<OptionsCall> = {}) => ({
  call: { kind: 'options', prop, page: 0, prevContext: {}, query: '', ...more } as const,
});

const app = `const app = { type: 'app', app: 'git_hub',
  methods: { token() { return this.$auth.token; } },
  propDefinitions: {
    repo: { type: 'string', options(args) { return { options: [this.token(), Object.keys(this).sort(), args] }; } },
    linked: { propDefinition: [null, 'none'] },
    colors: { type: 'string', options: ['red', 'blue'] },
  } };
  app.propDefinitions.linked.propDefinition = [app, 'repo', ({ org }) => ({ linkedTo: org })];`;

test('options from propDefinition see the app with its account, and what the third element makes of the values', async () => {
  const source = `${app} module.exports = { props: { git: app, org: { type: 'string', default: 'home' },
    repo: { propDefinition: [app, 'repo', (c) => ({ owner: c.org, label: c.picked.label, apps: typeof c.git.token })] },
    far: { propDefinition: [app, 'linked', async () => ({ org: 'moved' })] },
    color: { propDefinition: [app, 'colors'] } }, run() {} };`;
  const ask = (prop: string, more: Partial<OptionsCall> = {}) =>
    fixture.call(source, {
      ...asking(prop, more),
      deploymentId: 'dc_linked',
      props: { git: { $auth: { token: 'secret' } }, picked: { label: 'L', value: 1 } },
    });
  const first = { page: 0, prevContext: {}, query: '' };
  assert.deepEqual(resultOf(await ask('repo')), {
    options: [
      'secret',
      ['$auth', 'app', 'token', 'type'],
      { ...first, owner: 'home', label: 'L', apps: 'function' },
    ],
  });
  const next = { page: 3, prevContext: { cursor: 'c' }, query: 'q' };
  assert.deepEqual((resultOf(await ask('repo', next)) as { options: unknown[] }).options[2], {
    ...next,
    owner: 'home',
    label: 'L',
    apps: 'function',
  });
  assert.deepEqual(
    (resultOf(await ask('far')) as { options: unknown[] }).options[2],
    { ...first, org: 'moved', linkedTo: 'moved' },
    'along a chain',
  );
  assert.deepEqual(resultOf(await ask('color')), ['red', 'blue']);
});

test("the component's own options see the component, and get the values as arguments too", async () => {
  const source = `${app} module.exports = { props: { git: app, org: { type: 'string' }, db: '$.service.db',
      repo: { propDefinition: [app, 'repo', () => ({ extra: 1 })], async options({ page, prevContext, query, org, extra, git }) {
        this.db.set('seen', 1); return [this.org, this.git.token(), this.help(), page, prevContext, query, org, extra, git === this.git]; } } },
    methods: { help() { return this.later + '!'; } }, run() {} };`;
  const outcome = await fixture.call(source, {
    ...asking('repo'),
    props: { git: { $auth: { token: 't' } }, org: 'o', later: 'dynamic', page: 9 },
  });
  assert.deepEqual(resultOf(outcome), ['o', 't', 'dynamic!', 0, {}, '', 'o', 1, true]);
});

test('the app of a propDefinition gets the account of the same app when the component has a copy of it', async () => {
  const source = `${app} module.exports = { props: { mine: { type: 'app', app: 'git_hub' }, repo: { propDefinition: [app, 'repo'] } }, run() {} };`;
  const outcome = await fixture.call(source, {
    ...asking('repo'),
    props: { mine: { $auth: { token: 't' } } },
  });
  assert.equal((resultOf(outcome) as { options: unknown[] }).options[0], 't');
});

test('options of a prop that additionalProps defines come from another call of additionalProps', async () => {
  const source = `module.exports = { props: { kind: { type: 'string', reloadProps: true }, own: { type: 'string' } },
    additionalProps(previous) { const kind = this.kind; previous.own.options = () => ['in place', this.tags];
      return { tags: { type: 'string[]', async options({ page }) { return [kind + page, this.tags, this.kind]; } } }; }, run() {} };`;
  const ask = (prop: string) =>
    fixture.call(source, {
      deploymentId: 'dc_added',
      ...asking(prop, { page: 2, previous: { kind: { type: 'string' }, own: { type: 'string' } } }),
      props: { kind: 'big', tags: ['t'] },
    });
  assert.deepEqual(resultOf(await ask('tags')), ['big2', ['t'], 'big']);
  assert.deepEqual(resultOf(await ask('own')), ['in place', ['t']]);
  const missing = await ask('none');
  assert.equal(missing.status, 'threw');
  assert.equal(missing.error?.message, 'prop none has no options to choose from');
});

test('props that refer to each other in a circle have no options', async () => {
  const source = `const app = { type: 'app', app: 'a', propDefinitions: {} };
    app.propDefinitions.x = { type: 'string', propDefinition: [app, 'x'] };
    module.exports = { props: { app, x: { propDefinition: [app, 'x'] } }, run() {} };`;
  const outcome = await fixture.call(source, asking('x'));
  assert.equal(outcome.error?.message, 'prop x has no options to choose from');
});

test('options are limited in time and size, and their errors keep name and message', async () => {
  const deadlineMs = 500;
  const ask = (body: string) =>
    fixture.call(`module.exports = { props: { x: { type: 'string', ${body} } }, run() {} };`, {
      ...asking('x'),
      ...{ alone: true, deadlineMs },
    });
  const large = await ask('options() { return ["x".repeat(2_000_000)]; }');
  assert.equal(large.status, 'limit_exceeded');
  assert.match(large.error?.message ?? '', /the list of options is larger than 1 MB/);
  const begin = `${signal('begun')}`;
  for (const body of [
    `options() { ${begin} for (;;); }`,
    `options() { ${begin} return new Promise(() => {}); }`,
  ]) {
    const outcome = ask(body);
    const { ended } = await signalled('begun');
    timer.advance(deadlineMs);
    assert.equal((await outcome).status, 'timed_out');
    await ended;
  }
  const thrown = await ask('async options() { throw new RangeError("no luck"); }');
  assert.deepEqual(
    [thrown.status, thrown.error?.name, thrown.error?.message],
    ['threw', 'RangeError', 'no luck'],
  );
  assert.equal(resultOf(await ask('options() { return undefined; }')), undefined);
});
