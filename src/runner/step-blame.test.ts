import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { ManualTimer } from '../../test/support/manual-timer.ts';
import {
  actionWith,
  exportsOf,
  processesOf,
  type RunnerFixture,
  startRunnerFixture,
  stepCall,
  stepRequest,
} from '../../test/support/runner-fixture.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import type { CallOutcome } from './call-outcome.ts';
import type { CallOptions, CallRequest } from './runner.ts';
import { defaultRunnerLimits } from './runner-limits.ts';

/** A timer that the tests advance: deadlines pass, and processes are looked at, when a test says so. */
const timer = new ManualTimer();
let fixture: RunnerFixture;
/** A fixture in which memory is looked at continuously. */
let watched: RunnerFixture;
const limits = { memoryMb: 64, unresponsiveMs: 500 };
const { memoryPollMs } = defaultRunnerLimits;
before(async () => {
  fixture = await startRunnerFixture({ timer, limits });
  watched = await startRunnerFixture({ limits: { ...limits, memoryPollMs: 10, unresponsiveMs: 60_000 } });
});
after(async () => {
  await fixture?.close();
  await watched?.close();
});

let deployments = 0;
/** Calls of steps that share a process. */
function sharedProcess({ runner } = fixture): {
  deploymentId: string;
  call(body: string, overrides?: Partial<CallRequest>, options?: CallOptions): Promise<CallOutcome>;
  /** Starts a call that waits until the test continues it. Resolves when its code runs. */
  waiting(overrides?: Partial<CallRequest>): Promise<WaitingCall>;
} {
  deployments += 1;
  const deploymentId = `d_blame_${deployments}`;
  let modules = 0;
  const call = (body: string, overrides: Partial<CallRequest> = {}, options: CallOptions = {}) => {
    modules += 1;
    const request = stepRequest(actionWith(body), { deploymentId, module: `c_${modules}`, ...overrides });
    return runner.call(request, options);
  };
  const waiting = async (overrides: Partial<CallRequest> = {}) => {
    let asked = Promise.withResolvers<void>();
    let held = Promise.withResolvers<boolean>();
    const outcome = call(
      `for (;;) { const { end } = await $.flow.trigger('p_2'); if (end) return 'waited'; }`,
      overrides,
      {
        onHostCall: async () => {
          asked.resolve();
          return { header: { end: await held.promise } };
        },
      },
    );
    await Promise.race([asked.promise, outcome]);
    return {
      outcome,
      go: () => held.resolve(true),
      turn: async () => {
        const { resolve } = held;
        asked = Promise.withResolvers<void>();
        held = Promise.withResolvers<boolean>();
        resolve(false);
        await Promise.race([asked.promise, outcome]);
      },
    };
  };
  return { deploymentId, call, waiting };
}

interface WaitingCall {
  outcome: Promise<CallOutcome>;
  go: () => void;
  /** Lets it make one more host call, after which its process has read everything that was sent before. */
  turn: () => Promise<void>;
}

/** Source of a loop that reports from within, because no other call gets a turn. */
const spin = 'for (let n = 0; ; n += 1) if (n === 1000) $.respond({ immediate: true });';

const brief = (outcome: CallOutcome): unknown => [outcome.status, outcome.error?.code, outcome.shared];
const bystander = ['cancelled', 'bystander', undefined];

test('a step that ends the process is to blame, and no other', async () => {
  const { call, waiting } = sharedProcess();
  const first = await waiting();
  const second = await waiting();
  const exits = await call(`$.export('x', 1); process.exit(3);`);
  assert.deepEqual(brief(exits), ['exited', 'exited', undefined]);
  assert.match(exits.error?.message ?? '', /with code 3/);
  assert.deepEqual([brief(await first.outcome), brief(await second.outcome)], [bystander, bystander]);
  assert.equal(exportsOf(await call('return 1')).$return_value, 1);
});

