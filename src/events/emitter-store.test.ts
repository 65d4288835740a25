import assert from 'node:assert/strict';
import { test } from 'node:test';
import { insertSource } from '#sources/source-store.ts';
import { sourceRow } from '../../test/support/source-row.ts';
import { storeWorkflow } from '../../test/support/stored-workflows.ts';
import { forEachStore } from '../../test/support/stores.ts';
import { emittersOf } from './emitter-store.ts';
import { insertEmitter } from './event-store.ts';

forEachStore((fixture) => {
  test('the emitters of an owner are its sources and its workflows', async () => {
    const { store } = fixture;
    for (const ownerId of ['o_1', 'o_2']) {
      const id = `dc_of_${ownerId}`;
      await store.transaction(async (tx) => {
        await insertEmitter(tx, { id, ownerId });
        await insertSource(tx, sourceRow(id, { ownerId }), []);
      });
      await storeWorkflow(store, { id: `p_of_${ownerId}`, ownerId });
    }
    const pages = await Array.fromAsync(emittersOf(store.read, 'o_1'));
    assert.deepEqual(pages.flat(), [
      { id: 'dc_of_o_1', ms: 0, seq: 0 },
      { id: 'p_of_o_1', ms: 0, seq: 0 },
    ]);
  });
});
