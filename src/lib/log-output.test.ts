import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { createTempFolder } from '../../test/support/temp-folder.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { LogOutput } from './log-output.ts';

test('lines arrive whole and in order, also those that the exit writes', async () => {
  await using folder = await createTempFolder();
  const file = join(folder.path, 'log');
  const descriptor = openSync(file, 'w');
  const output = new LogOutput(descriptor);
  const lines = Array.from({ length: 5_000 }, (_, index) => `${index} ${'ä'.repeat(index % 90)}\n`);
  for (const line of lines.slice(0, 4_000)) output.write(line);
  await waitFor(() => readFileSync(file, 'utf8') === lines.slice(0, 4_000).join(''));
  for (const line of lines.slice(4_000)) output.write(line);
  // The first of these is under way already; the exit does not wait for it.
  await waitFor(() => readFileSync(file, 'utf8') === lines.join(''));
  closeSync(descriptor);
});

test('what is written last is there after an exit, once, also through a pipe', async () => {
  for (const count of [1, 2, 3_000]) {
    const program = `
      const { LogOutput } = await import(${JSON.stringify(new URL('./log-output.ts', import.meta.url).href)});
      const output = new LogOutput(1);
      process.on('exit', () => output.flushSync());
      for (let index = 0; index < ${count}; index += 1) output.write(index + ' ' + 'x'.repeat(100) + '\\n');
      process.exit(0);`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let text = '';
    for await (const chunk of child.stdout) text += chunk;
    const indexes = Array.from(text.matchAll(/(\d+) x{100}\n/g), ([, index]) => Number(index));
    assert.deepEqual(
      indexes.toSorted((a, b) => a - b),
      Array.from({ length: count }, (_, index) => index),
    );
  }
});

/** Writes to a pipe that refuses when it is full, instead of holding up the writer. */
const writer = `
  const { LogOutput } = await import(${JSON.stringify(new URL('./log-output.ts', import.meta.url).href)});
  process.stdout._handle.setBlocking(false);
  const output = new LogOutput(1);`;

test('a reader that falls behind is not waited for longer than it needs', async () => {
  const program = `${writer}
    for (let index = 0; index < 4000; index += 1) output.write('x'.repeat(1023) + '\\n');`;
  // Slower than the writer by a little, so that the pipe is full whenever it looks.
  const reader = `
    const { readSync } = await import('node:fs');
    const buffer = Buffer.alloc(65536);
    let bytes = 0;
    let first = 0;
    for (let read = 1; read > 0; bytes += read) {
      read = readSync(0, buffer);
      first ||= performance.now();
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2);
    }
    console.log(JSON.stringify({ bytes, ms: performance.now() - first }));`;
  // A pipe of the system, of 64 KB: those of Node are sockets.
  const read = async (writing: string) => {
    const commands = `${writing} | "$0" --input-type=module -e "$2"`;
    const child = spawn('sh', ['-c', commands, process.execPath, program, reader], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let text = '';
    for await (const chunk of child.stdout) text += chunk;
    const { bytes, ms } = JSON.parse(text);
    assert.equal(bytes, 4000 * 1024);
    return ms;
  };
  const ms = await read('"$0" --input-type=module -e "$1"');
  const leastMs = await read('head -c 4096000 /dev/zero');
  // Some thirty waits: with 50 ms for each it took 1.5 s, ten times the least. On a busy machine both take longer.
  assert.ok(ms < Math.max(1_000, 5 * leastMs), `${ms} ms, where ${leastMs} ms are needed`);
});

test('in the place of lines that were dropped stands one that counts them', {
  timeout: 20_000,
}, async (t) => {
  const program = `${writer}
    const line = (index) => output.write(index + ' ' + 'x'.repeat(1016) + '\\n');
    for (let index = 0; index < 10000; index += 1) line(index);
    process.once('message', () => { line('last'); process.disconnect(); });
    process.send('written');`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  t.after(() => child.kill());
  await once(child, 'message');
  let text = '';
  let told = false;
  for await (const chunk of child.stdout ?? []) {
    text += chunk;
    if (!told && text.includes('log.dropped')) told = child.send('go on');
  }
  const lines = text.trimEnd().split('\n');
  const notice = lines.findIndex((line) => line.startsWith('{'));
  const counted = JSON.parse(lines[notice] ?? '{}');
  assert.deepEqual([counted.level, counted.msg], [40, 'log.dropped']);
  assert.ok(!Number.isNaN(Date.parse(counted.time)));
  assert.ok(notice > 3_000 && counted.lines > 3_000);
  assert.equal(notice + counted.lines, 10_000, 'every line is there or counted');
  assert.match(lines[notice - 1] ?? '', new RegExp(`^${notice - 1} x`), 'the notice stands in their place');
  assert.match(lines[notice + 1] ?? '', /^last x/);
  assert.equal(lines.length, notice + 2);
});

test('lines that a full disk refused are counted when there is room again', {
  skip: existsSync('/dev/full') ? false : 'no /dev/full here',
}, async () => {
  await using folder = await createTempFolder();
  const file = join(folder.path, 'log');
  // A descriptor that is a full disk first, and a file with room later.
  const program = `
    import { closeSync, openSync } from 'node:fs';
    const { LogOutput } = await import(${JSON.stringify(new URL('./log-output.ts', import.meta.url).href)});
    const descriptor = openSync('/dev/full', 'w');
    const output = new LogOutput(descriptor);
    for (let index = 0; index < 100; index += 1) output.write(index + '\\n');
    output.write('refused with the notice\\n');
    await new Promise((done) => process.once('beforeExit', done));
    closeSync(descriptor);
    if (openSync(${JSON.stringify(file)}, 'w') !== descriptor) throw new Error('another descriptor');
    output.write('room\\n');`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], { stdio: 'inherit' });
  await once(child, 'exit');
  const [told, line] = readFileSync(file, 'utf8').split('\n');
  assert.equal(JSON.parse(told ?? '').lines, 101);
  assert.equal(line, 'room');
});

test('lines that cannot be written are dropped, without an error and without an end', {
  skip: existsSync('/dev/full') ? false : 'no /dev/full here',
}, () => {
  const descriptor = openSync('/dev/full', 'w');
  const output = new LogOutput(descriptor);
  for (let index = 0; index < 100; index += 1) output.write(`${index}\n`);
  output.flushSync();
  closeSync(descriptor);
});
