import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { getPriority } from 'node:os';
import { mock, test } from 'node:test';
import { sessionNicenessOf } from '../../test/support/session-niceness.ts';
import { SessionPriorities, setCpuPriority, setTreePriority } from './cpu-priority.ts';
import { childrenOf } from './process-memory.ts';

const refusal = (code: string): Error => Object.assign(new Error(code), { code });

test('the priority of a process is that of its session too, which is what the kernel shares the cores by', async (t) => {
  if (sessionNicenessOf(process.pid) === undefined)
    return t.skip('the kernel shares the cores by process here');
  const child = spawn('/bin/sleep', ['600'], { detached: true, stdio: 'ignore' });
  const ended = once(child, 'exit');
  await once(child, 'spawn');
  const { pid } = child;
  assert.ok(pid !== undefined);
  try {
    assert.equal(sessionNicenessOf(pid), 0);
    setCpuPriority(pid, 19);
    assert.equal(sessionNicenessOf(pid), 19);
    setCpuPriority(pid, 10);
    assert.equal(sessionNicenessOf(pid), 10, 'it can be raised again');
  } finally {
    child.kill('SIGKILL');
    await ended;
  }
});

test('what a process has started before its priority was set gets that priority too', {
  skip: process.platform === 'linux' ? false : 'there is no /proc',
}, async () => {
  const child = spawn('/bin/sh', ['-c', '/bin/sleep 600 & echo started; wait'], {
    detached: true,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const ended = once(child, 'exit');
  const { pid } = child;
  assert.ok(pid !== undefined);
  try {
    await once(child.stdout, 'data');
    setTreePriority(pid, 5);
    const started = childrenOf(pid);
    assert.deepEqual([pid, ...started].map(getPriority), [5, 5]);
  } finally {
    process.kill(-pid, 'SIGKILL');
    await ended;
  }
});

test('where the kernel asks to wait, each session gets the last priority that was set for it, one after the other', () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    let isOpen = true;
    const written: [pid: number, niceness: number][] = [];
    const priorities = new SessionPriorities({
      areGroups: true,
      write: (pid, niceness) => {
        if (!isOpen) throw refusal('EAGAIN');
        isOpen = false;
        written.push([pid, niceness]);
      },
    });
    for (const [pid, niceness] of [[1, 10], [2, 10], [3, 10], [2, 19]] as const) priorities.set(pid, niceness); // biome-ignore format: one line
    assert.deepEqual(written, [[1, 10]]);
    for (let turn = 0; turn < 2; turn += 1) {
      isOpen = true;
      mock.timers.tick(110);
    }
    assert.deepEqual(written, [[1, 10], [2, 19], [3, 10]]); // biome-ignore format: one line
  } finally {
    mock.timers.reset();
  }
});

test('a process that has ended holds up no other, and nothing is written where sessions share nothing', () => {
  const written: number[] = [];
  const write = (pid: number): void => {
    if (pid === 1) throw refusal('ENOENT');
    written.push(pid);
  };
  const priorities = new SessionPriorities({ areGroups: true, write });
  priorities.set(1, 10);
  priorities.set(2, 10);
  assert.deepEqual(written, [2]);
  new SessionPriorities({ areGroups: false, write }).set(3, 10);
  assert.deepEqual(written, [2]);
});
