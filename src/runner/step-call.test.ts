import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { ManualTimer } from '../../test/support/manual-timer.ts';
import {
  actionWith,
  bundleOf,
  exportsOf,
  type RunnerFixture,
  startRunnerFixture,
  stepCall,
  stepRequest,
} from '../../test/support/runner-fixture.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import type { HttpReply } from './call-outcome.ts';

/** A timer that the tests advance, so that deadlines pass only when a test says so. */
const timer = new ManualTimer();
let fixture: RunnerFixture;
before(async () => {
  fixture = await startRunnerFixture({ timer });
});
after(() => fixture.close());

const step = (...args: Parameters<RunnerFixture['step']>) => fixture.step(...args);
let processes = 0;
/** As `step`, in a process of its own. */
const stepApart: typeof step = (body, overrides, options) => {
  processes += 1;
  return step(body, { deploymentId: `d_apart_${processes}`, ...overrides }, options);
};
/** Starts a step that makes a host call. Reports when it does, and answers when the test continues it. */
function asking() {
  const asked = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  const onHostCall = async () => {
    asked.resolve();
    await held.promise;
    return { header: {} };
  };
  return { onHostCall, asked: asked.promise, letGo: () => held.resolve() };
}
const mb = 1024 * 1024;

test('a step gets steps and $, and its exports and returned value come back', async () => {
  const outcome = await step(
    `$.export('$summary', 'done'); $.export('n', steps.trigger.event.a + 1); const o = { k: 1 }; $.export('snap', o); o.k = 2;
     $.export('gone', 1); $.export('gone', undefined); $.export('fn', () => 1); $.export('__proto__', 3); return { ok: true };`,
  );
  assert.equal(
    outcome.step?.exports,
    '{"$summary":"done","n":2,"snap":{"k":1},"__proto__":3,"$return_value":{"ok":true}}',
  );
  assert.equal(outcome.result, undefined);
  assert.equal(exportsOf(await step('return undefined')).$return_value, undefined);
  assert.deepEqual(exportsOf(await step('return null')), { $return_value: null });
});

test('exports of a step that throws are kept, with what it sends and its flow calls', async () => {
  const outcome = await step(
    `$.export('kept', [1]); $.send.http({ method: 'POST', url: 'https://a.example' }); $.flow.exit('why'); throw new RangeError('no');`,
  );
  assert.equal(outcome.status, 'threw');
  assert.equal(outcome.error?.name, 'RangeError');
  assert.deepEqual(outcome.step, {
    exports: '{"kept":[1]}',
    input: '{}',
    sends: [{ kind: 'http', payload: '{"method":"POST","url":"https://a.example"}' }],
    flow: { kind: 'exit', reason: 'why' },
  });
  const late = await step(
    `$.export('kept', 1); setTimeout(() => { throw new Error('late') }); await new Promise(() => {});`,
  );
  assert.equal(late.status, 'threw');
  assert.equal(late.step?.exports, '{"kept":1}');
});

test('a circular export or returned value fails the step; the error names the export and the circle', async () => {
  const exported = await step(`const a = { list: [{}] }; a.list[0].self = a; $.export('data', { a });`);
  assert.equal(exported.status, 'threw');
  assert.equal(exported.error?.name, 'TypeError');
  assert.equal(
    exported.error?.message,
    'the export "data" is circular: data.a.list[0].self refers back to data.a',
  );
  const returned = await step(`$.export('x', 1); const m = new Map(); m.set('me', m); return m;`);
  assert.equal(returned.status, 'threw');
  assert.match(
    returned.error?.message ?? '',
    /returned value.*is circular: \$return_value\.me refers back to/,
  );
  assert.equal(returned.step?.exports, '{"x":1}');
  const shared = await step(`const s = { n: 1 }; return [s, s, '[Circular]'];`);
  assert.deepEqual(exportsOf(shared).$return_value, [{ n: 1 }, { n: 1 }, '[Circular]']);
});

test('a response of axios that is returned is reduced, and the logs of the step say so', async () => {
  const outcome = await step(
    `const r = { status: 200, statusText: 'OK', headers: {}, config: {}, data: { n: 1 } }; r.request = { res: r }; return r;`,
  );
  assert.deepEqual(exportsOf(outcome).$return_value, {
    status: 200,
    statusText: 'OK',
    headers: {},
    data: { n: 1 },
  });
  assert.deepEqual(
    outcome.logs.map(({ level, message }) => [level, message.slice(0, 70)]),
    [['info', 'the returned value ($return_value) holds a response of axios, which re']],
  );
});

