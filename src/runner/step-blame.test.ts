import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import {
  actionWith,
  exportsOf,
  type RunnerFixture,
  startRunnerFixture,
  stepCall,
  stepRequest,
} from '../../test/support/runner-fixture.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import type { CallOutcome } from './call-outcome.ts';
import type { CallOptions, CallRequest } from './runner.ts';

let fixture: RunnerFixture;
before(async () => {
  fixture = await startRunnerFixture();
});
after(() => fixture.close());

let deployments = 0;
/** Calls of steps that share a process. */
function sharedProcess(): {
  deploymentId: string;
  call(body: string, overrides?: Partial<CallRequest>, options?: CallOptions): Promise<CallOutcome>;
  /** A call that waits until it is let go; resolves when its code runs. */
  waiting(): Promise<{ outcome: Promise<CallOutcome>; go: () => void }>;
} {
  deployments += 1;
  const deploymentId = `d_blame_${deployments}`;
  let modules = 0;
  const call = (body: string, overrides: Partial<CallRequest> = {}, options: CallOptions = {}) => {
    modules += 1;
    const request = stepRequest(actionWith(body), { deploymentId, module: `c_${modules}`, ...overrides });
    return fixture.runner.call(request, options);
  };
  const waiting = async () => {
    const runs = Promise.withResolvers<void>();
    const held = Promise.withResolvers<void>();
    const outcome = call(
      `await $.flow.trigger('p_2'); return 'waited';`,
      {},
      {
        onAsk: async () => {
          runs.resolve();
          await held.promise;
          return { header: {} };
        },
      },
    );
    await Promise.race([runs.promise, outcome]);
    return { outcome, go: () => held.resolve() };
  };
  return { deploymentId, call, waiting };
}

const brief = (outcome: CallOutcome): unknown => [outcome.status, outcome.error?.code, outcome.shared];
const bystander = ['cancelled', 'bystander', undefined];

test('a step that ends the process is to blame for it, and no other', async () => {
  const { call, waiting } = sharedProcess();
  const first = await waiting();
  const second = await waiting();
  const exits = await call(`$.export('x', 1); process.exit(3);`);
  assert.deepEqual(brief(exits), ['exited', 'exited', undefined]);
  assert.match(exits.error?.message ?? '', /with code 3/);
  assert.deepEqual([brief(await first.outcome), brief(await second.outcome)], [bystander, bystander]);
  assert.equal(exportsOf(await call('return 1')).$return_value, 1);
});

test('when nobody knows whose doing the end was, all calls are told that they shared the process', async () => {
  const { call, waiting } = sharedProcess();
  const other = await waiting();
  const forges = await call(`require('node:fs').writeSync(3, Buffer.from('no frame at all'))`, {
    deadlineMs: 5000,
  });
  assert.deepEqual(brief(forges), ['exited', 'protocol', true]);
  assert.deepEqual(brief(await other.outcome), ['exited', 'protocol', true]);
  const alone = await call(`require('node:fs').writeSync(3, Buffer.from('no frame at all'))`, {
    deadlineMs: 5000,
  });
  assert.deepEqual(brief(alone), ['exited', 'protocol', undefined]);
});

test('a limit of the whole process that is passed may be the doing of any call in it', async () => {
  const { call, waiting } = sharedProcess();
  const other = await waiting();
  const floods = await call(
    `const line = Buffer.alloc(65536, 'x'); for (;;) { try { require('node:fs').writeSync(1, line); } catch { await null; } }`,
    { deadlineMs: 10_000 },
  );
  assert.deepEqual(brief(floods), ['limit_exceeded', 'limit_exceeded', true]);
  assert.deepEqual(brief(await other.outcome), ['limit_exceeded', 'limit_exceeded', true]);
});

test('a step that leaks: all calls in its process are out of memory, and alone only the one that leaks', async () => {
  const { call, waiting } = sharedProcess();
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
  const loops = await call('for (;;);', { deadlineMs: 400 });
  assert.deepEqual(brief(loops), ['timed_out', 'deadline', undefined]);
  assert.deepEqual(brief(await other.outcome), bystander);
  assert.equal(exportsOf(await call('return 1')).$return_value, 1);
});

test('a call whose deadline passes while another may keep the process busy need not be to blame', async () => {
  const { call } = sharedProcess();
  await call('return 1');
  const waits = call(`await new Promise((go) => setTimeout(go, 300)); return 1;`, { deadlineMs: 1800 });
  const loops = call(`await new Promise((go) => setTimeout(go, 100)); for (;;);`);
  assert.deepEqual(brief(await waits), ['timed_out', 'deadline', true]);
  assert.deepEqual(brief(await loops), bystander);
  const slow = call(`await new Promise(() => {});`, { deadlineMs: 1200 });
  const other = call(`await new Promise((go) => setTimeout(go, 3000));`);
  assert.deepEqual(brief(await slow), ['timed_out', 'deadline', undefined]);
  assert.deepEqual(brief(await other), bystander);
});

