import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
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

test('lines that cannot be written are dropped, without an error and without an end', {
  skip: existsSync('/dev/full') ? false : 'no /dev/full here',
}, () => {
  const descriptor = openSync('/dev/full', 'w');
  const output = new LogOutput(descriptor);
  for (let index = 0; index < 100; index += 1) output.write(`${index}\n`);
  output.flushSync();
  closeSync(descriptor);
});
