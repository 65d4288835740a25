import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { beforeEach, describe, test } from 'node:test';
import { projectFiles } from '../../test/support/project-files.ts';
import { allTexts, expectedSecrets, openSealed, storeSealed } from '../../test/support/sealed-store.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { findRotation } from './key-rotation-store.ts';
import { rotateDataKeys } from './rotate-data-keys.ts';
import { sealedColumns } from './sealed-columns.ts';
import { addDataKey, sealObject } from './sealed-values.ts';
import { keyIdOf, Vault } from './vault.ts';

const hourMs = 60 * 60 * 1000;

forEachStore((fixture) => {
  const vault = new Vault(Buffer.alloc(32, 3));
  let clock: TestClock;
  let steps: string[];
  const tools = () => ({
    store: fixture.store,
    vault,
    clock,
    progress: (line: string) => {
      steps.push(line);
    },
  });
  const owners = ['o_1', 'u_2'];
  const keys = (ownerId?: string) =>
    fixture.store.read
      .selectFrom('data_keys')
      .selectAll()
      .where('owner_id', 'in', ownerId === undefined ? owners : [ownerId])
      .orderBy('created_at_ms')
      .orderBy('owner_id')
      .execute();
  const checkAll = async (of: readonly string[] = owners) => {
    for (const ownerId of of)
      assert.deepEqual(await openSealed(fixture.store, vault, ownerId), expectedSecrets(ownerId));
  };

  beforeEach(async () => {
    clock = new TestClock();
    steps = [];
    for (const ownerId of owners) await storeSealed(fixture.store, { vault, clock }, ownerId);
  });

  test('everything is resealed under a new key of its owner, and opens without the old ones', async () => {
    const before = await keys();
    const done = await rotateDataKeys(tools(), null);
    // Ten cells of each owner, and the two in before_change and definition.
    assert.deepEqual([done.newKeys, done.resealed, done.retired, done.removed], [2, 22, 2, 0]);
    assert.deepEqual(done.unopened, []);
    const after = await keys();
    assert.equal(after.length, 4);
    for (const key of after) {
      const isOld = before.some(({ key_id }) => key_id === key.key_id);
      assert.equal(key.retired_at_ms, isOld ? clock.now() : null);
    }
    const old = before.map(({ key_id }) => key_id);
    await fixture.store.transaction((tx) => tx.deleteFrom('data_keys').where('key_id', 'in', old).execute());
    await checkAll();
    // Also in columns that the list may have missed: no text of the whole store names an old key.
    for (const { table, column, text } of await allTexts(fixture.store))
      for (const id of old)
        assert.ok(!text.includes(id), `${table}.${column} still holds something under an old key`);
  });

  test('old keys are removed by a rotation an hour later, not before, and never while something needs them', async () => {
    await rotateDataKeys(tools(), null);
    clock.step(hourMs - 1);
    assert.equal((await rotateDataKeys(tools(), 'o_1')).removed, 0);
    clock.step(2);
    // What a process that began long ago stores only now.
    const [oldest] = await keys('o_1');
    assert.ok(oldest);
    const key = { ownerId: 'o_1', keyId: oldest.key_id, wrapped: oldest.wrapped };
    const late = vault.seal(key, 'apn_o_1', { token: 'late' });
    await fixture.store.transaction((tx) =>
      tx.updateTable('accounts').set({ sealed: late }).where('id', '=', 'apn_o_1').execute(),
    );
    const done = await rotateDataKeys(tools(), null);
    assert.equal(done.removed, 1, 'of u_2: a process may just have read the late value of o_1');
    await checkAll(['u_2']);
    assert.ok((await keys('o_1')).some(({ key_id }) => key_id === oldest.key_id));
    clock.step(hourMs + 1);
    // Those of the rotation before, and the late one.
    await rotateDataKeys(tools(), null);
    assert.ok(!(await keys('o_1')).some(({ key_id }) => key_id === oldest.key_id));
    const opened = await openSealed(fixture.store, vault, 'o_1');
    assert.deepEqual(opened, { ...expectedSecrets('o_1'), account: { token: 'late' } });
  });

  test('with an owner only theirs are rotated, and an owner without keys is said to have none', async () => {
    const before = await keys('u_2');
    const done = await rotateDataKeys(tools(), 'o_1');
    assert.deepEqual([done.newKeys, done.resealed], [1, 11]);
    assert.deepEqual(await keys('u_2'), before);
    await checkAll();
    await assert.rejects(rotateDataKeys(tools(), 'o_nobody'), { name: 'CallerError', code: 'not_found' });
  });

  test('the new key seals also where the old one was made by a clock far ahead, or in the same millisecond', async () => {
    await rotateDataKeys(tools(), null);
    await rotateDataKeys(tools(), null);
    clock.step(-10 * hourMs);
    const done = await rotateDataKeys(tools(), null);
    assert.deepEqual([done.newKeys, done.resealed], [2, 22]);
    await checkAll();
  });

  test('a value that a user stores meanwhile stays, and is resealed in the next look', async () => {
    let wasStored = false;
    const store: typeof fixture.store = {
      ...fixture.store,
      transaction: async (work) => {
        if (steps.at(-1) === 'made 2 data keys' && !wasStored) {
          wasStored = true;
          const [old] = await keys('o_1');
          assert.ok(old);
          const key = { ownerId: 'o_1', keyId: old.key_id, wrapped: old.wrapped };
          const sealed = vault.seal(key, 'apn_o_1', { token: 'from elsewhere' });
          await fixture.store.transaction((tx) =>
            tx.updateTable('accounts').set({ sealed }).where('id', '=', 'apn_o_1').execute(),
          );
        }
        return fixture.store.transaction(work);
      },
    };
    await rotateDataKeys({ ...tools(), store }, null);
    assert.ok(wasStored);
    const { account } = await openSealed(fixture.store, vault, 'o_1');
    assert.deepEqual(account, { token: 'from elsewhere' });
    const { sealed } = await fixture.store.read
      .selectFrom('accounts')
      .select('sealed')
      .where('id', '=', 'apn_o_1')
      .executeTakeFirstOrThrow();
    assert.equal(keyIdOf(sealed), (await keys('o_1')).at(-1)?.key_id);
  });

  test('no value is lost or old while others continue to write, and a second rotation runs beside the first', async () => {
    const { store } = fixture;
    const last = new Map<string, number>();
    let isRotating = true;
    const write = async (ownerId: string) => {
      for (let n = 1; isRotating; n += 1) {
        const id = `apn_${ownerId}`;
        await store.transaction(async (tx) => {
          const sealed = await sealObject(tx, { vault, clock }, { ownerId, id, value: { n } });
          await tx.updateTable('accounts').set({ sealed }).where('id', '=', id).execute();
        });
        last.set(ownerId, n);
      }
    };
    const writing = Promise.all(owners.map(write));
    for (let round = 0; round < 3; round += 1) {
      await Promise.all([rotateDataKeys(tools(), null), rotateDataKeys(tools(), null)]);
      clock.step(2 * hourMs);
    }
    isRotating = false;
    await writing;
    for (const ownerId of owners) {
      const opened = await openSealed(store, vault, ownerId);
      assert.deepEqual(opened, { ...expectedSecrets(ownerId), account: { n: last.get(ownerId) } });
    }
  });

  test('damaged values are reported and left as they are, with its key; all else is rotated', async () => {
    const { sealed } = await fixture.store.transaction(async (tx) => {
      const text = await sealObject(tx, { vault, clock }, { ownerId: 'o_1', id: 'another', value: {} });
      await tx.updateTable('accounts').set({ sealed: text }).where('id', '=', 'apn_o_1').execute();
      return { sealed: text };
    });
    const done = await rotateDataKeys(tools(), null);
    assert.deepEqual(done.unopened, ['accounts.sealed of apn_o_1']);
    clock.step(2 * hourMs);
    await rotateDataKeys(tools(), null);
    const row = await fixture.store.read
      .selectFrom('accounts')
      .select('sealed')
      .where('id', '=', 'apn_o_1')
      .executeTakeFirstOrThrow();
    assert.equal(row.sealed, sealed);
    assert.ok(
      (await keys('o_1')).some(
        ({ key_id, retired_at_ms }) => key_id === keyIdOf(sealed) && retired_at_ms === null,
      ),
    );
    await checkAll(['u_2']);
  });

  test('a rotation that was interrupted is finished with what it began, before one for others', async () => {
    const { store } = fixture;
    const interrupted = {
      ...tools(),
      progress: (line: string) => {
        if (line.startsWith('resealed')) throw new Error('interrupted');
      },
    };
    await assert.rejects(rotateDataKeys(interrupted, null), /interrupted/);
    const between = await keys();
    assert.equal((await findRotation(store.read, 'data'))?.finished_at_ms, null);
    await assert.rejects(rotateDataKeys(tools(), 'o_1'), { code: 'conflict', message: /without --owner/ });
    await checkAll();
    const done = await rotateDataKeys(tools(), null);
    assert.equal(done.newKeys, 0, 'it continues with the existing keys');
    assert.deepEqual(
      (await keys()).map(({ key_id }) => key_id),
      between.map(({ key_id }) => key_id),
    );
    await checkAll();
  });

  test('another master key changes nothing', async () => {
    const other = new Vault(Buffer.alloc(32, 4));
    const before = await allTexts(fixture.store);
    await assert.rejects(rotateDataKeys({ ...tools(), vault: other }, null), {
      code: 'wrong_encryption_key',
    });
    const after = await allTexts(fixture.store);
    assert.deepEqual(
      after.filter(({ table }) => table !== 'key_rotations'),
      before.filter(({ table }) => table !== 'key_rotations'),
    );
    await checkAll();
  });

  test('a new key is younger than the one before it, whatever the clock says', async () => {
    clock.step(-hourMs);
    const key = await fixture.store.transaction((tx) => addDataKey(tx, { vault, clock }, 'o_1'));
    assert.equal((await keys('o_1')).at(-1)?.key_id, key.keyId);
  });

  test('every column whose name suggests a secret is in the list, or known to hold no sealed text', async () => {
    const known = new Set(sealedColumns.map(({ table, column }) => `${table}.${column}`));
    const others = [
      // Hashes and hints of what was random, and times.
      ...['api_clients.secret_hash', 'api_clients.secret_hint', 'api_clients.secret_changed_at_ms'],
      ...['webhooks.old_secret_until_ms'],
      // A flag.
      'variables.secret',
    ];
    for (const { name, columns } of await fixture.store.read.introspection.getTables())
      for (const column of columns) {
        const place = `${name}.${column.name}`;
        if (!/seal|secret|^auth$|credential|password/.test(column.name)) continue;
        assert.ok(
          known.has(place) || others.includes(place),
          `${place}: add it to sealed-columns.ts, or here`,
        );
      }
  });
});