test('a cap that forged frames pass is the doing of the call that they belong to', async () => {
  const { call, waiting } = sharedProcess();
  const other = await waiting();
  // Calls of the process so far: a load and a step, and the same again.
  const floods = await call(
    `const fs = require('node:fs'); const h = Buffer.from(JSON.stringify({ emits: [], db: [], logs: [], dropped: 0, sends: [[4, 100]] }));
     const f = Buffer.alloc(13 + h.length + 100, '1'); f.writeUInt32BE(f.length - 4, 0); f[4] = 19; f.writeUInt32BE(4, 5); f.writeUInt32BE(h.length, 9); h.copy(f, 13);
     for (let i = 0; i < 200; i++) { try { fs.writeSync(3, f); } catch {} await null; } await new Promise(() => {});`,
    { deadlineMs: 5000 },
  );
  assert.deepEqual(brief(floods), ['limit_exceeded', 'limit_exceeded', undefined]);
  assert.equal(floods.step?.sends.length, 100);
  assert.deepEqual(brief(await other.outcome), bystander);
});

test('a call that is cancelled leaves the others alone; when it keeps the process busy they are bystanders', async () => {
  const { call, waiting } = sharedProcess();
  const other = await waiting();
  const quiet = new AbortController();
  const cancelled = call('await new Promise(() => {})', {}, { signal: quiet.signal });
  const third = await waiting();
  quiet.abort();
  assert.deepEqual(brief(await cancelled), ['cancelled', 'cancelled', undefined]);
  // Long enough for a process without a sign of life to be ended.
  await delay(800);
  other.go();
  third.go();
  assert.equal(exportsOf(await other.outcome).$return_value, 'waited');
  assert.equal(exportsOf(await third.outcome).$return_value, 'waited');

  const bystanding = await waiting();
  const busy = new AbortController();
  const loops = call(
    `$.respond({ body: 'loops', immediate: true }); for (;;);`,
    {},
    {
      signal: busy.signal,
      onRespond: () => busy.abort(),
    },
  );
  assert.deepEqual(brief(await loops), ['cancelled', 'cancelled', undefined]);
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
  const kills = call(
    `setTimeout(() => process.kill(process.pid, 'SIGKILL'), 100); await new Promise(() => {});`,
  );
  const loads = call('', {
    bundle: {
      hash: 'slow',
      code: `export default { run() { return 'loaded'; } }; await new Promise((go) => setTimeout(go, 400));`,
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
  const pid = Number(exportsOf(await call('return process.pid', { alone: true })).$return_value);
  await waitFor(() => {
    try {
      process.kill(pid, 0);
      return false;
    } catch {
      return true;
    }
  });
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
  const waits = call('await new Promise(() => {})', { alone: true }, { signal: cancel.signal });
  setTimeout(() => cancel.abort(), 100);
  assert.equal((await waits).status, 'cancelled');
  other.go();
  assert.equal(exportsOf(await other.outcome).$return_value, 'waited');
});

test('a process can have more memory than usual, or less', async () => {
  const { call } = sharedProcess();
  const fill = (mb: number): string =>
    `const all = []; for (let i = 0; i < ${mb}; i++) { all.push(Buffer.alloc(1e6, 1)); if (i % 20 === 0) await new Promise((go) => setTimeout(go, 5)); } await new Promise((go) => setTimeout(go, 250)); return require('node:v8').getHeapStatistics().heap_size_limit / 1048576;`;
  const more = await call(fill(500), { memoryMb: 600, revision: 2 });
  assert.ok(Number(exportsOf(more).$return_value) >= 600);
  const same = exportsOf(await call('return process.pid', { memoryMb: 600, revision: 2 })).$return_value;
  const warm = exportsOf(await call('return process.pid', { memoryMb: 600, revision: 2 })).$return_value;
  assert.equal(warm, same);
  const usual = await call(fill(500), { revision: 3 });
  assert.equal(usual.status, 'out_of_memory');
  assert.match(usual.error?.message ?? '', /more than 256 MB/);
  const alone = await call(fill(300), { memoryMb: 512, alone: true });
  assert.ok(Number(exportsOf(alone).$return_value) >= 512);
});

test('runs that share a process: when one exits, the others run again on a fresh one', async () => {
  const { deploymentId } = sharedProcess();
  const source = actionWith(
    `if (steps.trigger.event.exit) process.exit(); await new Promise((go) => setTimeout(go, 200)); return steps.trigger.event.n;`,
  );
  const call = (event: object) =>
    fixture.runner.call(
      stepRequest(source, {
        deploymentId,
        call: stepCall({ steps: JSON.stringify({ trigger: { event } }) }),
      }),
    );
  await call({ n: 0 });
  const good = [1, 2, 3].map((n) => call({ n }));
  const bad = call({ exit: true });
  assert.deepEqual(brief(await bad), ['exited', 'exited', undefined]);
  for (const outcome of await Promise.all(good)) assert.deepEqual(brief(outcome), bystander);
  const again = await Promise.all([1, 2, 3].map((n) => call({ n })));
  assert.deepEqual(
    again.map((outcome) => exportsOf(outcome).$return_value),
    [1, 2, 3],
  );
});
