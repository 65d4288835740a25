import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deleteAccount } from '#accounts/manage-accounts.ts';
import { deleteEventsHandler } from '#events/delete-events.ts';
import { keyRow, takeKeys } from '#idempotency/idempotency-key-store.ts';
import { claimJobs } from '#jobs/claim-store.ts';
import { LaneLeases } from '#jobs/lane-leases.ts';
import { registerNode } from '#jobs/node-store.ts';
import { must } from '#lib/assert.ts';
import { newId } from '#lib/ids.ts';
import { migrations } from '#storage/migrate.ts';
import { RemovalTurns } from '#storage/removal-turns.ts';
import type { AccountTable, DataKeyTable } from '#storage/tables/account-tables.ts';
import type { BundleTable } from '#storage/tables/component-tables.ts';
import type { SourceTable } from '#storage/tables/source-tables.ts';
import { placesForAny } from '../../test/support/claim-places.ts';
import { DeployerFixture, failed, finished, me } from '../../test/support/deployer-fixture.ts';
import { makeMembers } from '../../test/support/members.ts';
import { createStoreLocation, forEachStore } from '../../test/support/stores.ts';
import { accountsOf, findSource, takeOverChange } from './source-store.ts';

type Gate = PromiseWithResolvers<void>;

forEachStore((fixture) => {
  test('a hook without a free process is answered with 503 overloaded, and nothing is changed', async () => {
    using parts = new DeployerFixture(fixture.store);
    const { deployer } = parts;
    const component = await parts.component();
    const reference = { component_id: component.id };
    parts.answer = () => failed('cancelled', 'no process became free for the call');
    await assert.rejects(deployer.create(reference, me), { name: 'UnavailableError', code: 'overloaded' });
    const changing = await parts.component({ hasAdditionalProps: true });
    await assert.rejects(deployer.create({ component_id: changing.id }, me), { code: 'overloaded' });
    assert.deepEqual(await fixture.store.read.selectFrom('sources').select('id').execute(), []);
    parts.answer = () => failed('threw', 'no');
    await assert.rejects(deployer.create(reference, me), { name: 'CallerError', code: 'hook_failed' });
  });

  test('the events of a removed source are removed with it, very many by a job that survives a crash', async () => {
    const { store } = fixture;
    using parts = new DeployerFixture(store);
    const component = await parts.component();
    const { source } = await parts.deployer.create({ component_id: component.id }, me);
    const events = Array.from({ length: 2300 }, () => ({ channel: 'default', event: '1' }));
    await parts.runs.emitOutside(source, events);
    const key = { id: 'k', ownerId: source.owner_id, subjectId: source.id, requestDigest: 'digest' };
    await store.transaction((tx) => takeKeys(tx, [keyRow(key, { jobId: 'j', nowMs: 1, accepted: true })]));
    await parts.deployer.remove(source.id, { ignoreHookErrors: false });
    const left = async () => (await store.read.selectFrom('events').select('seq').execute()).length;
    assert.deepEqual(await store.read.selectFrom('idempotency_keys').select('id').execute(), []);
    assert.equal(await left(), 1300, 'the first batch goes with the source');
    // The process died here; another one claims what is queued.
    const lanes = new LaneLeases({ node: 'node_2', store });
    const options = { node: 'node_2', kinds: ['delete_events'] as const, limit: 10, ...placesForAny(1) };
    const jobs = await claimJobs(store, { ...options, lanes, runningByLane: new Map(), nowMs: Date.now() });
    assert.deepEqual(
      jobs.map((job) => job.payload),
      [{ emitter_id: source.id }],
    );
    for (const job of jobs)
      await deleteEventsHandler({ store, removals: new RemovalTurns(store), node: 'node_2' }).run(
        job,
        new AbortController().signal,
      );
    assert.equal(await left(), 0);
    assert.deepEqual(await store.read.selectFrom('jobs').select('id').execute(), []);
  });

  const remove = { ignoreHookErrors: false };

  /** Sweeps until the changes of a dead node are undone. */
  async function undoAll(parts: DeployerFixture): Promise<void> {
    await parts.deployer.undoAbandoned();
    if (fixture.dialect === 'sqlite') return;
    assert.deepEqual(parts.calls, [], 'on PostgreSQL a node is dead when it is found so twice');
    await parts.deployer.undoAbandoned();
    assert.deepEqual(parts.calls, [], 'and not at once: its database may just have come back');
    parts.aheadMs += 10_000;
    await parts.deployer.undoAbandoned();
  }

  test('a source whose account is gone can be paused, given another account, and deleted without its hook', async () => {
    const { store } = fixture;
    using parts = new DeployerFixture(store);
    const { deployer, calls } = parts;
    const app = { name: 'gitlab', type: 'app', app: 'gitlab' };
    const component = await parts.component({ configurableProps: [app] });
    const make = async () => {
      const id = await parts.account('u_1', { token: 'first token' });
      const configured_props = { gitlab: { authProvisionId: id } };
      const { source } = await deployer.create({ component_id: component.id, configured_props }, me);
      await store.transaction((tx) => deleteAccount(tx, id, ['u_1']));
      calls.length = 0;
      return source.id;
    };
    const paused = await make();
    assert.equal((await deployer.update(paused, { active: false }, me)).source.state, 'inactive');
    await deployer.remove(paused, remove);
    assert.deepEqual(calls, [], 'no hook can run without it');

    const repaired = await make();
    await assert.rejects(deployer.remove(repaired, remove), {
      code: 'hook_failed',
      message: /deactivate.*no account/,
    });
    assert.equal((await findSource(store.read, repaired))?.state, 'active');
    const second = { gitlab: { authProvisionId: await parts.account('u_1', { token: 'second token' }) } };
    const tokens: unknown[] = [];
    parts.answer = (_hook, request) => {
      tokens.push(request.props.gitlab);
      return finished;
    };
    await deployer.update(repaired, { configured_props: second }, me);
    await deployer.remove(repaired, remove);
    assert.deepEqual(calls, ['activate', 'deactivate']);
    assert.deepEqual(tokens, Array(2).fill({ $auth: { token: 'second token' } }));

    await deployer.remove(await make(), { ignoreHookErrors: true });
    assert.deepEqual(await store.read.selectFrom('sources').select('id').execute(), []);
  });

  /** A source with a hook of every kind, a timer, and the mood `old`. */
  async function makeTicking(parts: DeployerFixture) {
    const component = await parts.component({ configurableProps: ticking });
    const configured_props = { mood: 'old', timer: { intervalSeconds: 60 } };
    const { source } = await parts.deployer.create({ component_id: component.id, configured_props }, me);
    parts.calls.length = 0;
    return source;
  }
  const ticking = [
    { name: 'mood', type: 'string' },
    { name: 'timer', type: '$.interface.timer' },
  ];
  const changed = { configured_props: { mood: 'new', timer: { intervalSeconds: 90 } } };

  async function stateOf(id: string) {
    const { read } = fixture.store;
    const source = await findSource(read, id);
    const timers = await read
      .selectFrom('timers')
      .select('interval_seconds')
      .where('subject_id', '=', id)
      .execute();
    return {
      state: source?.state,
      mood: source && JSON.parse(source.configured_props).mood,
      intervals: timers.map((timer) => timer.interval_seconds),
      isChanging: typeof source?.change_id === 'string',
    };
  }
  const asItWas = { state: 'active', mood: 'old', intervals: [60], isChanging: false };

  test('a slug that another source has refuses a change before any hook of it runs', async () => {
    using parts = new DeployerFixture(fixture.store);
    const { deployer, calls } = parts;
    const source = await makeTicking(parts);
    const { name_slug } = await makeTicking(parts);
    await assert.rejects(deployer.update(source.id, { ...changed, name_slug }, me), {
      code: 'conflict',
      details: { parameter: 'name_slug' },
    });
    assert.deepEqual(calls, []);
    assert.deepEqual(await stateOf(source.id), asItWas);
  });

  test('an account that is not there refuses a change before any hook of it runs', async () => {
    using parts = new DeployerFixture(fixture.store);
    const source = await makeTicking(parts);
    const app = { name: 'gitlab', type: 'app', app: 'gitlab' };
    const component = await parts.component({ configurableProps: [...ticking, app] });
    const configured_props = { ...changed.configured_props, gitlab: { authProvisionId: 'apn_gone' } };
    await assert.rejects(
      parts.deployer.update(source.id, { component_id: component.id, configured_props }, me),
      { code: 'not_found', details: { parameter: 'configured_props.gitlab' } },
    );
    assert.deepEqual(parts.calls, []);
    assert.deepEqual(await stateOf(source.id), asItWas);
  });

  test('a change whose undoing finds a secret lost for good ends with the source inactive, and can be deleted', async () => {
    const { store } = fixture;
    using parts = new DeployerFixture(store);
    const { deployer, calls } = parts;
    const secret = { name: 'password', type: 'string', secret: true, optional: true };
    const component = await parts.component({ configurableProps: [...ticking, secret] });
    for (const ignoreHookErrors of [true, false]) {
      const configured_props = { mood: 'old', timer: { intervalSeconds: 60 }, password: 'first password' };
      const { source } = await deployer.create({ component_id: component.id, configured_props }, me);
      calls.length = 0;
      parts.storeFails = () => calls.length > 0;
      await assert.rejects(deployer.update(source.id, changed, me), { code: 'store_unavailable' });
      parts.storeFails = () => false;
      await store.transaction((tx) => tx.deleteFrom('data_keys').execute());
      calls.length = 0;
      if (ignoreHookErrors) await deployer.undoAbandoned();
      else await deployer.update(source.id, { name: 'renamed', active: false }, me);
      assert.deepEqual(calls, [], 'no hook can run without it');
      assert.deepEqual(await stateOf(source.id), { ...asItWas, state: 'inactive', intervals: [] });
      await deployer.remove(source.id, { ignoreHookErrors });
      assert.equal(await findSource(store.read, source.id), undefined);
    }
  });

  test('a change that cannot be undone does not keep a source from being deleted without its hooks', async () => {
    using parts = new DeployerFixture(fixture.store);
    const { deployer, calls } = parts;
    const source = await makeTicking(parts);
    parts.storeFails = () => calls.length > 0;
    await assert.rejects(deployer.update(source.id, changed, me), { code: 'store_unavailable' });
    parts.storeFails = () => false;
    parts.answer = () => failed('cancelled', 'no process became free for the call');
    await assert.rejects(deployer.remove(source.id, remove), { code: 'overloaded' });
    assert.equal((await stateOf(source.id)).isChanging, true);
    await deployer.remove(source.id, { ignoreHookErrors: true });
    assert.equal(await findSource(fixture.store.read, source.id), undefined);
    await assert.rejects(deployer.remove(source.id, remove), { code: 'not_found' });
  });

  test('a slug that was given away meanwhile is not taken back, and keeps no change from being undone', async () => {
    using parts = new DeployerFixture(fixture.store);
    const { deployer } = parts;
    for (const failing of ['deactivate', 'activate']) {
      parts.answer = () => finished;
      const source = await makeTicking(parts);
      parts.answer = async (hook, { props }) => {
        if (hook !== failing || (failing === 'activate' && props.mood !== 'new')) return finished;
        const other = await makeTicking(another);
        await another.deployer.update(other.id, { name_slug: source.name_slug }, me);
        return failed('threw', 'no');
      };
      using another = new DeployerFixture(fixture.store);
      const name_slug = `new-name-${failing}`;
      await assert.rejects(deployer.update(source.id, { ...changed, name_slug }, me), {
        code: 'hook_failed',
      });
      assert.deepEqual(await stateOf(source.id), asItWas);
      assert.equal((await findSource(fixture.store.read, source.id))?.name_slug, name_slug);
    }
  });

  for (const failing of ['deactivate old', 'activate new'] as const) {
    test(`a store that fails after ${failing} leaves a source that is soon as it was`, async () => {
      using parts = new DeployerFixture(fixture.store);
      const { deployer, calls } = parts;
      const source = await makeTicking(parts);
      parts.storeFails = () => calls.includes(failing);
      await assert.rejects(deployer.update(source.id, changed, me), { code: 'store_unavailable' });
      assert.equal((await stateOf(source.id)).isChanging, true, 'nothing could be put back yet');
      parts.storeFails = () => false;
      calls.length = 0;
      await deployer.undoAbandoned();
      // Whatever ran since the mark was set, code that may be set up elsewhere is deactivated first.
      const current = failing === 'activate new' ? 'new' : 'old';
      assert.deepEqual(calls, [`deactivate ${current}`, 'activate old']);
      assert.deepEqual(await stateOf(source.id), asItWas);
    });
  }

  test('a change whose last write fails deactivates the new code, and activates the old code again', async () => {
    using parts = new DeployerFixture(fixture.store);
    const { deployer, calls } = parts;
    const source = await makeTicking(parts);
    let failures = 1;
    parts.storeFails = () => calls.includes('activate new') && failures-- > 0;
    await assert.rejects(deployer.update(source.id, changed, me), { code: 'store_unavailable' });
    assert.deepEqual(calls, ['deactivate old', 'activate new', 'deactivate new', 'activate old']);
    assert.deepEqual(await stateOf(source.id), asItWas);
  });

  test('a removal that the store fails after deactivate leaves an active source, and can be requested again', async () => {
    using parts = new DeployerFixture(fixture.store);
    const { deployer, calls } = parts;
    const source = await makeTicking(parts);
    let failures = 1;
    parts.storeFails = () => calls.length > 0 && failures-- > 0;
    await assert.rejects(deployer.remove(source.id, remove), { code: 'store_unavailable' });
    assert.deepEqual(calls, ['deactivate old', 'activate old'], 'put back at once');
    assert.deepEqual(await stateOf(source.id), asItWas);
    calls.length = 0;
    parts.storeFails = () => calls.length > 0;
    await assert.rejects(deployer.remove(source.id, remove), { code: 'store_unavailable' });
    parts.storeFails = () => false;
    await deployer.remove(source.id, remove);
    assert.equal((await stateOf(source.id)).state, undefined);
  });

  for (const hook of ['deactivate old', 'activate new'] as const) {
    test(`a process that dies while ${hook} runs: the next one restores the source, and the dead one can no longer write`, async () => {
      using dead = new DeployerFixture(fixture.store, 'node_dead');
      using next = new DeployerFixture(fixture.store, 'node_next');
      const source = await makeTicking(dead);
      const reached = Promise.withResolvers<void>();
      const blocked = Promise.withResolvers<void>();
      dead.answer = async () => {
        if (dead.calls.at(-1) !== hook) return finished;
        reached.resolve();
        await blocked.promise;
        return finished;
      };
      const lost = dead.deployer.update(source.id, changed, me);
      await reached.promise;
      const during = await stateOf(source.id);
      assert.equal(during.isChanging, true);
      assert.deepEqual(during.intervals, hook === 'activate new' ? [] : [60], 'timers fit the state');
      await undoAll(next);
      const current = hook === 'activate new' ? 'new' : 'old';
      assert.deepEqual(next.calls, [`deactivate ${current}`, 'activate old']);
      assert.deepEqual(await stateOf(source.id), asItWas);
      blocked.resolve();
      await assert.rejects(lost, { code: 'conflict' });
      assert.deepEqual(await stateOf(source.id), asItWas);
      // If the dead one has set up its code after all, it deactivates it again.
      const itsOwn = hook === 'activate new' ? ['activate new', 'deactivate new'] : [];
      assert.deepEqual(dead.calls, ['deactivate old', ...itsOwn]);
      await next.deployer.update(source.id, changed, me);
      assert.deepEqual(await stateOf(source.id), { ...asItWas, mood: 'new', intervals: [90] });
    });
  }

  test('a change of a living node is left alone, and refuses others', async () => {
    using busy = new DeployerFixture(fixture.store, 'node_busy');
    using other = new DeployerFixture(fixture.store, 'node_other');
    const source = await makeTicking(busy);
    await fixture.store.transaction((tx) =>
      registerNode(tx, 'node_busy', { nowMs: Date.now(), leaseMs: 60_000 }),
    );
    const reached = Promise.withResolvers<void>();
    const blocked = Promise.withResolvers<void>();
    busy.answer = async () => {
      reached.resolve();
      await blocked.promise;
      return finished;
    };
    const changing = busy.deployer.update(source.id, changed, me);
    await reached.promise;
    await busy.deployer.undoAbandoned();
    if (fixture.dialect === 'postgres') {
      await other.deployer.undoAbandoned();
      // A wrong clock does not affect the lease, which is in the time of the database.
      other.aheadMs = 61_000;
      await other.deployer.undoAbandoned();
      other.aheadMs += 10_000;
      await other.deployer.undoAbandoned();
      await assert.rejects(other.deployer.remove(source.id, remove), { code: 'conflict' });
    }
    assert.deepEqual(other.calls, []);
    blocked.resolve();
    await changing;
    assert.deepEqual(await stateOf(source.id), { ...asItWas, mood: 'new', intervals: [90] });
  });

  test('a change that its node abandoned is taken over by one node only', async () => {
    using parts = new DeployerFixture(fixture.store);
    const { id } = await makeTicking(parts);
    const abandoned = { change_id: 'chg_abandoned', change_node: 'node_dead' };
    await fixture.store.transaction((tx) => tx.updateTable('sources').set(abandoned).execute());
    const takeOver = (node: string) => {
      const change = { sourceId: id, from: 'chg_abandoned', to: `chg_${node}`, node };
      return fixture.store.transaction((tx) => takeOverChange(tx, change));
    };
    assert.equal(await takeOver('node_1'), true);
    assert.equal(await takeOver('node_2'), false);
    const { change_id, change_node } = must(await findSource(fixture.store.read, id), 'the source');
    assert.deepEqual({ change_id, change_node }, { change_id: 'chg_node_1', change_node: 'node_1' });
  });

  test('a creation whose last write fails, or whose process dies, runs deactivate and leaves nothing', async () => {
    const { store } = fixture;
    using parts = new DeployerFixture(store, 'node_dead');
    using next = new DeployerFixture(store, 'node_next');
    const component = await parts.component();
    let failures = 1;
    parts.storeFails = () => parts.calls.includes('activate') && failures-- > 0;
    await assert.rejects(parts.deployer.create({ component_id: component.id }, me), {
      code: 'store_unavailable',
    });
    assert.deepEqual(parts.calls, ['deploy', 'activate', 'deactivate']);
    const left = () => store.read.selectFrom('sources').select('id').execute();
    assert.deepEqual(await left(), []);

    const reached = Promise.withResolvers<void>();
    const blocked = Promise.withResolvers<void>();
    parts.answer = async (hook) => {
      if (hook !== 'activate') return finished;
      reached.resolve();
      await blocked.promise;
      return finished;
    };
    const lost = parts.deployer.create({ component_id: component.id }, me);
    await reached.promise;
    assert.equal((await left()).length, 1);
    await undoAll(next);
    assert.deepEqual(next.calls, ['deactivate']);
    assert.deepEqual(await left(), []);
    blocked.resolve();
    await assert.rejects(lost, { code: 'conflict' });
  });

  test('a removal or creation that another process has taken over removes nothing', async () => {
    const { store } = fixture;
    for (const hook of ['deactivate', 'activate']) {
      using lost = new DeployerFixture(store, 'node_lost');
      using next = new DeployerFixture(store, 'node_next');
      const { id } = hook === 'deactivate' ? await makeTicking(lost) : await lost.component();
      const [reached, blocked, undoing, undone] = Array.from({ length: 4 }, () =>
        Promise.withResolvers<void>(),
      ) as [Gate, Gate, Gate, Gate];
      lost.answer = async (called) => {
        if (called !== hook) return finished;
        reached.resolve();
        await blocked.promise;
        return hook === 'activate' ? failed('threw', 'no') : finished;
      };
      next.answer = async () => {
        undoing.resolve();
        await undone.promise;
        return finished;
      };
      const ending =
        hook === 'deactivate'
          ? lost.deployer.remove(id, remove)
          : lost.deployer.create({ component_id: id }, me);
      await reached.promise;
      const undo = undoAll(next);
      await undoing.promise;
      blocked.resolve();
      await assert.rejects(ending, { code: hook === 'deactivate' ? 'conflict' : 'hook_failed' });
      const left = () => store.read.selectFrom('sources').select('state').execute();
      const state = hook === 'deactivate' ? 'active' : 'deploying';
      assert.deepEqual(await left(), [{ state }], 'it is the other one that decides');
      undone.resolve();
      await undo;
      assert.deepEqual(await left(), hook === 'deactivate' ? [{ state }] : []);
      await store.transaction((tx) => tx.deleteFrom('sources').execute());
    }
  });

  test('sources of an older version keep the accounts they use, and its unfinished creations are removed', async () => {
    const place = await createStoreLocation(fixture.dialect);
    try {
      const old = await place.open({ migrations: migrations.slice(0, 1) });
      let accounts: string[];
      {
        using parts = new DeployerFixture(old);
        const app = { name: 'gitlab', type: 'app', app: 'gitlab' };
        // As that version stored them: today's code writes columns that its tables do not have.
        const component = parts.componentRow({ configurableProps: [app, { ...app, name: 'other' }] });
        await old.transaction(async (tx) => {
          const bundle = {
            owner_id: 'u_1',
            hash: component.bundle_hash,
            format: 'cjs',
            code: '',
            created_at_ms: 1,
          };
          await tx
            .insertInto('bundles')
            .values(bundle as BundleTable)
            .execute();
          await tx.insertInto('components').values(component).execute();
        });
        const { vault } = parts.accountTools;
        const account = (ownerId: string, credentials: Record<string, unknown>) =>
          old.transaction(async (tx) => {
            const { keyId, wrapped, ...key } = vault.newDataKey(ownerId);
            const id = newId('apn');
            const sealed = vault.seal({ keyId, wrapped, ...key }, id, credentials);
            await tx
              .insertInto('data_keys')
              .values({ owner_id: ownerId, key_id: keyId, wrapped, created_at_ms: 1 } as DataKeyTable)
              .execute();
            const who = {
              owner_id: ownerId,
              user_id: ownerId,
              app_slug: 'gitlab',
              app_id: 'app_1',
              app_name: 'GitLab',
            };
            const row = { id, ...who, name: null, sealed, created_at_ms: 1, updated_at_ms: 1 };
            await tx
              .insertInto('accounts')
              .values(row as AccountTable)
              .execute();
            return id;
          });
        accounts = [
          await account('o_1', { token: 'of the workspace' }),
          await account('u_1', { token: 'of who created it' }),
        ];
        await account('o_1', { token: 'of no source' });
        const foreign = await account('u_2', { token: 'of somebody else' });
        const [gitlab, other] = accounts.map((authProvisionId) => ({ authProvisionId }));
        const row = {
          id: 'dc_old',
          owner_id: 'o_1',
          user_id: 'u_1',
          component_id: component.id,
          name: 'old',
          name_slug: 'old',
          configured_props: JSON.stringify({ gitlab, other, note: { authProvisionId: foreign } }),
          dynamic_props: null,
          state: 'active',
          endpoint_key: null,
          revision: 1,
          created_at_ms: 1,
          updated_at_ms: 1,
        };
        const half = { ...row, id: 'dc_half', name_slug: 'half', state: 'deploying' };
        await old.transaction((tx) =>
          tx
            .insertInto('sources')
            .values([row, half] as SourceTable[])
            .execute(),
        );
        await old.transaction((tx) =>
          tx
            .insertInto('component_dbs')
            .values([row, half].map(({ id, owner_id }) => ({ source_id: id, owner_id, db: '{}' })))
            .execute(),
        );
      }
      await old.close();
      const store = await place.open();
      try {
        await makeMembers(store, 'o_1', { u_1: 'member' });
        using parts = new DeployerFixture(store);
        const granted = (await accountsOf(store.read, 'dc_old')).map((account) => account.account_id);
        assert.deepEqual(granted, accounts.toSorted());
        await undoAll(parts);
        assert.deepEqual(await store.read.selectFrom('sources').select('id').execute(), [{ id: 'dc_old' }]);
        const tokens: unknown[] = [];
        parts.answer = (_hook, { props }) => {
          tokens.push(props.gitlab, props.other);
          return finished;
        };
        const { source } = await parts.deployer.update('dc_old', { active: false }, me);
        assert.equal(source.state, 'inactive');
        assert.deepEqual(tokens, [
          { $auth: { token: 'of the workspace' } },
          { $auth: { token: 'of who created it' } },
        ]);
      } finally {
        await store.close();
      }
    } finally {
      await place.remove();
    }
  });
});
