import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Store } from '#storage/store.ts';
import { deployAgain, storeWorkflow } from '../../../test/support/stored-workflows.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { TestClock } from '../../../test/support/test-clock.ts';
import { WorkflowDirectory } from './workflow-directory.ts';
import { deleteWorkflowRow } from './workflow-store.ts';

/** The store, and how often it was read. */
function counted(store: Store): { store: Pick<Store, 'isShared' | 'read'>; reads: () => number } {
  let reads = 0;
  return {
    store: {
      isShared: store.isShared,
      get read() {
        reads += 1;
        return store.read;
      },
    },
    reads: () => reads,
  };
}

forEachStore((fixture) => {
  test('a workflow is known with the settings of its current deployment, read once for many events', async () => {
    await storeWorkflow(fixture.store, { settings: { concurrency: 3 } });
    const { store, reads } = counted(fixture.store);
    const directory = new WorkflowDirectory({ store, clock: new TestClock() });
    const [known, again] = await Promise.all([directory.find('p_1'), directory.find('p_1')]);
    assert.equal(again, known);
    assert.deepEqual(
      { ...known, settings: known?.settings.concurrency },
      {
        ...{ id: 'p_1', ownerId: 'o_1', deploymentId: 'd_p_1_1', state: 'active', settings: 3 },
        flowControl: null,
      },
    );
    const before = reads();
    await directory.find('p_1');
    assert.equal(reads(), before);
  });

  test('what was changed is read again after forget; another node learns of it within a second', async () => {
    const { store } = fixture;
    await storeWorkflow(store);
    const clock = new TestClock();
    const here = new WorkflowDirectory({ store, clock });
    const elsewhere = new WorkflowDirectory({ store, clock });
    for (const directory of [here, elsewhere]) await directory.find('p_1');
    const deploymentId = await deployAgain(store, { id: 'p_1', number: 2, settings: {} });
    here.forget('p_1');
    assert.equal((await here.find('p_1'))?.deploymentId, deploymentId);
    clock.step(1_000);
    // The embedded store has one node, which forgets.
    const expected = store.name === 'postgres' ? deploymentId : 'd_p_1_1';
    assert.equal((await elsewhere.find('p_1'))?.deploymentId, expected);
  });

  test('a workflow that was not there, or is gone, is looked for again; a change during a read is not forgotten', async () => {
    const { store } = fixture;
    const directory = new WorkflowDirectory({ store, clock: new TestClock() });
    assert.equal(await directory.find('p_1'), undefined);
    await storeWorkflow(store);
    const reading = directory.find('p_1');
    directory.forget('p_1');
    await reading;
    await store.transaction((tx) => deleteWorkflowRow(tx, 'p_1'));
    assert.equal(await directory.find('p_1'), undefined);
  });
});
