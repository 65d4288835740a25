import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { BuildBudget } from './build-budget.ts';

/** A build of at most 10 seconds of CPU time and 60 of wall time, in a process whose CPU time the test says. */
function timedBuild(t: TestContext) {
  t.mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
  const cpu: { ms: number | undefined } = { ms: 5000 };
  const memory = { bytes: 0 };
  const stop = new AbortController();
  const budget = new BuildBudget({
    what: 'building the component',
    limits: { cpuMs: 10_000, deadlineMs: 60_000, memoryBytesMax: 1024 * 1024 },
    signal: stop.signal,
    cpuMsOf: () => cpu.ms,
    memoryOf: () => memory.bytes,
  });
  const messageOf = (): string => {
    budget.signal.throwIfAborted();
    return '';
  };
  return { budget, cpu, memory, stop, messageOf };
}

test('a build that gets little of the processor continues, one that has used its CPU time ends', (t) => {
  const { budget, cpu, messageOf } = timedBuild(t);
  const endWatch = budget.watch(1);
  t.mock.timers.tick(59_000);
  cpu.ms = 15_000;
  t.mock.timers.tick(250);
  assert.equal(messageOf(), '');
  cpu.ms = 15_010;
  t.mock.timers.tick(250);
  assert.throws(messageOf, {
    code: 'build_timeout',
    message: 'building the component took more than 10 seconds of CPU time',
  });
  endWatch();
  budget.end();
});

test('CPU time counts while a process works for the build, over all of its processes, and what it used before does not', (t) => {
  const { budget, cpu, messageOf } = timedBuild(t);
  for (const usedMs of [6000, 4000]) {
    const endWatch = budget.watch(1);
    cpu.ms = (cpu.ms ?? 0) + usedMs;
    endWatch();
    // Another build has the process meanwhile.
    cpu.ms += 60_000;
    t.mock.timers.tick(250);
  }
  assert.equal(messageOf(), '');
  const endWatch = budget.watch(1);
  cpu.ms = (cpu.ms ?? 0) + 10;
  endWatch();
  assert.throws(messageOf, { code: 'build_timeout' });
  budget.end();
});

test('a child that ends does not give CPU time back', (t) => {
  const { budget, cpu, messageOf } = timedBuild(t);
  const endWatch = budget.watch(1);
  for (const ms of [14_000, 6000, 14_500, 15_000]) {
    cpu.ms = ms;
    t.mock.timers.tick(250);
  }
  assert.equal(messageOf(), '');
  endWatch();
  budget.end();
});

test('a build that waits for the network or hangs ends with its deadline, apart from waiting in line', (t) => {
  const { budget, cpu, messageOf } = timedBuild(t);
  // Where it cannot be read.
  cpu.ms = undefined;
  const endWatch = budget.watch(1);
  t.mock.timers.tick(59_999);
  budget.pause();
  t.mock.timers.tick(600_000);
  budget.restart();
  t.mock.timers.tick(59_999);
  assert.equal(messageOf(), '');
  t.mock.timers.tick(1);
  assert.throws(messageOf, {
    code: 'build_timeout',
    message: 'building the component took more than 60 seconds',
  });
  endWatch();
});

test('a build that no caller waits for ends with that reason', (t) => {
  const { budget, stop, messageOf } = timedBuild(t);
  stop.abort(new Error('nobody waits'));
  assert.throws(messageOf, /nobody waits/);
  budget.end();
});

test('a build whose processes take too much memory ends', (t) => {
  const { budget, memory, messageOf } = timedBuild(t);
  const endWatch = budget.watch(1);
  memory.bytes = 1024 * 1024;
  t.mock.timers.tick(250);
  assert.equal(messageOf(), '');
  memory.bytes += 1;
  t.mock.timers.tick(250);
  assert.throws(messageOf, {
    code: 'component_too_large',
    message: 'building the component took more than 1 MB of memory',
  });
  endWatch();
});
