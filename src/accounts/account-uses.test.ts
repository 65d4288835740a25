import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '#lib/logger.ts';
import type { SourceState } from '#storage/tables/source-tables.ts';
import { Vault } from '#vault/vault.ts';
import { makeMembers } from '../../test/support/members.ts';
import { sourceRow } from '../../test/support/source-row.ts';
import { deployAgain, storeWorkflow } from '../../test/support/stored-workflows.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { accountAuditPruner } from './account-audit-pruner.ts';
import { recordAudit, selectAudit, theService } from './account-audit-store.ts';
import { refuseInUse, usesOf, viewUses } from './account-uses.ts';
import { endGrantsOf, recordUse } from './account-uses-store.ts';
import { createAccount } from './manage-accounts.ts';

const dayMs = 86_400_000;

forEachStore((fixture) => {
  const clock = new TestClock(Date.parse('2026-03-01T12:00:00Z'));
  const tools = { vault: new Vault(Buffer.alloc(32, 4)), clock };

  const newAccount = (ownerId: string) =>
    fixture.store.transaction((tx) =>
      createAccount(tx, tools, { ownerId, userId: 'u_1', app: 'gitlab', credentials: { token: 'x' } }),
    );

  async function addSource(
    id: string,
    options: { ownerId: string; state?: SourceState; accounts: string[] },
  ) {
    const { ownerId, state = 'active', accounts } = options;
    await fixture.store.transaction(async (tx) => {
      await tx
        .insertInto('sources')
        .values({ ...sourceRow(id, { ownerId }), state })
        .execute();
      for (const account_id of accounts) {
        const { owner_id } = await tx
          .selectFrom('accounts')
          .select('owner_id')
          .where('id', '=', account_id)
          .executeTakeFirstOrThrow();
        await tx.insertInto('source_accounts').values({ source_id: id, account_id, owner_id }).execute();
      }
    });
  }

  const grant = (deploymentId: string, accountId: string, ownerId: string) =>
    fixture.store.transaction((tx) =>
      tx
        .insertInto('deployment_accounts')
        .values({ deployment_id: deploymentId, account_id: accountId, owner_id: ownerId })
        .execute(),
    );

  test('sources and the present deployments of workflows use an account; what the caller may not read is counted', async () => {
    const { id } = await newAccount('u_1');
    await addSource('dc_mine', { ownerId: 'u_1', accounts: [id] });
    await addSource('dc_paused', { ownerId: 'o_1', state: 'inactive', accounts: [id] });
    await addSource('dc_theirs', { ownerId: 'o_2', accounts: [id] });
    await addSource('dc_unready', { ownerId: 'u_1', state: 'deploying', accounts: [id] });
    await addSource('dc_other', { ownerId: 'u_1', accounts: [] });
    await storeWorkflow(fixture.store, { id: 'p_now', ownerId: 'o_1' });
    await storeWorkflow(fixture.store, { id: 'p_then', ownerId: 'o_1' });
    await grant('d_p_now_1', id, 'u_1');
    await grant('d_p_then_1', id, 'u_1');
    await deployAgain(fixture.store, { id: 'p_then', ownerId: 'o_1', number: 2, settings: {} });

    const uses = await viewUses(fixture.store.read, id, ['u_1', 'o_1']);
    assert.deepEqual(uses.sources.map(({ id: source, active }) => [source, active]).sort(), [
      ['dc_mine', true],
      ['dc_paused', false],
    ]);
    assert.deepEqual(uses.workflows, [{ id: 'p_now', name: 'p_now', active: true }]);
    assert.deepEqual(uses.more, { sources: 1, workflows: 0 });
    const error = await refuseInUse(fixture.store.read, id, ['u_1']).then(
      () => assert.fail('it is in use'),
      (thrown: { code: string; message: string; details: unknown }) => thrown,
    );
    assert.equal(error.code, 'account_in_use');
    assert.match(error.message, /2 active sources and 1 active workflow,.*force=true/s);
    assert.deepEqual(error.details, {
      parameter: 'force',
      sources: [{ id: 'dc_mine', name: 'dc_mine' }],
      workflows: [],
      more: { sources: 1, workflows: 1 },
    });
  });

  test('an account that only inactive sources and workflows use may go', async () => {
    const { id } = await newAccount('u_1');
    await addSource('dc_paused', { ownerId: 'u_1', state: 'inactive', accounts: [id] });
    await storeWorkflow(fixture.store, { id: 'p_paused', ownerId: 'u_1', state: 'inactive' });
    await grant('d_p_paused_1', id, 'u_1');
    await refuseInUse(fixture.store.read, id, ['u_1']);
    const { sources, workflows } = await usesOf(fixture.store.read, id, ['u_1']);
    assert.deepEqual([sources.length, workflows.length], [1, 1]);
  });

  test('uses are summed up by day, also of what is gone, and not of what belongs to others', async () => {
    const account = await newAccount('u_1');
    await addSource('dc_mine', { ownerId: 'u_1', accounts: [] });
    await addSource('dc_theirs', { ownerId: 'o_2', accounts: [] });
    const start = clock.now();
    const use = (usedBy: string, nowMs: number) =>
      fixture.store.transaction((tx) => recordUse(tx, { account, usedBy, nowMs }));
    await use('dc_mine', start);
    await use('dc_mine', start + 5000);
    await use('dc_mine', start + dayMs);
    await use('p_gone', start + 1000);
    await use('dc_theirs', start + 2000);
    const { used } = await viewUses(fixture.store.read, account.id, ['u_1']);
    const iso = (ms: number) => new Date(ms).toISOString();
    assert.deepEqual(used, [
      {
        id: 'dc_mine',
        name: 'dc_mine',
        day: '2026-03-02',
        uses: 1,
        first_used_at: iso(start + dayMs),
        last_used_at: iso(start + dayMs),
      },
      {
        id: 'dc_mine',
        name: 'dc_mine',
        day: '2026-03-01',
        uses: 2,
        first_used_at: iso(start),
        last_used_at: iso(start + 5000),
      },
      {
        id: 'p_gone',
        name: null,
        day: '2026-03-01',
        uses: 1,
        first_used_at: iso(start + 1000),
        last_used_at: iso(start + 1000),
      },
    ]);
  });

  test("who leaves a workspace takes their own accounts out of its sources and deployments, not the workspace's", async () => {
    await makeMembers(fixture.store, 'o_1', { u_1: 'member' });
    const [own, shared] = [await newAccount('u_1'), await newAccount('o_1')];
    await addSource('dc_team', { ownerId: 'o_1', accounts: [own.id, shared.id] });
    await addSource('dc_shared', { ownerId: 'o_1', accounts: [shared.id] });
    await addSource('dc_elsewhere', { ownerId: 'o_2', accounts: [own.id] });
    await addSource('dc_personal', { ownerId: 'u_1', accounts: [own.id] });
    await storeWorkflow(fixture.store, { id: 'p_team', ownerId: 'o_1' });
    await grant('d_p_team_1', own.id, 'u_1');
    await grant('d_p_team_1', shared.id, 'o_1');
    const ended = await fixture.store.transaction((tx) =>
      endGrantsOf(tx, { workspaceId: 'o_1', userId: 'u_1' }),
    );
    assert.deepEqual(ended, [own.id]);
    const left = await fixture.store.read
      .selectFrom('source_accounts')
      .select(['source_id', 'account_id'])
      .execute();
    const named = { [own.id]: 'own', [shared.id]: 'shared' };
    assert.deepEqual(left.map((row) => `${row.source_id} ${named[row.account_id]}`).sort(), [
      'dc_elsewhere own',
      'dc_personal own',
      'dc_shared shared',
      'dc_team shared',
    ]);
    const deployed = await fixture.store.read
      .selectFrom('deployment_accounts')
      .select('account_id')
      .execute();
    assert.deepEqual(deployed, [{ account_id: shared.id }]);
    const revisions = await fixture.store.read
      .selectFrom('sources')
      .select(['id', 'revision'])
      .orderBy('id')
      .execute();
    assert.deepEqual(
      revisions.map((row) => [row.id, Number(row.revision)]),
      [
        ['dc_elsewhere', 1],
        ['dc_personal', 1],
        ['dc_shared', 1],
        ['dc_team', 2],
      ],
    );
  });

  test('audit and uses are pruned after so many days, however many there are', async () => {
    const account = await newAccount('u_1');
    const nowMs = clock.now();
    await fixture.store.transaction(async (tx) => {
      for (let n = 0; n < 450; n += 1) {
        const atMs = nowMs - 31 * dayMs - n;
        await recordAudit(tx, { account, action: 'updated', actor: theService, nowMs: atMs });
        await recordUse(tx, { account, usedBy: `dc_${n}`, nowMs: atMs });
      }
      await recordAudit(tx, { account, action: 'created', actor: theService, nowMs: nowMs - 29 * dayMs });
      await recordUse(tx, { account, usedBy: 'dc_new', nowMs: nowMs - 29 * dayMs });
    });
    const pruner = accountAuditPruner({ store: fixture.store, clock, logger: silentLogger, daysKept: 30 });
    await pruner.prune();
    const { rows } = await selectAudit(
      fixture.store.read,
      { ownerId: 'u_1', accountId: account.id },
      { limit: 10 },
    );
    assert.deepEqual(
      rows.map(({ action }) => action),
      ['created'],
    );
    const uses = await fixture.store.read.selectFrom('account_uses').select('used_by').execute();
    assert.deepEqual(uses, [{ used_by: 'dc_new' }]);
  });
});
