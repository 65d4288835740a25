import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { test } from 'node:test';
import { ManualTimer } from '../../test/support/manual-timer.ts';
import { componentWith, resultOf, startRunnerFixture } from '../../test/support/runner-fixture.ts';
import { sessionNicenessOf } from '../../test/support/session-niceness.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { niceness } from './cpu-shares.ts';
import { turnMs } from './cpu-turns.ts';
import { processCpuMs } from './process-memory.ts';

function statOf(pid: number): string[] {
  const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  return text.slice(text.lastIndexOf(')') + 2).split(' ');
}

/** True when a signal has stopped the process. */
const isPaused = (pid: number): boolean => statOf(pid)[0] === 'T';

/** The niceness of a process, as the system has it; undefined when that of its session is another one, which then counts. */
function nicenessOf(pid: number): number | undefined {
  const own = Number(statOf(pid)[16]);
  return (sessionNicenessOf(pid) ?? own) === own ? own : undefined;
}

test('processes of an owner who keeps the cores busy come after those of others, also those that the owner gets from then on', async () => {
  const timer = new ManualTimer();
  const fixture = await startRunnerFixture({ timer });
  try {
    const pidsOf = (ownerId: string): number[] =>
      fixture.runner
        .processes()
        .processes.filter((one) => one.ownerId === ownerId)
        .flatMap(({ pid }) => pid ?? []);
    const nicenessesOf = (ownerId: string) => pidsOf(ownerId).map(nicenessOf);
    const call = (ownerId: string, deploymentId: string, body: string) =>
      fixture.call(componentWith(body), { ownerId, deploymentId, isolated: true, deadlineMs: 60_000 });
    const stopped = new AbortController();
    const count = 4;
    const spinning = Array.from({ length: count }, (_, n) =>
      fixture.call(
        componentWith('for (;;);'),
        { ownerId: 'u_greedy', deploymentId: `dc_${n}`, isolated: true, deadlineMs: 60_000 },
        { signal: stopped.signal },
      ),
    );
    // However busy the machine is, they then have used two cores of the second that passes.
    const hasUsedTwo = () => {
      const used = pidsOf('u_greedy').map((pid) => processCpuMs(pid) ?? 0);
      return used.length === count && used.every((ms) => ms > 2500 / count);
    };
    // They come after everything else that runs on the machine.
    await waitFor(hasUsedTwo, { timeoutMs: 150_000 });
    timer.advance(1000);
    assert.deepEqual(nicenessesOf('u_greedy'), Array(count).fill(niceness.greedy));
    const own = "return require('os').getPriority();";
    assert.equal(resultOf(await call('u_greedy', 'dc_next', own)), niceness.greedy, 'from its start');
    assert.equal(resultOf(await call('u_other', 'dc_other', own)), niceness.usual);
    assert.deepEqual(nicenessesOf('u_other'), [niceness.usual]);
    const shown = fixture.runner.processes().processes.filter(({ ownerId }) => ownerId === 'u_greedy');
    for (const { cores, isGreedy, state } of shown.slice(0, count))
      assert.ok(isGreedy && cores > 0.5 && state === 'busy', `${cores} ${isGreedy} ${state}`);
    assert.deepEqual(
      fixture.runner.processes().processes.flatMap((one) => (one.ownerId === 'u_other' ? one.isGreedy : [])),
      [false],
    );
    // They take turns: with more of them than cores, processes of other owners would wait each time that they have something to do.
    const spinners = pidsOf('u_greedy').slice(0, count);
    const pausedSets = new Set<string>();
    const pausedCount = Math.max(0, count - availableParallelism());
    for (let turn = 0; turn < count; turn += 1) {
      timer.advance(turnMs);
      await waitFor(() => spinners.filter(isPaused).length >= pausedCount, { what: 'the others to pause' });
      pausedSets.add(spinners.filter(isPaused).join());
    }
    assert.ok(pausedCount === 0 || pausedSets.size > 1, 'not always the same ones pause');
    assert.equal(pidsOf('u_other').some(isPaused), false);
    stopped.abort();
    const ended = await Promise.all(spinning);
    assert.deepEqual(ended.map(({ status }) => status), Array(count).fill('cancelled')); // biome-ignore format: one sentence
  } finally {
    await fixture.close();
  }
});

test('a process whose threads keep the cores busy takes turns too, also after its call has ended', async () => {
  const timer = new ManualTimer();
  const fixture = await startRunnerFixture({ timer });
  try {
    const pids = () =>
      fixture.runner.processes().processes.flatMap(({ pid, ownerId }) => (ownerId ? (pid ?? []) : []));
    const body = `const { pbkdf2 } = require('crypto');
      const again = () => pbkdf2('a', 'b', 100_000, 64, 'sha512', again);
      for (let n = 0; n < 4; n += 1) again();
      return 'begun';`;
    const count = availableParallelism() + 2;
    for (let n = 0; n < count; n += 1) {
      const own = { ownerId: 'u_greedy', deploymentId: `dc_${n}`, isolated: true };
      assert.equal(resultOf(await fixture.call(componentWith(body), own)), 'begun');
    }
    const usedMs = () => pids().reduce((sum, pid) => sum + (processCpuMs(pid) ?? 0), 0);
    const cores = availableParallelism();
    await waitFor(() => usedMs() > 1000 * cores, { timeoutMs: 150_000 });
    timer.advance(1000);
    assert.deepEqual(pids().map(nicenessOf), Array(count).fill(niceness.greedy));
    // A turn passes when they have used as much as they can in a turn.
    let before = usedMs();
    await waitFor(() => {
      if (usedMs() - before < turnMs * cores) return false;
      before = usedMs();
      timer.advance(turnMs);
      return pids().some(isPaused);
    });
  } finally {
    await fixture.close();
  }
});