describe('where something is sealed', () => {
  test('is known: what a file seals stands in a column of the list', async () => {
    const places: Record<string, string> = {
      'src/accounts/manage-accounts.ts': 'accounts.sealed',
      'src/accounts/refresh-account.ts': 'accounts.sealed',
      'src/accounts/connect/begin-connect.ts': 'connect_flows.sealed',
      'src/imports/manage-imports.ts': 'imports.sealed',
      'src/imports/answer-import.ts': 'imports.sealed',
      'src/accounts/connect/connect-flow.ts': 'connect_flows.sealed',
      'src/assemble-runs.ts': 'for those of sources and workflows',
      'src/delivery/webhooks/manage-webhooks.ts': 'webhooks.secret',
      'src/idempotency/kept-answers.ts': 'idempotency_keys.answer',
      'src/accounts/oauth/manage-oauth-clients.ts': 'oauth_clients.sealed_secret',
      'src/sources/sealed-props.ts': 'sources.sealed_props, deployments.definition',
      'src/user-data/variables/variables.ts': 'variables.sealed',
      'src/workflows/definitions/trigger-auth.ts': 'triggers.auth',
    };
    const files = projectFiles().filter(
      (file) => /^src\/.*\.ts$/.test(file) && !file.endsWith('.test.ts') && !file.startsWith('src/vault/'),
    );
    for (const file of files) {
      if (!/\b(sealObject|sealValue|vault\.seal|sealer\.seal)\(/.test(await readFile(file, 'utf8'))) continue;
      assert.ok(
        file in places,
        `${file} seals something: is its column in sealed-columns.ts? Then add it here`,
      );
    }
  });
});
