import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { newHealth } from '#health/health.ts';
import { silentLogger } from '#lib/logger.ts';
import { openStore } from '#storage/open-store.ts';
import type { Store } from '#storage/store.ts';
import { checkMasterKey } from '#vault/check-master-key.ts';
import { addDataKey, hasSealedValues } from '#vault/sealed-values.ts';
import { Vault } from '#vault/vault.ts';
import { createTestDatabase, postgresSkip } from '../../test/support/databases.ts';
import { createTempFolder } from '../../test/support/temp-folder.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { openCredentials } from './account-credentials.ts';
import { appIdOf } from './apps/app-id.ts';
import { createAccount, deleteAccount, getAccount, listAccounts, updateAccount } from './manage-accounts.ts';
import { viewAccount } from './view-account.ts';

const dialects = [
  { name: 'SQLite', skip: false, open: openSqlite },
  { name: 'PostgreSQL', skip: postgresSkip(), open: openPostgres },
];

async function openSqlite() {
  const folder = await createTempFolder('accounts');
  const store = await openStore({ databaseUrl: '', folder: folder.path, logger: silentLogger });
  return { store, remove: () => folder.remove() };
}

async function openPostgres() {
  const database = await createTestDatabase();
  const folder = await createTempFolder('accounts');
  const store = await openStore({ databaseUrl: database.url, folder: folder.path, logger: silentLogger });
  return {
    store,
    remove: async () => {
      await database.drop();
      await folder.remove();
    },
  };
}