test('when it is unknown which call caused the end, the outcomes of all calls say that they shared the process', async () => {
  const { call, waiting } = sharedProcess();
  const other = await waiting();
  const forges = await call(`require('node:fs').writeSync(3, Buffer.from('no frame at all'))`);
  assert.deepEqual(brief(forges), ['exited', 'protocol', true]);
  assert.deepEqual(brief(await other.outcome), ['exited', 'protocol', true]);
  const alone = await call(`require('node:fs').writeSync(3, Buffer.from('no frame at all'))`);
  assert.deepEqual(brief(alone), ['exited', 'protocol', undefined]);
});

test('any call in a process may be to blame for a limit of the whole process', async () => {
  const { call, waiting } = sharedProcess();
  const other = await waiting();
  const floods = await call(
    `const line = Buffer.alloc(65536, 'x'); for (;;) { try { require('node:fs').writeSync(1, line); } catch { await null; } }`,
  );
  assert.deepEqual(brief(floods), ['limit_exceeded', 'limit_exceeded', true]);
  assert.deepEqual(brief(await other.outcome), ['limit_exceeded', 'limit_exceeded', true]);
});

test('a step that leaks: all calls in its process run out of memory, and alone only the one that leaks', async () => {
  const { call, waiting } = sharedProcess(watched);
  const leak = `const all = []; for (;;) { all.push('x'.repeat(1e6) + all.length, Buffer.alloc(1e6, 1)); if (all.length % 20 === 0) await new Promise(setImmediate); }`;
  const other = await waiting();
  const leaks = await call(leak);
  assert.deepEqual([leaks.status, leaks.shared], ['out_of_memory', true]);
  const left = await other.outcome;
  assert.deepEqual([left.status, left.shared], ['out_of_memory', true]);
  assert.deepEqual(leaks.step, { exports: '{}', sends: [] });
  const again = await call(leak, { alone: true });
  assert.deepEqual([again.status, again.shared], ['out_of_memory', undefined]);
});

test('a step that loops passes its deadline; the others in its process are bystanders', async () => {
  const { call, waiting } = sharedProcess();
  const other = await waiting();
  const deadlineMs = 400;
  const loops = await timer.passWhenTold(deadlineMs, (onRespond) =>
    call(spin, { deadlineMs }, { onRespond }),
  );
  assert.deepEqual(brief(loops), ['timed_out', 'deadline', undefined]);
  // It is answered immediately. That it keeps the process from the other call shows a moment later.
  timer.advance(2 * limits.unresponsiveMs);
  assert.deepEqual(brief(await other.outcome), bystander);
  assert.equal(exportsOf(await call('return 1')).$return_value, 1);
});

test('a call whose deadline passes while another may keep the process busy may not be to blame', async () => {
  const { call, waiting } = sharedProcess();
  const deadlineMs = 1800;
  const waits = await waiting({ deadlineMs });
  const spinning = Promise.withResolvers<void>();
  const loops = call(spin, {}, { onRespond: () => spinning.resolve() });
  await spinning.promise;
  // It is ready to end from here on, but never gets a turn.
  waits.go();
  timer.advance(deadlineMs);
  assert.deepEqual(brief(await waits.outcome), ['timed_out', 'deadline', true]);
  assert.deepEqual(brief(await loops), bystander);
  const slow = await waiting({ deadlineMs });
  const other = await waiting();
  for (let ms = 0; ms < deadlineMs; ms += memoryPollMs) {
    await other.turn();
    timer.advance(memoryPollMs);
  }
  assert.deepEqual(brief(await slow.outcome), ['timed_out', 'deadline', undefined]);
  other.go();
  assert.equal(
    exportsOf(await other.outcome).$return_value,
    'waited',
    'a call that only waits ends no other',
  );
});