test('exports that are too large end the step with a message that names them, and the process survives', async () => {
  const deploymentId = 'd_large';
  const killsBefore = fixture.runner.stats().kills;
  const large = await step(`$.export('big', 'x'.repeat(50 * ${mb}));`, { deploymentId, module: 'c_1' });
  assert.equal(large.status, 'limit_exceeded');
  assert.match(large.error?.message ?? '', /the export "big" is larger than 6 MB/);
  const returned = await step(`return { list: Array.from({ length: 50 }, () => 'y'.repeat(${mb})) };`, {
    deploymentId,
    module: 'c_2',
  });
  assert.equal(returned.status, 'limit_exceeded');
  assert.match(returned.error?.message ?? '', /returned value/);
  const together = await step(`for (let i = 0; i < 8; i++) $.export('part' + i, 'x'.repeat(${mb}));`, {
    deploymentId,
    module: 'c_3',
  });
  assert.equal(together.status, 'limit_exceeded');
  assert.match(together.error?.message ?? '', /exports of one step .* "part5"/);
  assert.equal(Object.keys(JSON.parse(together.step?.exports ?? '')).length, 5);
  const full = await step(`return 'x'.repeat(6 * ${mb} - 100)`, { deploymentId, module: 'c_4' });
  assert.equal(String(exportsOf(full).$return_value).length, 6 * mb - 100);
  assert.equal(fixture.runner.stats().kills, killsBefore);
});

test('$.flow: the last call counts, both URLs are returned immediately, and impossible times are refused', async () => {
  const flow = async (body: string) => (await step(body)).step?.flow;
  const urls = { resume_url: 'https://example.com/in/resume', cancel_url: 'https://example.com/in/cancel' };
  const outcome = await step(`return [$.flow.suspend(), $.flow.delay(5), typeof $.flow.exit()];`);
  assert.deepEqual(exportsOf(outcome).$return_value, [urls, urls, 'undefined']);
  assert.deepEqual(outcome.step?.flow, { kind: 'exit', reason: null });
  assert.deepEqual(await flow('$.flow.suspend()'), { kind: 'suspend', ms: 86_400_000 });
  assert.deepEqual(await flow('$.flow.exit("a"); $.flow.delay(365 * 86400000)'), {
    kind: 'delay',
    ms: 31_536_000_000,
  });
  assert.deepEqual(await flow('$.flow.rerun(1000, { n: 1 })'), {
    kind: 'rerun',
    ms: 1000,
    context: '{"n":1}',
    maxRetries: 10,
  });
  assert.deepEqual(await flow('$.flow.rerun(0, undefined, 2)'), {
    kind: 'rerun',
    ms: 0,
    context: 'null',
    maxRetries: 2,
  });
  for (const bad of [
    'delay(0)',
    'delay(NaN)',
    'delay()',
    'delay(366 * 86400000)',
    'suspend("x")',
    'rerun(1, 1, -1)',
  ]) {
    const refused = await step(`$.flow.${bad}`);
    assert.deepEqual([refused.status, refused.error?.name], ['threw', 'TypeError'], bad);
  }
});

test('$.send queues what is sent, in every form', async () => {
  const outcome = await step(
    `$.send.email({ subject: 's', text: 't' }); $.send.s3({ bucket: 'b', prefix: 'p', payload: { a: 1 } });
     $.send.sse({ channel: 'c', payload: 1 }); $.send('http', { url: 'u' });
     $.send.emit({ n: 1 }); $.send.emit({ n: 2 }, 'ch'); $.send.emit({ raw_event: { n: 3 }, event: 'old' });
     $.send.emit({ raw_event: 1, event: 'x', more: 1 }); $.send.emit({ raw_event: 4 });`,
  );
  assert.deepEqual(
    outcome.step?.sends.map(({ kind, payload }) => [kind, JSON.parse(payload)]),
    [
      ['email', { subject: 's', text: 't' }],
      ['s3', { bucket: 'b', prefix: 'p', payload: { a: 1 } }],
      ['sse', { channel: 'c', payload: 1 }],
      ['http', { url: 'u' }],
      ['emit', { event: { n: 1 }, channel: null }],
      ['emit', { event: { n: 2 }, channel: 'ch' }],
      ['emit', { event: { n: 3 }, channel: 'old' }],
      ['emit', { event: { raw_event: 1, event: 'x', more: 1 }, channel: null }],
      ['emit', { event: 4, channel: null }],
    ],
  );
  const many = await step(`for (let i = 0; i < 101; i++) $.send.emit(i)`);
  assert.deepEqual([many.status, many.step?.sends.length], ['limit_exceeded', 100]);
  const large = await step(`for (let i = 0; i < 9; i++) $.send.http({ data: 'x'.repeat(65536) })`);
  assert.equal(large.status, 'limit_exceeded');
  assert.match(large.error?.message ?? '', /\$\.send is larger than 512 KB/);
  assert.equal(
    (await step('$.send.http("x")')).error?.message,
    '$.send.http expects an object, found string',
  );
});

