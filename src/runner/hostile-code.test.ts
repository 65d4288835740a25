import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { signal, signalled, untilLetGo, waitingCode } from '../../test/support/code-signals.ts';
import { ManualTimer } from '../../test/support/manual-timer.ts';
import {
  componentWith,
  processesOf,
  type RunnerFixture,
  resultOf,
  startRunnerFixture,
} from '../../test/support/runner-fixture.ts';
import { levelOfTests } from '../../test/support/sandbox-level.ts';
import { sessionNicenessOf } from '../../test/support/session-niceness.ts';
import type { CallOutcome } from './call-outcome.ts';
import { niceness } from './cpu-shares.ts';
import { processCpuMs } from './process-memory.ts';
import { defaultRunnerLimits } from './runner-limits.ts';

/** For most tests: deadlines pass when a test advances the timer, however busy the machine is. */
let fixture: RunnerFixture;
let timer: ManualTimer;
/** For tests of memory and files, which are looked at continuously. */
let watched: RunnerFixture;
let onUnattributedError: (deploymentId: string) => void = () => {};

const isKernel = levelOfTests() === 'kernel';
const deadlineMs = 300;
const { memoryPollMs } = defaultRunnerLimits;
const unresponsiveMs = 500;

before(async () => {
  timer = new ManualTimer();
  fixture = await startRunnerFixture({
    timer,
    limits: { memoryMb: 96, unresponsiveMs },
    onUnattributedError: (deploymentId) => onUnattributedError(deploymentId),
  });
  watched = await startRunnerFixture({
    limits: { memoryMb: 96, scratchBytesMax: 1024 * 1024, memoryPollMs: 10 },
  });
});
after(async () => {
  await fixture?.close();
  await watched?.close();
});

const run = (...args: Parameters<RunnerFixture['run']>) => fixture.run(...args);
const evaluate = (...args: Parameters<RunnerFixture['evaluate']>) => fixture.evaluate(...args);

/** Returns what an expression throws inside the sandbox, as its `code` or message. */
async function codeOf(expression: string): Promise<unknown> {
  return resultOf(
    await evaluate(
      `try { await (async () => ${expression})(); return 'allowed'; } catch (error) { return error.code ?? error.message; }`,
    ),
  );
}

/** Lets the deadline of a call pass after its code has signalled its progress by `this.http.respond`. */
function passDeadline(
  calling: (options: { onRespond: () => void }, given: { deadlineMs: number }) => Promise<CallOutcome>,
): Promise<CallOutcome> {
  return timer.passWhenTold(deadlineMs, (onRespond) => calling({ onRespond }, { deadlineMs }));
}

/** Waits until the code has given a signal, or its call has ended. */
async function untilSignalled(name: string, outcome: Promise<CallOutcome>): Promise<void> {
  await Promise.race([signalled(name), outcome]);
}

/** Source of a loop that reports from within, because no other code gets a turn. */
const spin = 'for (let n = 0; ; n += 1) if (n === 1000) this.http.respond({});';

test('code that never yields is killed at its deadline', async () => {
  for (const body of [
    spin,
    'for (let n = 0; ; n += 1) { if (n === 1000) this.http.respond({}); await 1; }',
    'this.http.respond({}); await new Promise(() => {});',
    'this.http.respond({}); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);',
    `process.on('SIGTERM', () => {}); process.on('exit', () => { for (;;); }); ${spin}`,
    "this.http.respond({}); process.kill(process.pid, 'SIGSTOP');",
  ]) {
    const before = `this.$emit('before'); this.db.set('a', 1); await new Promise((r) => setTimeout(r, 40));`;
    const outcome = await passDeadline((options, given) => run(`${before} ${body}`, given, options));
    assert.equal(outcome.status, 'timed_out', body);
    assert.equal(outcome.emits.length, 1, 'what was emitted before is kept');
    assert.deepEqual(outcome.dbSets, { a: '1' });
    assert.equal(outcome.durationMs, deadlineMs);
  }
});

