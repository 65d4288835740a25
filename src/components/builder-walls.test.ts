import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { after, before, test } from 'node:test';
import { silentLogger } from '#lib/logger.ts';
import { findKernelPrograms } from '#runner/bubblewrap-command.ts';
import { niceness } from '#runner/cpu-shares.ts';
import { kernelSkip } from '../../test/support/sandbox-level.ts';
import { sessionNicenessOf } from '../../test/support/session-niceness.ts';
import { createTempFolder, type TempFolder } from '../../test/support/temp-folder.ts';
import { BuilderWalls } from './builder-walls.ts';
import { GitReaderProcess } from './git-reader-process.ts';

const skip = await kernelSkip();

let folder: TempFolder;
const place = (name: string): string => join(folder.path, name);
before(async () => {
  folder = await createTempFolder('builder-walls');
  for (const name of ['granted', 'readable']) await mkdir(place(name));
  await writeFile(place('secret'), 'CANARY');
  await writeFile(join(place('readable'), 'file'), 'for all');
});
after(() => folder?.remove());

/** A builder process taken over by an attacker, without Node's permissions: those would be a second line. What it says is on descriptor 3. */
function start(walls: BuilderWalls, code: string): { child: ChildProcess; output: Readable } {
  const grant = { read: [place('readable')], write: [place('granted')], startsPrograms: true };
  const child = walls.start({ ...grant, cwd: place('granted') }, ['-e', code]);
  return { child, output: child.stdio[3] as Readable };
}

function raised(): BuilderWalls {
  const walls = new BuilderWalls();
  const tools = findKernelPrograms(folder.path);
  assert.ok(typeof tools !== 'string');
  walls.raise(tools);
  return walls;
}

test('nothing but what is granted can be reached from a builder process, which works without walls', {
  skip,
}, async () => {
  const server = createServer((socket) => socket.end());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as { port: number };
  const code = `
    const fs = require('fs'); const said = {};
    const attempt = async (name, work) => { try { said[name] = (await work()) ?? 'done'; } catch (error) { said[name] = error.code ?? error.message; } };
    const connect = () => new Promise((resolve, reject) => require('net').connect(${port}, '127.0.0.1').on('connect', function () { this.destroy(); resolve('done'); }).on('error', reject));
    (async () => {
      await attempt('granted', () => fs.writeFileSync('made', ''));
      await attempt('readable', () => fs.readFileSync(${JSON.stringify(join(place('readable'), 'file'))}, 'utf8'));
      await attempt('file', () => fs.readFileSync(${JSON.stringify(place('secret'))}, 'utf8'));
      await attempt('link', () => { fs.rmSync('link', { force: true }); fs.symlinkSync(${JSON.stringify(place('secret'))}, 'link'); return fs.readFileSync('link', 'utf8'); });
      await attempt('listing', () => fs.readdirSync('/etc').length > 0 ? 'done' : 'empty');
      await attempt('writing', () => fs.writeFileSync(${JSON.stringify(join(place('readable'), 'file'))}, 'for all'));
      await attempt('program', () => fs.closeSync(fs.openSync(process.execPath, 'r+')));
      await attempt('outside', () => fs.writeFileSync(${JSON.stringify(place('written'))}, ''));
      await attempt('loopback', connect);
      await attempt('service', () => fs.readFileSync('/proc/${process.pid}/environ').length > 0 ? 'done' : 'empty');
      await attempt('signal', () => process.kill(${process.pid}, 0) && undefined);
      fs.writeSync(3, JSON.stringify(said));
    })();`;
  const run = async (walls: BuilderWalls): Promise<Record<string, string>> => {
    return JSON.parse(await text(start(walls, code).output)) as Record<string, string>;
  };
  try {
    const allowed = { granted: 'done', readable: 'for all' };
    const within = await run(raised());
    assert.deepEqual({ ...within, ...allowed }, within, 'what is granted works');
    const reached = Object.entries(within).filter(([name]) => !(name in allowed));
    for (const [name, said] of reached) assert.doesNotMatch(said, /^(?:done|CANARY)$/, name);
    const { program, ...control } = await run(new BuilderWalls());
    // A program that runs cannot be opened for writing anywhere.
    assert.equal(program, 'ETXTBSY');
    for (const [name, said] of Object.entries(control)) assert.match(said, /^(?:done|CANARY|for all)$/, name);
  } finally {
    server.close();
  }
});

test('a program that a builder process starts ends with it', { skip }, async () => {
  const code = `const { spawn } = require('child_process');
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { detached: true, stdio: ['ignore', 3, 'ignore'] });
    child.unref(); child.on('spawn', () => require('fs').writeSync(3, 'started')); setInterval(() => {}, 1000);`;
  const { child, output } = start(raised(), code);
  await once(output, 'data');
  child.kill('SIGKILL');
  // The output ends when no process has it open.
  await once(output.resume(), 'end');
});

test('a builder process has a lower priority than user code, and so has what it starts', {
  skip,
}, async () => {
  const code = `const { execFile } = require('child_process');
    execFile(process.execPath, ['-p', 'os.getPriority()'], (error, out) => require('fs').writeSync(3, os.getPriority() + ' ' + out));`;
  for (const walls of [raised(), new BuilderWalls()]) {
    const { child, output } = start(walls, code);
    const session = sessionNicenessOf(child.pid ?? 0) ?? niceness.build;
    assert.deepEqual(
      [(await text(output)).trim(), session],
      [`${niceness.build} ${niceness.build}`, niceness.build],
    );
  }
});

test('a builder process that is stopped while it starts is gone when it has been stopped, behind walls too', {
  skip,
}, async () => {
  const walls = raised();
  // At one of these moments there is a program behind the walls that does not know yet that it ends with them.
  for (let moment = 0; moment < 40; moment += 1) {
    const reader = await GitReaderProcess.start([place('readable')], { logger: silentLogger, walls });
    const aMoment = spawn('/bin/sh', ['-c', ':'], { stdio: 'ignore' });
    if (moment % 4 !== 0) await once(aMoment, 'exit');
    for (let turn = 0; turn < moment * 20; turn += 1) await new Promise(setImmediate);
    await reader.stop();
  }
});
