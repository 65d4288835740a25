import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { chmod } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { type Logger, silentLogger } from '#lib/logger.ts';
import { kernelSkip } from '../../test/support/sandbox-level.ts';
import { sessionNicenessOf } from '../../test/support/session-niceness.ts';
import { createTempFolder } from '../../test/support/temp-folder.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { findKernelPrograms } from './bubblewrap-command.ts';
import { Launcher } from './launcher.ts';
import { startTimeOf } from './runner-folders.ts';
import { buildSandboxProgram } from './sandbox-program.ts';
import { type SpawnedSandbox, spawnSandbox } from './spawn-sandbox.ts';

const usual = { cwd: '/', env: { TZ: 'UTC' }, niceness: 7 };
const shell = (script: string) => ({ ...usual, command: '/bin/sh', args: ['-c', script] });

async function withLauncher(
  work: (launcher: Launcher, folder: string) => Promise<void>,
  logger: Logger = silentLogger,
): Promise<void> {
  await using folder = await createTempFolder('launcher');
  await chmod(folder.path, 0o711);
  const launcher = await Launcher.create({ programs: folder.path, streams: folder.path, logger });
  const all: Socket[] = [];
  const launch = launcher.launch.bind(launcher);
  launcher.launch = async (request) => {
    const launched = await launch(request);
    all.push(...Object.values(launched.streams));
    return launched;
  };
  try {
    await work(launcher, folder.path);
  } finally {
    await launcher.close();
    for (const stream of all) stream.destroy();
  }
}

async function textOf(stream: Socket): Promise<string> {
  let text = '';
  for await (const chunk of stream) text += chunk;
  return text;
}

test('a process has its streams from the first byte, its environment, and nothing else of the launcher', () =>
  withLauncher(async (launcher) => {
    const script = `printf out; printf err >&2; printf rpc >&3; printf egress >&4; printf files >&5; env | sort; ls /proc/$$/fd; read line <&3; exit 7`;
    const { streams, ended } = await launcher.launch(shell(script));
    streams.rpc.write('a line\n');
    const [out, ...others] = await Promise.all(Object.values(streams).map(textOf));
    assert.deepEqual(others, ['err', 'rpc', 'egress', 'files']);
    // Every process also finds the descriptors that the parent of the tests left open.
    const plain = spawnSync('/bin/sh', ['-c', 'ls /proc/$$/fd'], { stdio: Array(6).fill('pipe') });
    assert.equal(out, `outPWD=/\nTZ=UTC\n${plain.stdout}`);
    assert.deepEqual(await ended, { code: 7, signal: null });
  }));

test('its descriptors block, as code that reads and writes without a callback requires', () =>
  withLauncher(async (launcher) => {
    const script = `const { readSync, writeSync } = require('fs'); const bytes = Buffer.alloc(4);
      writeSync(3, Buffer.alloc(2 ** 20, 'x')); writeSync(1, String(readSync(5, bytes)) + bytes)`;
    const { streams, ended } = await launcher.launch({
      ...{ ...usual, command: process.execPath, args: ['-e', script] },
    });
    let count = 0;
    const mebibyte = 2 ** 20;
    streams.rpc.on('data', (chunk: Buffer) => {
      count += chunk.length;
      if (count === mebibyte) streams.files.write('late');
    });
    assert.deepEqual(await Promise.all([textOf(streams.stdout), ended]), [
      '4late',
      { code: 0, signal: null },
    ]);
  }));

test('a process has its low priority before it does anything, and its session has it too', () =>
  withLauncher(async (launcher) => {
    const { pid, streams } = await launcher.launch(shell('read line <&3; exec cat /proc/$$/stat'));
    const session = sessionNicenessOf(pid);
    streams.rpc.write('a line\n');
    assert.equal((await textOf(streams.stdout)).split(') ')[1]?.split(' ')[16], '7');
    if (session !== undefined) assert.equal(session, 7);
  }));

test('a failed start is reported', () =>
  withLauncher(async (launcher) => {
    await assert.rejects(launcher.launch({ ...usual, command: '/no/such/program', args: [] }), /ENOENT/);
    await assert.rejects(
      launcher.launch({ ...shell('true'), openFile: '/no/such/file' }),
      /ENOENT.*no\/such\/file/,
    );
    const { ended } = await launcher.launch(shell('exit 0'));
    assert.deepEqual(await ended, { code: 0, signal: null });
  }));

test('a kill ends the process with its group', () =>
  withLauncher(async (launcher) => {
    const { streams, ended, kill } = await launcher.launch(shell('sleep 600 & echo $!; wait'));
    const [line] = (await once(streams.stdout, 'data')) as [Buffer];
    kill();
    assert.deepEqual(await ended, { code: null, signal: 'SIGKILL' });
    await waitFor(() => startTimeOf(Number(line)) === undefined, { what: 'the end of its child' });
    kill();
  }));

test('when the launcher dies, its processes are ended, this is logged, and the next launch starts another launcher', async () => {
  const logged: unknown[] = [];
  const error = (fields: unknown, event: string): void => void logged.push([event, fields]);
  await withLauncher(
    async (launcher) => {
      const { pid, ended } = await launcher.launch(shell('sleep 600'));
      const first = launcher.pid ?? 0;
      process.kill(first, 'SIGKILL');
      assert.deepEqual(await ended, { code: null, signal: null });
      await waitFor(() => startTimeOf(pid) === undefined, { what: 'the end of what it started' });
      assert.deepEqual(logged, [
        ['runner.launcher-ended', { reason: 'the launcher ended by SIGKILL', stderr: '' }],
      ]);
      const next = await launcher.launch(shell('exit 3'));
      assert.deepEqual(await next.ended, { code: 3, signal: null });
      assert.notEqual(launcher.pid, first);
    },
    { ...silentLogger, error } as Logger,
  );
});