test('$.respond answers once: text, JSON, bytes, and streams that are read to their end', async () => {
  const replies: HttpReply[] = [];
  const respond = async (body: string): Promise<HttpReply | undefined> =>
    (await step(body, {}, { onRespond: (reply) => replies.push(reply) })).response;
  const plain = await respond(
    `await $.respond({ status: 201, headers: { a: 'b' }, body: { x: 1 } }); $.respond({ status: 500 });`,
  );
  assert.deepEqual(
    [plain?.status, plain?.body.toString(), plain?.headers.a, plain?.immediate],
    [201, '{"x":1}', 'b', undefined],
  );
  assert.deepEqual(replies, [plain]);
  const now = await respond(`await $.respond({ immediate: true, body: 'now' });`);
  assert.deepEqual([now?.status, now?.immediate, now?.body.toString()], [200, true, 'now']);
  const stream = await respond(
    `const { Readable } = require('node:stream'); await $.respond({ body: Readable.from(['a', Buffer.from('b')]) });`,
  );
  assert.equal(stream?.body.toString(), 'ab');
  const unawaited = await respond(`$.respond({ body: new Blob(['web']).stream() });`);
  assert.equal(unawaited?.body.toString(), 'web');
  const both = await step(
    `await $.respond({ immediate: true, body: require('node:stream').Readable.from(['a']) });`,
  );
  assert.match(both.error?.message ?? '', /cannot be immediate/);
  const endless = await step(
    `await $.respond({ body: require('node:stream').Readable.from((function* () { for (;;) yield Buffer.alloc(65536); })()) });`,
  );
  assert.match(endless.error?.message ?? '', /more than 6291456 bytes/);
  const bad = await step(`await $.respond({ status: 99 });`);
  assert.match(bad.error?.message ?? '', /^\$\.respond: status must be/);
  const badAndUnawaited = await step(`$.respond({ status: 99 });`);
  assert.match(badAndUnawaited.error?.message ?? '', /^\$\.respond: status must be/);
  assert.equal((await respond(`$.respond('x').catch(() => $.respond({ status: 204 }));`))?.status, 204);
});

test('$.context belongs to the call, has a deadline, and can be written without an effect on others', async () => {
  const deploymentId = 'd_context';
  const body = `const before = { ...$.context }; $.context.mine = steps.trigger.event.a; steps.trigger.event.a = 0;
    await new Promise((go) => setTimeout(go, 20));
    return { before, mine: $.context.mine, ids: [process.env.PIPEDREAM_WORKFLOW_ID, process.env.PIPEDREAM_TRACE_ID, { ...process.env }.PIPEDREAM_TRACE_ID], pd: process.env.PD_COMPONENT };`;
  const started = Date.now();
  const deadlineMs = 5000;
  const outcomes = await Promise.all(
    [1, 2].map((n) =>
      step(body, {
        deploymentId,
        deadlineMs,
        call: stepCall({
          steps: `{"trigger":{"event":{"a":${n}}}}`,
          context: `{"workflow_id":"p_${n}","trace_id":"t_${n}"}`,
        }),
      }),
    ),
  );
  for (const [i, outcome] of outcomes.entries()) {
    const n = i + 1;
    const { before, mine, ids, pd } = exportsOf(outcome).$return_value as Record<
      string,
      Record<string, unknown>
    >;
    const deadline = Number(before?.deadline);
    assert.ok(deadline >= started + deadlineMs && deadline <= Date.now() + deadlineMs);
    assert.deepEqual({ ...before, deadline: 0 }, { workflow_id: `p_${n}`, trace_id: `t_${n}`, deadline: 0 });
    assert.deepEqual([mine, ids, pd], [n, [`p_${n}`, `t_${n}`, `t_${n}`], undefined]);
  }
});

