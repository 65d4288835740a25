import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { afterEach, beforeEach, test } from 'node:test';
import { Deferred } from '#lib/deferred.ts';
import { silentLogger } from '#lib/logger.ts';
import { createTempFolder, type TempFolder } from '../../test/support/temp-folder.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { type InstallTree, PackageTrees } from './package-trees.ts';

const maxAgeMs = 1000;
const installed = { aliases: {}, lock: { imports: {}, packages: {} }, lockfile: '' };

let folder: TempFolder;
let trees: PackageTrees;
let clock: TestClock;
let installs = 0;
const never = new AbortController().signal;
const install: InstallTree = async () => {
  installs += 1;
  return installed;
};

beforeEach(async () => {
  folder = await createTempFolder('package-trees');
  installs = 0;
  clock = new TestClock();
  trees = new PackageTrees({ folder: folder.path, maxAgeMs, clock, logger: silentLogger });
});

afterEach(async () => {
  await trees.close();
  await folder.remove();
});

function folderOf(key: string, signal = never, by = install): Promise<string> {
  return trees.use({ ownerId: 'u_1', key, install: by, signal }, async (tree) => tree.folder);
}

test('what needs the same packages shares one install, at the same time and afterwards', async () => {
  const [first, second] = await Promise.all([folderOf('a'), folderOf('a')]);
  assert.equal(first, second);
  assert.equal(await folderOf('a'), first);
  assert.equal(installs, 1);
  assert.notEqual(await folderOf('b'), first);
  assert.equal(installs, 2);
});

test('ranges are resolved again after a while, and the older tree goes', async () => {
  const first = await folderOf('a');
  clock.step(maxAgeMs);
  assert.notEqual(await folderOf('a'), first);
  await trees.close();
  assert.ok(!existsSync(first));
});

test('an install that fails is reported to all that wait for it, and tried again by the next', async () => {
  const fails: InstallTree = async () => {
    installs += 1;
    throw new Error('no such package');
  };
  const outcomes = await Promise.allSettled([folderOf('a', never, fails), folderOf('a', never, fails)]);
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['rejected', 'rejected'],
  );
  assert.equal(installs, 1);
  assert.ok(existsSync(await folderOf('a')));
});

test('an install continues while a build waits for it, and ends when none does', async () => {
  const started = new Deferred<void>();
  const done = new Deferred<void>();
  let stopped: AbortSignal = never;
  const slow: InstallTree = async (_folder, signal) => {
    installs += 1;
    stopped = signal;
    started.resolve();
    await done.promise;
    return installed;
  };
  const impatient = new AbortController();
  const patient = new AbortController();
  const first = folderOf('a', impatient.signal, slow);
  const second = folderOf('a', patient.signal, slow);
  await started.promise;
  impatient.abort(new Error('gone'));
  await assert.rejects(first, /gone/);
  assert.equal(stopped.aborted, false);
  patient.abort(new Error('gone too'));
  await assert.rejects(second, /gone too/);
  assert.equal(stopped.aborted, true);
  done.resolve();
  await folderOf('a');
  assert.equal(installs, 2, 'an install that no build waited for is not handed out');
});

test('of unused trees only a few stay, those used last', async () => {
  const folders: string[] = [];
  for (const key of ['a', 'b', 'c', 'd', 'e']) folders.push(await folderOf(key));
  assert.equal(await folderOf('e'), folders[4]);
  assert.equal(await folderOf('b'), folders[1]);
  assert.notEqual(await folderOf('a'), folders[0]);
});

test('closing leaves no folder', async () => {
  const made = [await folderOf('a'), await folderOf('b')];
  await trees.close();
  assert.deepEqual(made.filter(existsSync), []);
});
