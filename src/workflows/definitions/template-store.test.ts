import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TemplateTable } from '#storage/tables/workflow-tables.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { deleteTemplate, findTemplate, insertTemplate, pageOfTemplates } from './template-store.ts';

forEachStore((fixture) => {
  const row = (id: string, owner: string, created = 1): TemplateTable => ({
    id,
    owner_id: owner,
    user_id: 'u_1',
    name: `of ${owner}`,
    definition: '{}',
    created_at_ms: created,
  });
  const insert = (template: TemplateTable) => fixture.store.transaction((tx) => insertTemplate(tx, template));

  test('the same template again is the one that is there', async () => {
    await insert(row('tch_a', 'u_1'));
    const again = await insert({ ...row('tch_a', 'u_1', 5), name: 'another name' });
    assert.deepEqual([again.name, again.created_at_ms], ['of u_1', 1]);
  });

  test('a template that several owners of the reader have is listed once, page by page', async () => {
    for (const [id, owner, created] of [
      ['tch_a', 'u_1', 1],
      ['tch_a', 'o_1', 2],
      ['tch_a', 'u_9', 3],
      ['tch_b', 'o_1', 4],
      ['tch_c', 'u_9', 5],
    ] as const)
      await insert(row(id, owner, created));
    const { read } = fixture.store;
    const first = await pageOfTemplates(read, ['u_1', 'o_1'], { limit: 1 });
    assert.deepEqual([first.totalCount, first.rows.map(({ id }) => id)], [2, ['tch_b']]);
    const rest = await pageOfTemplates(read, ['u_1', 'o_1'], { limit: 5, after: 'tch_b' });
    assert.deepEqual(
      rest.rows.map(({ id }) => id),
      ['tch_a'],
    );
  });

  test('a template is found as its reader made it, else as its first maker did', async () => {
    await insert(row('tch_a', 'u_1', 1));
    await insert(row('tch_a', 'u_2', 2));
    const { read } = fixture.store;
    assert.equal((await findTemplate(read, 'tch_a', ['u_2']))?.owner_id, 'u_2');
    assert.equal((await findTemplate(read, 'tch_a', ['u_3']))?.owner_id, 'u_1');
    assert.equal(await findTemplate(read, 'tch_b'), undefined);
  });

  test('removing a template leaves it to the others who made it', async () => {
    await insert(row('tch_a', 'u_1'));
    await insert(row('tch_a', 'u_2'));
    const remove = (owners: string[]) =>
      fixture.store.transaction((tx) => deleteTemplate(tx, 'tch_a', owners));
    assert.equal(await remove(['u_3']), false);
    assert.equal(await remove(['u_1']), true);
    assert.equal((await findTemplate(fixture.store.read, 'tch_a', ['u_1']))?.owner_id, 'u_2');
  });
});