test('one process serves the modules of a deployment, each evaluated once with props of its own', async () => {
  const source = (name: string): string =>
    `globalThis.loads = (globalThis.loads ?? 0) + 1;
     module.exports = { props: { who: { type: 'string' } }, run() { return { name: '${name}', who: this.who, pid: performance.timeOrigin, loads: globalThis.loads }; } };`;
  const call = (module: string) =>
    fixture.runner.call(
      stepRequest(source(module), { deploymentId: 'd_modules', module, props: { who: module } }),
    );
  const outcomes = await Promise.all(['c_a', 'c_b', 'c_a', 'c_b', 'c_a'].map(call));
  const values = outcomes.map((outcome) => exportsOf(outcome).$return_value as Record<string, unknown>);
  assert.equal(new Set(values.map(({ pid }) => pid)).size, 1);
  assert.deepEqual(
    values.map(({ name, who }) => `${name} ${who}`),
    ['c_a c_a', 'c_b c_b', 'c_a c_a', 'c_b c_b', 'c_a c_a'],
  );
  assert.equal((exportsOf(await call('c_a')).$return_value as { loads: number }).loads, 2);
  const esm = (n: number) =>
    fixture.runner.call(
      stepRequest('', {
        deploymentId: 'd_esm',
        module: `c_${n}`,
        bundle: { hash: `${n}`, format: 'esm', code: `export default { run() { return ${n}; } };` },
      }),
    );
  assert.deepEqual(
    (await Promise.all([esm(1), esm(2)])).map((outcome) => exportsOf(outcome).$return_value),
    [1, 2],
  );
});

test('a module is described beside others exactly as it is alone', async () => {
  const described = (source: string, module: string) =>
    fixture.runner.call(
      stepRequest(source, { deploymentId: 'd_described', module, call: { kind: 'describe' } }),
    );
  const source = `module.exports = { type: 'action', key: 'a', props: { who: { type: 'string' } }, run() {} };`;
  const { bundle, ownerId } = stepRequest(source, {});
  const alone = await fixture.runner.describe({ bundle, ownerId });
  assert.ok(alone.status === 'described');
  const beside = await Promise.all([described(source, 'c_1'), described(source, 'c_2')]);
  assert.deepEqual(
    beside.map(({ status, result }) => [status, result]),
    [
      ['finished', alone.shape],
      ['finished', alone.shape],
    ],
  );
  const wrong = await described("module.exports = { run() {}, dedupe: 'most' };", 'c_3');
  assert.equal(wrong.status, 'load_failed');
  assert.match(wrong.error?.message ?? '', /dedupe must be unique, greatest or last/);
});

test('a module that does not load fails its calls with its logs; calls of others finish, and the next one evaluates it again', async () => {
  const deploymentId = 'd_load';
  const pid = async () =>
    exportsOf(
      await fixture.runner.call(stepRequest(actionWith('return performance.timeOrigin'), { deploymentId })),
    ).$return_value;
  const first = await pid();
  const { onHostCall, asked, letGo } = asking();
  const slow = fixture.runner.call(
    stepRequest(actionWith(`await $.flow.trigger('p_2'); return "slow"`), { deploymentId, module: 'c_slow' }),
    { onHostCall },
  );
  await asked;
  const broken = stepRequest(`console.log('loading'); throw new Error('broken');`, {
    deploymentId,
    module: 'c_broken',
  });
  const failed = await Promise.all([fixture.runner.call(broken), fixture.runner.call(broken)]);
  for (const outcome of failed) {
    assert.deepEqual([outcome.status, outcome.error?.message], ['load_failed', 'broken']);
    assert.equal(outcome.logs[0]?.message, 'loading');
  }
  letGo();
  assert.equal(exportsOf(await slow).$return_value, 'slow');
  const fixed = { ...broken, bundle: bundleOf(actionWith('return performance.timeOrigin')) };
  assert.equal(exportsOf(await fixture.runner.call(fixed)).$return_value, first);
  assert.equal(await pid(), first);
});

