import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { pidTitled, startRunnerFixture } from '../../test/support/runner-fixture.ts';
import { levelOfTests } from '../../test/support/sandbox-level.ts';
import { createTempFolder } from '../../test/support/temp-folder.ts';
import { waitFor } from '../../test/support/wait-for.ts';

/** A folder with the files of a group that was delegated. The kernel reads none of them. */
function delegated(root: string): { root: string; membership: string; removeFolder: (path: string) => void } {
  mkdirSync(root);
  writeFileSync(join(root, 'cgroup.controllers'), 'cpu memory pids');
  for (const name of ['cgroup.procs', 'cgroup.subtree_control']) writeFileSync(join(root, name), '');
  const membership = join(root, 'membership');
  writeFileSync(membership, '0::/\n');
  return { root, membership, removeFolder: (path) => rmSync(path, { recursive: true }) };
}

test('a process joins a group before its code runs, which ends with it, and running out of memory there is known', async () => {
  await using folder = await createTempFolder('groups-of-processes');
  const root = join(folder.path, 'groups');
  const fixture = await startRunnerFixture({ groups: delegated(root) });
  const groups = () => readdirSync(root).filter((name) => name.startsWith('sandbox-'));
  try {
    const running = Promise.withResolvers<void>();
    const outcome = fixture.run(
      "process.title = 'grouped'; this.http.respond({}); await new Promise(() => {});",
      {},
      { onRespond: async () => running.resolve() },
    );
    await running.promise;
    const [name = ''] = groups();
    const pid = await pidTitled(fixture, 'grouped');
    // Each write of a pid adds a process to a real group; here the last one is seen, the first process of the namespace where there is one.
    const [taken, memoryMax] = ['cgroup.procs', 'memory.max'].map((file) =>
      Number(readFileSync(join(root, name, file), 'utf8')),
    );
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
    const init = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
    assert.equal(taken, levelOfTests() === 'kernel' ? init : pid);
    assert.equal(memoryMax, (256 + 96 + 256) * 2 ** 20 + 512 * 2 ** 20);
    writeFileSync(join(root, name, 'memory.events'), 'oom_kill 1\n');
    process.kill(pid, 'SIGKILL');
    assert.equal((await outcome).status, 'out_of_memory');
    await waitFor(() => groups().length === 0, { what: 'the end of the group' });
    assert.equal(fixture.runner.stats().notDelegated, undefined);
  } finally {
    await fixture.close();
  }
  assert.ok(!readdirSync(root).includes('service'));
});

test('a process whose group is refused runs without one', async () => {
  await using folder = await createTempFolder('groups-of-processes');
  const root = join(folder.path, 'groups');
  const fixture = await startRunnerFixture({ groups: delegated(root) });
  try {
    rmSync(root, { recursive: true });
    assert.equal((await fixture.run('return 1;')).status, 'finished');
  } finally {
    await fixture.close();
  }
});