test('the next call after a kill has a fresh process and works', async () => {
  const source = componentWith(`if (event.spin) ${spin} return 1;`);
  const spinning = { deploymentId: 'dc_next', call: { kind: 'run', event: '{"spin":true}' } } as const;
  const killed = await passDeadline((options, given) =>
    fixture.call(source, { ...spinning, ...given }, options),
  );
  assert.equal(killed.status, 'timed_out');
  assert.equal(resultOf(await fixture.call(source, { deploymentId: 'dc_next' })), 1);
});

test('calls of other deployments continue while one spins', async () => {
  const source = componentWith('return 1;');
  const killed = await passDeadline(async ({ onRespond: tell }, given) => {
    const told = Promise.withResolvers<void>();
    const spinning = run(spin, given, { onRespond: () => told.resolve() });
    await told.promise;
    for (let calls = 0; calls < 11; calls += 1)
      assert.equal(resultOf(await fixture.call(source, { deploymentId: 'dc_bystander' })), 1);
    tell();
    return spinning;
  });
  assert.equal(killed.status, 'timed_out');
});

test('a process that ends itself ends its call as exited', async () => {
  for (const body of [
    'process.exit(0);',
    'process.exit(1);',
    'process.abort();',
    "process.kill(process.pid, 'SIGKILL');",
    'process.reallyExit(2);',
  ]) {
    const outcome = await run(body);
    assert.equal(outcome.status, 'exited', body);
  }
});

test('a process that closes its connection to the service ends at the latest at the deadline of its call', async () => {
  const outcome = run(`require('fs').closeSync(3); ${signal('closed')} await new Promise(() => {});`, {
    deadlineMs,
  });
  await untilSignalled('closed', outcome);
  timer.advance(deadlineMs);
  assert.match((await outcome).status, /^(?:exited|timed_out)$/);
});

test('the effects of a call before it exits are kept', async () => {
  const outcome = await run("this.$emit('a'); console.log('b'); this.db.set('c', 1); process.exit(0);");
  assert.equal(outcome.status, 'exited');
  assert.equal(outcome.emits.length, 1);
  assert.equal(outcome.logs[0]?.message, 'b');
  assert.deepEqual(outcome.dbSets, { c: '1' });
});

test('an uncaught error belongs to its call, also among others', async () => {
  const source = componentWith(`
    if (event.bad) { setTimeout(() => { throw new RangeError('late'); }, 5); await new Promise(() => {}); }
    await new Promise((r) => setTimeout(r, 100)); return 'fine';`);
  const [good, bad] = await Promise.all([
    fixture.call(source, { deploymentId: 'dc_uncaught' }),
    fixture.call(source, { deploymentId: 'dc_uncaught', call: { kind: 'run', event: '{"bad":true}' } }),
  ]);
  assert.equal(resultOf(good), 'fine');
  assert.equal(bad.status, 'threw');
  assert.equal(bad.error?.name, 'RangeError');
  assert.equal(bad.error?.message, 'late');
});

test('an unhandled rejection after the result leaves the result, and the process is replaced', async () => {
  const source = componentWith(
    `if (event.first) setTimeout(() => Promise.reject(new Error('late')), 30); return performance.timeOrigin;`,
  );
  const rejected = Promise.withResolvers<string>();
  onUnattributedError = rejected.resolve;
  const first = await fixture.call(source, {
    deploymentId: 'dc_late',
    call: { kind: 'run', event: '{"first":true}' },
  });
  const pid = resultOf(first);
  assert.equal(await rejected.promise, 'dc_late');
  assert.notEqual(resultOf(await fixture.call(source, { deploymentId: 'dc_late' })), pid);
});

/** Passes the idle time after which a process has to confirm that it has begun a call. */
const beQuiet = (): void => timer.advance(2);

test('a timer that spins after the result costs the next call only a new process', async () => {
  const source = componentWith(
    `if (event.first) setTimeout(() => { ${signal('spins')} for (;;); }, 20); return performance.timeOrigin;`,
  );
  const first = await fixture.call(source, {
    deploymentId: 'dc_spin',
    call: { kind: 'run', event: '{"first":true}' },
  });
  const pid = resultOf(first);
  await signalled('spins');
  beQuiet();
  const next = fixture.call(source, { deploymentId: 'dc_spin', deadlineMs: 10_000 });
  await timer.started(10_000);
  timer.advance(unresponsiveMs + 2 * memoryPollMs);
  assert.notEqual(resultOf(await next), pid);
});