test('/tmp belongs to the run: its steps share it, other runs in the process do not, and it can be released', async () => {
  const deploymentId = 'd_tmp';
  const run = (body: string, scratch: string, module: string) =>
    fixture.runner.call(
      stepRequest(actionWith(`const fs = require('node:fs'); ${body}`), {
        deploymentId,
        module,
        call: stepCall({ scratch }),
      }),
    );
  const wrote = await run(
    `fs.writeFileSync('/tmp/a.txt', 'one'); const dir = await fs.promises.mkdtemp('/tmp/x-'); return [dir.startsWith('/tmp/x-'), fs.readdirSync('/tmp').length];`,
    'r_1',
    'c_w',
  );
  assert.deepEqual([exportsOf(wrote).$return_value, wrote.step?.usedScratch], [[true, 2], true]);
  const read = await run(
    `return [fs.readFileSync('/tmp/a.txt', 'utf8'), fs.realpathSync('/tmp/a.txt')]`,
    'r_1',
    'c_r',
  );
  assert.deepEqual(exportsOf(read).$return_value, ['one', '/tmp/a.txt']);
  const other = await run(`return fs.readdirSync('/tmp')`, 'r_2', 'c_o');
  assert.deepEqual([exportsOf(other).$return_value, other.step?.usedScratch], [[], true]);
  const unused = await run(`return 1`, 'r_3', 'c_u');
  assert.equal(unused.step?.usedScratch, undefined);
  fixture.runner.releaseScratch(deploymentId, 'r_1');
  await waitFor(async () => {
    const left = await run(`return fs.existsSync('/tmp/a.txt')`, 'r_1', 'c_e');
    return exportsOf(left).$return_value === false;
  });
});

test('a step that never resolves passes its deadline; refreshTimeout gives it more time, up to a maximum', async () => {
  const deadlineMs = 500;
  const never = await timer.passWhenTold(deadlineMs, (onRespond) =>
    step(`$.respond({ immediate: true }); await new Promise(() => {})`, { deadlineMs }, { onRespond }),
  );
  assert.equal(never.status, 'timed_out');
  assert.deepEqual(never.step, { exports: '{}', sends: [] });
  /** Time passes with every host call of the step. */
  let hostCalls = 0;
  const onHostCall = async () => {
    hostCalls += 1;
    timer.advance(deadlineMs - 100);
    return { header: {} };
  };
  const hostCall = `await $.flow.trigger('p_2'); $.flow.refreshTimeout();`;
  const longer = await step(
    `const before = $.context.deadline; for (let i = 0; i < 4; i++) { ${hostCall} await new Promise((go) => setTimeout(go, 2)); } return $.context.deadline > before;`,
    { deadlineMs },
    { onHostCall },
  );
  assert.equal(exportsOf(longer).$return_value, true);
  assert.equal(hostCalls, 4);
  hostCalls = 0;
  const endless = await step(`for (;;) { ${hostCall} }`, { deadlineMs }, { onHostCall });
  assert.equal(endless.status, 'timed_out');
  // Ten times its deadline has passed at the thirteenth.
  assert.equal(hostCalls, 13);
});

test('what a step sent before a kill is kept', async () => {
  const deadlineMs = 1000;
  const outcome = await timer.passWhenTold(deadlineMs, (onRespond) =>
    step(
      `$.send.emit({ n: 1 }); $.export('lost', 1); await new Promise((go) => setTimeout(go, 100)); $.respond({ immediate: true }); for (;;);`,
      { deadlineMs },
      { onRespond },
    ),
  );
  assert.equal(outcome.status, 'timed_out');
  assert.deepEqual(outcome.step, {
    exports: '{}',
    sends: [{ kind: 'emit', payload: '{"event":{"n":1},"channel":null}' }],
  });
});

test('calls of sources have no step', async () => {
  const outcome = await fixture.run('return 1');
  assert.equal('step' in outcome, false);
});

