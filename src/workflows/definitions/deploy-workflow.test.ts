import assert from 'node:assert/strict';
import { test } from 'node:test';
import { updateAccount } from '#accounts/manage-accounts.ts';
import { systemClock } from '#lib/clock.ts';
import { CallerError, UnavailableError } from '#lib/errors.ts';
import { newTimeOrderedId } from '#lib/ids.ts';
import { silentLogger } from '#lib/logger.ts';
import type { ComponentTable } from '#storage/tables/component-tables.ts';
import type { RunTable } from '#storage/tables/workflow-tables.ts';
import { Variables } from '#user-data/variables/variables.ts';
import { deleteRunsOf } from '#workflows/runs/forget-run-store.ts';
import { DeployerFixture, finished, me } from '../../../test/support/deployer-fixture.ts';
import { makeMembers } from '../../../test/support/members.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { type WorkflowChange, WorkflowDeployer } from './deploy-workflow.ts';
import { Deployments, loadDeployment, type WorkflowContext } from './load-deployment.ts';
import { deleteDeploymentsOf, findWorkflow } from './workflow-store.ts';
import type { WorkflowLinks } from './write-workflow.ts';

forEachStore((fixture) => {
  /** A deployer whose code is that of saved components, with its notifications. */
  function tools(
    parts: DeployerFixture,
    links: Partial<WorkflowLinks> = {},
    building: (id: string) => Promise<void> = async () => {},
  ) {
    const told: string[] = [];
    const changes: WorkflowChange[] = [];
    const find = async (id: string): Promise<ComponentTable> => {
      await building(id);
      return fixture.store.read
        .selectFrom('components')
        .selectAll()
        .where('id', '=', id)
        .executeTakeFirstOrThrow();
    };
    const deployer = new WorkflowDeployer({
      store: parts.store,
      resolver: { resolve: () => Promise.reject(new Error('not in these tests')), resolveText: find },
      runner: {
        call: () => Promise.reject(new Error('not in these tests')),
        forget: () => Promise.resolve(),
      },
      sources: parts.deployer,
      links: {
        added: async () => void told.push('added'),
        removed: async () => void told.push('removed'),
        listen: async (_tx, { sourceId }) => void told.push(`listen ${sourceId}`),
        unlisten: async (_tx, { sourceId }) => void told.push(`unlisten ${sourceId}`),
        listenToFailures: async () => void told.push('listen to failures'),
        unlistenToFailures: async () => void told.push('unlisten to failures'),
        ...links,
      },
      context: parts.context,
      clock: parts.clock,
      logger: silentLogger,
      deadlineMs: 1000,
      onChange: (change) => changes.push(change),
      onJobs: () => {},
    });
    return { deployer, told, changes };
  }

  const variablesOf = (parts: DeployerFixture) =>
    new Variables({ vault: parts.accountTools.vault, clock: parts.clock });
  const contextOf = (parts: DeployerFixture): WorkflowContext => {
    const variables = variablesOf(parts);
    return {
      ...parts.context,
      variables: (ownerId, projectId) => variables.open(fixture.store.read, ownerId, projectId),
    };
  };

  const stepOf = (component: ComponentTable, props: object = {}) => [
    { namespace: 'one', component: component.id, props: { ...props } },
  ];

  const tables = [
    'workflows',
    'deployments',
    'deployment_accounts',
    'triggers',
    'timers',
    'emitters',
    'sources',
  ] as const;
  async function rowCounts() {
    const counts: Record<string, number> = {};
    for (const table of tables)
      counts[table] = (await fixture.store.read.selectFrom(table).select('owner_id').execute()).length;
    return counts;
  }
  const none = Object.fromEntries(tables.map((table) => [table, 0]));

  test('a creation that fails at its end leaves no row, and no source that was made for it', async () => {
    using parts = new DeployerFixture(fixture.store);
    const component = await parts.component();
    const refuse = async () => {
      throw new CallerError('conflict', 'one subscription too many');
    };
    const { deployer, changes } = tools(parts, { listen: refuse });
    const input = {
      steps: stepOf(component),
      triggers: [
        { type: 'timer' as const, props: { interval_seconds: 60 } },
        { type: 'source' as const, props: { component: component.id } },
      ],
      settings: { auto_deploy: true },
    };
    await assert.rejects(deployer.create(input, me), { code: 'conflict' });
    assert.deepEqual(await rowCounts(), none);
    assert.deepEqual(changes, []);
    const { deployer: working } = tools(parts);
    await working.create(input, me);
    const made = { ...none, workflows: 1, deployments: 1, triggers: 2, timers: 1, emitters: 2, sources: 1 };
    assert.deepEqual(await rowCounts(), made, 'the same is made where nothing refuses it');
  });

  test('a component of many steps is looked up once, and the first step that has none is named', async () => {
    using parts = new DeployerFixture(fixture.store);
    const component = await parts.component();
    let lookedUp = 0;
    const { deployer } = tools(parts, {}, async () => {
      lookedUp += 1;
    });
    const steps = Array.from({ length: 500 }, (_, n) => ({ namespace: `s${n}`, component: component.id }));
    await deployer.create({ steps }, me);
    assert.equal(lookedUp, 1);
    const unknown = [3, 1].map((n) => ({ namespace: `u${n}`, component: `sc_unknown${n}` }));
    const { deployer: failing } = tools(parts, {}, async (id) => {
      // The second one fails first.
      if (id === 'sc_unknown3') await new Promise(setImmediate);
      throw new CallerError('not_found', `no ${id}`);
    });
    await assert.rejects(failing.create({ steps: unknown }, me), {
      message: /^steps\[0\]\.component: no sc_unknown3$/,
    });
  });

  test('one deployment changes what a workflow does and whether it is active, with its timers', async () => {
    using parts = new DeployerFixture(fixture.store);
    const { deployer } = tools(parts);
    const triggers = [{ type: 'timer' as const, props: { interval_seconds: 60 } }];
    const { id } = await deployer.create({ triggers, settings: { auto_deploy: true } }, me);
    const after = async () => [
      (await findWorkflow(fixture.store.read, id))?.state,
      (await rowCounts()).timers,
      (await rowCounts()).deployments,
    ];
    assert.deepEqual(await after(), ['active', 1, 1]);
    await deployer.deploy(id, { settings: { timeout_seconds: 5 }, active: false }, me);
    assert.deepEqual(await after(), ['inactive', 0, 2]);
    await deployer.deploy(id, { settings: { timeout_seconds: 6 } }, me);
    assert.deepEqual(await after(), ['inactive', 0, 3]);
    await deployer.deploy(id, { active: true }, me);
    assert.deepEqual(await after(), ['active', 1, 4]);
  });

  test('an expression that does not compile is refused in a new definition, and one that is stored stays', async () => {
    using parts = new DeployerFixture(fixture.store);
    const component = await parts.component({
      configurableProps: [{ name: 'mood', type: 'string', optional: true, options: ['good'] }],
    });
    const { deployer } = tools(parts);
    await assert.rejects(deployer.create({ steps: stepOf(component, { mood: '{{ a b }}' }) }, me), {
      code: 'invalid_prop',
      message: /^steps\[0\]\.props\.mood: the expression .* \(line 1, column 6\): Unexpected identifier 'b'$/,
      details: { parameter: 'steps[0].props.mood', namespace: 'one', line: 1, column: 6 },
    });
    const { id, deployment_id } = await deployer.create({ steps: stepOf(component, { mood: 'other' }) }, me);
    const { definition } = await fixture.store.read
      .selectFrom('deployments')
      .select('definition')
      .where('id', '=', deployment_id)
      .executeTakeFirstOrThrow();
    await fixture.store.transaction((tx) =>
      tx
        .updateTable('deployments')
        .set({ definition: definition.replace('other', '{{ a b }}') })
        .where('id', '=', deployment_id)
        .execute(),
    );
    await deployer.deploy(id, { settings: { auto_retry: true } }, me);
    await fixture.store.transaction((tx) =>
      tx.updateTable('components').set({ owner_id: 'registry' }).where('id', '=', component.id).execute(),
    );
    await assert.rejects(deployer.create({ steps: stepOf(component, { mood: 'other' }) }, me), {
      message: 'steps[0].props.mood: found "other", expected one of "good"',
    });
  });

  test('a store that accepts no writes answers 503 and keeps the deployment that was there', async () => {
    using parts = new DeployerFixture(fixture.store);
    const component = await parts.component();
    const { deployer } = tools(parts);
    const workflow = await deployer.create({ steps: stepOf(component) }, me);
    parts.storeFails = () => true;
    await assert.rejects(deployer.deploy(workflow.id, { steps: [] }, me), UnavailableError);
    parts.storeFails = () => false;
    assert.equal(
      (await findWorkflow(fixture.store.read, workflow.id))?.deployment_id,
      workflow.deployment_id,
    );
    assert.equal((await rowCounts()).deployments, 1);
  });

  test('of two deployments at the same time one gets an error that names the other', async () => {
    using parts = new DeployerFixture(fixture.store);
    const component = await parts.component();
    // Both have read the workflow before either of them continues.
    const both = Promise.withResolvers<void>();
    let waiting = -1;
    const { deployer } = tools(parts, {}, async () => {
      waiting += 1;
      if (waiting === 2) both.resolve();
      if (waiting > 0) await both.promise;
    });
    const { id } = await deployer.create({ steps: stepOf(component) }, me);
    const results = await Promise.allSettled(
      [1, 2].map(() => deployer.deploy(id, { steps: stepOf(component) }, me)),
    );
    const refused = results.filter((result) => result.status === 'rejected');
    assert.deepEqual(
      refused.map(({ reason }) => reason.code),
      ['conflict'],
    );
    assert.equal((await rowCounts()).deployments, 2);
  });

  test('the links of triggers follow a deployment, and each change names the keys that are out of date', async () => {
    using parts = new DeployerFixture(fixture.store);
    const component = await parts.component();
    const first = (await parts.deployer.create({ component_id: component.id }, me)).source.id;
    const second = (await parts.deployer.create({ component_id: component.id }, me)).source.id;
    const { deployer, told, changes } = tools(parts);
    const { id } = await deployer.create(
      { triggers: [{ type: 'http' }, { type: 'source', props: { source_id: first } }] },
      me,
    );
    await deployer.deploy(id, { triggers: [{ type: 'source', props: { source_id: second } }] }, me);
    await deployer.remove(id, { ignoreHookErrors: false });
    assert.deepEqual(told, ['added', `listen ${first}`, `unlisten ${first}`, `listen ${second}`, 'removed']);
    assert.match(changes[0]?.endpointKeys[0] ?? '', /^eo/);
    assert.deepEqual(changes[1]?.endpointKeys, changes[0]?.endpointKeys, 'also those that it had');
    assert.deepEqual(
      changes.map(({ removed }) => removed),
      [false, false, true],
    );
  });

  test('a workflow or source is neither made nor changed for a workspace that its maker has left when it is written', async () => {
    using parts = new DeployerFixture(fixture.store);
    await makeMembers(fixture.store, 'o_1', { u_1: 'member' });
    const component = await parts.component();
    const { deployer } = tools(parts);
    const ofTeam = { ...me, ownerId: 'o_1' };
    const { id } = await deployer.create({ steps: stepOf(component) }, ofTeam);
    await fixture.store.transaction((tx) => tx.deleteFrom('members').execute());
    await assert.rejects(deployer.create({ steps: stepOf(component) }, ofTeam), { code: 'forbidden' });
    await assert.rejects(deployer.deploy(id, { steps: stepOf(component) }, ofTeam), { code: 'forbidden' });
    // An inactive source has no hooks, before whose end the right would be checked again.
    const inactive = parts.deployer.create({ component_id: component.id, active: false }, ofTeam);
    await assert.rejects(inactive, { code: 'forbidden' });
    const left = await fixture.store.read.selectFrom('deployments').select('id').execute();
    assert.equal(left.length, 1);
  });

  test('a workflow of a workspace that its maker leaves meanwhile does not begin to listen to a source of theirs', async () => {
    using parts = new DeployerFixture(fixture.store);
    await makeMembers(fixture.store, 'o_1', { u_1: 'member' });
    const component = await parts.component();
    const mine = (await parts.deployer.create({ component_id: component.id }, me)).source.id;
    const { deployer } = tools(parts);
    const creation = {
      triggers: [
        { type: 'source' as const, props: { source_id: mine } },
        { type: 'source' as const, props: { component: component.id } },
      ],
    };
    const ofTeam = { ...me, ownerId: 'o_1' };
    await deployer.create(creation, ofTeam);
    parts.answer = async () => {
      await fixture.store.transaction((tx) => tx.deleteFrom('members').execute());
      return finished;
    };
    await assert.rejects(deployer.create(creation, ofTeam), { code: 'forbidden' });
    const left = await fixture.store.read.selectFrom('workflows').select('id').execute();
    assert.equal(left.length, 1);
  });

  test('what a removed workflow leaves is deleted in batches, with the jobs of runs that were not done', async () => {
    using parts = new DeployerFixture(fixture.store);
    const { store } = fixture;
    const component = await parts.component();
    const { deployer } = tools(parts);
    const workflow = await deployer.create({ steps: stepOf(component) }, me);
    for (let n = 0; n < 5; n += 1) {
      const id = newTimeOrderedId(n);
      await store.transaction(async (tx) => {
        await tx
          .insertInto('runs')
          .values(runRow(id, workflow.id, workflow.deployment_id))
          .execute();
        await tx
          .insertInto('jobs')
          .values({
            id,
            kind: 'run_workflow',
            owner_id: 'u_1',
            lane: workflow.id,
            state: 'queued',
            run_at_ms: n,
            attempts: 0,
            losses: 0,
            blames: 0,
            alone: 0,
            lease_node: null,
            payload: '{}',
            error: null,
            created_at_ms: n,
            updated_at_ms: n,
          })
          .execute();
      });
    }
    await deployer.remove(workflow.id, { ignoreHookErrors: false });
    const jobs = await store.read.selectFrom('jobs').select('kind').execute();
    assert.deepEqual(jobs, [{ kind: 'delete_workflow' }]);
    const batches: boolean[] = [];
    for (let done = false; !done; ) {
      done = await store.transaction((tx) => deleteRunsOf(tx, workflow.id, 2));
      batches.push(done);
    }
    assert.deepEqual(batches, [false, false, true]);
    await store.transaction((tx) => deleteDeploymentsOf(tx, workflow.id));
    assert.deepEqual(await store.read.selectFrom('runs').select('id').execute(), []);
    assert.deepEqual(await rowCounts(), none);
  });

  test("another member's account stays as long as no step changes, and is refused with other steps", async () => {
    await makeMembers(fixture.store, 'o_1', { u_1: 'member', u_2: 'member' });
    using parts = new DeployerFixture(fixture.store);
    const component = await parts.component({
      configurableProps: [
        { name: 'gitlab', type: 'app', app: 'gitlab' },
        { name: 'mood', type: 'string', optional: true },
      ],
    });
    const account = await parts.account('u_2', { token: 'the token of somebody else' });
    const { deployer } = tools(parts);
    const inTeam = (userId: string) => ({ ownerId: 'o_1', userId, readableOwners: ['o_1', 'u_1', userId] });
    const props = { gitlab: { authProvisionId: account } };
    await assert.rejects(deployer.create({ steps: stepOf(component, props) }, inTeam('u_1')), {
      code: 'invalid_parameter',
      details: { parameter: 'steps[0].props.gitlab', namespace: 'one' },
    });
    const { id } = await deployer.create({ steps: stepOf(component, props) }, inTeam('u_2'));
    const kept = await deployer.deploy(id, { steps: stepOf(component, props) }, inTeam('u_1'));
    const loaded = await loadDeployment(fixture.store.read, kept.deployment_id, contextOf(parts));
    assert.deepEqual(loaded.steps[0]?.props.gitlab, { $auth: { token: 'the token of somebody else' } });
    const refused = { code: 'invalid_prop', message: /another member/ };
    const other = { steps: stepOf(component, { ...props, mood: 'curious' }) };
    await assert.rejects(deployer.deploy(id, other, inTeam('u_1')), refused);
    // A step that is left out may be the one that decides who is let through.
    const without = { steps: stepOf(component, props).map((step) => ({ ...step, disabled: true })) };
    await assert.rejects(deployer.deploy(id, without, inTeam('u_1')), refused);
    await deployer.deploy(id, other, inTeam('u_2'));
  });

  test('a loaded deployment has credentials and secrets, redacts them, and is loaded once', async () => {
    using parts = new DeployerFixture(fixture.store);
    const component = await parts.component({
      configurableProps: [
        { name: 'gitlab', type: 'app', app: 'gitlab' },
        { name: 'pin', type: 'string', secret: true },
        { name: 'db', type: '$.service.db' },
      ],
    });
    const account = await parts.account('u_1', { token: 'first token of mine' });
    const { deployer } = tools(parts);
    const props = { gitlab: { authProvisionId: account }, pin: 'open sesame {{steps.trigger.event.n}}' };
    const workflow = await deployer.create({ steps: stepOf(component, props), settings: { name: 'W' } }, me);
    const stored = await fixture.store.read.selectFrom('deployments').select('definition').execute();
    assert.doesNotMatch(JSON.stringify(stored), /sesame/);
    const deployments = new Deployments({
      store: fixture.store,
      clock: parts.clock,
      context: contextOf(parts),
    });
    try {
      const [loaded, same] = await Promise.all([1, 2].map(() => deployments.get(workflow.deployment_id)));
      assert.equal(loaded, same);
      assert.ok(loaded);
      assert.deepEqual(
        [loaded.workflowId, loaded.workflowName, loaded.ownerId, loaded.accountIds],
        [workflow.id, 'W', 'u_1', [account]],
      );
      const [step] = loaded.steps;
      assert.deepEqual(step?.props, { gitlab: { $auth: { token: 'first token of mine' } }, pin: props.pin });
      assert.equal(step?.usesDb, true);
      assert.equal(loaded.redact('first token of mine, open sesame 5'), '[redacted], [redacted]5');

      const change = { credentials: { token: 'second token of mine' } };
      await fixture.store.transaction((tx) =>
        updateAccount(tx, parts.accountTools, account, ['u_1'], change),
      );
      // A single node is notified; with several, each finds out within a second.
      if (fixture.dialect === 'sqlite') deployments.forgetAccount(account);
      else parts.aheadMs += 1001;
      await Promise.resolve();
      const after = await deployments.get(workflow.deployment_id);
      assert.deepEqual(after.steps[0]?.props.gitlab, { $auth: { token: 'second token of mine' } });
      assert.notEqual(after.revision, loaded.revision);
      parts.aheadMs += 1001;
      const unchanged = await deployments.get(workflow.deployment_id);
      assert.equal(unchanged, after, 'nothing changed');

      await deployer.update(workflow.id, { name: 'Renamed' });
      deployments.forgetWorkflow(workflow.id);
      parts.aheadMs += 1001;
      await Promise.resolve();
      assert.equal((await deployments.get(workflow.deployment_id)).workflowName, 'Renamed');
      await deployer.remove(workflow.id, { ignoreHookErrors: false });
      deployments.forget(workflow.deployment_id);
      await assert.rejects(deployments.get(workflow.deployment_id), { code: 'not_found' });
    } finally {
      deployments.close();
    }
  });

  test('a change of variables reaches the loaded deployments of its owner, and no others, with another revision', async () => {
    using parts = new DeployerFixture(fixture.store);
    const { deployer } = tools(parts);
    const { deployment_id: id } = await deployer.create({ steps: stepOf(await parts.component()) }, me);
    const context = contextOf(parts);
    const variables = variablesOf(parts);
    const set = (ownerId: string, name: string, value: string) =>
      fixture.store.transaction((tx) =>
        variables.set(tx, { ownerId, projectId: '' }, [{ name, value, secret: true }], {
          userId: 'u_1',
          keyId: 'key_1',
        }),
      );
    const deployments = new Deployments({ store: fixture.store, clock: parts.clock, context });
    // A single node is notified. Each of several finds out within a second, also without a notification.
    const changed = async (ownerId: string) => {
      if (fixture.dialect === 'sqlite') deployments.forgetOwner(ownerId);
      else parts.aheadMs += 1001;
      await Promise.resolve();
      return deployments.get(id);
    };
    try {
      const before = await deployments.get(id);
      assert.deepEqual(before.variables.values, {});
      await set('u_1', 'PIN', '4711');
      const after = await changed('u_1');
      assert.deepEqual(after.variables.values, { PIN: '4711' });
      assert.notEqual(after.revision, before.revision);
      assert.equal(after.redact('the pin is 4711'), 'the pin is [redacted]');
      await set('u_2', 'PIN', '0815');
      assert.equal(await changed('u_2'), after, 'nothing of this owner changed');
      await set('u_1', 'PIN', '4711');
      const again = await changed('u_1');
      assert.equal(again.revision, after.revision, 'the value is the same');
      await set('u_1', 'PIN', '9999');
      assert.deepEqual((await changed('u_1')).variables.values, { PIN: '9999' });
      assert.equal(before.redact('4711'), '4711', 'a run that is under way has what it began with');
    } finally {
      deployments.close();
    }
  });

  test('a deployment whose account is gone says which step lacks it', async () => {
    using parts = new DeployerFixture(fixture.store);
    const component = await parts.component({
      configurableProps: [{ name: 'gitlab', type: 'app', app: 'gitlab' }],
    });
    const account = await parts.account('u_1', { token: 'a token' });
    const { deployer } = tools(parts);
    const { deployment_id } = await deployer.create(
      { steps: stepOf(component, { gitlab: { authProvisionId: account } }) },
      me,
    );
    await fixture.store.transaction((tx) => tx.deleteFrom('accounts').where('id', '=', account).execute());
    await assert.rejects(loadDeployment(fixture.store.read, deployment_id, contextOf(parts)), {
      code: 'not_found',
      message: /^step one: /,
    });
  });
});

function runRow(id: string, workflowId: string, deploymentId: string): RunTable {
  return {
    id,
    owner_id: 'u_1',
    workflow_id: workflowId,
    deployment_id: deploymentId,
    state: 'queued',
    emitter_id: null,
    source_type: 'HTTP',
    event: '{}',
    trace_id: id,
    token: id,
    hops: 0,
    no_store: 0,
    replay_of: null,
    wait_kind: null,
    wait_until_ms: null,
    position: 0,
    resumption: null,
    failures: 0,
    error: null,
    reason: null,
    flow_warning: null,
    created_at_ms: systemClock.now(),
    started_at_ms: null,
    ended_at_ms: null,
  };
}