test('a call that never got a turn beside a spinning one is run by a fresh process', async () => {
  const source = componentWith(`if (event.spin) ${spin} return performance.timeOrigin;`);
  const spinning = { deploymentId: 'dc_behind', call: { kind: 'run', event: '{"spin":true}' } } as const;
  let second: Promise<CallOutcome> | undefined;
  const first = await passDeadline(async ({ onRespond: tell }, given) => {
    const told = Promise.withResolvers<void>();
    const outcome = fixture.call(source, { ...spinning, ...given }, { onRespond: () => told.resolve() });
    await told.promise;
    beQuiet();
    second = fixture.call(source, { deploymentId: 'dc_behind', deadlineMs: 10_000 });
    await timer.started(10_000);
    tell();
    return outcome;
  });
  assert.equal(first.status, 'timed_out');
  // It is answered immediately. That it keeps the process from the other call shows a moment later.
  timer.advance(unresponsiveMs + 2 * memoryPollMs);
  assert.equal((await second)?.status, 'finished');
});

test('a call that no process begins is a crash when its own code kept the process busy, and none when the machine was busy', async () => {
  // A call that follows a frame directly needs no confirmation. With these steps of time every call comes later.
  const own = new ManualTimer({ stepMs: 2 });
  const limits = { memoryPollMs: 20, unresponsiveMs: 100 };
  const other = await startRunnerFixture({ timer: own, limits });
  const once = (work: string) => `setImmediate(() => { ${work} }); module.exports = { run() { return 1; } };`;
  /** The watchdog looks again when the process has used one more tick of processor time, or cannot use any. */
  const outcomeOf = async (work: string): Promise<CallOutcome> => {
    let isOver = false;
    const outcome = other.call(once(work)).finally(() => {
      isOver = true;
    });
    const cpuMs = new Map<number, number>();
    while (!isOver) {
      for (const pid of await processesOf(other)) {
        const usedMs = processCpuMs(pid) ?? 0;
        if (!isStopped(pid) && usedMs < (cpuMs.get(pid) ?? 0) + 10) continue;
        cpuMs.set(pid, usedMs);
        own.advance(limits.memoryPollMs);
      }
      await delay(1);
    }
    return outcome;
  };
  try {
    const starved = await outcomeOf("process.kill(process.pid, 'SIGSTOP');");
    assert.deepEqual([starved.status, starved.error?.code], ['cancelled', 'overloaded']);
    const spinning = await outcomeOf('for (;;);');
    assert.deepEqual([spinning.status, spinning.error?.code], ['exited', 'exited']);
    const exiting = await other.call(once('process.exit(0);'));
    assert.deepEqual([exiting.status, exiting.error?.code], ['exited', 'exited']);
  } finally {
    await other.close();
  }
});

function isStopped(pid: number): boolean {
  try {
    return / T /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return false;
  }
}

test('console output is kept up to its limit, and counted beyond', async () => {
  const many = await evaluate("for (let i = 0; i < 5000; i += 1) console.log('line', i);");
  assert.equal(many.status, 'finished');
  assert.equal(many.logs.length, 100);
  assert.equal(many.logsDropped, 4900);
  const large = await evaluate("console.log('x'.repeat(10_000_000)); process.stdout.write('more\\n');");
  assert.equal(large.logs.length, 1);
  assert.ok((large.logs[0]?.message.length ?? 0) < 66_000);
  assert.equal(large.logsDropped, 1);
  const stdout = await evaluate(
    "process.stdout.write('written\\n'); console.table([{ a: 1 }]); console.log({ get a() { throw new Error('x'); } });",
  );
  assert.equal(stdout.logs[0]?.message, 'written');
  assert.match(stdout.logs[1]?.message ?? '', /│ 1 /);
});

test('too many or too large events end the call, and the earlier ones are kept', async () => {
  const many = await evaluate(
    "for (let i = 0; i < 1e6; i += 1) { try { this.$emit(i); } catch {} } return 'caught';",
  );
  assert.equal(many.status, 'limit_exceeded');
  assert.equal(many.emits.length, 1000);
  const large = await evaluate("this.$emit('small'); this.$emit('x'.repeat(100_000_000));");
  assert.equal(large.status, 'limit_exceeded');
  assert.deepEqual(
    large.emits.map((emit) => emit.event),
    ['"small"'],
  );
  const sum = await evaluate("for (;;) this.$emit('x'.repeat(1_000_000));");
  assert.equal(sum.status, 'limit_exceeded');
  assert.equal(sum.emits.length, 6);
});

