import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { createTempFolder } from '../../test/support/temp-folder.ts';
import { buildSandboxProgram } from './sandbox-program.ts';

test('the program is made once: later starts take it from the cache, which keeps no older one', async () => {
  await using temp = await createTempFolder('sandbox-program');
  const cache = join(temp.path, 'cache');
  await mkdir(cache);
  await writeFile(join(cache, 'runner-older.cjs'), 'older');
  const made = await buildSandboxProgram(join(temp.path, 'first'), cache);
  const name = basename(made);
  assert.ok((await readFile(made, 'utf8')).length > 1000);
  assert.equal((await stat(made)).mode & 0o777, 0o444);
  assert.deepEqual(await readdir(cache), [name]);

  await rm(join(cache, name));
  await writeFile(join(cache, name), 'of an earlier start');
  const again = await buildSandboxProgram(join(temp.path, 'second'), cache);
  assert.equal(basename(again), name);
  assert.equal(await readFile(again, 'utf8'), 'of an earlier start');
  assert.equal(await buildSandboxProgram(join(temp.path, 'second'), cache), again);
});

test('a cache that cannot be written to does not keep a start from its program', async () => {
  await using temp = await createTempFolder('sandbox-program');
  const file = join(temp.path, 'file');
  await writeFile(file, 'no folder');
  const made = await buildSandboxProgram(join(temp.path, 'program'), join(file, 'cache'));
  assert.ok((await readFile(made, 'utf8')).length > 1000);
});
