import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { componentWith, resultOf, startRunnerFixture } from '../../test/support/runner-fixture.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { niceness } from './cpu-shares.ts';

/** The niceness of a process, as the system has it. */
function nicenessOf(pid: number): number {
  const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  return Number(text.slice(text.lastIndexOf(')') + 2).split(' ')[16]);
}

test('processes of an owner who keeps the cores busy come after those of others, also those that the owner gets from then on', async () => {
  const fixture = await startRunnerFixture();
  try {
    const nicenessesOf = (ownerId: string): number[] =>
      fixture.runner
        .processes()
        .processes.filter((one) => one.ownerId === ownerId)
        .flatMap(({ pid }) => (pid === undefined ? [] : [nicenessOf(pid)]));
    const call = (ownerId: string, deploymentId: string, body: string) =>
      fixture.call(componentWith(body), { ownerId, deploymentId, isolated: true, deadlineMs: 60_000 });
    const stopped = new AbortController();
    const spinning = Array.from({ length: 4 }, (_, n) =>
      fixture.call(
        componentWith('for (;;);'),
        { ownerId: 'u_greedy', deploymentId: `dc_${n}`, isolated: true, deadlineMs: 60_000 },
        { signal: stopped.signal },
      ),
    );
    await waitFor(() => {
      const all = nicenessesOf('u_greedy');
      return all.length === 4 && all.every((value) => value === niceness.greedy);
    });
    const own = "return require('os').getPriority();";
    assert.equal(resultOf(await call('u_greedy', 'dc_next', own)), niceness.greedy, 'from its start');
    assert.equal(resultOf(await call('u_other', 'dc_other', own)), niceness.usual);
    stopped.abort();
    await Promise.all(spinning);
  } finally {
    await fixture.close();
  }
});
