import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { ManualTimer } from '../../test/support/manual-timer.ts';
import {
  actionWith,
  bundleOf,
  componentWith,
  exportsOf,
  type RunnerFixture,
  resultOf,
  startRunnerFixture,
  stepRequest,
} from '../../test/support/runner-fixture.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import type { CallOutcome } from './call-outcome.ts';
import type { CallOptions, CallRequest } from './runner.ts';
import { type RunnerTimer, systemTimer } from './runner-timer.ts';

/** How long calls of others wait for a sign of life of a process before they go to another one. */
const blockedMs = 250;
/** The machine may be too busy for a sign in that time: then, too, calls go where they belong. */
const timer: RunnerTimer = {
  ...systemTimer,
  after: (ms, callback) => systemTimer.after(ms === blockedMs ? 60_000 : ms, callback),
};

let fixture: RunnerFixture;
before(async () => {
  fixture = await startRunnerFixture({ timer });
});
after(() => fixture.close());

let owners = 0;
/** Calls deployments of one owner that no other test uses. */
function owner() {
  owners += 1;
  const ownerId = `u_${owners}`;
  const run = (
    deploymentId: string,
    body: string,
    overrides: Partial<CallRequest> = {},
    options: CallOptions = {},
  ) => fixture.call(componentWith(body), { ownerId, deploymentId, ...overrides }, options);
  const pid = async (deploymentId: string, overrides: Partial<CallRequest> = {}) =>
    resultOf(await run(deploymentId, 'return performance.timeOrigin', overrides));
  /** Starts a call that waits until the test continues it. Resolves when its code runs. */
  const waiting = async (deploymentId: string, overrides: Partial<CallRequest> = {}) => {
    const asked = Promise.withResolvers<void>();
    const held = Promise.withResolvers<void>();
    let tries = 0;
    const code = actionWith(`await $.flow.trigger('p_2'); return performance.timeOrigin;`);
    const outcome = fixture.runner.call(stepRequest(code, { ownerId, deploymentId, ...overrides }), {
      onHostCall: async () => {
        tries += 1;
        asked.resolve();
        await held.promise;
        return { header: {} };
      },
    });
    await Promise.race([asked.promise, outcome]);
    return { outcome, go: () => held.resolve(), tries: () => tries };
  };
  return { ownerId, run, pid, waiting };
}

function isSetApart(ownerId: string, deploymentId: string): boolean {
  const { setApart } = fixture.runner.processes();
  return setApart.some((one) => one.ownerId === ownerId && one.deploymentId === deploymentId);
}

const brief = (outcome: CallOutcome): unknown => [outcome.status, outcome.error?.code, outcome.shared];

test('deployments of one owner share a process, and two owners never do', async () => {
  const one = owner();
  const other = owner();
  const first = await one.pid('dc_one_1');
  assert.equal(await one.pid('dc_one_2'), first);
  assert.notEqual(await other.pid('dc_other_1'), first);
  const domain = { trustDomain: other.ownerId };
  assert.notEqual(await one.pid('dc_one_3', domain), await other.pid('dc_other_2', domain));
});

test('deployments that use accounts of different users share no process', async () => {
  const { ownerId, pid } = owner();
  const first = await pid('dc_1');
  const withMember = await pid('dc_2', { trustDomain: `${ownerId} u_member` });
  assert.notEqual(withMember, first);
  assert.equal(await pid('dc_3', { trustDomain: `${ownerId} u_member` }), withMember);
});

test('a deployment that requests it, or needs more memory, has a process of its own', async () => {
  const { pid } = owner();
  const shared = await pid('dc_1');
  const isolated = await pid('dc_2', { isolated: true });
  const large = await pid('dc_3', { memoryMb: 300 });
  assert.equal(new Set([shared, isolated, large]).size, 3);
  assert.equal(await pid('dc_2', { isolated: true }), isolated);
});