test('a db beyond its limit ends the call', async () => {
  for (const body of [
    "this.db.set('a', 'x'.repeat(100_000_000));",
    "for (let i = 0; ; i += 1) this.db.set('k' + i, 'x'.repeat(1000));",
    "this.db.set('k'.repeat(1_000_000), 1);",
    "for (let i = 0; i <= 10_000; i += 1) this.db.set('k' + i, 1);",
  ]) {
    const outcome = await evaluate(body);
    assert.equal(outcome.status, 'limit_exceeded', body);
    assert.match(outcome.error?.message ?? '', /db/);
    if (body.includes('10_000'))
      assert.equal(Object.keys(outcome.dbSets).length, 10_000, 'what was set before is kept');
  }
  const replaced = await evaluate(
    "for (let i = 0; i < 5000; i += 1) this.db.set('a', 'x'.repeat(1000) + i);",
  );
  assert.equal(replaced.status, 'finished');
});

test('a db of very many small keys is written and read again in each of several runs', async () => {
  const source = componentWith(`
    const from = event.run * 1600;
    for (let i = from; i < from + 1600; i += 1) this.db.set('key-' + String(i).padStart(6, '0'), i);
    let sum = 0;
    for (let i = 0; i < from + 1600; i += 1) sum += this.db.get('key-' + String(i).padStart(6, '0'));
    return sum;`);
  let db: Record<string, string> = {};
  for (let n = 0; n < 6; n += 1) {
    const outcome = await fixture.call(source, {
      deploymentId: 'dc_keys',
      db,
      call: { kind: 'run', event: JSON.stringify({ run: n }) },
    });
    const keys = (n + 1) * 1600;
    assert.equal(resultOf(outcome), (keys * (keys - 1)) / 2);
    db = { ...db, ...outcome.dbSets };
  }
  assert.equal(Object.keys(db).length, 9_600);
});

test('a result beyond its limit is refused inside, and the process survives', async () => {
  const source = componentWith("if (event.n) return 'x'.repeat(event.n); return performance.timeOrigin;");
  const pid = resultOf(await fixture.call(source, { deploymentId: 'dc_large' }));
  const outcome = await fixture.call(source, {
    deploymentId: 'dc_large',
    call: { kind: 'run', event: '{"n":100000000}' },
  });
  assert.equal(outcome.status, 'limit_exceeded');
  assert.match(outcome.error?.message ?? '', /returned value is larger than 1 MB/);
  assert.equal(resultOf(await fixture.call(source, { deploymentId: 'dc_large' })), pid);
});

test('results of every kind are converted as documented', async () => {
  const cases: [string, unknown][] = [
    ['1n', '1'],
    ['NaN', null],
    ['undefined', undefined],
    ['() => 1', undefined],
    ['Symbol()', undefined],
    ['-0', 0],
    ['new Map([["a", new Set([1])]])', { a: [1] }],
    ['Buffer.from("x")', { type: 'Buffer', base64: 'eA==' }],
    ['({ then(resolve) { resolve(5); } })', 5],
    ['Object.assign(Object.create(null), { a: 1 })', { a: 1 }],
    ['({ e: new TypeError("m"), u: undefined, f() {} })', { e: { name: 'TypeError', message: 'm' } }],
  ];
  for (const [expression, expected] of cases)
    assert.deepEqual(resultOf(await evaluate(`return ${expression};`)), expected, expression);
  for (const body of [
    'return { get a() { throw new Error("trap"); } };',
    'return { toJSON() { throw new Error("trap"); } };',
    'return { then() { throw new Error("trap"); } };',
  ]) {
    const outcome = await evaluate(body);
    assert.equal(outcome.status, 'threw', body);
    assert.equal(outcome.error?.message, 'trap');
  }
  const deep = await evaluate('let a = []; for (let i = 0; i < 100_000; i += 1) a = [a]; return a;');
  assert.ok(deep.status === 'finished' || deep.status === 'threw');
});