for (const dialect of dialects) {
  describe(`accounts on ${dialect.name}`, { skip: dialect.skip }, () => {
    const vault = new Vault(Buffer.alloc(32, 1));
    const clock = new TestClock(1_800_000_000_000);
    const tools = { vault, clock };
    let store: Store;
    let remove: () => Promise<void>;
    let owners = 0;

    before(async () => {
      ({ store, remove } = await dialect.open());
    });
    after(async () => {
      await store.close();
      await remove();
    });

    /** A new owner with nothing yet, and an account of theirs as its tests want it. */
    function newOwner() {
      owners += 1;
      const ownerId = `u_owner${owners}`;
      const create = (more: { app?: unknown; name?: unknown; credentials?: unknown } = {}) => {
        clock.step(1);
        const account = {
          ownerId,
          userId: ownerId,
          app: 'gitlab',
          credentials: { token: 's3cr3t-token' },
          ...more,
        };
        return store.transaction((tx) => createAccount(tx, tools, account));
      };
      return { ownerId, create };
    }

    const sealedOf = (id: string) =>
      store.read.selectFrom('accounts').select('sealed').where('id', '=', id).executeTakeFirstOrThrow();

    test('nothing is sealed at first, and any master key fits', async () => {
      assert.equal(await hasSealedValues(store.read), false);
      await checkMasterKey(store.read, vault);
    });

    test('an account is created, read with and without credentials, and holds no plain secret', async () => {
      const { ownerId, create } = newOwner();
      const account = await create({ app: 'google_sheets', name: 'Work' });
      assert.match(account.id, /^apn_[0-9A-Za-z]{12}$/);
      assert.deepEqual(await getAccount(store.read, account.id, [ownerId]), account);
      const credentials = await openCredentials(store.read, vault, account.id, ['o_x', ownerId]);
      assert.deepEqual(credentials, { token: 's3cr3t-token' });
      const iso = new Date(clock.now()).toISOString();
      const health = newHealth('account');
      const view = {
        id: account.id,
        user_id: ownerId,
        owner_id: ownerId,
        name: 'Work',
        app: { id: appIdOf('google_sheets'), name_slug: 'google_sheets', name: 'Google Sheets' },
        health,
        healthy: true,
        dead: false,
        error: null,
        authorized_scopes: null,
        last_refreshed_at: null,
        next_refresh_at: null,
        checked_at: null,
        created_at: iso,
        updated_at: iso,
      };
      assert.deepEqual(viewAccount(account, health), view);
      assert.deepEqual(viewAccount(account, health, credentials), { ...view, expires_at: null, credentials });
      const { sealed } = await sealedOf(account.id);
      assert.doesNotMatch(sealed, /s3cr3t/);
      assert.equal(await hasSealedValues(store.read), true);
    });

    test('what others own does not exist', async () => {
      const account = await newOwner().create();
      const stranger = ['u_stranger', 'o_stranger'];
      const missing = { name: 'CallerError', code: 'not_found' };
      await assert.rejects(getAccount(store.read, account.id, stranger), missing);
      await assert.rejects(openCredentials(store.read, vault, account.id, stranger), missing);
      await assert.rejects(
        store.transaction((tx) => updateAccount(tx, tools, account.id, stranger, { name: 'x' })),
        missing,
      );
      await assert.rejects(
        store.transaction((tx) => deleteAccount(tx, account.id, stranger)),
        missing,
      );
      await assert.rejects(getAccount(store.read, 'apn_nothing', stranger), missing);
      assert.deepEqual(await listAccounts(store.read, { ownerIds: stranger }, { limit: 10 }), {
        rows: [],
        totalCount: 0,
      });
      assert.deepEqual(await listAccounts(store.read, { ownerIds: [] }, { limit: 10 }), {
        rows: [],
        totalCount: 0,
      });
    });

    test('accounts are listed by owner and app, newest first, in pages', async () => {
      const { ownerId, create } = newOwner();
      const first = await create();
      const second = await create({ app: 'slack' });
      const third = await create();
      await newOwner().create();
      const ids = async (filter: { app?: string }, page = {}) => {
        const found = await listAccounts(
          store.read,
          { ownerIds: [ownerId], ...filter },
          { limit: 10, ...page },
        );
        return { ids: found.rows.map((row) => row.id), total: found.totalCount };
      };
      assert.deepEqual(await ids({}), { ids: [third.id, second.id, first.id], total: 3 });
      assert.deepEqual(await ids({ app: 'gitlab' }), { ids: [third.id, first.id], total: 2 });
      assert.deepEqual(await ids({ app: appIdOf('slack') }), { ids: [second.id], total: 1 });
      assert.deepEqual(await ids({}, { limit: 1, after: third.id }), { ids: [second.id], total: 3 });
      const { rows } = await listAccounts(store.read, { ownerIds: [ownerId] }, { limit: 1 });
      assert.ok(rows[0] && !('sealed' in rows[0]));
    });

    test('a name and credentials can be changed, each alone', async () => {
      const { ownerId, create } = newOwner();
      const account = await create({ name: 'old' });
      const update = (changes: object) =>
        store.transaction((tx) => updateAccount(tx, tools, account.id, [ownerId], changes));
      clock.step(1000);
      const renamed = await update({ name: 'new' });
      assert.deepEqual(renamed, { ...account, name: 'new', updated_at_ms: clock.now() });
      assert.deepEqual(await getAccount(store.read, account.id, [ownerId]), renamed);
      assert.deepEqual(await openCredentials(store.read, vault, account.id, [ownerId]), {
        token: 's3cr3t-token',
      });
      await update({ credentials: { token: 'other' } });
      assert.deepEqual(await openCredentials(store.read, vault, account.id, [ownerId]), { token: 'other' });
      assert.equal((await getAccount(store.read, account.id, [ownerId])).name, 'new');
      assert.equal((await update({ name: null })).name, null);
    });

    test('a deleted account is gone', async () => {
      const { ownerId, create } = newOwner();
      const { id } = await create();
      await store.transaction((tx) => deleteAccount(tx, id, [ownerId]));
      await assert.rejects(getAccount(store.read, id, [ownerId]), { code: 'not_found' });
      await assert.rejects(
        store.transaction((tx) => deleteAccount(tx, id, [ownerId])),
        { code: 'not_found' },
      );
    });

    test('an app is named by slug, or by id once it has an account', async () => {
      const { create } = newOwner();
      await create({ app: 'linear_app' });
      assert.equal((await create({ app: appIdOf('linear_app') })).app_slug, 'linear_app');
      await assert.rejects(create({ app: appIdOf('never_seen') }), { code: 'invalid_parameter' });
      // The answer does not reveal that another owner has accounts of an app that is in no catalogue.
      const stranger = newOwner();
      await assert.rejects(stranger.create({ app: appIdOf('linear_app') }), { code: 'invalid_parameter' });
      assert.match(appIdOf('linear_app'), /^app_[0-9A-Za-z]{12}$/);
    });

    test('bad input is refused by the name of its parameter, and stores nothing', async () => {
      const { ownerId, create } = newOwner();
      const refusals: [object, string][] = [
        [{ app: undefined }, 'app'],
        [{ app: 'No Slug!' }, 'app'],
        [{ app: 7 }, 'app'],
        [{ name: 7 }, 'name'],
        [{ name: 'x'.repeat(201) }, 'name'],
        [{ credentials: undefined }, 'credentials'],
        [{ credentials: 'token' }, 'credentials'],
        [{ credentials: ['token'] }, 'credentials'],
        [{ credentials: null }, 'credentials'],
        [{ credentials: { token: 'x'.repeat(65 * 1024) } }, 'credentials'],
      ];
      for (const [more, parameter] of refusals) {
        await assert.rejects(create(more), { code: 'invalid_parameter', details: { parameter } });
      }
      assert.equal((await listAccounts(store.read, { ownerIds: [ownerId] }, { limit: 10 })).totalCount, 0);
    });

    test('a new data key seals from now on, and what older ones sealed still opens', async () => {
      const { ownerId, create } = newOwner();
      const old = await create({ credentials: { n: 1 } });
      clock.step(1);
      const key = await store.transaction((tx) => addDataKey(tx, tools, ownerId));
      const young = await create({ credentials: { n: 2 } });
      assert.ok(!(await sealedOf(old.id)).sealed.includes(key.keyId));
      assert.ok((await sealedOf(young.id)).sealed.includes(key.keyId));
      assert.deepEqual(await openCredentials(store.read, vault, old.id, [ownerId]), { n: 1 });
      assert.deepEqual(await openCredentials(store.read, vault, young.id, [ownerId]), { n: 2 });
    });

    test('another master key is refused with a clear error and destroys nothing', async () => {
      const { ownerId, create } = newOwner();
      const { id } = await create();
      const other = new Vault(Buffer.alloc(32, 2));
      const wrong = { code: 'wrong_encryption_key' };
      await assert.rejects(checkMasterKey(store.read, other), wrong);
      await assert.rejects(openCredentials(store.read, other, id, [ownerId]), wrong);
      const replace = { credentials: { token: 'lost' } };
      await assert.rejects(
        store.transaction((tx) => updateAccount(tx, { vault: other, clock }, id, [ownerId], replace)),
        wrong,
      );
      assert.deepEqual(await openCredentials(store.read, vault, id, [ownerId]), { token: 's3cr3t-token' });
    });

    test('sealed credentials moved to another account, or another owner, do not open', async () => {
      const { ownerId, create } = newOwner();
      const mine = await create();
      const alsoMine = await create();
      const theirs = await newOwner().create();
      for (const target of [alsoMine, theirs]) {
        const { sealed } = await sealedOf(mine.id);
        await store.transaction((tx) =>
          tx.updateTable('accounts').set({ sealed }).where('id', '=', target.id).execute(),
        );
        await assert.rejects(openCredentials(store.read, vault, target.id, [target.owner_id]), {
          code: 'sealed_value_damaged',
        });
      }
      assert.deepEqual(await openCredentials(store.read, vault, mine.id, [ownerId]), {
        token: 's3cr3t-token',
      });
    });
  });
}
