import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { ManualTimer } from '../../test/support/manual-timer.ts';
import { componentWith, resultOf, startRunnerFixture } from '../../test/support/runner-fixture.ts';
import { sessionNicenessOf } from '../../test/support/session-niceness.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { niceness } from './cpu-shares.ts';
import { processCpuMs } from './process-memory.ts';

/** The niceness of a process, as the system has it; undefined when that of its session is another one, which then counts. */
function nicenessOf(pid: number): number | undefined {
  const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const own = Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[16]);
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
    stopped.abort();
    await Promise.all(spinning);
  } finally {
    await fixture.close();
  }
});
