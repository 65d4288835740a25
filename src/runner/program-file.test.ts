import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, join } from 'node:path';
import { after, before, test } from 'node:test';
import { createTempFolder, type TempFolder } from '../../test/support/temp-folder.ts';
import { type ChildProgram, ensureProgram, ensureSharedProgram } from './program-file.ts';

const program: ChildProgram = {
  name: 'demo',
  entry: 'src/lib/deferred.ts',
  files: ['src/lib/deferred.ts', 'src/runner/program-file*.ts'],
};

let folder: TempFolder;
let shared: string;
let data: string;

before(async () => {
  folder = await createTempFolder('programs');
  shared = join(folder.path, 'shared');
  data = join(folder.path, 'data');
});
after(() => folder.remove());

test('a program is one file, readable by every user, and is made once for all folders', async () => {
  const path = await ensureProgram(data, program, shared);
  assert.match(basename(path), /^demo-[0-9a-f]{32}\.cjs$/);
  assert.equal((await stat(path)).mode & 0o777, 0o444);
  const { Deferred } = createRequire(import.meta.url)(path) as { Deferred: new () => object };
  assert.ok('promise' in new Deferred());
  assert.deepEqual(await readdir(data), [basename(path)]);
  assert.deepEqual(await readdir(shared), [basename(path)]);

  // The file has this text only when it was found there and not made again.
  const kept = join(shared, basename(path));
  await rm(kept);
  await writeFile(kept, '// found');
  assert.equal(
    await readFile(await ensureProgram(join(folder.path, 'other'), program, shared), 'utf8'),
    '// found',
  );
  assert.equal(await ensureSharedProgram(program, shared), kept);
  assert.notEqual(await readFile(await ensureProgram(data, program, shared), 'utf8'), '// found');
});

test('the name of a program changes with its sources, and programs of other versions are removed after a day', async () => {
  const now = new Date();
  const old = new Date(now.getTime() - 25 * 3_600_000);
  for (const [name, time] of [
    ['demo-old.cjs', old],
    ['demo-new.cjs', now],
    ['other-old.cjs', old],
  ] as const) {
    await mkdir(shared, { recursive: true });
    await writeFile(join(shared, name), '');
    await utimes(join(shared, name), time, time);
  }
  const first = await ensureSharedProgram(program, shared);
  const second = await ensureSharedProgram({ ...program, files: ['src/lib/deferred.ts'] }, shared);
  assert.ok(first !== undefined && second !== undefined);
  assert.notEqual(first, second);
  assert.deepEqual(
    (await readdir(shared)).sort(),
    [basename(first), basename(second), 'demo-new.cjs', 'other-old.cjs'].sort(),
  );
});

test('a shared folder that cannot be written to is no obstacle', async () => {
  const file = join(folder.path, 'file');
  await writeFile(file, '');
  const path = await ensureProgram(join(folder.path, 'own'), program, join(file, 'shared'));
  assert.match(await readFile(path, 'utf8'), /Deferred/);
  assert.equal(await ensureSharedProgram(program, join(file, 'shared')), undefined);
});
