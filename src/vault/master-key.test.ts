import assert from 'node:assert/strict';
import { chmod, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { createTempFolder } from '../../test/support/temp-folder.ts';
import { createKeyFile, keyFilePath, loadMasterKey } from './master-key.ts';

const key = Buffer.from(Array.from({ length: 32 }, (_, index) => 255 - index));
const posixOnly = { skip: process.platform === 'win32' ? 'no such file modes on Windows' : false };

async function keyFolder() {
  const folder = await createTempFolder('key');
  const dataFolder = join(folder.path, 'data');
  return {
    path: keyFilePath(dataFolder),
    folder: folder.path,
    load: (more: { setting?: string; mayCreate?: boolean } = {}) =>
      loadMasterKey({ setting: '', mayCreate: true, dataFolder, ...more }),
    [Symbol.asyncDispose]: () => folder.remove(),
  };
}

test('the setting may be base64, base64url or hex', async () => {
  await using folder = await keyFolder();
  const { load } = folder;
  for (const setting of [
    key.toString('base64'),
    key.toString('base64url'),
    key.toString('hex'),
    ` ${key.toString('hex')}\n`,
  ]) {
    assert.deepEqual(await load({ setting, mayCreate: false }), key);
  }
  assert.deepEqual(await readdir(folder.folder), []);
});

test('a setting that is no key is refused without being shown', async () => {
  await using folder = await keyFolder();
  const { load } = folder;
  for (const setting of [
    'short',
    'x'.repeat(44),
    key.toString('hex').slice(2),
    `${key.toString('base64')}AA`,
    'ü'.repeat(32),
  ]) {
    await assert.rejects(load({ setting }), (error: Error) => {
      assert.equal(error.name, 'MasterKeyError');
      assert.match(error.message, /MILLRACE_ENCRYPTION_KEY: expected 32 bytes/);
      return !error.message.includes(setting);
    });
  }
});

test('the first use makes a key file of mode 0600 beside the data folder, and every later one reads it', async () => {
  await using folder = await keyFolder();
  const { load, path } = folder;
  const first = await load();
  assert.equal(first.length, 32);
  assert.deepEqual(await load(), first);
  assert.deepEqual(await load({ mayCreate: false }), first);
  assert.deepEqual(await readdir(folder.folder), ['data.key'], 'no draft stays');
  if (process.platform !== 'win32') assert.equal((await stat(path)).mode & 0o777, 0o600);
  assert.deepEqual(Buffer.from(await readFile(path, 'utf8'), 'base64'), first);
});

test('starts at the same moment get the same key, because the file of the first is never replaced', async () => {
  await using folder = await keyFolder();
  const { load, path, folder: around } = folder;
  const keys = await Promise.all(Array.from({ length: 8 }, () => load()));
  assert.equal(new Set(keys.map((found) => found.toString('hex'))).size, 1);
  // What the slower start does after it found no file.
  await createKeyFile(path);
  assert.deepEqual(await load(), keys[0]);
  assert.deepEqual(await readdir(around), ['data.key'], 'no draft stays');
});

test('a file that others may read is refused with the way to fix it', posixOnly, async () => {
  await using folder = await keyFolder();
  const { load, path } = folder;
  const first = await load();
  for (const mode of [0o640, 0o604, 0o620, 0o601]) {
    await chmod(path, mode);
    await assert.rejects(load(), { name: 'MasterKeyError', message: /has mode 06.*chmod 600/ });
  }
  await chmod(path, 0o400);
  assert.deepEqual(await load(), first);
});

test('a file that is missing though credentials are sealed is not made again', async () => {
  await using folder = await keyFolder();
  await assert.rejects(folder.load({ mayCreate: false }), /is missing.*backup/);
  assert.deepEqual(await readdir(folder.folder), []);
});

test(
  'a file that holds no key, a link and a folder are refused, and left as they are',
  posixOnly,
  async () => {
    await using folder = await keyFolder();
    const { load, path } = folder;
    for (const content of ['', 'not a key', 'A'.repeat(5_000)]) {
      await writeFile(path, content, { mode: 0o600 });
      await assert.rejects(load(), /holds no key|is not a key file/);
      assert.equal(await readFile(path, 'utf8'), content);
    }
    await using other = await keyFolder();
    await symlink(path, other.path);
    await assert.rejects(other.load(), /symbolic link/);
    const data = join(folder.folder, 'x');
    await assert.rejects(
      loadMasterKey({ setting: '', dataFolder: join(data, 'y'), mayCreate: true }),
      /cannot be made/,
    );
  },
);

test('a slash at the end of the data folder does not move the file into it', () => {
  assert.equal(keyFilePath('/var/lib/millrace/'), '/var/lib/millrace.key');
});
