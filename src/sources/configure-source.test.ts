import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deleteAccount, updateAccount } from '#accounts/manage-accounts.ts';
import { openValue } from '#vault/sealed-values.ts';
import { Vault } from '#vault/vault.ts';
import { DeployerFixture, failed, finished, me } from '../../test/support/deployer-fixture.ts';
import { makeMembers } from '../../test/support/members.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { loadDeployment } from './deployment.ts';
import { sealedNames } from './sealed-props.ts';
import { viewProps } from './source-props.ts';
import { findSource } from './source-store.ts';

const app = { name: 'gitlab', type: 'app', app: 'gitlab' };
const mood = { name: 'mood', type: 'string', optional: true };
const timer = { name: 'timer', type: '$.interface.timer', default: { intervalSeconds: 60 } };

forEachStore((fixture) => {
  /** Two members of a workspace. */
  const ann = { ownerId: 'o_1', userId: 'u_ann', readableOwners: ['u_ann', 'o_1'] };
  const bob = { ownerId: 'o_1', userId: 'u_bob', readableOwners: ['u_bob', 'o_1'] };

  test('code that is asked about its props has 30 seconds, since a user waits; its hooks have as long as runs', async () => {
    using parts = new DeployerFixture(fixture.store);
    const deadlines: Record<string, number> = {};
    parts.answer = (name, { call, deadlineMs }) => {
      deadlines[name] = deadlineMs;
      if (call.kind === 'eventNames') return { ...finished, result: '{"hook":["made"]}' };
      if (call.kind !== 'additionalProps') return finished;
      return { ...finished, result: JSON.stringify({ props: {}, previous: call.previous }) };
    };
    const hook = { name: 'hook', type: '$.interface.apphook', appProp: 'gitlab', eventNames: null };
    const component = await parts.component({ configurableProps: [app, hook], hasAdditionalProps: true });
    const authProvisionId = await parts.account('u_1', { token: 'x' });
    const configured_props = { gitlab: { authProvisionId } };
    await parts.deployer.create({ component_id: component.id, configured_props }, me);
    const asked = { additionalProps: 30_000, eventNames: 30_000 };
    assert.deepEqual(deadlines, { ...asked, deploy: 300_000, activate: 300_000 });
  });

  test("a member cannot put another member's account to other use: code and props are refused by the name of the prop", async () => {
    await makeMembers(fixture.store, 'o_1', { u_ann: 'member', u_bob: 'member' });
    using parts = new DeployerFixture(fixture.store);
    const { deployer } = parts;
    const component = await parts.component({ configurableProps: [app, mood, timer] });
    const authProvisionId = await parts.account('u_ann', { token: 'of ann' });
    const configured_props = { gitlab: { authProvisionId }, mood: 'good' };
    await assert.rejects(deployer.create({ component_id: component.id, configured_props }, bob), {
      code: 'not_found',
      details: { parameter: 'configured_props.gitlab' },
    });
    const { source, definitions } = await deployer.create(
      { component_id: component.id, configured_props },
      ann,
    );
    const thief = await parts.component({ configurableProps: [app], hasAdditionalProps: true });
    parts.calls.length = 0;
    for (const change of [
      { component_id: thief.id },
      { configured_props: { ...configured_props, mood: 'bad' } },
      { component_id: thief.id, configured_props: { gitlab: { authProvisionId } } },
    ]) {
      await assert.rejects(deployer.update(source.id, change, bob), {
        code: 'invalid_prop',
        details: { parameter: 'configured_props.gitlab' },
      });
    }
    assert.deepEqual(parts.calls, [], 'nothing ran with it');
    assert.equal((await deployer.update(source.id, { name: 'Renamed' }, bob)).source.name, 'Renamed');
    await deployer.update(source.id, { active: false }, bob);
    await deployer.update(source.id, { active: true }, bob);
    const answered = viewProps(source, definitions, undefined);
    await deployer.update(source.id, { name: 'Again', configured_props: answered }, bob);
    await deployer.update(source.id, { configured_props: { ...configured_props, mood: 'new' } }, ann);
  });

  test('a member may put in their own account or one of the workspace, and the source runs with it', async () => {
    await makeMembers(fixture.store, 'o_1', { u_ann: 'member', u_bob: 'member' });
    using parts = new DeployerFixture(fixture.store);
    const { deployer } = parts;
    const component = await parts.component({ configurableProps: [app, mood] });
    const use = async (owner: string) => ({
      gitlab: { authProvisionId: await parts.account(owner, { token: owner }) },
    });
    const { source } = await deployer.create(
      { component_id: component.id, configured_props: await use('u_ann') },
      ann,
    );
    const seen: unknown[] = [];
    parts.answer = (_hook, request) => {
      seen.push(request.props.gitlab);
      return finished;
    };
    await deployer.update(source.id, { configured_props: await use('u_bob') }, bob);
    await deployer.update(source.id, { configured_props: await use('o_1') }, bob);
    await deployer.remove(source.id, { ignoreHookErrors: false });
    const auth = (token: string) => ({ $auth: { token } });
    assert.deepEqual(seen, ['u_ann', 'u_bob', 'u_bob', 'o_1', 'o_1'].map(auth));
    assert.deepEqual(
      await fixture.store.read.selectFrom('source_accounts').select('source_id').execute(),
      [],
    );
  });

  test('a change that fails puts the accounts of before back too', async () => {
    await makeMembers(fixture.store, 'o_1', { u_ann: 'member', u_bob: 'member' });
    using parts = new DeployerFixture(fixture.store);
    const { deployer } = parts;
    const component = await parts.component({ configurableProps: [app] });
    const use = async (owner: string) => ({
      gitlab: { authProvisionId: await parts.account(owner, { token: owner }) },
    });
    const { source } = await deployer.create(
      { component_id: component.id, configured_props: await use('u_ann') },
      ann,
    );
    const seen: unknown[] = [];
    parts.answer = (hook, request) => {
      seen.push([hook, request.props.gitlab]);
      return seen.length === 2 ? failed('threw', 'no') : finished;
    };
    await assert.rejects(deployer.update(source.id, { configured_props: await use('u_bob') }, bob), {
      code: 'hook_failed',
    });
    const with_ = (hook: string, token: string) => [hook, { $auth: { token } }];
    assert.deepEqual(seen, [
      with_('deactivate', 'u_ann'),
      with_('activate', 'u_bob'),
      with_('activate', 'u_ann'),
    ]);
    assert.equal((await findSource(fixture.store.read, source.id))?.state, 'active');
  });

  test('changing or deleting an account makes every node reload the sources that use it, and no others', async () => {
    using parts = new DeployerFixture(fixture.store);
    const { store, deployer, accountTools } = parts;
    const component = await parts.component({ configurableProps: [app] });
    const [used, other] = [await parts.account('u_1', { a: '1' }), await parts.account('u_1', { a: '2' })];
    const make = async (authProvisionId: string) => {
      const configured_props = { gitlab: { authProvisionId } };
      return (await deployer.create({ component_id: component.id, configured_props }, me)).source;
    };
    const [first, second] = [await make(used), await make(other)];
    const revisions = async () => [
      (await findSource(store.read, first.id))?.revision,
      (await findSource(store.read, second.id))?.revision,
    ];
    await store.transaction((tx) => updateAccount(tx, accountTools, used, ['u_1'], { name: 'renamed' }));
    assert.deepEqual(await revisions(), [1, 1]);
    await store.transaction((tx) =>
      updateAccount(tx, accountTools, used, ['u_1'], { credentials: { a: '3' } }),
    );
    assert.deepEqual(await revisions(), [2, 1]);
    await store.transaction((tx) => deleteAccount(tx, used, ['u_1']));
    assert.deepEqual(await revisions(), [3, 1]);
  });

  test('another node runs with the credentials that an account has now', {
    skip: fixture.dialect === 'sqlite' ? 'one process only' : false,
  }, async () => {
    using here = new DeployerFixture(fixture.store, 'node_here');
    using there = new DeployerFixture(fixture.store, 'node_there');
    const component = await here.component({ configurableProps: [app] });
    const id = await here.account('u_1', { token: 'first' });
    const configured_props = { gitlab: { authProvisionId: id } };
    const { source } = await here.deployer.create({ component_id: component.id, configured_props }, me);
    const seen: unknown[] = [];
    there.answer = (_hook, request) => {
      seen.push(request.props.gitlab);
      return finished;
    };
    const job = {
      id: 'job_1',
      kind: 'run_source' as const,
      ownerId: 'u_1',
      lane: source.id,
      attempts: 1,
      payload: { source_id: source.id, trigger: 'http' as const, hops: 0 },
      createdAtMs: 1,
      bytes: 1,
    };
    const signal = new AbortController().signal;
    await there.runs.run(job, signal);
    await here.store.transaction((tx) =>
      updateAccount(tx, here.accountTools, id, ['u_1'], { credentials: { token: 'second' } }),
    );
    await there.runs.run(job, signal);
    await here.store.transaction((tx) => deleteAccount(tx, id, ['u_1']));
    await there.runs.run(job, signal);
    assert.deepEqual(seen, [{ $auth: { token: 'first' } }, { $auth: { token: 'second' } }]);
  });

  test('a secret whose data key is lost can be given again or the source deleted, and is not silently dropped', async () => {
    using parts = new DeployerFixture(fixture.store);
    const { store, deployer } = parts;
    const component = await parts.component({ configurableProps: [secret, mood] });
    const configured_props = { token: 'opensesame-1', mood: 'old' };
    const reference = { component_id: component.id };
    const [{ source }, { source: doomed }] = [
      await deployer.create({ ...reference, configured_props }, me),
      await deployer.create({ ...reference, configured_props }, me),
    ];
    await store.transaction((tx) => tx.deleteFrom('data_keys').execute());
    const lost = { name: 'UnavailableError', code: 'sealed_value_damaged' };
    const masked = { token: '••••••••', mood: 'new' };
    await assert.rejects(deployer.update(source.id, { configured_props: masked }, me), lost);
    const again = { configured_props: { token: 'opensesame-2', mood: 'new' } };
    assert.equal((await deployer.update(source.id, again, me)).source.state, 'active');
    await assert.rejects(deployer.remove(doomed.id, { ignoreHookErrors: false }), { code: 'hook_failed' });
    await deployer.remove(doomed.id, { ignoreHookErrors: true });
  });

  const secret = { name: 'token', type: 'string', secret: true };

  test('a secret prop is sealed for its source and prop: in no column in clear, opened to run, masked, redacted', async () => {
    using parts = new DeployerFixture(fixture.store);
    const { store, deployer, accountTools } = parts;
    const component = await parts.component({ configurableProps: [secret, mood] });
    const seen: unknown[] = [];
    parts.answer = (_hook, request) => {
      seen.push(request.props.token);
      const event = JSON.stringify({ said: `it is ${request.props.token}` });
      return { ...finished, emits: [{ name: 'default', event }] };
    };
    const configured_props = { token: 'opensesame-1', mood: 'old' };
    const { source, definitions } = await deployer.create(
      { component_id: component.id, configured_props },
      me,
    );
    const stored = async () => JSON.stringify(await store.read.selectFrom('sources').selectAll().execute());
    assert.ok(!(await stored()).includes('opensesame'));
    const masked = viewProps(source, definitions, undefined);
    assert.deepEqual(masked, { token: '••••••••', mood: 'old' });
    const changed = await deployer.update(source.id, { configured_props: { ...masked, mood: 'new' } }, me);
    assert.deepEqual(viewProps(changed.source, definitions, undefined), { ...masked, mood: 'new' });
    await deployer.update(source.id, { configured_props: { token: 'opensesame-2' } }, me);
    assert.deepEqual(seen.slice(0, 3), Array(3).fill('opensesame-1'));
    assert.deepEqual(seen.slice(-2), ['opensesame-1', 'opensesame-2']);
    assert.ok(!(await stored()).includes('opensesame'));
    const events = JSON.stringify(await store.read.selectFrom('events').select('event').execute());
    assert.ok(!events.includes('opensesame') && events.includes('it is [redacted]'));

    const row = await findSource(store.read, source.id);
    const sealed = JSON.parse(row?.sealed_props ?? '').token as string;
    const open = (id: string, vault = accountTools.vault) =>
      openValue(store.read, vault, { ownerId: 'u_1', id, sealed });
    assert.equal(await open(`${source.id}:token`), 'opensesame-2');
    await assert.rejects(open(`${source.id}:mood`), { code: 'sealed_value_damaged' });
    await assert.rejects(open('dc_other:token'), { code: 'sealed_value_damaged' });
    await assert.rejects(open(`${source.id}:token`, new Vault(Buffer.alloc(32, 8))), {
      code: 'wrong_encryption_key',
    });
  });

  test('credentials of an account, and what a failing hook says of them, are redacted', async () => {
    using parts = new DeployerFixture(fixture.store);
    const app = { name: 'gitlab', type: 'app', app: 'gitlab' };
    const component = await parts.component({ configurableProps: [app, secret] });
    const authProvisionId = await parts.account('u_1', { oauth_access_token: 'opensesame-1' });
    parts.answer = (_hook, { props }) => {
      const { token, gitlab } = props as { token: string; gitlab: { $auth: { oauth_access_token: string } } };
      const text = `${gitlab.$auth.oauth_access_token} ${token}`;
      const error = { name: `${text} Error`, message: `no ${text}`, stack: `at ${text}` };
      return { ...failed('threw', ''), error, logs: [{ ts: 1, level: 'log', message: `with ${text}` }] };
    };
    const configured_props = { gitlab: { authProvisionId }, token: 'opensesame-2' };
    const text = '[redacted] [redacted]';
    const error = { name: `${text} Error`, message: `no ${text}`, stack: `at ${text}` };
    await assert.rejects(parts.deployer.create({ component_id: component.id, configured_props }, me), {
      code: 'hook_failed',
      message: `deploy: ${text} Error: no ${text}`,
      details: {
        ...{ hook: 'deploy', reason: 'threw', error },
        logs: [{ ts: 1, level: 'log', message: `with ${text}` }],
      },
    });
  });

  test('an error that code of a source leaves behind after its runs is reported without secrets', async () => {
    using parts = new DeployerFixture(fixture.store);
    const component = await parts.component({ configurableProps: [secret] });
    const configured_props = { token: 'opensesame-1' };
    const { source } = await parts.deployer.create({ component_id: component.id, configured_props }, me);
    const error = { name: 'opensesame-1 Error', message: 'no opensesame-1', stack: 'at opensesame-1' };
    await parts.runs.unattributedError(source.id, error);
    const [stored, ...more] = await parts.store.read.selectFrom('events').selectAll().execute();
    assert.deepEqual([stored?.emitter_id, stored?.channel, more], [source.id, '$errors', []]);
    assert.match(stored?.event ?? '', /\[redacted\] Error/);
    assert.doesNotMatch(JSON.stringify(stored), /opensesame/);
  });

  test('an expression with an environment variable is refused: those are for workflows only', async () => {
    using parts = new DeployerFixture(fixture.store);
    const component = await parts.component({
      configurableProps: [mood, { ...mood, name: 'list', type: 'any' }],
    });
    const create = (configured_props: object) =>
      parts.deployer.create({ component_id: component.id, configured_props: { ...configured_props } }, me);
    for (const [name, value] of [
      ['mood', '{{process.env.MOOD}}'],
      ['list', [{ deep: '{{event}} x {{ process?.env["MOOD"] }}' }]],
    ] as const)
      await assert.rejects(create({ [name]: value }), {
        code: 'invalid_prop',
        message: /variables are for workflows only/,
        details: { parameter: `configured_props.${name}` },
      });
    const { source } = await create({ mood: 'process.env of {{event}} }} process.env' });
    await assert.rejects(
      parts.deployer.update(source.id, { configured_props: { mood: '{{process.env.M}}' } }, me),
      {
        code: 'invalid_prop',
      },
    );
  });

  test('a value that was secret stays sealed and masked under code that does not call it so', async () => {
    using parts = new DeployerFixture(fixture.store);
    const { deployer } = parts;
    const [before, after] = [
      await parts.component({ configurableProps: [secret] }),
      await parts.component({ configurableProps: [{ name: 'token', type: 'string' }] }),
    ];
    const configured_props = { token: 'opensesame-1' };
    const { source } = await deployer.create({ component_id: before.id, configured_props }, me);
    const changed = await deployer.update(source.id, { component_id: after.id }, me);
    assert.deepEqual(sealedNames(changed.source), ['token']);
    assert.deepEqual(viewProps(changed.source, changed.definitions, undefined), { token: '••••••••' });
    const { redact } = await loadDeployment(fixture.store.read, changed.source, parts.context);
    assert.equal(redact('say opensesame-1'), 'say [redacted]');
    const open = await deployer.update(source.id, { configured_props: { token: 'everybody' } }, me);
    assert.deepEqual(viewProps(open.source, open.definitions, undefined), { token: 'everybody' });
  });
});
