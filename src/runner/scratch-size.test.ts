import assert from 'node:assert/strict';
import { chmod, mkdir, mkdtemp, open, rm, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { scratchBytes } from './scratch-size.ts';

const block = Buffer.alloc(1024 * 1024, 1);

test('the size of a scratch folder counts named files, and removed files that are still open', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'millrace-test-'));
  const held = await open(join(folder, 'held'), 'w');
  try {
    const before = await scratchBytes(folder, process.pid);
    await mkdir(join(folder, 'a'));
    await writeFile(join(folder, 'a', 'named'), block);
    await held.write(block);
    assert.equal((await scratchBytes(folder, process.pid)) - before, 2 * block.length);
    await unlink(join(folder, 'held'));
    assert.equal((await scratchBytes(folder, process.pid)) - before, 2 * block.length);
  } finally {
    await held.close();
    await rm(folder, { recursive: true, force: true });
  }
});

test('a folder whose permissions were removed to hide its contents counts as full', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'millrace-test-'));
  const isRoot = process.getuid?.() === 0;
  await chmod(folder, 0o755);
  await mkdir(join(folder, 'hidden'));
  await chmod(join(folder, 'hidden'), 0o300);
  if (isRoot) process.seteuid?.(65_534);
  try {
    assert.equal(await scratchBytes(folder, undefined), Number.POSITIVE_INFINITY);
  } finally {
    if (isRoot) process.seteuid?.(0);
    await chmod(join(folder, 'hidden'), 0o700);
    await rm(folder, { recursive: true, force: true });
  }
});
