import assert from 'node:assert/strict';
import { copyFile, readdir, readFile, rename, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { databaseTimeMs, registerNode } from '#jobs/node-store.ts';
import { expectedSecrets, openSealed, storeSealed } from '../../test/support/sealed-store.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { createTempFolder, type TempFolder } from '../../test/support/temp-folder.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { checkMasterKey, takeMasterKey } from './check-master-key.ts';
import { findRotation } from './key-rotation-store.ts';
import { keyFilePath, loadMasterKey, nextKeyFilePath } from './master-key.ts';
import { type MasterKeySettings, rotateMasterKey } from './rotate-master-key.ts';
import { addDataKey } from './sealed-values.ts';
import { Vault } from './vault.ts';

const keyA = Buffer.alloc(32, 1).toString('base64');
const keyB = Buffer.alloc(32, 2).toString('base64');
const keyC = Buffer.alloc(32, 3).toString('base64');

forEachStore((fixture) => {
  const clock = new TestClock();
  let folder: TempFolder;
  let dataFolder: string;
  let steps: string[];
  /** Thrown when a step begins with this. */
  let failsAt: string | undefined;

  const vaultOf = (text: string) => new Vault(Buffer.from(text, 'base64'));
  const fileVault = async () => new Vault(await loadMasterKey({ setting: '', dataFolder, mayCreate: false }));
  const rotate = (keys: Partial<MasterKeySettings> = {}) =>
    rotateMasterKey({
      store: fixture.store,
      clock,
      keys: { encryptionKey: '', newEncryptionKey: '', dataFolder, ...keys },
      progress: (line) => {
        steps.push(line);
        if (failsAt !== undefined && line.startsWith(failsAt)) throw new Error('interrupted');
      },
    });
  const opensAll = async (vault: Vault, owners = ['o_1', 'u_2']) => {
    await checkMasterKey(fixture.store.read, vault);
    for (const ownerId of owners)
      assert.deepEqual(await openSealed(fixture.store, vault, ownerId), expectedSecrets(ownerId));
  };
  /** A store with something sealed under `vault`, as a service that was stopped leaves it. */
  const fill = async (vault: Vault) => {
    await takeMasterKey(fixture.store, vault, clock);
    for (const ownerId of ['o_1', 'u_2']) await storeSealed(fixture.store, { vault, clock }, ownerId);
  };
  const wrappings = () =>
    fixture.store.read.selectFrom('data_keys').selectAll().orderBy('owner_id').orderBy('key_id').execute();

  beforeEach(async () => {
    folder = await createTempFolder('rotate');
    dataFolder = join(folder.path, 'data');
    steps = [];
    failsAt = undefined;
  });
  afterEach(() => folder.remove());

  async function fillUnderFile(): Promise<Vault> {
    const vault = new Vault(await loadMasterKey({ setting: '', dataFolder, mayCreate: true }));
    await fill(vault);
    return vault;
  }

  test('a key file: the new key opens everything, the old file stays under its id, and no other is left', async () => {
    const old = await fillUnderFile();
    const oldText = await readFile(keyFilePath(dataFolder), 'utf8');
    const done = await rotate();
    const now = await fileVault();
    assert.notEqual(now.masterKeyId, old.masterKeyId);
    assert.deepEqual([done.masterKeyId, done.rewrapped, done.lost], [now.masterKeyId, 2, []]);
    await opensAll(now);
    await assert.rejects(checkMasterKey(fixture.store.read, old), { code: 'wrong_encryption_key' });
    const kept = `${keyFilePath(dataFolder)}.${old.masterKeyId}`;
    assert.deepEqual((await readdir(folder.path)).sort(), ['data.key', basename(kept)]);
    assert.equal(await readFile(kept, 'utf8'), oldText);
    for (const path of [keyFilePath(dataFolder), kept]) assert.equal((await stat(path)).mode & 0o077, 0);
    assert.ok(done.next.some((line) => line.includes(kept)));
    // And again.
    await rotate();
    await opensAll(await fileVault());
    await assert.rejects(checkMasterKey(fixture.store.read, now), { code: 'wrong_encryption_key' });
  });

  test('keys in the settings: the new one opens everything, and the answer says what to change', async () => {
    await fill(vaultOf(keyA));
    const done = await rotate({ encryptionKey: keyA, newEncryptionKey: keyB });
    await opensAll(vaultOf(keyB));
    assert.match(done.next.join(), /new key as MILLRACE_ENCRYPTION_KEY/);
    assert.deepEqual(await readdir(folder.path), [], 'no file is made');
    // Killed before it could say so: asked again, it is done.
    const again = await rotate({ encryptionKey: keyA, newEncryptionKey: keyB });
    assert.deepEqual([again.masterKeyId, again.rewrapped], [vaultOf(keyB).masterKeyId, 0]);
    await opensAll(vaultOf(keyB));
  });

  test('from a key file to a key in the settings', async () => {
    const old = await fillUnderFile();
    const done = await rotate({ newEncryptionKey: keyB });
    await opensAll(vaultOf(keyB));
    assert.match(done.next.join(), /still holds the old key/);
    assert.equal((await fileVault()).masterKeyId, old.masterKeyId);
  });

  test('keys that do not fit are refused before anything is changed', async () => {
    await fill(vaultOf(keyA));
    const before = await wrappings();
    for (const [keys, error] of [
      [{ encryptionKey: keyA }, /MILLRACE_NEW_ENCRYPTION_KEY/],
      [{ encryptionKey: keyA, newEncryptionKey: keyA }, /is the key that is in use/],
      [{ encryptionKey: keyB, newEncryptionKey: keyC }, /sealed under another encryption key/],
      [{ encryptionKey: keyA, newEncryptionKey: 'short' }, /MILLRACE_NEW_ENCRYPTION_KEY: expected 32 bytes/],
      [{}, /data\.key is missing/],
    ] as const) {
      await assert.rejects(rotate(keys), (thrown: Error) => {
        assert.match(thrown.message, error);
        return !Object.values(keys).some((key: string) => thrown.message.includes(key));
      });
      assert.deepEqual(await wrappings(), before);
    }
    await opensAll(vaultOf(keyA));
  });

  for (const step of ['the new key', 'the rotation', 'rewrapped', 'swapped'])
    test(`interrupted after a step (${step}), the service does not start until it is run again, which finishes it`, async () => {
      const old = await fillUnderFile();
      failsAt = step === 'swapped' ? keyFilePath(dataFolder) : step;
      await assert.rejects(rotate(), /interrupted/);
      const { key_id: target, finished_at_ms } = (await findRotation(fixture.store.read, 'master')) ?? {};
      if (step === 'the new key') {
        // Nothing has begun: the old key is as good as ever.
        assert.notEqual(finished_at_ms, null);
        await opensAll(old);
      } else {
        const present = await fileVault();
        assert.equal(present.masterKeyId === target, step === 'swapped');
        await assert.rejects(takeMasterKey(fixture.store, present, clock), {
          name: 'MasterKeyError',
          message: /npm run millrace -- keys rotate-master/,
        });
      }
      failsAt = undefined;
      const done = await rotate();
      await opensAll(await fileVault());
      if (target !== undefined && step !== 'the new key') assert.equal(done.masterKeyId, target);
      assert.equal((await readdir(folder.path)).length, 2);
    });

  test('killed between the two names of the old file and the swap, it continues', async () => {
    const old = await fillUnderFile();
    failsAt = 'rewrapped';
    await assert.rejects(rotate(), /interrupted/);
    await copyFile(keyFilePath(dataFolder), `${keyFilePath(dataFolder)}.${old.masterKeyId}`);
    failsAt = undefined;
    await rotate();
    await opensAll(await fileVault());
  });

  test('interrupted with keys in the settings, it needs the same ones, and says which it misses', async () => {
    await fill(vaultOf(keyA));
    failsAt = 'the rotation';
    await assert.rejects(rotate({ encryptionKey: keyA, newEncryptionKey: keyB }), /interrupted/);
    failsAt = undefined;
    await assert.rejects(rotate({ encryptionKey: keyA, newEncryptionKey: keyC }), /that key is not here/);
    await assert.rejects(rotate({ encryptionKey: keyB }), /still need the master key before it/);
    await rotate({ encryptionKey: keyA, newEncryptionKey: keyB });
    await opensAll(vaultOf(keyB));
  });

  test('a process with the old key makes no further data key, during the rotation and after it', async () => {
    const old = await fillUnderFile();
    failsAt = 'the rotation';
    await assert.rejects(rotate(), /interrupted/);
    const add = () => fixture.store.transaction((tx) => addDataKey(tx, { vault: old, clock }, 'o_new'));
    await assert.rejects(add(), { code: 'wrong_encryption_key' });
    failsAt = undefined;
    await rotate();
    await assert.rejects(add(), { code: 'wrong_encryption_key' });
    await opensAll(await fileVault());
  });

  test('a damaged data key is reported and kept, and does not stop the others, the start or its owner', async () => {
    await fillUnderFile();
    const [damaged] = await wrappings();
    assert.ok(damaged);
    const wrapped = `${damaged.wrapped.slice(0, -4)}AAAA`;
    await fixture.store.transaction((tx) =>
      tx.updateTable('data_keys').set({ wrapped }).where('key_id', '=', damaged.key_id).execute(),
    );
    const done = await rotate();
    assert.deepEqual(
      [done.rewrapped, done.lost],
      [1, [{ ownerId: damaged.owner_id, keyId: damaged.key_id }]],
    );
    const now = await fileVault();
    await opensAll(now, ['u_2']);
    const kept = (await wrappings()).find(({ key_id }) => key_id === damaged.key_id);
    assert.equal(kept?.wrapped, `lost:${wrapped}`, 'nothing of it is destroyed');
    await assert.rejects(openSealed(fixture.store, now, 'o_1'), { code: 'sealed_value_damaged' });
    const key = await fixture.store.transaction((tx) => addDataKey(tx, { vault: now, clock }, 'o_1'));
    assert.notEqual(key.keyId, damaged.key_id);
  });

  test('while nodes are alive it is refused with their names, on a store that others may use', {
    skip: fixture.dialect === 'sqlite' && 'the embedded store has one process',
  }, async () => {
    await fillUnderFile();
    const nowMs = await databaseTimeMs(fixture.store.read);
    await fixture.store.transaction(async (tx) => {
      await registerNode(tx, 'node_alive', { nowMs, leaseMs: 60_000 });
      await registerNode(tx, 'node_dead', { nowMs, leaseMs: -1 });
    });
    await assert.rejects(rotate(), /the service is running \(node_alive\): stop every process/);
    assert.deepEqual(await readdir(folder.path), ['data.key']);
    // One that starts in the moment the rotation begins.
    await fixture.store.transaction((tx) => tx.deleteFrom('nodes').execute());
    const { store } = fixture;
    const racing: typeof store = {
      ...store,
      transaction: async (work) => {
        const result = await store.transaction(work);
        await store.transaction((tx) =>
          registerNode(tx, `node_${Math.random()}`, { nowMs, leaseMs: 60_000 }),
        );
        return result;
      },
    };
    const keys = { encryptionKey: '', newEncryptionKey: '', dataFolder };
    const before = await wrappings();
    await assert.rejects(rotateMasterKey({ store: racing, clock, keys, progress: () => {} }), /is running/);
    assert.deepEqual(await wrappings(), before);
    await assert.rejects(checkMasterKey(store.read, await fileVault()), /rotation of the master key/);
    await store.transaction((tx) => tx.deleteFrom('nodes').execute());
    await rotate();
    await opensAll(await fileVault());
  });

  test('data keys of two master keys, as a restored table may have them, are refused with both ids', async () => {
    await fill(vaultOf(keyA));
    const [mine] = await wrappings();
    await rotate({ encryptionKey: keyA, newEncryptionKey: keyB });
    assert.ok(mine);
    await fixture.store.transaction((tx) =>
      tx.updateTable('data_keys').set({ wrapped: mine.wrapped }).where('key_id', '=', mine.key_id).execute(),
    );
    for (const [have, needs] of [
      [keyA, keyB],
      [keyB, keyA],
    ] as const) {
      await assert.rejects(checkMasterKey(fixture.store.read, vaultOf(have)), {
        code: 'wrong_encryption_key',
        message: new RegExp(vaultOf(needs).masterKeyId),
      });
    }
  });

  test('while nothing is sealed another key is taken at the next start, and then no other', async () => {
    await takeMasterKey(fixture.store, vaultOf(keyA), clock);
    await takeMasterKey(fixture.store, vaultOf(keyB), clock);
    await fixture.store.transaction((tx) => addDataKey(tx, { vault: vaultOf(keyB), clock }, 'o_1'));
    await assert.rejects(takeMasterKey(fixture.store, vaultOf(keyA), clock), {
      code: 'wrong_encryption_key',
    });
    await takeMasterKey(fixture.store, vaultOf(keyB), clock);
  });

  test('the key of an interrupted rotation that is gone is said to be missing, and nothing is made in its place', async () => {
    await fillUnderFile();
    failsAt = 'rewrapped';
    await assert.rejects(rotate(), /interrupted/);
    failsAt = undefined;
    const away = join(dirname(dataFolder), 'elsewhere');
    await rename(nextKeyFilePath(dataFolder), away);
    await assert.rejects(rotate(), /that key is not here/);
    await writeFile(nextKeyFilePath(dataFolder), 'garbage', { mode: 0o600 });
    await assert.rejects(rotate(), /data\.key\.next holds no key/);
    await rename(away, nextKeyFilePath(dataFolder));
    await rotate();
    await opensAll(await fileVault());
  });
});