test('every thrown value becomes an error of limited size', async () => {
  const cases: [string, RegExp][] = [
    ['null', /^thrown: null$/],
    ['undefined', /^thrown: undefined$/],
    ["'text'", /^text$/],
    ['7', /^thrown: 7$/],
    ['{ a: 1 }', /"a":1/],
    [
      'new Proxy({}, { get() { throw new Error("x"); }, ownKeys() { throw new Error("y"); }, getPrototypeOf() { throw 1; } })',
      /^thrown: /,
    ],
    ["new Error('x'.repeat(10_000_000))", /^x{65536}… \[cut\]$/],
    ['Object.freeze(new Error("frozen"))', /^frozen$/],
    ['Object.defineProperty(new Error("s"), "stack", { get() { throw 1; } })', /^s$/],
    [
      '(() => { let e = new Error("0"); for (let i = 0; i < 1e5; i += 1) e = new Error("c", { cause: e }); return e; })()',
      /^c$/,
    ],
    ['new AggregateError([1], "many")', /^many$/],
  ];
  for (const [expression, message] of cases) {
    const outcome = await evaluate(`throw ${expression};`);
    assert.equal(outcome.status, 'threw', expression);
    assert.match(outcome.error?.message ?? '', message);
  }
  const coded = await run(
    "throw Object.assign(new Error('m'), { name: 'ConfigurationError', code: 'E_X' });",
  );
  assert.equal(coded.error?.name, 'ConfigurationError');
  assert.equal(coded.error?.code, 'E_X');
  assert.match(coded.error?.stack ?? '', /component/);
});

test('at the kernel level no file, process or environment of the machine is visible', {
  skip: !isKernel && 'kernel level only',
}, async () => {
  const seen = await evaluate(`const fs = require('fs'); const tell = (path) => fs.readFileSync(path, 'utf8');
    return { root: fs.readdirSync('/').sort(), lib: fs.existsSync('/usr'), pids: fs.readdirSync('/proc').filter((name) => Number(name)), environments: [tell('/proc/1/environ'), tell('/proc/self/environ')], status: tell('/proc/self/status').match(/^(?:CapEff|NoNewPrivs|Seccomp):.*$/gm), name: require('os').hostname(), devices: fs.readdirSync('/dev').sort() };`);
  const { root, ...rest } = resultOf(seen) as { root: string[] };
  assert.deepEqual(rest, {
    lib: false,
    pids: ['1', '2'],
    environments: ['TZ=UTC\0', 'TZ=UTC\0PWD=/\0'],
    status: ['CapEff:\t0000000000000000', 'NoNewPrivs:\t1', 'Seccomp:\t2'],
    name: 'millrace',
    devices: ['null', 'random', 'urandom', 'zero'],
  });
  assert.deepEqual(
    root.filter((name) => !name.startsWith('lib') && name !== 'usr'),
    ['bin', 'dev', 'proc', 'program.cjs', 'tmp'],
  );
});

test('at the kernel level code finds its own priority, and cannot write it', {
  skip: !isKernel && 'kernel level only',
}, async () => {
  const seen = await evaluate(`const fs = require('fs'); const tell = (path) => fs.readFileSync(path, 'utf8');
    return { own: require('os').getPriority(), session: tell('/proc/self/autogroup'), mount: tell('/proc/self/mounts').match(/^\\S+ \\/proc proc (r.)/m)[1] };`);
  const { own, session, mount } = resultOf(seen) as Record<string, unknown>;
  assert.deepEqual({ own, mount }, { own: niceness.usual, mount: 'ro' });
  if (sessionNicenessOf(process.pid) !== undefined)
    assert.ok(String(session).endsWith(` nice ${niceness.usual}\n`));
});

