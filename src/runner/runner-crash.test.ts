import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { must } from '#lib/assert.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { findExecutable, SandboxFolders, startTimeOf } from './runner-folders.ts';

/** Starts a service in its own process, with a descriptor left open. The script prints one line of JSON. */
function startService(script: string): { first: Promise<unknown>; kill(): void; exited: Promise<void> } {
  const fixtureUrl = new URL('../../test/support/runner-fixture.ts', import.meta.url).href;
  const code = `import { pidTitled, startRunnerFixture, resultOf } from ${JSON.stringify(fixtureUrl)};
    const fixture = await startRunnerFixture(); const say = (value) => console.log(JSON.stringify(value)); ${script}`;
  // As a careless parent does: descriptor 40 is a file that stays open in started programs.
  const file = openSync('/etc/passwd', 'r');
  const stdio: ('ignore' | 'pipe' | 'inherit' | number)[] = Array.from({ length: 41 }, () => 'ignore');
  stdio.splice(1, 2, 'pipe', 'inherit');
  stdio[40] = file;
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], {
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
    stdio,
  });
  closeSync(file);
  const output = must(child.stdout, 'the output of the service');
  const first = new Promise<unknown>((resolve, reject) => {
    createInterface({ input: output }).once('line', (line) => resolve(JSON.parse(line)));
    child.once('exit', (code) => reject(new Error(`the service ended with ${code}`)));
  });
  return {
    first,
    kill: () => child.kill('SIGKILL'),
    exited: new Promise((resolve) => child.once('exit', () => resolve())),
  };
}

test('a descriptor that the parent of the service left open does not reach user code', async () => {
  const service = startService(`
    say(resultOf(await fixture.run("try { return require('fs').fstatSync(40).size; } catch (error) { return error.code; }")));
    await fixture.close();`);
  assert.equal(await service.first, 'EBADF');
  await service.exited;
});

test('when the service is killed, a spinning component ends', {
  skip: findExecutable('setpriv') === undefined,
}, async () => {
  const service = startService(`
    void fixture.run('process.title = "spins"; this.http.respond({}); for (;;);', {}, { onRespond: async () => say([await pidTitled(fixture, 'spins'), fixture.folder]) });`);
  const [pid, folder] = (await service.first) as [number, string];
  assert.ok(startTimeOf(pid) !== undefined);
  service.kill();
  await service.exited;
  await waitFor(() => startTimeOf(pid) === undefined, { what: `the end of process ${pid}` });
  await rm(folder, { recursive: true, force: true });
});

test('at start, processes of a dead service are ended, unrelated processes with a reused pid are not', async () => {
  const base = await mkdtemp(join(tmpdir(), 'millrace-test-'));
  const orphan = spawn('sleep', ['600']);
  const stranger = spawn('sleep', ['600']);
  try {
    const run = join(base, 'run-1999999999-5');
    await mkdir(join(run, 'scratch-1'), { recursive: true });
    await mkdir(join(run, 'processes'));
    for (const name of [`${orphan.pid}-${startTimeOf(orphan.pid ?? 0)}`, `${stranger.pid}-12345`])
      await writeFile(join(run, 'processes', name), '');
    const ended = new Promise((resolve) => orphan.once('exit', (_, signal) => resolve(signal)));
    const folders = new SandboxFolders({ base, temporary: false });
    assert.equal(await ended, 'SIGKILL');
    assert.ok(startTimeOf(stranger.pid ?? 0) !== undefined);
    assert.equal(existsSync(run), false);
    new SandboxFolders({ base, temporary: false });
    assert.equal(
      (await readdir(base)).filter((name) => name.startsWith('run-')).length,
      1,
      'the folder of a living service stays',
    );
    folders.remove();
  } finally {
    orphan.kill('SIGKILL');
    stranger.kill('SIGKILL');
    await rm(base, { recursive: true, force: true });
  }
});

/** Starts a process whose parent has ended, in the process group that the parent led. */
async function orphaned(): Promise<{ leader: number; start: string; pid: number }> {
  const shell = spawn('sh', ['-c', 'sleep 600 & echo $!; read line'], { detached: true });
  const leader = shell.pid ?? 0;
  const start = startTimeOf(leader) ?? '';
  const [line] = (await once(shell.stdout, 'data')) as [Buffer];
  shell.stdin.end();
  shell.stdout.destroy();
  await once(shell, 'exit');
  return { leader, start, pid: Number(line) };
}

test('at start, a process that outlived its parent is ended by its group, a group of unrelated processes is not', async () => {
  const base = await mkdtemp(join(tmpdir(), 'millrace-test-'));
  const ours = await orphaned();
  const strangers = await orphaned();
  try {
    const processes = join(base, 'run-1999999999-5', 'processes');
    await mkdir(processes, { recursive: true });
    for (const name of [`${ours.leader}-${ours.start}`, `${strangers.leader}-12345`])
      await writeFile(join(processes, name), '');
    const folders = new SandboxFolders({ base, temporary: false });
    await waitFor(() => startTimeOf(ours.pid) === undefined, { what: 'the end of what was left' });
    assert.ok(startTimeOf(strangers.pid) !== undefined);
    folders.remove();
  } finally {
    for (const { pid } of [ours, strangers]) if (startTimeOf(pid) !== undefined) process.kill(pid, 'SIGKILL');
    await rm(base, { recursive: true, force: true });
  }
});
