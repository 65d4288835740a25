import assert from 'node:assert/strict';
import { test } from 'node:test';
import { registerNode } from '#jobs/node-store.ts';
import { systemClock } from '#lib/clock.ts';
import { silentLogger } from '#lib/logger.ts';
import type { Store } from '#storage/store.ts';
import { addDataStore } from '#user-data/data-stores/manage-data-stores.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { findImport, insertImport, putImported } from './import-store.ts';
import { ImportUndos, type UndoOnceOptions } from './undo-once.ts';

const ownerId = 'u_Owner';
const by = { userId: ownerId, keyId: 'key_1' };

/** What undoing data stores needs. */
function undosOf(store: Store, node: string, notified: () => void = () => {}): ImportUndos {
  const options: Pick<UndoOnceOptions, 'store' | 'node' | 'clock' | 'logger'> = {
    ...{ store, node, clock: systemClock },
    logger: { ...silentLogger, info: () => notified() },
  };
  return new ImportUndos(options as UndoOnceOptions);
}

function register(store: Store, node: string): Promise<void> {
  return store.transaction((tx) => registerNode(tx, node, { nowMs: systemClock.now(), leaseMs: 60_000 }));
}

async function makeImport(store: Store, id: string, dataStores: number): Promise<void> {
  const nowMs = systemClock.now();
  await store.transaction(async (tx) => {
    await insertImport(tx, {
      ...{ id, owner_id: ownerId, user_id: ownerId, key_id: 'key_1', project_id: '', activate: 0 },
      ...{ format: 'synced_repository', state: 'done', sealed: null, summary: '{}', workflows: 0 },
      ...{ error: null, undo_node: null, created_at_ms: nowMs, updated_at_ms: nowMs },
    });
    for (let at = 0; at < dataStores; at += 1) {
      const made = await addDataStore(tx, { ownerId, userId: ownerId, name: `${id} ${at}` }, nowMs);
      await putImported(
        tx,
        {
          ...{
            owner_id: ownerId,
            project_id: '',
            kind: 'data_store',
            old_id: `ds_${id}${at}`,
            new_id: made.id,
          },
          ...{ import_id: id, fingerprint: '', mark: '', created_at_ms: nowMs },
        },
        undefined,
      );
    }
  });
}

forEachStore((fixture) => {
  test('two nodes that undo one import at the same time give the same answer, and one of them does it', async () => {
    const { store } = fixture;
    const other = fixture.dialect === 'postgres' ? await fixture.open() : store;
    for (const node of ['a', 'b']) await register(store, node);
    await makeImport(store, 'imp_Both', 25);
    let undone = 0;
    const nodes = [store, other].map((one, at) => undosOf(one, at === 0 ? 'a' : 'b', () => (undone += 1)));
    const answers = await Promise.all([...nodes, ...nodes].map((node) => node.undo('imp_Both', by)));
    for (const answer of answers) assert.deepEqual(answer, { removed: 25, kept: [] });
    assert.equal(undone, 1);
    assert.equal((await findImport(store.read, 'imp_Both'))?.state, 'undone');
    assert.deepEqual(await nodes[1]?.undo('imp_Both', by), { removed: 0, kept: [] });
  });

  test('the undo of a node that died is done by the next one', async () => {
    const { store } = fixture;
    await makeImport(store, 'imp_Dead', 2);
    const begin = (node: string) =>
      store.transaction((tx) =>
        tx.updateTable('imports').set({ undo_node: node }).where('id', '=', 'imp_Dead').execute(),
      );
    await begin('gone');
    assert.deepEqual(await undosOf(store, 'c').undo('imp_Dead', by), { removed: 2, kept: [] });
  });

  test('an undo that fails can be done again', async () => {
    const { store } = fixture;
    await register(store, 'a');
    await makeImport(store, 'imp_Fails', 1);
    const failing = undosOf(store, 'a', () => {
      throw new Error('fails');
    });
    await assert.rejects(failing.undo('imp_Fails', by), /fails/);
    assert.deepEqual(await undosOf(store, 'b').undo('imp_Fails', by), { removed: 0, kept: [] });
  });
});
