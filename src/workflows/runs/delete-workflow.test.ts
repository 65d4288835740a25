import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keyRow, takeKeys } from '#idempotency/idempotency-key-store.ts';
import { RemovalTurns } from '#storage/removal-turns.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { deleteWorkflowHandler } from './delete-workflow.ts';

forEachStore((fixture) => {
  test('idempotency keys of a workflow that is deleted go with it, more than one batch of them', async () => {
    const { store } = fixture;
    const rowOf = (id: string, subjectId: string) =>
      keyRow(
        { id, ownerId: 'o_1', subjectId, requestDigest: 'digest' },
        { jobId: id, nowMs: 1, accepted: true },
      );
    const rows = Array.from({ length: 1_100 }, (_, index) => rowOf(`k${index}`, 'p_1'));
    await store.transaction((tx) => takeKeys(tx, [...rows, rowOf('other', 'p_2')]));
    const job = {
      ...{ id: 'j', kind: 'delete_workflow' as const, ownerId: 'o_1', lane: null, attempts: 1 },
      ...{ payload: { workflow_id: 'p_1' }, bytes: 0, createdAtMs: 1 },
    };
    await deleteWorkflowHandler({ store, removals: new RemovalTurns(store), node: 'node_1' }).run(
      job,
      new AbortController().signal,
    );
    const left = await store.read.selectFrom('idempotency_keys').select('id').execute();
    assert.deepEqual(
      left.map(({ id }) => id),
      ['other'],
    );
  });
});
