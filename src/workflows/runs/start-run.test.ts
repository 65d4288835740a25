import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CallerError } from '#lib/errors.ts';
import { WaitingRuns } from '#sources/waiting-runs.ts';
import { finished, RunFixture } from '../../../test/support/run-fixture.ts';
import { forEachStore } from '../../../test/support/stores.ts';
import { runBacklog } from './run-backlog-store.ts';
import { RunStarter } from './start-run.ts';

forEachStore((stores) => {
  test('requests that wait for their workflow are bounded in number and bytes, and beyond that refused', async () => {
    await using fixture = await RunFixture.start(stores.store, { steps: { a: finished() } });
    const { store, clock, service } = fixture;
    const full = { node: 'node_1', hasRoom: () => false, leftInStore: () => {} };
    const starter = new RunStarter({
      store,
      clock,
      runs: service.runs,
      pool: full as never,
      onRecorded: () => {},
      waiting: new WaitingRuns({ store, clock, limits: { jobs: 3, bytes: 1_000 }, count: runBacklog }),
    });
    const isBusy = (error: unknown) => error instanceof CallerError && error.code === 'workflow_busy';
    await fixture.pool.stop(0);
    for (let run = 0; run < 3; run += 1) await starter.start(fixture.trigger());
    await assert.rejects(starter.start(fixture.trigger()), isBusy);
    assert.equal(await starter.hasRoom('p_1', 1), false, 'mails too');
    const large = { workflowId: 'p_2' };
    await starter.start(fixture.trigger('x'.repeat(600), large));
    clock.step(1_000);
    await assert.rejects(starter.start(fixture.trigger('x'.repeat(600), large)), isBusy);
    assert.deepEqual(await runBacklog(store.read, 'p_2', 10), { jobs: 1, bytes: 602 });
    await store.transaction((tx) => tx.updateTable('runs').set({ state: 'waiting' }).execute());
    assert.deepEqual(
      await runBacklog(store.read, 'p_1', 10),
      { jobs: 0, bytes: 0 },
      'what has begun is none',
    );
  });

  test('requests that are only recorded are kept like runs: so many of each workflow', async () => {
    await using fixture = await RunFixture.start(stores.store, { steps: { a: finished() } });
    const { store, service } = fixture;
    for (let run = 0; run < 1_003; run += 1) await service.starter.recordOnly(fixture.trigger());
    await service.pruner.pruneGrown();
    const rows = await store.read.selectFrom('runs').select('id').execute();
    assert.equal(rows.length, 1_000);
  });
});