test('each deployment in a process has code, environment and /tmp of its own', async () => {
  const { run } = owner();
  const body = `const fs = require('fs'); const before = [process.env.PD_COMPONENT, process.env.MINE, fs.readdirSync('/tmp')];
    process.env.MINE = event.id; fs.writeFileSync('/tmp/' + event.id, ''); module.loads = (module.loads ?? 0) + 1;
    const { env } = await import('node:process');
    return { before, after: [process.env.MINE, { ...process.env }.MINE, env.MINE, 'MINE' in env, fs.readdirSync('/tmp'), module.loads] };`;
  const call = (id: string) =>
    run(id, body, { call: { kind: 'run', event: JSON.stringify({ id }) } }).then(resultOf);
  for (const id of ['dc_a', 'dc_b']) {
    assert.deepEqual(await call(id), { before: [id, null, []], after: [id, id, id, true, [id], 1] });
  }
  assert.deepEqual(await call('dc_a'), {
    before: ['dc_a', 'dc_a', ['dc_a']],
    after: ['dc_a', 'dc_a', 'dc_a', true, ['dc_a'], 2],
  });
});

test('another revision starts over: code, environment and /tmp', async () => {
  const { run } = owner();
  const body = `const fs = require('fs'); const found = [performance.timeOrigin, process.env.MINE ?? null, fs.readdirSync('/tmp')];
    process.env.MINE = '1'; fs.writeFileSync('/tmp/mine', ''); return found;`;
  const [pid] = resultOf(await run('dc_1', body)) as unknown[];
  assert.deepEqual(resultOf(await run('dc_1', body)), [pid, '1', ['mine']]);
  assert.deepEqual(resultOf(await run('dc_1', body, { revision: 2 })), [pid, null, []]);
});

test('stacks and logs do not disclose which deployments share the process', async () => {
  const { run } = owner();
  const outcome = await run('dc_1', `const error = new Error('x'); console.log(error); throw error;`);
  assert.match(outcome.error?.stack ?? '', /\/component\/index\.cjs:1:/);
  assert.doesNotMatch(`${outcome.error?.stack} ${outcome.logs[0]?.message}`, /dc_1@/);
});

test('a deployment that ends the process is set apart from then on; the others run again without an error', async () => {
  const { run, pid, waiting } = owner();
  const shared = await pid('dc_good');
  const step = await waiting('d_step');
  // It is under way when the process ends, however long that takes.
  const source = run(
    'dc_good',
    `if (performance.timeOrigin === ${shared}) await new Promise(() => {}); return performance.timeOrigin`,
  );
  const exits = 'process.exit(3)';
  assert.deepEqual(brief(await run('dc_bad', exits)), ['exited', 'exited', undefined]);
  assert.deepEqual(brief(await step.outcome), ['cancelled', 'bystander', undefined], 'its caller decides');
  const after = resultOf(await source);
  assert.notEqual(after, shared, 'the call of a source runs again by itself');
  const other = await waiting('d_other');
  assert.deepEqual(brief(await run('dc_bad', exits)), ['exited', 'exited', undefined]);
  other.go();
  assert.equal(exportsOf(await other.outcome).$return_value, after, 'now it ends only its own process');
  assert.notEqual(
    await pid('dc_good'),
    await run('dc_bad', exits, { module: undefined as never }).then(() => 0),
  );
  assert.equal(await pid('dc_bad'), await pid('dc_good'), 'code that changed gets another chance');
});

test('when it is unknown which call ended the process, each runs again alone, and only the guilty one is set apart', async () => {
  const { run, pid, waiting } = owner();
  const forges = `require('fs').writeSync(3, 'no frame'); await new Promise(() => {})`;
  const innocent = await waiting('d_innocent');
  const source = run('dc_innocent', `await new Promise((r) => setTimeout(r, 100)); return 'done'`);
  assert.deepEqual(brief(await run('dc_bad', forges)), ['exited', 'protocol', undefined]);
  assert.deepEqual(brief(await innocent.outcome), ['exited', 'protocol', true]);
  assert.equal(resultOf(await source), 'done');
  const shared = await pid('dc_innocent', {
    bundle: bundleOf(componentWith('return performance.timeOrigin')),
  });
  const other = await waiting('d_other');
  assert.deepEqual(brief(await run('dc_bad', forges)), ['exited', 'protocol', undefined]);
  other.go();
  assert.equal(exportsOf(await other.outcome).$return_value, shared);
});

