import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { chmod, mkdtemp, readdir, rm } from 'node:fs/promises';
import { getPriority, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { pino } from 'pino';
import { AddressPolicy } from '#egress/address-policy.ts';
import { systemClock } from '#lib/clock.ts';
import { silentLogger } from '#lib/logger.ts';
import { signal, signalled, untilLetGo, waitingCode } from '../../test/support/code-signals.ts';
import { ManualTimer } from '../../test/support/manual-timer.ts';
import {
  bundleOf,
  componentWith,
  pidTitled,
  processesOf,
  type RunnerFixture,
  requestFor,
  resultOf,
  startRunnerFixture,
} from '../../test/support/runner-fixture.ts';
import { levelOfTests } from '../../test/support/sandbox-level.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import type { CallOutcome, HttpReply } from './call-outcome.ts';
import { niceness } from './cpu-shares.ts';
import { createProcessRunner } from './process-runner.ts';
import type { CallOptions } from './runner.ts';
import { reachableBase, startTimeOf } from './runner-folders.ts';

let fixture: RunnerFixture;
before(async () => {
  fixture = await startRunnerFixture();
});
after(() => fixture.close());

const run = (...args: Parameters<RunnerFixture['run']>) => fixture.run(...args);
const call = (...args: Parameters<RunnerFixture['call']>) => fixture.call(...args);

test('a run gets its event; its result, events, db writes, logs and reply come back', async () => {
  const replies: HttpReply[] = [];
  const outcome = await run(
    `this.db.set('seen', this.db.get('seen') + 1);
     this.$emit({ got: event.a }, { id: 7, summary: 'one', ts: 5, name: 'channel' });
     this.http.respond({ status: '201', headers: { 'X-A': 'b' }, body: 'made' });
     console.log('hello %s', 'world', { deep: [1] });
     console.error('bad');
     return { twice: event.a * 2 };`,
    { call: { kind: 'run', event: '{"a":21}' }, db: { seen: '1' } },
    { onRespond: (reply) => replies.push(reply) },
  );
  assert.deepEqual(resultOf(outcome), { twice: 42 });
  assert.deepEqual(outcome.dbSets, { seen: '2' });
  assert.deepEqual(outcome.emits, [
    { event: '{"got":21}', id: '7', idIsNumber: true, summary: 'one', ts: 5, name: 'channel' },
  ]);
  assert.deepEqual(
    outcome.logs.map(({ level, message }) => [level, message]),
    [
      ['log', 'hello world { deep: [ 1 ] }'],
      ['error', 'bad'],
    ],
  );
  const reply = {
    status: 201,
    headers: { 'X-A': 'b', 'content-type': 'text/plain; charset=utf-8' },
    body: Buffer.from('made'),
  };
  assert.deepEqual(outcome.response, reply);
  assert.deepEqual(replies, [reply]);
  assert.equal(fixture.runner.stats().level, levelOfTests());
});

test('the instance has every prop by its type, bound methods, and apps with bound methods and credentials', async () => {
  const source = `
    const app = { type: 'app', app: 'chat', propDefinitions: { room: { type: 'string', label: 'Room' } },
      methods: { token() { return this.$auth.oauth_access_token; }, header() { return 'Bearer ' + this.token(); } } };
    module.exports = {
      props: { chat: app, room: { propDefinition: [app, 'room'] }, timer: { type: '$.interface.timer', default: { intervalSeconds: 60 } },
        http: { type: '$.interface.http', customResponse: true }, db: '$.service.db', limit: { type: 'integer', default: 10 },
        note: { type: 'alert', alertType: 'info', content: 'x' }, files: { type: 'dir' } },
      methods: { add(n) { return this.base() + n; }, base() { return this.limit; } },
      async run() {
        const { add } = this;
        let later; try { await this.files.open('x').toBuffer(); } catch (error) { later = error.message; }
        return { header: this.chat.header(), room: this.room, sum: add(1), timer: this.timer, endpoint: this.http.endpoint,
          note: 'note' in this, missing: this.db.get('missing') === undefined, later, deployment: process.env.PD_COMPONENT };
      } };`;
  const outcome = await call(source, {
    deploymentId: 'dc_props',
    props: {
      chat: { $auth: { oauth_access_token: 'T' } },
      room: 'r1',
      http: { endpoint: 'https://x.example/' },
    },
  });
  assert.deepEqual(resultOf(outcome), {
    header: 'Bearer T',
    room: 'r1',
    sum: 11,
    timer: { type: '$.interface.timer', intervalSeconds: 60 },
    endpoint: 'https://x.example/',
    note: false,
    missing: true,
    later: 'this call cannot ask the service for anything',
    deployment: 'dc_props',
  });
});

test('hooks run with the same instance, and a hook that is missing is no error', async () => {
  const source = `module.exports = { props: { db: '$.service.db' }, hooks: {
      async deploy() { this.db.set('topic', 'arn'); this.$emit({ historic: true }); } } , run() {} };`;
  const deploy = await call(source, { deploymentId: 'dc_hooks', call: { kind: 'hook', hook: 'deploy' } });
  assert.equal(deploy.status, 'finished');
  assert.deepEqual(deploy.dbSets, { topic: '"arn"' });
  assert.equal(deploy.emits[0]?.event, '{"historic":true}');
  const activate = await call(source, { deploymentId: 'dc_hooks', call: { kind: 'hook', hook: 'activate' } });
  assert.equal(activate.status, 'finished');
});

test('an emitted event is a snapshot, and unusual metadata never throws', async () => {
  const outcome = await run(`
    const item = { n: 1, when: new Date(0), big: 10n, list: new Set([1]) };
    item.self = item;
    await this.$emit(item, { ts: new Date(9) }); item.n = 2;
    const { $emit } = this;
    $emit(item.n, { ts: '1.2', id: 'a' }); $emit(null, { ts: NaN, id: undefined }); $emit(undefined, { ts: {} });
    $emit(Buffer.from('x'), null); $emit(new Map([['__proto__', 1]]), { delivery_ts: 99, get ts() { throw new Error('no'); } });`);
  assert.equal(outcome.status, 'finished');
  assert.deepEqual(outcome.emits, [
    {
      event: '{"n":1,"when":"1970-01-01T00:00:00.000Z","big":"10","list":[1],"self":"[Circular]"}',
      ts: 9,
      name: '',
    },
    { event: '2', id: 'a', ts: 1.2, name: '' },
    { event: 'null', name: '' },
    { event: 'null', name: '' },
    { event: '{"type":"Buffer","base64":"eA=="}', name: '' },
    { event: '{"__proto__":1}', name: '' },
  ]);
});

test('the db returns copies, and the key __proto__ is an ordinary key', async () => {
  const outcome = await run(
    `const list = this.db.get('list'); list.push(2); const same = this.db.get('list').length;
     this.db.set('list', list); list.push(3); this.db.set('__proto__', { a: 1 }); this.db.set('none', null);
     return { same, now: this.db.get('list'), proto: this.db.get('__proto__'), none: this.db.get('none') };`,
    { db: { list: '[1]' } },
  );
  assert.deepEqual(resultOf(outcome), { same: 1, now: [1, 2], proto: { a: 1 }, none: null });
  assert.equal(Object.getOwnPropertyDescriptor(outcome.dbSets, '__proto__')?.value, '{"a":1}');
  assert.equal(({} as Record<string, unknown>).a, undefined);
});

test('a reply is handed over before the call ends, and only the first one counts', async () => {
  const first = Promise.withResolvers<HttpReply>();
  const done = run(
    `this.http.respond({ status: 200, body: { early: true } }); this.http.respond({ status: 500 });
     ${untilLetGo} return 'late';`,
    {},
    { onRespond: first.resolve },
  );
  const winner = await Promise.race([first.promise, done]);
  assert.ok('body' in winner, 'the call ended before its reply was told');
  assert.equal(winner.body.toString(), '{"early":true}');
  (await waitingCode())();
  assert.equal(resultOf(await done), 'late');
});

test('an invalid reply is an error to the component', async () => {
  for (const [reply, message] of [
    ['{ status: 99 }', /status must be an integer/],
    ['{ status: 100 }', /status must be an integer from 200 to 599/],
    ["{ status: '199' }", /status must be an integer from 200 to 599/],
    ['{ status: 600 }', /status must be an integer/],
    ['{ status: 1e9 }', /status must be an integer/],
    ["{ status: 'x' }", /status must be an integer/],
    ["{ status: 200, headers: { a: 'b\\r\\nc: d' } }", /characters that are not allowed/],
    ["{ status: 200, headers: { 'a b': 'c' } }", /not a header name/],
    ['undefined', /expects an object/],
  ] as const) {
    const outcome = await fixture.evaluate(`this.http.respond(${reply})`);
    assert.equal(outcome.status, 'threw', reply);
    assert.match(outcome.error?.message ?? '', message);
    assert.equal(outcome.response, undefined);
  }
});

test('a reply that is too large is an error to the component, and the caller gets an error response', async () => {
  const outcome = await fixture.evaluate("this.http.respond({ status: 200, body: 'x'.repeat(7e6) })");
  assert.equal(outcome.status, 'threw');
  assert.match(outcome.error?.message ?? '', /at most/);
  assert.equal(outcome.response?.status, 500);
  assert.equal(JSON.parse(String(outcome.response?.body)).code, 'reply_too_large');
});

test('calls of one deployment overlap, and each keeps its own events, logs and writes', async () => {
  const source = componentWith(`
    console.log('start', event.n); this.$emit(event.n);
    await new Promise((resolve) => setTimeout(resolve, 60 - event.n));
    console.log('end', event.n); this.db.set('n', event.n); this.$emit(-event.n); return event.n;`);
  const numbers = Array.from({ length: 40 }, (_, i) => i + 1);
  const outcomes = await Promise.all(
    numbers.map((n) =>
      call(source, { deploymentId: 'dc_overlap', call: { kind: 'run', event: JSON.stringify({ n }) } }),
    ),
  );
  for (const [i, outcome] of outcomes.entries()) {
    const n = i + 1;
    assert.equal(resultOf(outcome), n);
    assert.deepEqual(
      outcome.emits.map((emit) => emit.event),
      [String(n), String(-n)],
    );
    assert.deepEqual(
      outcome.logs.map((line) => line.message),
      [`start ${n}`, `end ${n}`],
    );
    assert.deepEqual(outcome.dbSets, { n: String(n) });
  }
});

test('a component without run emits the event it was given', async () => {
  const outcome = await call(
    `module.exports = { name: 'schedule', props: { timer: '$.interface.timer' } };`,
    {
      call: { kind: 'run', event: '{"timestamp":1700000000,"interval_seconds":60}' },
    },
  );
  assert.deepEqual(outcome.emits, [
    {
      event: '{"timestamp":1700000000,"interval_seconds":60}',
      id: '1700000000',
      idIsNumber: true,
      ts: 1_700_000_000_000,
      name: '',
    },
  ]);
});

test('an ES module with a default export runs, and may import what Node has', async () => {
  const outcome = await fixture.runner.call(
    requestFor('', {
      deploymentId: 'dc_esm',
      bundle: bundleOf(
        `import { createHash } from 'node:crypto'; import { createRequire } from 'node:module';
         const require = createRequire(import.meta.url);
         export default defineComponent({ async run() { const { join } = await import('node:path');
           return [createHash('md5').update('a').digest('hex').length, join('a', 'b'), typeof require('os').tmpdir()]; } });`,
        'esm',
      ),
    }),
  );
  assert.deepEqual(resultOf(outcome), [32, 'a/b', 'string']);
});

test('describe returns props in order, resolved and without functions', async () => {
  const outcome = await fixture.describe(`
    const app = { type: 'app', app: 'git_hub', propDefinitions: {
      repo: { type: 'string', label: 'Repo', description: 'd', optional: true, options() { return []; }, useQuery: true } } };
    exports.default = { key: 'git_hub-new', name: 'New', version: '1.0.0', type: 'source', dedupe: 'unique',
      props: { app, db: '$.service.db', repo: { propDefinition: [app, 'repo', () => ({})], label: 'Mine', reloadProps: true },
        cron: { propDefinition: [app, 'unknown'], type: '$.interface.timer' }, color: { type: 'string[]', options: ['a', { label: 'B', value: 'b' }] },
        note: { type: 'alert', alertType: 'info', content: 'read' } },
      hooks: { activate() {}, other() {} }, additionalProps() {}, sampleEmit: {}, run() {} };`);
  assert.equal(outcome.status, 'described');
  assert.deepEqual(outcome.status === 'described' && JSON.parse(outcome.shape), {
    type: 'source',
    key: 'git_hub-new',
    name: 'New',
    version: '1.0.0',
    dedupe: 'unique',
    hooks: ['activate'],
    hasRun: true,
    hasAdditionalProps: true,
    hasSampleEmit: true,
    configurableProps: [
      { name: 'app', type: 'app', app: 'git_hub' },
      { name: 'db', type: '$.service.db' },
      {
        name: 'repo',
        type: 'string',
        label: 'Mine',
        description: 'd',
        optional: true,
        useQuery: true,
        reloadProps: true,
        remoteOptions: true,
      },
      { name: 'cron', type: '$.interface.timer' },
      { name: 'color', type: 'string[]', options: ['a', { label: 'B', value: 'b' }] },
      { name: 'note', type: 'alert', alertType: 'info', content: 'read' },
    ],
  });
});

test('code that exports no component, throws, or has getters that throw is a load failure with the reason', async () => {
  for (const [source, message] of [
    ['', /exports no component/],
    ['module.exports = 5', /exports no component/],
    ['module.exports = null', /exports no component/],
    ['module.exports = { run: 5 }', /run of a component must be a function/],
    ['throw new TypeError("at the top")', /at the top/],
    ['syntax error(', /Unexpected identifier/],
    ['require("left-pad")', /Cannot find module 'left-pad'/],
    ['module.exports = { props: { get a() { throw new Error("trap"); } }, run() {} }', /trap/],
    ['module.exports = { get run() { throw new Error("trap"); }, props: {} }', /trap/],
    ['module.exports = { props: { a: { label: "no type" } }, run() {} }', /prop a has no type/],
    [
      'module.exports = new Proxy({}, { has() { return true; }, get() { throw new Error("proxy"); } })',
      /proxy/,
    ],
    ['process.exit(3)', /ended with code 3/],
  ] as const) {
    const outcome = await fixture.describe(source);
    assert.equal(outcome.status, 'load_failed', `${source}: ${JSON.stringify(outcome)}`);
    assert.match(outcome.error.message, message);
  }
});

test('additionalProps gets the definitions, and both its answer and what it changed in place come back', async () => {
  const outcome = await call(
    `module.exports = { props: { kind: { type: 'string', reloadProps: true } },
       async additionalProps(previous) { previous.kind.hidden = true;
         return { extra: { type: 'string', label: this.kind, options() { return []; } }, hook: '$.interface.http' }; }, run() {} };`,
    { call: { kind: 'additionalProps', previous: { kind: { type: 'string' } } }, props: { kind: 'big' } },
  );
  assert.deepEqual(resultOf(outcome), {
    props: {
      extra: { name: 'extra', type: 'string', label: 'big', remoteOptions: true },
      hook: { name: 'hook', type: '$.interface.http' },
    },
    previous: { kind: { name: 'kind', type: 'string', hidden: true } },
  });
});

test('event names come from the component, also for props that additionalProps defined', async () => {
  const hook = `type: '$.interface.apphook', appProp: 'slack'`;
  const outcome = await call(
    `module.exports = { props: { kind: 'string', slack: { type: 'app', app: 'slack' },
       named: { ${hook}, async eventNames() { return this.mine(); } }, fixed: { ${hook}, eventNames: ['a'] },
       silent: { ${hook}, eventNames() {} }, all: { ${hook} } },
       methods: { mine() { return [this.kind, this.slack.$auth.oauth_uid]; } },
       additionalProps() { return { late: { ${hook}, eventNames() { return ['late:' + this.kind]; } } }; }, run() {} };`,
    {
      call: { kind: 'eventNames', previous: {} },
      props: { kind: 'big', slack: { $auth: { oauth_uid: 'U1' } } },
      dynamicProps: { late: { type: '$.interface.apphook' } },
    },
  );
  assert.deepEqual(resultOf(outcome), {
    named: ['big', 'U1'],
    fixed: ['a'],
    silent: [],
    all: null,
    late: ['late:big'],
  });
});

test('props that additionalProps defined are on the instance', async () => {
  const outcome = await run('return [this.hook.endpoint, typeof this.hook.respond, this.extra];', {
    dynamicProps: {
      hook: { name: 'hook', type: '$.interface.http' },
      extra: { type: 'string', default: 'd' },
    },
    props: { hook: { endpoint: 'https://e.example/' } },
  });
  assert.deepEqual(resultOf(outcome), ['https://e.example/', 'function', 'd']);
});

test('literal /tmp paths lead to a folder of the deployment alone', async () => {
  const body = `
    const fs = require('fs'); const fsp = require('fs/promises'); const { pipeline } = require('stream/promises');
    const before = fs.readdirSync('/tmp');
    fs.writeFileSync('/tmp/a.txt', 'a'); await fsp.appendFile('/tmp/a.txt', 'b');
    await pipeline(fs.createReadStream('/tmp/a.txt'), fs.createWriteStream(require('os').tmpdir() + '/c.txt'));
    await new Promise((resolve, reject) => fs.rename('/tmp/c.txt', '/tmp/d.txt', (e) => e ? reject(e) : resolve()));
    const made = fs.mkdtempSync('/tmp/x-'); fs.writeFileSync(made + '/f', '');
    const { readFile } = await import('node:fs/promises');
    return { before, text: await readFile('/tmp/d.txt', 'utf8'), exists: fs.existsSync(new URL('file:///tmp/a.txt')), made: made.slice(0, 7), list: fs.readdirSync('/tmp').length };`;
  const expected = { before: [], text: 'ab', exists: true, made: '/tmp/x-', list: 3 };
  assert.deepEqual(resultOf(await run(body)), expected);
  assert.deepEqual(resultOf(await run(body)), expected, 'another deployment sees an empty folder');
});

test('another revision is evaluated again, the same one is not', async () => {
  const source = `globalThis.count = 0; ${componentWith('return [performance.timeOrigin, ++globalThis.count];')}`;
  const first = resultOf(await call(source, { deploymentId: 'dc_rev' })) as number[];
  const second = resultOf(await call(source, { deploymentId: 'dc_rev' })) as number[];
  assert.deepEqual(second, [first[0], 2]);
  const third = resultOf(await call(source, { deploymentId: 'dc_rev', revision: 2 })) as number[];
  assert.deepEqual(third, [first[0], 1]);
});

test('calls in flight at a change of revision still end normally', async () => {
  const source = componentWith(
    'await new Promise((r) => setTimeout(r, 100)); return performance.timeOrigin;',
  );
  const old = call(source, { deploymentId: 'dc_drain' });
  const next = call(source, { deploymentId: 'dc_drain', revision: 2 });
  assert.equal(resultOf(await old), resultOf(await next));
});

test('forget cancels the calls in flight and ends the process', async () => {
  const started = Promise.withResolvers<void>();
  const pending = run(
    "process.title = 'forgotten'; this.http.respond({}); await new Promise(() => {});",
    { deploymentId: 'dc_forget' },
    { onRespond: () => started.resolve() },
  );
  await started.promise;
  const pid = await pidTitled(fixture, 'forgotten');
  assert.ok(startTimeOf(pid) !== undefined, 'the process runs');
  await fixture.runner.forget('dc_forget');
  assert.equal((await pending).status, 'cancelled');
  assert.equal(startTimeOf(pid), undefined, 'the process is gone');
});

test('a process that has closed its descriptors has also ended when forget resolves', async () => {
  const waits = fixture.run(
    `process.title = 'silent'; const held = Buffer.alloc(2e8, 1); ${signal('silent')}
     for (const descriptor of [1, 2, 3, 4, 5]) require('fs').closeSync(descriptor); for (;;) held[0] += 1;`,
    { deploymentId: 'dc_silent' },
  );
  await signalled('silent');
  const pid = await pidTitled(fixture, 'silent');
  await waitFor(() =>
    readdirSync(`/proc/${pid}/fd`).every((descriptor) => !['3', '4', '5'].includes(descriptor)),
  );
  await fixture.runner.forget('dc_silent');
  assert.equal(startTimeOf(pid), undefined);
  await waits;
});

test('an aborted call ends as cancelled', async () => {
  const controller = new AbortController();
  const pending = run(
    'this.http.respond({}); for (;;) await 1;',
    {},
    { signal: controller.signal, onRespond: () => controller.abort() },
  );
  assert.equal((await pending).status, 'cancelled');
  const before = await run('return 1', {}, { signal: AbortSignal.abort() });
  assert.equal(before.status, 'cancelled');
});

test('a start and a stop log no process as killed: ends of superfluous processes are no event', async () => {
  const lines: string[] = [];
  const logger = pino({ level: 'info' }, { write: (line: string) => lines.push(line) });
  const own = await startRunnerFixture({ logger, limits: { prewarmed: 1 } });
  await waitFor(() => own.runner.stats().prewarmed === 1);
  await own.close();
  assert.deepEqual(lines, []);
});

test('a runner that has run no code keeps fewer processes ready than one in use', async () => {
  const limits = { prewarmed: 2, refillIntervalMs: 0 };
  const unused = await startRunnerFixture({ limits: { ...limits, prewarmedUnused: 1 } });
  const control = await startRunnerFixture({ limits: { ...limits, prewarmedUnused: 2 } });
  try {
    await waitFor(() => unused.runner.stats().prewarmed === 1);
    // By then the other one would have its second process too.
    await waitFor(() => control.runner.stats().prewarmed === 2);
    assert.equal(unused.runner.stats().prewarmed, 1);
    assert.equal(resultOf(await unused.run('return 1')), 1);
    await waitFor(() => unused.runner.stats().prewarmed === 2);
  } finally {
    await Promise.all([unused.close(), control.close()]);
  }
});

test('processes are ready for owners whose code is due, and end when it does not come', async () => {
  const limits = { prewarmed: 1, prewarmedUnused: 1, refillIntervalMs: 0, surplusKeptMs: 1 };
  const own = await startRunnerFixture({ limits });
  const ready = () => own.runner.stats().prewarmed;
  try {
    await own.run('return 1', { deploymentId: 'dc_here', ownerId: 'u_here' });
    own.runner.expectOwners(['u_here', 'u_2', 'u_3', 'u_4', 'u_5'], 1);
    await waitFor(() => ready() === 4);
    await own.run('return 1', { deploymentId: 'dc_2', ownerId: 'u_2' });
    await own.run('return 1', { deploymentId: 'dc_3', ownerId: 'u_3' });
    // It begins to start after those that would replace what was taken.
    await own.run('return 1', { deploymentId: 'dc_special', ownerId: 'u_here', memoryMb: 100 });
    assert.equal(ready(), 2, 'those that were taken are not replaced');
    own.runner.expectOwners(['u_4', 'u_5', 'u_6', 'u_7'], 0.75);
    await waitFor(() => ready() === 3);
    own.runner.expectOwners([], 1);
    await waitFor(() => ready() === 1);
  } finally {
    await own.close();
  }
});

test('processes for owners whose code is due leave room for what is needed now, and fit into the memory', async () => {
  const limits = { prewarmed: 1, prewarmedUnused: 1, refillIntervalMs: 0 };
  const full = await startRunnerFixture({ limits: { ...limits, processesMax: 2 } });
  const small = await startRunnerFixture({ limits: { ...limits, memoryBudgetMb: 32 } });
  const owners = ['u_1', 'u_2', 'u_3', 'u_4', 'u_5'];
  try {
    for (const { runner } of [full, small]) runner.expectOwners(owners, 1);
    await waitFor(() => full.runner.stats().prewarmed === 2 && small.runner.stats().prewarmed === 2);
    for (const { run } of [full, small])
      assert.equal(resultOf(await run('return 1', { memoryMb: 100, ownerId: 'u_9' })), 1);
    assert.equal(small.runner.stats().prewarmed, 2);
  } finally {
    await Promise.all([full.close(), small.close()]);
  }
});

test('without a sandbox, for development, calls work too', async () => {
  const open = await startRunnerFixture({ level: 'off' });
  try {
    assert.equal(resultOf(await open.run('return 1')), 1);
    assert.equal(open.runner.stats().level, 'off');
  } finally {
    await open.close();
  }
});

test('close leaves no process, no scratch folder, and answers every call', async () => {
  const own = await startRunnerFixture({ limits: { prewarmed: 1 } });
  const body = 'this.http.respond({}); if (event.stay) await new Promise(() => {}); ';
  await own.run(body);
  const answered = Promise.withResolvers<void>();
  const pending = own.run(
    body,
    { call: { kind: 'run', event: '{"stay":true}' } },
    { onRespond: () => answered.resolve() },
  );
  await answered.promise;
  const pids = await processesOf(own);
  assert.ok(pids.length >= 2);
  for (const pid of pids) assert.ok(startTimeOf(pid) !== undefined);
  const closing = own.runner.close();
  assert.equal(own.runner.close(), closing, 'closing twice is one closing');
  await closing;
  assert.equal((await pending).status, 'cancelled');
  for (const pid of pids) assert.equal(startTimeOf(pid), undefined);
  assert.deepEqual(
    (await readdir(own.folder)).filter((name) => name.startsWith('run-')),
    [],
  );
  assert.equal((await own.run('return 1')).status, 'cancelled');
  await own.close();
});

test('a process that is started ahead of need has loaded the HTTP clients; a process that a call waits for has not', async () => {
  const hasFetch = "return process.moduleLoadList.includes('NativeModule internal/deps/undici/undici');";
  assert.equal(resultOf(await run(hasFetch)), false);
  const own = await startRunnerFixture({ limits: { prewarmed: 1, prewarmAfterMs: 1 } });
  try {
    let deployments = 0;
    await waitFor(async () => {
      deployments += 1;
      // Each takes a process that was started ahead, as soon as one is ready.
      await waitFor(() => own.runner.stats().prewarmed === 1);
      return resultOf(await own.run(hasFetch, { deploymentId: `dc_${deployments}` })) === true;
    });
  } finally {
    await own.close();
  }
});

test('a process that is started ahead of need loads nothing for the first call while others start', async () => {
  const hasFetch = "return process.moduleLoadList.includes('NativeModule internal/deps/undici/undici');";
  const own = await startRunnerFixture({ limits: { prewarmed: 1, prewarmAfterMs: 3_600_000 } });
  try {
    await waitFor(() => own.runner.stats().prewarmed === 1);
    assert.equal(resultOf(await own.run(hasFetch)), false);
  } finally {
    await own.close();
  }
});

test('at the maximum of processes, the one unused for longest makes room', async () => {
  const own = await startRunnerFixture({ limits: { processesMax: 2 } });
  try {
    const pidOf = async (id: string) =>
      resultOf(await own.run('return performance.timeOrigin', { deploymentId: id }));
    const a = await pidOf('dc_a');
    const b = await pidOf('dc_b');
    assert.equal(await pidOf('dc_a'), a);
    await pidOf('dc_c');
    assert.equal(await pidOf('dc_a'), a, 'the one used last stayed');
    assert.notEqual(await pidOf('dc_b'), b, 'the one unused for longest was ended');
  } finally {
    await own.close();
  }
});

test('a call that waits for a process ends one idle process, also when another becomes idle meanwhile', async () => {
  const own = await startRunnerFixture({ limits: { processesMax: 3 } });
  try {
    const birthOf = async (id: string) =>
      resultOf(await own.run('return performance.timeOrigin', { deploymentId: id }));
    await birthOf('dc_a');
    const b = await birthOf('dc_b');
    const c = await birthOf('dc_c');
    let isWaiting = true;
    const waiting = birthOf('dc_d').finally(() => {
      isWaiting = false;
    });
    // Each of these calls makes its process idle again while that of `dc_a` ends.
    while (isWaiting) assert.equal(await birthOf('dc_c'), c);
    await waiting;
    assert.equal(await birthOf('dc_b'), b, 'one process made room, and no second one');
  } finally {
    await own.close();
  }
});

test('the error of a call that gets no process says whose runs use them', async () => {
  const own = await startRunnerFixture({ limits: { processesMax: 2, waitingMax: 0, prewarmed: 1 } });
  const stop = new AbortController();
  try {
    await waitFor(() => own.runner.stats().prewarmed === 1);
    const asleep = Promise.withResolvers<void>();
    const outcome = own.run(
      'this.http.respond({}); await new Promise(() => {});',
      { ownerId: 'u_sleeps' },
      { onRespond: () => asleep.resolve(), signal: stop.signal },
    );
    await asleep.promise;
    const refused = await own.run('return 1', {
      ownerId: 'u_sleeps',
      deploymentId: 'dc_second',
      isolated: true,
    });
    assert.deepEqual([refused.status, refused.error?.code], ['cancelled', 'no_free_process']);
    assert.match(refused.error?.message ?? '', /: [12] of 2 processes are busy with runs of this owner/);
    stop.abort();
    await outcome;
  } finally {
    await own.close();
  }
});

test('memory beyond the share of an owner ends its own idle processes, and it gets no further process until it uses less', async () => {
  const timer = new ManualTimer();
  const limits = { memoryBudgetMb: 400, waitingMax: 0, prewarmed: 1 };
  const own = await startRunnerFixture({ timer, limits });
  const stop = new AbortController();
  const call = async (ownerId: string, deploymentId: string, body: string, options: CallOptions = {}) => {
    await waitFor(() => own.runner.stats().prewarmed === 1);
    return own.run(body, { ownerId, deploymentId, isolated: true }, options);
  };
  const deployments = () => own.runner.processes().processes.flatMap(({ deploymentIds }) => deploymentIds);
  try {
    const birth = 'return performance.timeOrigin';
    const other = resultOf(await call('u_other', 'dc_other', birth));
    await call('u_large', 'dc_idle', birth);
    const filled = Promise.withResolvers<void>();
    const holding = call(
      'u_large',
      'dc_large',
      `this.kept = Buffer.alloc(${200 * 2 ** 20}, 1); this.http.respond({}); await new Promise(() => {});`,
      { onRespond: () => filled.resolve(), signal: stop.signal },
    );
    await filled.promise;
    timer.advance(1_000);
    await waitFor(() => !deployments().includes('dc_idle'));
    const refused = await call('u_large', 'dc_further', birth);
    assert.equal(refused.error?.code, 'no_free_process');
    assert.match(
      refused.error?.message ?? '',
      /use \d+ MB of memory, and its share is 19\d MB; let its runs/,
    );
    assert.deepEqual(own.runner.stats().shares.memory, { delayed: 0, refused: 1 });
    const { memoryBytes, ...counts } = own.runner
      .processes()
      .shares.find(({ ownerId }) => ownerId === 'u_large') ?? { memoryBytes: 0 };
    assert.ok(memoryBytes > 200 * 2 ** 20);
    assert.deepEqual(counts, { ownerId: 'u_large', processes: 1, delayed: 0, refused: 1 });
    assert.equal(resultOf(await call('u_other', 'dc_other', birth)), other);
    stop.abort();
    await holding;
    await waitFor(() => !deployments().includes('dc_large'));
    assert.equal((await call('u_large', 'dc_further', birth)).status, 'finished');
  } finally {
    stop.abort();
    await own.close();
  }
});

test('a process that evaluates code, or that one call has to itself, is listed for as long as it lasts', async () => {
  const own = await startRunnerFixture();
  try {
    const listed = () =>
      own.runner.processes().processes.map(({ purpose, ownerId, deploymentIds, state, isShared }) => ({
        ...{ purpose, ownerId, deploymentIds, state, isShared },
      }));
    const of = { ownerId: 'u_test', state: 'busy', isShared: false };
    const evaluating = own.describe(`export default {}; ${untilLetGo}`, 'esm');
    const evaluate = await waitingCode();
    assert.deepEqual(listed(), [{ ...of, purpose: 'evaluation', deploymentIds: [] }]);
    evaluate();
    await evaluating;
    await waitFor(() => listed().length === 0);
    const calling = own.run(`${untilLetGo} return 1;`, {
      alone: true,
      deploymentId: 'dc_alone',
      ownerId: 'u_test',
    });
    const letGo = await waitingCode();
    assert.deepEqual(listed(), [{ ...of, purpose: 'call', deploymentIds: ['dc_alone'] }]);
    letGo();
    assert.equal(resultOf(await calling), 1);
    await waitFor(() => listed().length === 0);
  } finally {
    await own.close();
  }
});

test('code that keeps more cores busy than the share of its owner gets a lower priority, until it waits again', async () => {
  const timer = new ManualTimer();
  // The resource watch looks every 10 ms of this timer's time.
  const own = await startRunnerFixture({ timer, limits: { memoryPollMs: 1 } });
  try {
    // With the lower priority it would get little time on a busy machine, so it spins until it has that, and no longer.
    const spinning = own.run(
      `const { getPriority } = await import('node:os'); ${signal('spins')} while (getPriority() !== ${niceness.greedy}); ${untilLetGo} return 1;`,
    );
    await signalled('spins');
    const [{ pid = 0 } = {}] = own.runner.processes().processes;
    assert.equal(getPriority(pid), niceness.usual);
    // The code waits only after it has seen the lower priority.
    let letGo: (() => void) | undefined;
    void waitingCode().then((go) => {
      letGo = go;
    });
    await waitFor(() => {
      if (letGo === undefined) timer.advance(10);
      return letGo !== undefined;
    });
    await waitFor(() => {
      timer.advance(10);
      const [{ state } = {}] = own.runner.processes().processes;
      return getPriority(pid) === niceness.usual || state === 'leaving';
    });
    letGo?.();
    assert.equal(resultOf(await spinning), 1);
  } finally {
    await own.close();
  }
});

test('an owner whose code sleeps in every process it gets leaves room for the first call of another', async () => {
  const own = await startRunnerFixture({ limits: { processesMax: 4 } });
  const stop = new AbortController();
  try {
    // Both owners are known, and have no running code.
    for (const ownerId of ['u_sleeps', 'u_other']) await own.run('return 1', { ownerId });
    let asleep = 0;
    const onRespond = () => {
      asleep += 1;
    };
    const outcomes = Array.from({ length: 7 }, () =>
      own.run(
        'this.http.respond({}); await new Promise(() => {});',
        { ownerId: 'u_sleeps', isolated: true },
        { onRespond, signal: stop.signal },
      ),
    );
    await waitFor(() => asleep === 2);
    for (const expected of [2, 3])
      assert.equal(resultOf(await own.run(`return ${expected}`, { ownerId: 'u_other' })), expected);
    assert.equal(asleep, 2, 'half of what there is');
    stop.abort();
    for (const { status, error } of await Promise.all(outcomes))
      assert.equal(status, 'cancelled', JSON.stringify(error));
  } finally {
    await own.close();
  }
});

test('an owner that waits for its share gets a ready process as soon as one of its own is idle, also when no more may be started', async () => {
  const own = await startRunnerFixture({ limits: { processesMax: 4, prewarmed: 2, refillIntervalMs: 0 } });
  const gates = new Map<string, () => void>();
  const order: string[] = [];
  try {
    await own.run('return 1', { ownerId: 'u_other' });
    const call = (id: string) =>
      own.step(
        `await $.flow.trigger('${id}'); return 1;`,
        {
          ownerId: 'u_one',
          deploymentId: id,
          isolated: true,
        },
        {
          onHostCall: async () => {
            order.push(id);
            await new Promise<void>((resolve) => gates.set(id, resolve));
            return { header: {} };
          },
        },
      );
    const early: CallOutcome[] = [];
    const calls = ['d_1', 'd_2', 'd_3'].map(async (id) => early.push(await call(id)));
    await waitFor(() => {
      assert.deepEqual(early, []);
      return order.length === 2;
    });
    await waitFor(() => own.runner.stats().prewarmed > 0);
    gates.get(order[0] ?? '')?.();
    await waitFor(() => order.length === 3);
    for (const open of gates.values()) open();
    await Promise.all(calls);
  } finally {
    for (const open of gates.values()) open();
    await own.close();
  }
});

test('a data folder that other users cannot enter is no obstacle, and nothing of its replacement stays', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'millrace-test-'));
  await chmod(folder, 0o700);
  const runner = await createProcessRunner({
    level: levelOfTests() === 'kernel' ? 'require' : 'seat-belt',
    policy: new AddressPolicy({ allow: ['public'], deny: () => [] }),
    folder,
    logger: silentLogger,
    clock: systemClock,
  });
  const { base } = reachableBase(folder, process.getuid?.() === 0);
  try {
    const source = componentWith(
      "require('fs').writeFileSync('/tmp/a', 'b'); return [process.getuid(), process.argv[1]];",
    );
    const [uid, path] = resultOf(await runner.call(requestFor(source))) as [number, string];
    if (process.getuid?.() === 0) assert.ok(uid >= 61_000, `ran as ${uid}`);
    if (runner.stats().level === 'kernel') assert.equal(path, '/program.cjs');
    else assert.equal(dirname(dirname(path)), base);
  } finally {
    await runner.close();
    await rm(folder, { recursive: true });
  }
  assert.equal(existsSync(base), false, `${base} was left behind`);
});
