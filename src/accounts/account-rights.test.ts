import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { KyselyPlugin } from 'kysely';
import type { Caller } from '#identity/permissions.ts';
import { systemClock } from '#lib/clock.ts';
import type { Db } from '#storage/store.ts';
import type { Role } from '#storage/tables/identity-tables.ts';
import { Vault } from '#vault/vault.ts';
import { makeMembers } from '../../test/support/members.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { auditOfAccount } from './account-audit.ts';
import { recordAudit, theService } from './account-audit-store.ts';
import { requireAccount } from './account-rights.ts';
import type { Account } from './account-store.ts';
import { createAccount, deleteAccount } from './manage-accounts.ts';

const caller = (userId: string): Caller => ({ userId, keyId: `key_of_${userId}`, isAdmin: false });

/** The same database, and the kinds and conditions of the statements that it is asked. */
function listened(db: Db): { db: Db; statements: string[] } {
  const statements: string[] = [];
  const plugin: KyselyPlugin = {
    transformQuery: ({ node, queryId }) => {
      statements.push(db.getExecutor().compileQuery(node, queryId).sql);
      return node;
    },
    transformResult: async ({ result }) => result,
  };
  return { db: db.withPlugin(plugin), statements };
}

forEachStore((fixture) => {
  const tools = { vault: new Vault(Buffer.alloc(32, 3)), clock: systemClock };

  async function newAccount(ownerId: string, userId: string): Promise<Account> {
    return fixture.store.transaction(async (tx) => {
      const account = await createAccount(tx, tools, {
        ownerId,
        userId,
        app: 'gitlab',
        credentials: { token: 'a token' },
      });
      await recordAudit(tx, { account, action: 'created', actor: theService, nowMs: systemClock.now() });
      return account;
    });
  }

  /** The right that a user has on the account, or the code of the refusal. */
  async function rightsOf(userId: string, id: string): Promise<string[]> {
    const fares = (right: 'see' | 'change') =>
      requireAccount(fixture.store.read, caller(userId), id, right).then(
        () => right,
        (error: { code: string }) => error.code,
      );
    return [await fares('see'), await fares('change')];
  }

  test('who created an account and admins of its workspace may change it, other members and viewers see it', async () => {
    await makeMembers(fixture.store, 'o_1', {
      u_admin: 'admin',
      u_maker: 'member',
      u_member: 'member',
      u_viewer: 'viewer',
    });
    await makeMembers(fixture.store, 'o_2', { u_stranger: 'admin' });
    const { id } = await newAccount('o_1', 'u_maker');
    const missing = ['not_found', 'not_found'];
    assert.deepEqual(await rightsOf('u_admin', id), ['see', 'change']);
    assert.deepEqual(await rightsOf('u_maker', id), ['see', 'change']);
    assert.deepEqual(await rightsOf('u_member', id), ['see', 'forbidden']);
    assert.deepEqual(await rightsOf('u_viewer', id), ['see', 'forbidden']);
    assert.deepEqual(await rightsOf('u_stranger', id), missing);
    const personal = await newAccount('u_maker', 'u_maker');
    assert.deepEqual(await rightsOf('u_maker', personal.id), ['see', 'change']);
    assert.deepEqual(await rightsOf('u_admin', personal.id), missing);

    const become = (role: Role) =>
      fixture.store.transaction((tx) =>
        tx.updateTable('members').set({ role }).where('user_id', '=', 'u_maker').execute(),
      );
    await become('viewer');
    assert.deepEqual(await rightsOf('u_maker', id), ['see', 'forbidden'], 'who made it is a viewer now');
    await fixture.store.transaction((tx) =>
      tx.deleteFrom('members').where('user_id', '=', 'u_maker').execute(),
    );
    assert.deepEqual(await rightsOf('u_maker', id), missing, 'no longer a member');
    assert.deepEqual(await rightsOf('u_maker', personal.id), ['see', 'change']);
  });

  test('for others the same statements are executed as for an id that nothing has, and the refusal is the same', async () => {
    await makeMembers(fixture.store, 'o_1', { u_maker: 'admin', u_gone: 'member' });
    const { id } = await newAccount('o_1', 'u_gone');
    const deleted = await newAccount('o_1', 'u_maker');
    await fixture.store.transaction(async (tx) => {
      await deleteAccount(tx, deleted.id, ['o_1']);
      await tx.deleteFrom('members').where('user_id', '=', 'u_gone').execute();
    });
    const absent = 'apn_000000000000';
    const asks = [
      (db: Db, userId: string, asked: string) => requireAccount(db, caller(userId), asked, 'see'),
      (db: Db, userId: string, asked: string) => requireAccount(db, caller(userId), asked, 'change'),
      (db: Db, userId: string, asked: string) =>
        auditOfAccount(db, caller(userId), { accountId: asked }, { limit: 10 }),
    ];
    for (const ask of asks) {
      const refusal = async (userId: string, asked: string) => {
        const { db, statements } = listened(fixture.store.read);
        const error = await ask(db, userId, asked).then(
          () => assert.fail(`${userId} got ${asked}`),
          (thrown: Error & { code: string; details: unknown }) => thrown,
        );
        const { code, details, message } = error;
        return { code, details, message: message.replace(asked, '<id>'), statements };
      };
      const none = await refusal('u_gone', absent);
      assert.equal(none.code, 'not_found');
      assert.ok(none.statements.length >= 2);
      for (const userId of ['u_gone', 'u_stranger'])
        for (const asked of [id, deleted.id]) assert.deepEqual(await refusal(userId, asked), none);
    }
  });

  test('the audit of a deleted account is left to the admins of its owner', async () => {
    await makeMembers(fixture.store, 'o_1', { u_admin: 'admin', u_maker: 'member' });
    const account = await newAccount('o_1', 'u_maker');
    const audit = (userId: string) =>
      auditOfAccount(fixture.store.read, caller(userId), { accountId: account.id }, { limit: 10 });
    assert.equal((await audit('u_maker')).totalCount, 1);
    await fixture.store.transaction((tx) => deleteAccount(tx, account.id, ['o_1']));
    assert.equal((await audit('u_admin')).totalCount, 1);
    await assert.rejects(audit('u_maker'), { code: 'not_found' });
  });
});
