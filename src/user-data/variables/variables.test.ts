import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import type { KyselyPlugin } from 'kysely';
import { silentLogger } from '#lib/logger.ts';
import { Vault } from '#vault/vault.ts';
import { allTexts } from '../../../test/support/sealed-store.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { TestClock } from '../../../test/support/test-clock.ts';
import { variableAuditPruner } from './variable-audit-pruner.ts';
import { variablesMax } from './variable-rules.ts';
import { listVariables, selectVariableAudit, variablesStamp } from './variable-store.ts';
import { noVariables, type VariableChange, Variables } from './variables.ts';

const actor = { userId: 'u_1', keyId: 'key_1' };
const ofOwner = { ownerId: 'o_1', projectId: '' };
const ofProject = { ownerId: 'o_1', projectId: 'proj_1' };

forEachStore((fixture) => {
  let clock: TestClock;
  let variables: Variables;
  const set = (scope: typeof ofOwner, changes: VariableChange[], by = variables) =>
    fixture.store.transaction((tx) => by.set(tx, scope, changes, actor));
  const open = (ownerId = 'o_1', projectId: string | null = null) =>
    variables.open(fixture.store.read, ownerId, projectId);

  beforeEach(() => {
    clock = new TestClock();
    variables = new Variables({ vault: new Vault(Buffer.alloc(32, 3)), clock });
  });

  test('a workflow finds those of its project before those of its owner, and none of others', async () => {
    await set(ofOwner, [
      { name: 'A', value: 'owner' },
      { name: 'B', value: 'owner', secret: true },
    ]);
    await set(ofProject, [{ name: 'A', value: 'project', secret: true }]);
    await set({ ownerId: 'o_1', projectId: 'proj_2' }, [{ name: 'C', value: 'other project' }]);
    await set({ ownerId: 'o_2', projectId: '' }, [{ name: 'D', value: 'other owner' }]);
    const ofAll = await open();
    assert.deepEqual(ofAll.values, { A: 'owner', B: 'owner' });
    assert.equal(ofAll.redact('owner, project'), '[redacted], project');
    assert.equal(await open(), ofAll, 'deployments share it');
    const found = await open('o_1', 'proj_1');
    assert.deepEqual(found.values, { A: 'project', B: 'owner' });
    assert.equal(found.redact('owner, project'), '[redacted], [redacted]');
    assert.deepEqual(await open('u_9'), noVariables);
    // The project of another owner says nothing.
    assert.deepEqual((await open('o_2', 'proj_1')).values, { D: 'other owner' });
  });

  test('a hundred variables are set in as many statements as one', async () => {
    /** What each transaction asks of the store. */
    const counts: number[] = [];
    for (const number of [1, 100]) {
      let count = 0;
      const counting: KyselyPlugin = {
        transformQuery({ node }) {
          count += 1;
          return node;
        },
        transformResult: ({ result }) => Promise.resolve(result),
      };
      const changes = Array.from({ length: number }, (_, n) => ({
        name: `V${n}`,
        value: `${n}`,
        secret: true,
      }));
      const scope = { ownerId: `o_${number}`, projectId: '' };
      await fixture.store.transaction((tx) =>
        variables.set(tx.withPlugin(counting) as typeof tx, scope, changes, actor),
      );
      counts.push(count);
    }
    assert.ok(counts[0] !== undefined && counts[0] > 0);
    assert.equal(counts[1], counts[0]);
  });

  test('one request changes values, descriptions and secrecy, each of its own variable', async () => {
    const [before] = await set(ofOwner, [
      { name: 'A', value: 'one', description: 'the first' },
      { name: 'B', value: 'two', secret: true },
    ]);
    clock.step(1000);
    const changed = await set(ofOwner, [
      { name: 'C', value: 'three' },
      { name: 'B', description: 'the second' },
      { name: 'A', value: 'four', secret: true },
    ]);
    assert.deepEqual(
      changed.map(({ name, secret, description }) => [name, secret, description]),
      [
        ['C', 0, ''],
        ['B', 1, 'the second'],
        ['A', 1, 'the first'],
      ],
    );
    assert.equal(changed[2]?.id, before?.id);
    assert.equal(changed[2]?.created_at_ms, before?.created_at_ms);
    assert.deepEqual(await listVariables(fixture.store.read, ofOwner), [changed[2], changed[1], changed[0]]);
    assert.deepEqual((await open()).values, { A: 'four', B: 'two', C: 'three' });
  });

  test('neither plain nor secret values stand in the store in clear, and no other key opens them', async () => {
    await set(ofOwner, [
      { name: 'PLAIN', value: 'canary-of-plain' },
      { name: 'SECRET', value: 'canary-of-secret', secret: true },
    ]);
    await set(ofOwner, [{ name: 'SECRET', value: 'canary-again' }]);
    const texts = await allTexts(fixture.store);
    assert.ok(texts.some(({ table, text }) => table === 'variables' && text === 'SECRET'));
    for (const { table, column, text } of texts) assert.doesNotMatch(text, /canary/, `${table}.${column}`);
    const other = new Variables({ vault: new Vault(Buffer.alloc(32, 4)), clock });
    await assert.rejects(other.open(fixture.store.read, 'o_1', null), { code: 'wrong_encryption_key' });
  });

  test('a value that is damaged is named, and hides no other', async () => {
    const [first, second] = await set(ofOwner, [
      { name: 'A', value: '1' },
      { name: 'B', value: '2' },
    ]);
    assert.ok(first && second);
    await fixture.store.transaction((tx) =>
      tx.updateTable('variables').set({ sealed: first.sealed }).where('id', '=', second.id).execute(),
    );
    await assert.rejects(open(), { code: 'not_found', message: /variable B cannot be opened/ });
    const rows = [first, { ...second, sealed: first.sealed }];
    const values = await variables.plainValues(fixture.store.read, rows);
    assert.deepEqual([...values.values()], ['1']);
  });

  test('every change is told by the stamp of the workflows that find it', async () => {
    const stamps = async () => [
      await variablesStamp(fixture.store.read, 'o_1', null),
      await variablesStamp(fixture.store.read, 'o_1', 'proj_1'),
    ];
    const before = await stamps();
    await set(ofOwner, [{ name: 'A', value: '1' }]);
    const set1 = await stamps();
    assert.ok(before[0] !== set1[0] && before[1] !== set1[1]);
    await set(ofProject, [{ name: 'A', value: '1' }]);
    const set2 = await stamps();
    assert.ok(set2[0] === set1[0] && set2[1] !== set1[1]);
    await fixture.store.transaction((tx) => variables.remove(tx, ofOwner, 'A', actor));
    assert.notEqual((await stamps())[0], set2[0]);
  });

  test('there are at most as many as may be, also when they come at the same time', async () => {
    const names = Array.from({ length: variablesMax - 1 }, (_, n) => ({ name: `N${n}`, value: '' }));
    await set(ofOwner, names);
    const ends = await Promise.allSettled(['X', 'Y', 'Z'].map((name) => set(ofOwner, [{ name, value: '' }])));
    assert.deepEqual(ends.map(({ status }) => status).sort(), ['fulfilled', 'rejected', 'rejected']);
    assert.equal(Object.keys((await open()).values).length, variablesMax);
    // One that is there may be changed.
    await set(ofOwner, [{ name: 'N0', value: 'x' }]);
  });

  test('who changed what is kept for so many days, without values', async () => {
    const { store } = fixture;
    const audit = async () =>
      (await selectVariableAudit(store.read, { ownerId: 'o_1' }, { limit: 10 })).rows.map(
        ({ name, action, details }) => [name, action, details],
      );
    await set(ofOwner, [{ name: 'A', value: '1' }]);
    clock.step(1);
    await set(ofOwner, [{ name: 'A', value: '2', secret: true }]);
    clock.step(1);
    await store.transaction((tx) => variables.removeAll(tx, ofOwner, actor));
    assert.deepEqual(await audit(), [
      ['A', 'deleted', '{"with":"project"}'],
      ['A', 'updated', '{"secret":true,"changed":["value","secret"]}'],
      ['A', 'created', '{"secret":false}'],
    ]);
    const pruner = variableAuditPruner({ store, clock, logger: silentLogger, daysKept: 10 });
    clock.step(10 * 86_400_000 - 1);
    await pruner.prune();
    assert.equal((await audit()).length, 2);
    clock.step(2);
    await pruner.prune();
    assert.equal((await audit()).length, 0);
  });
});
