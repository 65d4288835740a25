import assert from 'node:assert/strict';
import { test } from 'node:test';
import { beginChange } from '#user-data/variables/variable-store.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { changeImport, findImport, insertImport, insertItem } from './import-store.ts';
import { simpleItem } from './report.ts';
import { ReportCache } from './report-cache.ts';

forEachStore((fixture) => {
  test('a report is built again when an item, a variable or the import changed, and only then', async () => {
    const { store } = fixture;
    const id = 'imp_Polled';
    const scope = { ownerId: 'u_Owner', projectId: '' };
    await store.transaction((tx) =>
      insertImport(tx, {
        ...{ id, owner_id: 'u_Owner', user_id: 'u_Owner', key_id: 'key_1', project_id: '', activate: 0 },
        ...{ format: 'bundle', state: 'running', sealed: null, summary: '{"keys":[]}', workflows: 2 },
        ...{ error: null, undo_node: null, created_at_ms: 1, updated_at_ms: 1 },
      }),
    );
    let built = 0;
    const cache = new ReportCache(store, async (_row, { objects, summary }) => {
      built += 1;
      return { names: objects.map(({ name }) => name), kept: summary.kept?.length ?? 0 };
    });
    const look = async () => {
      const row = await findImport(store.read, id);
      assert.ok(row !== undefined);
      return { ...(await cache.reportOf(row)), built };
    };
    const add = (position: number, name: string) => {
      const item = simpleItem('webhook', `wh_${position}`, {
        ...{ name, outcome: 'created', id: null, active: false, findings: [] },
      });
      return store.transaction((tx) =>
        insertItem(tx, { import_id: id, owner_id: 'u_Owner', position, item: JSON.stringify(item) }),
      );
    };
    const report = (names: string[], kept = 0) => ({ names, kept });
    assert.deepEqual(await look(), { report: report([]), done: 0, built: 1 });
    await add(0, 'one');
    assert.deepEqual(await look(), { report: report(['one']), done: 1, built: 2 });
    assert.deepEqual(await look(), { report: report(['one']), done: 1, built: 2 });
    await add(1, 'two');
    assert.deepEqual(await look(), { report: report(['one', 'two']), done: 2, built: 3 });
    await store.transaction((tx) => beginChange(tx, scope));
    assert.deepEqual(await look(), { report: report(['one', 'two']), done: 2, built: 4 });
    const kept = [{ kind: 'webhook', id: 'wh_1', reason: 'it is used' }];
    await store.transaction((tx) =>
      changeImport(tx, id, ['running'], { state: 'undone', summary: JSON.stringify({ kept }) }),
    );
    assert.deepEqual(await look(), { report: report(['one', 'two'], 1), done: 2, built: 5 });
    assert.deepEqual(await look(), { report: report(['one', 'two'], 1), done: 2, built: 5 });
  });
});