test('a limit that forged frames exceed is the fault of the call that they name', async () => {
  const { call, waiting } = sharedProcess();
  const other = await waiting();
  // The process has had four calls so far: a load and a step, twice.
  const floods = await call(
    `const fs = require('node:fs'); const h = Buffer.from(JSON.stringify({ emits: [], db: [], logs: [], dropped: 0, sends: [[4, 100]] }));
     const f = Buffer.alloc(13 + h.length + 100, '1'); f.writeUInt32BE(f.length - 4, 0); f[4] = 19; f.writeUInt32BE(4, 5); f.writeUInt32BE(h.length, 9); h.copy(f, 13);
     for (let i = 0; i < 200; i++) { try { fs.writeSync(3, f); } catch {} await null; } await new Promise(() => {});`,
  );
  assert.deepEqual(brief(floods), ['limit_exceeded', 'limit_exceeded', undefined]);
  assert.equal(floods.step?.sends.length, 100);
  assert.deepEqual(brief(await other.outcome), bystander);
});

test('a cancelled call does not affect the others; when it keeps the process busy they are bystanders', async () => {
  const { call, waiting } = sharedProcess();
  const other = await waiting();
  const quiet = new AbortController();
  const cancelled = call('await new Promise(() => {})', {}, { signal: quiet.signal });
  const third = await waiting();
  quiet.abort();
  assert.deepEqual(brief(await cancelled), ['cancelled', 'cancelled', undefined]);
  // Long enough to end a process without a sign of life.
  for (let ms = 0; ms < 2 * limits.unresponsiveMs; ms += memoryPollMs) {
    await other.turn();
    timer.advance(memoryPollMs);
  }
  other.go();
  third.go();
  assert.equal(exportsOf(await other.outcome).$return_value, 'waited');
  assert.equal(exportsOf(await third.outcome).$return_value, 'waited');

  const bystanding = await waiting();
  const busy = new AbortController();
  const loops = call(
    spin,
    {},
    {
      signal: busy.signal,
      onRespond: () => busy.abort(),
    },
  );
  assert.deepEqual(brief(await loops), ['cancelled', 'cancelled', undefined]);
  timer.advance(2 * limits.unresponsiveMs);
  assert.deepEqual(brief(await bystanding.outcome), bystander);
});

test('a load that ends the process fails its own call, and others are bystanders', async () => {
  const { call, waiting } = sharedProcess();
  const other = await waiting();
  const exits = await call('', {
    bundle: { hash: 'x', code: 'process.exit(4)', format: 'cjs' },
  });
  assert.deepEqual([exits.status, exits.shared], ['load_failed', undefined]);
  assert.deepEqual(brief(await other.outcome), bystander);
});

test('a load whose process ends for an unknown reason is tried again elsewhere', async () => {
  const { call, waiting } = sharedProcess();
  const other = await waiting();
  const made = Promise.withResolvers<void>();
  const kills = call(
    `globalThis.killed = () => process.kill(process.pid, 'SIGKILL'); $.respond({ immediate: true }); await new Promise(() => {});`,
    {},
    { onRespond: () => made.resolve() },
  );
  await made.promise;
  const loads = call('', {
    bundle: {
      hash: 'slow',
      code: `export default { run() { return 'loaded'; } }; if (globalThis.killed) { setTimeout(globalThis.killed, 1); await new Promise(() => {}); }`,
      format: 'esm',
    },
  });
  assert.equal(exportsOf(await loads).$return_value, 'loaded');
  for (const outcome of [await kills, await other.outcome])
    assert.deepEqual(brief(outcome), ['exited', 'exited', true]);
});