test('the environment is empty, and only the granted descriptors are open', async () => {
  process.env.MILLRACE_TEST_SECRET = 'canary';
  const outcome = await run(
    `
    const open = []; for (let fd = 0; fd < 64; fd += 1) { try { const s = require('fs').fstatSync(fd); if (s.isFile() || s.isDirectory() || (fd > 5 && s.isSocket())) open.push(fd); } catch {} }
    return { env: process.env, report: process.report.getReport().environmentVariables, open };`,
    { deploymentId: 'dc_env' },
  );
  delete process.env.MILLRACE_TEST_SECRET;
  const result = resultOf(outcome) as { env: object; report: object; open: number[] };
  assert.deepEqual(result.env, { TZ: 'UTC', PD_COMPONENT: 'dc_env' });
  assert.deepEqual(
    Object.keys(result.report).filter((name) => !['TZ', 'PD_COMPONENT'].includes(name)),
    [],
  );
  assert.deepEqual(result.open, []);
});

test('functions that Node permits but that lead out are refused, however the code gets them', async () => {
  const calls = [
    ...[
      "process.chdir('/tmp')",
      "require('process').chdir('/')",
      "(await import('node:process')).chdir('/')",
    ],
    "require('v8').setFlagsFromString('--trace-gc')",
    "(await import('node:v8')).setFlagsFromString('--trace-gc')",
    "(await import('v8')).default.setFlagsFromString('--trace-gc')",
    "process.getBuiltinModule('v8').setFlagsFromString('--trace-gc')",
    ...['takeCoverage()', 'stopCoverage()', 'queryObjects(Map)', "writeHeapSnapshot('/tmp/a')"].map(
      (call) => `require('node:v8').${call}`,
    ),
    "require('v8').setHeapSnapshotNearHeapLimit(1)",
    "process.report.writeReport('/tmp/a')",
    ...['process.kill(process.ppid, 0)', 'process.kill(-1, 0)', "process.kill(1, 'SIGUSR1')"],
    ...['process._kill(process.ppid, 0)', 'process._debugProcess(process.ppid)', 'process._debugEnd(1)'],
    "require('os').setPriority(process.ppid, 19)",
    "process.binding('fs')",
    "require('tls').getCACertificates('system')",
    "require('module').register('data:text/javascript,')",
    "process.execve?.('/bin/true')",
    "new (require('inspector').Session)().connect()",
    "require('trace_events').createTracing({ categories: ['node'] }).enable()",
    "new (require('wasi').WASI)({ version: 'preview1', preopens: { '/': '/' } })",
  ];
  for (const call of calls) assert.equal(await codeOf(`{ ${call} }`), 'ERR_ACCESS_DENIED', call);
  // Where /tmp is in memory, Node has a module that creates such file systems. Elsewhere it has none.
  const makers = ['create()', 'VirtualFileSystem()', 'MemoryProvider()', 'RealFSProvider("/")'];
  for (const call of [
    ...makers.map((maker) => `new (require('node:vfs').${maker.replace('(', ')(')}`),
    "(await import('node:vfs')).create()",
    "process.getBuiltinModule('node:vfs').create()",
  ]) {
    const code = String(await codeOf(`{ ${call} }`));
    if (isKernel) assert.notEqual(code, 'allowed', call);
    else assert.equal(code, 'ERR_ACCESS_DENIED', call);
  }
  // The replacement cannot be undone, and code cannot request a report at a crash.
  for (const change of [
    'process.chdir = () => {}',
    "Object.defineProperty(require('v8'), 'setFlagsFromString', { value: 1 })",
    "delete require('v8').setFlagsFromString",
    'process.report.reportOnFatalError = true',
  ])
    await codeOf(`{ ${change} }`);
  assert.equal(await codeOf("{ process.chdir('/tmp') }"), 'ERR_ACCESS_DENIED');
  assert.equal(await codeOf("{ require('v8').setFlagsFromString('--trace-gc') }"), 'ERR_ACCESS_DENIED');
  assert.equal(resultOf(await evaluate('return process.report.reportOnFatalError ?? false')), false);
  const looks = 'process.report.excludeNetwork = true; return typeof process.report.getReport().header';
  assert.equal(resultOf(await evaluate(looks)), 'object', 'packages that ask for their libc do this');
  const network =
    'process.report.excludeNetwork = false; return process.report.getReport().header.networkInterfaces ?? []';
  assert.deepEqual(resultOf(await evaluate(network)), [], 'the addresses of the machine');
  // Calls that packages make while they load still work.
  assert.deepEqual(
    resultOf(
      await evaluate(
        "const m = require('module'); m.flushCompileCache(); return [m.enableCompileCache('/tmp/c').status, process.kill(process.pid, 0), process.cwd()]",
      ),
    ),
    [3, true, '/'],
  );
});

