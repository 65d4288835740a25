import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { SandboxFolders } from './runner-folders.ts';

const nobody = 65_534;
const isRoot = process.getuid?.() === 0;

/** Runs as a user to whom file permissions apply, in a folder that every user may write in. Root ignores permissions. */
async function unprivileged(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'millrace-test-'));
  await chmod(folder, 0o777);
  if (isRoot) process.seteuid?.(nobody);
  try {
    await work(folder);
  } finally {
    if (isRoot) process.seteuid?.(0);
    await rm(folder, { recursive: true, force: true });
  }
}

/** Makes what a component leaves that removes the permissions of its own folders. */
async function makeImpassable(scratch: string): Promise<void> {
  await mkdir(join(scratch, 'a', 'b'), { recursive: true });
  await writeFile(join(scratch, 'a', 'b', 'c'), '');
  await chmod(join(scratch, 'a', 'b'), 0);
  await chmod(join(scratch, 'a'), 0);
}

test('folders that user code made impassable are removed when a process ends, and when the service stops and starts', async () => {
  await unprivileged(async (top) => {
    const base = join(top, 'base');
    const left = join(base, 'run-1999999999-5');
    await makeImpassable(join(left, 'scratch-1'));
    const folders = new SandboxFolders({ base, temporary: false }, (folder) => assert.fail(folder));
    assert.equal(existsSync(left), false, 'at start');

    const ended = folders.newScratch(undefined);
    await makeImpassable(ended);
    await folders.removeScratch(ended);
    assert.equal(existsSync(ended), false, 'at the end of a process');

    const running = folders.newScratch(undefined);
    await makeImpassable(running);
    folders.remove();
    assert.equal(existsSync(running), false, 'at stop');
  });
});

test('a folder that cannot be removed prevents no start or stop of the service', {
  skip: !isRoot && 'needs files of another user',
}, async () => {
  await unprivileged(async (top) => {
    const base = join(top, 'base');
    const left = join(base, 'run-1999999999-5');
    await mkdir(base);
    process.seteuid?.(0);
    await mkdir(join(left, 'scratch-1'), { recursive: true });
    process.seteuid?.(nobody);
    const told: string[] = [];
    const folders = new SandboxFolders({ base, temporary: false }, (folder) => told.push(folder));
    assert.deepEqual(told, [left]);
    assert.equal(existsSync(folders.newScratch(undefined)), true);
    folders.remove();
  });
});