test('a call alone runs in a process of its own, which ends with it', async () => {
  const { call, waiting } = sharedProcess();
  const other = await waiting();
  const before = await processesOf(fixture);
  const own = exportsOf(await call('return performance.timeOrigin', { alone: true })).$return_value;
  assert.notEqual(own, exportsOf(await call('return performance.timeOrigin')).$return_value);
  // One of an earlier test may end meanwhile.
  await waitFor(async () => (await processesOf(fixture)).every((pid) => before.includes(pid)));
  const exits = await call('process.exit(1)', { alone: true });
  assert.deepEqual(brief(exits), ['exited', 'exited', undefined]);
  const broken = await call('', { alone: true, bundle: { hash: 'y', code: 'throw 1', format: 'cjs' } });
  assert.equal(broken.status, 'load_failed');
  const source = await fixture.run('return process.env.PD_COMPONENT', {
    alone: true,
    deploymentId: 'dc_alone',
  });
  assert.equal(source.result, '"dc_alone"');
  const cancel = new AbortController();
  const onRespond = () => cancel.abort();
  const waits = call(
    '$.respond({ immediate: true }); await new Promise(() => {})',
    { alone: true },
    { signal: cancel.signal, onRespond },
  );
  assert.equal((await waits).status, 'cancelled');
  other.go();
  assert.equal(exportsOf(await other.outcome).$return_value, 'waited');
});

test('a process can have more memory than usual, or less', async () => {
  const { call } = sharedProcess();
  /** Fills so much memory, and waits until it was looked at. */
  const fill = async (mb: number, overrides: Partial<CallRequest>): Promise<CallOutcome> => {
    const filled = Promise.withResolvers<void>();
    const outcome = call(
      `const all = []; for (let i = 0; i < ${mb}; i++) all.push(Buffer.alloc(1e6, 1));
       await $.flow.trigger('p_2'); return require('node:v8').getHeapStatistics().heap_size_limit / 1048576;`,
      overrides,
      {
        onHostCall: async () => {
          filled.resolve();
          timer.advance(memoryPollMs);
          return { header: {} };
        },
      },
    );
    await Promise.race([filled.promise, outcome]);
    return outcome;
  };
  const more = await fill(250, { memoryMb: 400, revision: 2 });
  assert.ok(Number(exportsOf(more).$return_value) >= 400);
  const same = exportsOf(
    await call('return performance.timeOrigin', { memoryMb: 400, revision: 2 }),
  ).$return_value;
  const warm = exportsOf(
    await call('return performance.timeOrigin', { memoryMb: 400, revision: 2 }),
  ).$return_value;
  assert.equal(warm, same);
  const usual = await fill(250, { revision: 3 });
  assert.equal(usual.status, 'out_of_memory');
  assert.match(usual.error?.message ?? '', /more than 64 MB/);
  const alone = await fill(150, { memoryMb: 256, alone: true });
  assert.ok(Number(exportsOf(alone).$return_value) >= 256);
});

test('runs that share a process: when one exits, the others run again on a fresh one', async () => {
  const { deploymentId } = sharedProcess();
  const source = actionWith(
    `if (steps.trigger.event.exit) process.exit(); await $.flow.trigger('p_2'); return steps.trigger.event.n;`,
  );
  let hostCalls = 0;
  let answered: Promise<void> | undefined;
  const threeAsk = Promise.withResolvers<void>();
  const call = (event: object) =>
    fixture.runner.call(
      stepRequest(source, {
        deploymentId,
        call: stepCall({ steps: JSON.stringify({ trigger: { event } }) }),
      }),
      {
        onHostCall: async () => {
          hostCalls += 1;
          if (hostCalls === 3) threeAsk.resolve();
          await answered;
          return { header: {} };
        },
      },
    );
  answered = new Promise(() => {});
  const good = [1, 2, 3].map((n) => call({ n }));
  await threeAsk.promise;
  const bad = call({ exit: true });
  assert.deepEqual(brief(await bad), ['exited', 'exited', undefined]);
  for (const outcome of await Promise.all(good)) assert.deepEqual(brief(outcome), bystander);
  answered = undefined;
  const again = await Promise.all([1, 2, 3].map((n) => call({ n })));
  assert.deepEqual(
    again.map((outcome) => exportsOf(outcome).$return_value),
    [1, 2, 3],
  );
});
