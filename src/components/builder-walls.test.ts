import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { promisify } from 'node:util';
import { silentLogger } from '#lib/logger.ts';
import { findKernelPrograms } from '#runner/kernel-command.ts';
import { kernelSkip } from '../../test/support/sandbox-level.ts';
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

/** The command of a builder process taken over by an attacker, without Node's permissions: those would be a second line. */
function command(walls: BuilderWalls, code: string): [string, string[]] {
  const grant = { read: [place('readable')], write: [place('granted')], startsPrograms: true };
  return walls.command({ ...grant, cwd: place('granted') }, ['-e', code]);
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
      console.log(JSON.stringify(said));
    })();`;
  const run = async (walls: BuilderWalls): Promise<Record<string, string>> => {
    const [file, args] = command(walls, code);
    const { stdout } = await promisify(execFile)(file, args, { cwd: place('granted'), env: {} });
    return JSON.parse(stdout) as Record<string, string>;
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
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { detached: true, stdio: ['ignore', 'inherit', 'ignore'] });
    child.unref(); child.on('spawn', () => console.log('started')); setInterval(() => {}, 1000);`;
  const [file, args] = command(raised(), code);
  const child = spawn(file, args, { cwd: place('granted'), env: {}, stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout, 'data');
  child.kill('SIGKILL');
  // The output ends when no process has it open.
  await once(child.stdout.resume(), 'end');
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
