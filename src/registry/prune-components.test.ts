import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ComponentBuilder } from '#components/build-component.ts';
import { insertComponent } from '#components/component-store.ts';
import { silentLogger } from '#lib/logger.ts';
import type { ComponentTable } from '#storage/tables/component-tables.ts';
import type { RegistryComponentTable, RegistryPackageTable } from '#storage/tables/registry-tables.ts';
import {
  deleteDeploymentsOf,
  insertDeployment,
  listDeployments,
} from '#workflows/definitions/workflow-store.ts';
import { sourceRow } from '../../test/support/source-row.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { TestClock } from '../../test/support/test-clock.ts';
import { LocalRegistry } from './local-registry.ts';
import { ComponentPruner } from './prune-components.ts';
import { ComponentResolver, registryOwner } from './resolve-component.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const startMs = 1_800_000_000_000;

forEachStore((fixture) => {
  let clock: TestClock;

  function setUp() {
    clock = new TestClock(startMs);
    const { store } = fixture;
    const pruner = new ComponentPruner({
      ...{ store, clock, logger: silentLogger },
      listDeployments: (limit) => listDeployments(store, limit),
    });
    return { store, pruner };
  }

  async function component(
    id: string,
    row: Partial<ComponentTable> = {},
    bundleHash = `b_${id}`,
  ): Promise<void> {
    const created_at_ms = clock.now();
    const { owner_id = 'u_1' } = row;
    const full: ComponentTable = {
      ...{
        id,
        owner_id,
        user_id: 'u_1',
        component_key: null,
        code: id,
        code_hash: id,
        tree_hash: id,
        url: null,
      },
      ...{ name: id, version: '', shape: '{}', bundle_hash: bundleHash, lock: '{}' },
      ...{ created_at_ms, updated_at_ms: created_at_ms, ...row },
    };
    const format = 'cjs';
    const bundle = { owner_id, hash: bundleHash, format, code: '', packages: null, created_at_ms } as const;
    await fixture.store.transaction((tx) => insertComponent(tx, full, bundle));
  }

  async function left(): Promise<{ components: string[]; bundles: string[]; uses: string[] }> {
    const db = fixture.store.read;
    const components = await db.selectFrom('components').select('id').orderBy('id').execute();
    const bundles = await db.selectFrom('bundles').select('hash').orderBy('hash').execute();
    const uses = await db
      .selectFrom('component_uses')
      .select('component_id')
      .orderBy('component_id')
      .execute();
    return {
      components: components.map(({ id }) => id),
      bundles: bundles.map(({ hash }) => hash),
      uses: uses.map(({ component_id }) => component_id),
    };
  }

  function deploymentRow(id: string, componentId: string) {
    return {
      ...{ id, workflow_id: `p_${id}`, owner_id: 'u_1', user_id: 'u_1', number: 1, template_id: null },
      definition: JSON.stringify({ steps: [{ componentId }, { componentId }] }),
      created_at_ms: 0,
    };
  }

  function resolver(built: Awaited<ReturnType<ComponentBuilder['build']>>[] = []) {
    return new ComponentResolver({
      store: fixture.store,
      builder: {
        build: async () => built.shift() ?? assert.fail('nothing is to be built'),
        evaluated: (_ownerId, evaluate) => evaluate(new AbortController().signal),
      },
      runner: {
        describe: async () => ({
          status: 'described',
          shape: '{"type":"source","configurableProps":[]}',
          logs: [],
        }),
      },
      registry: new LocalRegistry('/nowhere'),
      repositories: { use: () => assert.fail('nothing is read of a repository') },
      clock,
    });
  }

  const owner = { ownerId: 'u_1', userId: 'u_1', readableOwners: ['u_1'] };

  test('what nothing uses goes seven days after its last use, with its bundle', async () => {
    const { pruner } = setUp();
    await component('sc_old');
    await component('sc_shares', {}, 'b_shared');
    clock.step(dayMs);
    await component('sc_young', {}, 'b_shared');
    clock.step(6 * dayMs);
    await pruner.prune();
    assert.deepEqual((await left()).components, ['sc_old', 'sc_shares', 'sc_young']);
    clock.step(1);
    await pruner.prune();
    assert.deepEqual(await left(), {
      ...{ components: ['sc_young'], bundles: ['b_shared'], uses: ['sc_young'] },
    });
  });

  test('what is deployed, saved, or in a package of the registry stays', async () => {
    const { store, pruner } = setUp();
    for (const id of ['sc_source', 'sc_step', 'sc_saved', 'sc_packaged', 'sc_unlisted', 'sc_none'])
      await component(id);
    await resolver().save({ component_id: 'sc_saved' }, owner);
    const packaged: RegistryPackageTable = {
      ...{
        id: 'pkg_1',
        kind: 'npm',
        name: 'one',
        version: '1.0.0',
        integrity: '',
        apps: '[]',
        problems: '[]',
      },
      ...{ files: 0, bytes: 0, user_id: null, created_at_ms: 0 },
    };
    const entry: RegistryComponentTable = {
      ...{ package_id: 'pkg_1', component_key: 'k', version: '', kind: 'sources', app: '', name: '' },
      ...{ description: '', path: '', component_id: 'sc_packaged' },
    };
    await store.transaction(async (tx) => {
      await tx
        .insertInto('sources')
        .values({ ...sourceRow('dc_1'), component_id: 'sc_source' })
        .execute();
      await insertDeployment(store, tx, deploymentRow('d_1', 'sc_step'), []);
      const byOlder = { ...deploymentRow('d_2', 'sc_unlisted'), components_listed: 0 };
      await tx.insertInto('deployments').values(byOlder).execute();
      await tx.insertInto('registry_packages').values(packaged).execute();
      await tx.insertInto('registry_components').values(entry).execute();
    });
    clock.step(30 * dayMs);
    await pruner.prune();
    const all = ['sc_packaged', 'sc_saved', 'sc_source', 'sc_step', 'sc_unlisted'];
    assert.deepEqual((await left()).components, all);
    // It stays for a while after the deployment, whose runs end, has gone.
    clock.step(6 * hourMs);
    await store.transaction((tx) => deleteDeploymentsOf(tx, 'p_d_1'));
    clock.step(7 * dayMs - 6 * hourMs);
    await pruner.prune();
    assert.deepEqual((await left()).components, all);
    clock.step(1);
    await pruner.prune();
    assert.deepEqual(
      (await left()).components,
      all.filter((id) => id !== 'sc_step'),
    );
    assert.deepEqual(await store.read.selectFrom('deployment_components').select('component_id').execute(), [
      { component_id: 'sc_unlisted' },
    ]);
  });

  test('of what ships with the service the newest of each version stays, which templates may name', async () => {
    const { pruner } = setUp();
    const shipped = (version: string) => ({ owner_id: registryOwner, component_key: 'new-item', version });
    await component('sc_1', shipped('0.0.1'));
    await component('sc_2a', shipped('0.0.2'));
    clock.step(1);
    await component('sc_2b', shipped('0.0.2'));
    clock.step(30 * dayMs);
    await pruner.prune();
    assert.deepEqual((await left()).components, ['sc_1', 'sc_2b']);
  });

  test('an owner keeps the 500 last used ones of those that nothing uses', async () => {
    const { pruner, store } = setUp();
    for (let n = 0; n < 502; n += 1) {
      clock.step(1);
      await component(`sc_${String(n).padStart(3, '0')}`);
    }
    await component('sc_hers', { owner_id: 'u_2' });
    await store.transaction((tx) =>
      tx
        .insertInto('sources')
        .values({ ...sourceRow('dc_1'), component_id: 'sc_000' })
        .execute(),
    );
    clock.step(hourMs);
    await pruner.prune();
    assert.equal((await left()).components.length, 503);
    clock.step(dayMs);
    await pruner.prune();
    const { components } = await left();
    assert.equal(components.length, 502);
    assert.ok(!components.includes('sc_001'));
    assert.ok(components.includes('sc_000') && components.includes('sc_hers'));
  });

  test('what is about to be deployed stays, and what was removed is built again', async () => {
    const { pruner } = setUp();
    const code = 'export default {}';
    const built = (hash: string) => ({
      ...{ code, codeHash: 'c', treeHash: 't', lock: '{}', files: [] },
      bundle: { hash, code: '', format: 'cjs' as const },
    });
    const first = await resolver([built('b_1')]).resolve({ component_code: code }, owner);
    clock.step(6 * dayMs);
    // Found by its id: that is a use.
    assert.equal((await resolver().resolve({ component_id: first.id }, owner)).id, first.id);
    clock.step(6 * dayMs);
    await pruner.prune();
    assert.deepEqual((await left()).components, [first.id]);
    clock.step(2 * dayMs);
    await pruner.prune();
    assert.deepEqual(await left(), { components: [], bundles: [], uses: [] });
    await assert.rejects(resolver().resolve({ component_id: first.id }, owner), { code: 'not_found' });
    const second = await resolver([built('b_1')]).resolve({ component_code: code }, owner);
    assert.deepEqual(await left(), { components: [second.id], bundles: ['b_1'], uses: [second.id] });
  });
});
