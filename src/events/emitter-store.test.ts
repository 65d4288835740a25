import assert from 'node:assert/strict';
import { test } from 'node:test';
import { insertSource } from '#sources/source-store.ts';
import { sourceRow } from '../../test/support/source-row.ts';
import { storeWorkflow } from '../../test/support/stored-workflows.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { emittersOf } from './emitter-store.ts';
import { ensureEmitter, insertEmitter } from './event-store.ts';

forEachStore((fixture) => {
  test('the emitters of an owner are itself once it has emitted, its sources and its workflows', async () => {
    const { store } = fixture;
    for (const ownerId of ['o_1', 'o_2']) {
      const id = `dc_of_${ownerId}`;
      await store.transaction(async (tx) => {
        await insertEmitter(tx, { id, ownerId });
        await insertSource(tx, sourceRow(id, { ownerId }), []);
      });
      await storeWorkflow(store, { id: `p_of_${ownerId}`, ownerId });
    }
    await store.transaction((tx) => ensureEmitter(tx, { id: 'o_1', ownerId: 'o_1' }));
    const other = await Array.fromAsync(emittersOf(store.read, 'o_2'));
    assert.deepEqual(
      other.flat().map(({ id }) => id),
      ['dc_of_o_2', 'p_of_o_2'],
    );
    const pages = await Array.fromAsync(emittersOf(store.read, 'o_1'));
    assert.deepEqual(pages.flat(), [
      { id: 'o_1', ms: 0, seq: 0 },
      { id: 'dc_of_o_1', ms: 0, seq: 0 },
      { id: 'p_of_o_1', ms: 0, seq: 0 },
    ]);
  });
});