test('while one call keeps the process busy, calls of others go to another process immediately', async () => {
  const timer = new ManualTimer();
  const own = await startRunnerFixture({ timer });
  const call = (deploymentId: string, body: string, options: CallOptions = {}) =>
    own.call(componentWith(body), { ownerId: 'u_1', deploymentId }, options);
  try {
    const first = resultOf(await call('dc_quick', 'return performance.timeOrigin'));
    const begun = Promise.withResolvers<void>();
    const spins = call(
      'dc_spins',
      `this.http.respond({ body: '' }); const used = () => process.cpuUsage().user; const end = used() + 500_000; while (used() < end); return performance.timeOrigin`,
      { onRespond: () => begun.resolve() },
    );
    await begun.promise;
    // A process counts as responsive directly after a frame.
    timer.advance(10);
    const calling = call('dc_quick', 'return performance.timeOrigin');
    await timer.started(250);
    timer.advance(250);
    assert.notEqual(resultOf(await calling), first);
    assert.equal(resultOf(await spins), first, 'the one that was busy went on to its end');
  } finally {
    await own.close();
  }
});

test('a call that passes its deadline while it waits ends no other call', async () => {
  const { run, waiting, pid } = owner();
  const first = await pid('dc_1');
  const other = await waiting('d_other');
  const late = await run('dc_1', 'await new Promise(() => {})', { deadlineMs: 100 });
  assert.deepEqual(brief(late), ['timed_out', 'deadline', undefined]);
  assert.notEqual(await pid('dc_1'), first, 'the process takes no more calls');
  other.go();
  assert.equal(exportsOf(await other.outcome).$return_value, first);
});

test('the end of a deployment does not affect the others', async () => {
  const { run, waiting } = owner();
  const other = await waiting('d_other');
  const begun = Promise.withResolvers<void>();
  const ended = run(
    'dc_ended',
    `this.http.respond({ body: '' }); await new Promise(() => {})`,
    {},
    { onRespond: () => begun.resolve() },
  );
  await begun.promise;
  await fixture.runner.forget('dc_ended');
  assert.deepEqual(brief(await ended), ['cancelled', 'forgotten', undefined]);
  other.go();
  assert.equal((await other.outcome).status, 'finished');
});

test('code that an ended deployment left running ends with its process, which is replaced', async () => {
  const { run, pid } = owner();
  const quiet = await pid('dc_quiet');
  await fixture.runner.forget('dc_quiet');
  assert.equal(await pid('dc_1'), quiet, 'code that left nothing behind costs no process');
  resultOf(await run('dc_leaves', 'setInterval(() => {}, 1000)'));
  await fixture.runner.forget('dc_leaves');
  for (;;) if ((await pid('dc_1')) !== quiet) break;
});

test('code that does not load fails its own calls, and is evaluated again by the next', async () => {
  const { pid, run } = owner();
  const first = await pid('dc_1');
  const broken = {
    bundle: bundleOf(
      `globalThis.tries = (globalThis.tries ?? 0) + 1; throw new Error('try ' + globalThis.tries)`,
    ),
  };
  for (const n of [1, 2]) {
    const outcome = await run('dc_broken', '', broken);
    assert.deepEqual([outcome.status, outcome.error?.message], ['load_failed', `try ${n}`]);
  }
  assert.equal(await pid('dc_1'), first);
});