test('top-level code that spins or never settles ends at the load deadline', async () => {
  const own = await startRunnerFixture({ limits: { loadDeadlineMs: 200 } });
  try {
    assert.equal((await own.describe('for (;;);')).status, 'load_failed');
    const never = await own.describe('await new Promise(() => {}); export default {};', 'esm');
    assert.equal(never.status, 'load_failed');
    assert.match(
      never.status === 'load_failed' ? never.error.message : '',
      /did not finish loading within 0\.2 s/,
    );
    assert.equal((await own.call('for (;;);')).status, 'load_failed');
  } finally {
    await own.close();
  }
});

test('overwriting built-in objects of the language harms only the code itself', async () => {
  const outcome = run(
    `
    const { writeSync } = require('fs');
    JSON.parse = JSON.stringify = () => 'x'; Array.prototype.push = () => {}; Map.prototype.get = () => {}; Promise.prototype.then = () => {};
    Buffer.prototype.write = () => 0; Object.prototype.polluted = 1; process.removeAllListeners(); process.emit = () => {}; Error.prepareStackTrace = () => { throw 1; };
    writeSync(1, 'signal overwritten\\n');
    return 1;`,
    { deadlineMs },
  );
  await untilSignalled('overwritten', outcome);
  timer.advance(deadlineMs);
  assert.ok((await outcome).status.length > 0);
  assert.deepEqual(resultOf(await run('return [typeof polluted, JSON.stringify(1)];')), ['undefined', '1']);
  assert.equal(({} as Record<string, unknown>).polluted, undefined);
});

test('at the kernel level /tmp has no room beyond its limit', {
  skip: !isKernel && 'kernel level only',
}, async () => {
  const write = await watched.run(
    "const fs = require('fs'); for (let i = 0; i < 40; i += 1) fs.writeFileSync('/tmp/' + i, Buffer.alloc(1e5, 1));",
  );
  assert.deepEqual([write.status, write.error?.code], ['threw', 'ENOSPC']);
  const removed = await watched.run(
    "const fs = require('fs'); const fd = fs.openSync('/tmp/a', 'w'); fs.unlinkSync('/tmp/a'); for (let i = 0; i < 40; i += 1) fs.writeSync(fd, Buffer.alloc(1e5, 1));",
  );
  assert.deepEqual([removed.status, removed.error?.code], ['threw', 'ENOSPC']);
});

test('files under /tmp beyond their limit end the process where they are real', async () => {
  const real = await startRunnerFixture({
    level: 'off',
    limits: { memoryMb: 96, scratchBytesMax: 1024 * 1024, memoryPollMs: 10 },
  });
  try {
    const block = 'const fs = process.getBuiltinModule("fs"); const b = Buffer.alloc(4e6, 1);';
    const files = "for (let i = 0; i < 40; i += 1) fs.writeFileSync('/tmp/' + i, b.subarray(0, 1e5));";
    const removed = "const fd = fs.openSync('/tmp/a', 'w'); fs.unlinkSync('/tmp/a'); fs.writeSync(fd, b);";
    const deadlineMs = 150_000;
    for (const write of [files, removed]) {
      const running = await real.run(`${block} ${write} await new Promise(() => {});`, { deadlineMs });
      assert.equal(running.status, 'limit_exceeded', write);
    }
    const loading = await real.describe(`${block} ${files} await new Promise(() => {});`, 'esm');
    assert.equal(loading.status, 'limit_exceeded', 'while it is described');

    // A new revision replaces the process, while the old one still finishes a call.
    const source = componentWith(
      `if (event.write) { ${block} ${untilLetGo} ${files} await new Promise(() => {}); }`,
    );
    const write = { call: { kind: 'run', event: '{"write":1}' }, deadlineMs } as const;
    const retired = real.call(source, { deploymentId: 'dc_full', ...write });
    const letGo = await waitingCode();
    await real.call(source, { deploymentId: 'dc_full', revision: 2 });
    letGo();
    assert.equal((await retired).status, 'limit_exceeded', 'while it only finishes a call');
  } finally {
    await real.close();
  }
});