test('a process that the launcher did not live to report has its streams closed, which ends it', async () => {
  await withLauncher(async (launcher, folder) => {
    let unreported = 0;
    // It is a race: the launcher may still report the process, and the streams may have been accepted before.
    for (let n = 0; n < 60 && unreported < 6; n += 1) {
      const file = join(folder, `pid-${n}`);
      const script = `echo $$ > ${file}; kill -9 $PPID; cat <&3`;
      const launched = await launcher.launch(shell(script)).catch(() => undefined);
      if (launched === undefined) unreported += 1;
      // The end of the launcher is known.
      else await launched.ended;
      const pid = Number(readFileSync(file, 'latin1'));
      await waitFor(() => startTimeOf(pid) === undefined, { what: 'the end of the process' });
    }
    assert.ok(unreported > 0);
  });
});

test('when a cleaner removes the folder of the streams, the next launch has another one', () =>
  withLauncher(async (launcher, folder) => {
    await (await launcher.launch(shell('exit 0'))).ended;
    const ofStreams = () => readdirSync(folder).filter((name) => name.startsWith('streams-'));
    for (const name of ofStreams()) rmSync(join(folder, name), { recursive: true });
    const all = await Promise.all([1, 2, 3].map((code) => launcher.launch(shell(`exit ${code}`))));
    const codes = await Promise.all(all.map(async ({ ended }) => (await ended).code));
    assert.deepEqual([codes, ofStreams().length], [[1, 2, 3], 1]);
  }));

test('a folder whose path is too long for a socket does not keep the launcher from its work', async () => {
  await using folder = await createTempFolder('long');
  const streams = join(folder.path, 'x'.repeat(120));
  mkdirSync(streams);
  const launcher = await Launcher.create({ programs: folder.path, streams, logger: silentLogger });
  const { streams: sockets, ended } = await launcher.launch(shell('exit 4'));
  assert.equal((await ended).code, 4);
  for (const socket of Object.values(sockets)) socket.destroy();
  await launcher.close();
});

test('a service that is killed leaves neither the processes that it started nor the folder of its streams', async () => {
  await using folder = await createTempFolder('launcher-dies');
  const script = `import { Launcher } from ${JSON.stringify(new URL('launcher.ts', import.meta.url).href)};
    import { silentLogger } from ${JSON.stringify(new URL('../lib/logger.ts', import.meta.url).href)};
    const launcher = await Launcher.create({ programs: process.argv[1], streams: process.argv[1], logger: silentLogger });
    const { pid } = await launcher.launch({ command: '/bin/sleep', args: ['600'], cwd: '/', env: {}, niceness: 0 });
    console.log(launcher.pid + ' ' + pid);`;
  const env = { ...process.env, TMPDIR: folder.path };
  const service = spawn(process.execPath, ['--input-type=module', '-e', script, folder.path], {
    ...{ env, stdio: ['ignore', 'pipe', 'inherit'] },
  });
  const [line] = (await once(service.stdout as NodeJS.ReadableStream, 'data')) as [Buffer];
  const ofStreams = () => readdirSync(folder.path).filter((name) => name.startsWith('streams-'));
  assert.equal(ofStreams().length, 1);
  service.kill('SIGKILL');
  await waitFor(() => String(line).split(' ').every((pid) => startTimeOf(Number(pid)) === undefined)); // biome-ignore format: one line
  assert.deepEqual(ofStreams(), []);
});

/** Living processes in these process groups. */
function membersOf(groups: ReadonlySet<number>): string[] {
  return readdirSync('/proc').filter((name) => {
    if (!/^\d+$/.test(name)) return false;
    try {
      const text = readFileSync(`/proc/${name}/stat`, 'latin1');
      const [state = '', , group] = text.slice(text.lastIndexOf(')') + 2).split(' ');
      return state !== 'Z' && groups.has(Number(group));
    } catch {
      return false;
    }
  });
}

test('a sandbox that is ended while bubblewrap sets it up leaves nothing behind, whether by a kill or with the service', {
  skip: await kernelSkip(),
}, async () => {
  for (const end of ['a kill', 'the service']) {
    const groups = new Set<number>();
    await withLauncher(async (launcher, folder) => {
      const program = await buildSandboxProgram(folder);
      const kernel = findKernelPrograms(folder);
      assert.ok(typeof kernel !== 'string');
      const start = async (): Promise<SpawnedSandbox> => {
        const sandbox = await spawnSandbox(launcher, {
          ...{ level: 'kernel', program, kernel, scratchBytesMax: 1024 * 1024, memoryMb: 64 },
          ...(process.getuid?.() === 0 ? { uid: 61_000 } : {}),
        });
        groups.add(sandbox.launched.pid);
        return sandbox;
      };
      // Kills at every moment of the few ms that the setup takes.
      for (let afterMs = 0; afterMs < 10; afterMs += 0.25) {
        const { launched } = await start();
        const untilMs = performance.now() + afterMs;
        if (afterMs >= 1) await delay(Math.floor(afterMs));
        while (performance.now() < untilMs);
        if (end === 'a kill') launched.kill();
        else break;
        await launched.ended;
      }
      // Several sandboxes are at different moments of their start when the service ends.
      if (end === 'the service') {
        const starting: Promise<unknown>[] = [];
        for (let n = 0; n < 10; n += 1) starting.push(start());
        await Promise.all(starting);
      }
    });
    assert.ok(groups.size > 9);
    await waitFor(() => membersOf(groups).length === 0, { what: `all to be gone after the end by ${end}` });
  }
});