test('code that ends the process while it is evaluated does so once among others, and alone from then on', async () => {
  const { ownerId, run, pid, waiting } = owner();
  const ends = { bundle: bundleOf(`process.kill(process.pid, 'SIGKILL'); while (true);`) };
  const shared = await pid('dc_good');
  const step = await waiting('d_step');
  const outcome = await run('dc_ends', '', ends);
  assert.deepEqual([outcome.status, outcome.error?.code], ['load_failed', 'exited']);
  assert.deepEqual(brief(await step.outcome), ['exited', 'exited', true], 'it is unknown which call did it');
  assert.equal(isSetApart(ownerId, 'dc_ends'), true);
  assert.equal(isSetApart(ownerId, 'dc_good') || isSetApart(ownerId, 'd_step'), false);
  const after = await pid('dc_good');
  assert.notEqual(after, shared);
  for (let n = 0; n < 3; n += 1) {
    const other = await waiting('d_step');
    assert.equal((await run('dc_ends', '', ends)).status, 'load_failed');
    other.go();
    assert.equal(exportsOf(await other.outcome).$return_value, after, 'it harms no other');
  }
});

test('two deployments whose code is evaluated when one of them ends the process do not meet again', async () => {
  const { run, pid } = owner();
  await pid('dc_good');
  const later = 'await new Promise((resolve) => setTimeout(resolve, 100));';
  const endedBefore = fixture.runner.stats().kills;
  const [ends, other] = await Promise.all([
    run('dc_ends', '', {
      bundle: bundleOf(`${later} process.kill(process.pid, 'SIGKILL'); while (true);`, 'esm'),
    }),
    run('dc_other', '', {
      bundle: bundleOf(`${later} ${later} export default { run: () => 'fine' };`, 'esm'),
    }),
  ]);
  assert.deepEqual([ends.status, ends.error?.code], ['load_failed', 'exited']);
  assert.equal(resultOf(other), 'fine');
  assert.equal(
    fixture.runner.stats().kills - endedBefore,
    2,
    'it ended a process that it shared, and its own',
  );
});

test('code may replace process.env, and values become text', async () => {
  const { run } = owner();
  const body = `const before = process.env; process.env = { ...process.env, MINE: 1 }; process.env.OTHER = true; before.LATE = 2;
    const { env } = await import('node:process');
    return [process.env.MINE, process.env.OTHER, process.env.LATE ?? null, env.MINE, process.env.PD_COMPONENT];`;
  assert.deepEqual(resultOf(await run('dc_a', body)), ['1', 'true', null, '1', 'dc_a']);
  const reads = 'return process.env.MINE ?? null';
  assert.equal(resultOf(await run('dc_b', reads)), null);
});

/** The body of a source that waits as long as its event says. */
const waits = 'await new Promise((r) => setTimeout(r, event.ms)); return performance.timeOrigin';

test('code that a call left behind, and that ends the process, is set apart, and not the call that runs at that time', async () => {
  for (const late of [
    'setTimeout(() => process.exit(1), 50);',
    `setTimeout(() => { throw new Error('late'); }, 50);`,
  ]) {
    const { ownerId, run, pid } = owner();
    const good = (ms: number) =>
      run('dc_good', waits, { call: { kind: 'run', event: JSON.stringify({ ms }) } });
    const shared = resultOf(await good(0));
    resultOf(await run('dc_late', late));
    const runs = await good(300);
    assert.equal(runs.status, 'finished', JSON.stringify(runs.error));
    await waitFor(() => isSetApart(ownerId, 'dc_late'));
    assert.equal(isSetApart(ownerId, 'dc_good'), false);
    const after = resultOf(await good(0));
    assert.notEqual(after, shared, 'the process was replaced');
    const own = { bundle: bundleOf(componentWith(late)) };
    await run('dc_late', '', own);
    assert.equal(resultOf(await good(0)), after, 'it harms no other');
    assert.equal(await pid('dc_late', { revision: 2 }), after, 'another revision gets another chance');
  }
});

test('a process that ends for an unknown reason while one call is in it does not make that call guilty', async () => {
  const { ownerId, run } = owner();
  const good = (ms: number) =>
    run('dc_good', waits, { call: { kind: 'run', event: JSON.stringify({ ms }) } });
  const shared = resultOf(await good(0));
  resultOf(await run('dc_late', `setTimeout(() => process.kill(process.pid, 'SIGKILL'), 50);`));
  assert.equal((await good(200)).status, 'finished');
  assert.equal(isSetApart(ownerId, 'dc_good'), false);
  await waitFor(async () => resultOf(await good(0)) !== shared);
});