test('forged ends of a step are refused, field by field', async () => {
  const forge = (type: number, header: string, payload = '') =>
    `const h = Buffer.from(${JSON.stringify(header)}); const p = Buffer.from(${JSON.stringify(payload)}); const f = Buffer.alloc(13 + h.length + p.length);
     f.writeUInt32BE(f.length - 4, 0); f[4] = ${type}; f.writeUInt32BE(2, 5); f.writeUInt32BE(h.length, 9); h.copy(f, 13); p.copy(f, 13 + h.length);
     require('node:fs').writeSync(3, f); await new Promise(() => {});`;
  const none = '"emits":[],"db":[],"logs":[],"dropped":0';
  const end = (fields: string, payload = '{}') =>
    forge(21, `{"status":"finished",${none},"result":-1,"step":{"exports":2,"input":-1${fields}}}`, payload);
  const own = await stepApart(end(',"flow":{"kind":"rerun","ms":1,"context":4,"maxRetries":3}', '{}null'));
  assert.deepEqual(
    [own.status, own.step?.flow],
    ['finished', { kind: 'rerun', ms: 1, context: 'null', maxRetries: 3 }],
  );
  const forged: Record<string, string> = {
    'exports that are no object': end('', '[]'),
    'exports that are no JSON': end('', '{]'),
    'exports longer than the frame': end(',"exports":99'),
    'an input that is no object': end(',"input":2', '{}12'),
    'an unknown flow': end(',"flow":{"kind":"stay","ms":1}'),
    'a flow that is none': end(',"flow":5'),
    'a reason that is no text': end(',"flow":{"kind":"exit","reason":{}}'),
    'a reason that is too long': end(`,"flow":{"kind":"exit","reason":"${'x'.repeat(5000)}"}`),
    'a delay of for ever': end(',"flow":{"kind":"delay","ms":1e300}'),
    'a negative delay': end(',"flow":{"kind":"suspend","ms":-1}'),
    'a context that is no JSON': end(',"flow":{"kind":"rerun","ms":1,"context":2,"maxRetries":3}', '{}}{'),
    'more retries than can be': end(',"flow":{"kind":"rerun","ms":1,"context":4,"maxRetries":1e9}', '{}null'),
    'an unknown way to send': forge(19, `{${none},"sends":[[9,2]]}`, '{}'),
    'sent text that is no JSON': forge(19, `{${none},"sends":[[0,2]]}`, '}{'),
    'sends that are no list': forge(19, `{${none},"sends":{}}`),
  };
  for (const [what, code] of Object.entries(forged)) {
    const outcome = await stepApart(code);
    assert.equal(outcome.status, 'exited', `${what}: ${JSON.stringify(outcome)}`);
    assert.equal(outcome.step?.exports === '{}' || outcome.step?.exports === '[]', true, what);
  }
  for (const header of [
    `{${none},"sends":[]}`,
    `{"status":"finished",${none},"result":-1,"step":{"exports":2,"input":-1}}`,
  ]) {
    const source = await fixture.run(forge(header.startsWith('{"status') ? 21 : 19, header, '{}'));
    assert.equal(source.status, 'exited', 'a call that is no step has nothing of one');
  }
  const asksForTime = await fixture.run(forge(25, '{}'));
  assert.equal(asksForTime.status, 'exited');
});

test('an action by itself gets its props unchanged, and methods that need a workflow are refused when they are called', async () => {
  let calls = 0;
  const byItself = (body: string) => {
    calls += 1;
    return fixture.runner.call(
      stepRequest(actionWith(body, `{ text: 'string' }`), {
        ...{ deploymentId: 'd_by_itself', module: `c_${calls}` },
        props: { text: '{{steps.trigger.event.a}}' },
        call: stepCall({ byItself: true, resumeUrl: '', cancelUrl: '' }),
      }),
    );
  };
  const sent = await byItself(
    "$.send.http({ method: 'POST', url: 'https://a.example' }); $.flow.exit('why'); return this.text;",
  );
  assert.equal(exportsOf(sent).$return_value, '{{steps.trigger.event.a}}');
  assert.deepEqual([sent.step?.sends.length, sent.step?.flow], [1, { kind: 'exit', reason: 'why' }]);
  for (const call of ['flow.suspend()', 'flow.delay(1)', 'flow.rerun(1)', 'send.emit({})', 'send.sse({})']) {
    const outcome = await byItself(`$.${call};`);
    const method = `$.${call.replace(/\(.*/, '')}`;
    assert.equal(outcome.status, 'threw');
    assert.ok(outcome.error?.message.startsWith(`${method} can be used in steps of workflows only`), method);
    assert.equal(outcome.step?.flow, undefined);
    assert.deepEqual(outcome.step?.sends, []);
  }
});
